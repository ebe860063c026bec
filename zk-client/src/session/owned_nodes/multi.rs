//! The owned nodes among the results of a multi.
//!
//! One reply serves many creators: each receives its own node, or all of them receive the refusal.
//! Knows no creators: a node is identified by its index in the multi.

use zk_proto::{
    Create2Response, CreateResponse, Decode, DecodeError, MultiResponse, MultiResult, Reader,
};

use crate::error::Failure;
use crate::session::event::RawReply;

/// The paths that the operations at these indexes have created, or why the server refused.
///
/// The outer error is a reply that does not decode: anything may have been created.
pub(crate) fn created_paths(
    answer: &RawReply,
    indexes: impl Iterator<Item = usize>,
) -> Result<Result<Vec<&str>, Failure>, DecodeError> {
    match results(answer)? {
        Ok(results) => {
            indexes.map(|index| created(&results, index)).collect::<Result<_, _>>().map(Ok)
        }
        Err(failure) => Ok(Err(failure)),
    }
}

/// Like [`created_paths`], for one operation.
pub(crate) fn created_path(
    answer: &RawReply,
    index: usize,
) -> Result<Result<&str, Failure>, DecodeError> {
    match results(answer)? {
        Ok(results) => created(&results, index).map(Ok),
        Err(failure) => Ok(Err(failure)),
    }
}

fn results(answer: &RawReply) -> Result<Result<MultiResponse<'_>, Failure>, DecodeError> {
    let response = MultiResponse::decode(&mut Reader::new(&answer.body))?;
    Ok(match response.failure() {
        Some((index, code)) => Err(Failure::OpRefused { index, code }),
        None => Ok(response),
    })
}

fn created<'a>(results: &MultiResponse<'a>, index: usize) -> Result<&'a str, DecodeError> {
    match results.iter().nth(index) {
        Some(
            MultiResult::Create(CreateResponse { path })
            | MultiResult::Create2(Create2Response { path, .. }),
        ) => Ok(path),
        Some(other) => Err(DecodeError::UnknownMultiEntry(other.op().0)),
        None => {
            let (operations, results) = (index + 1, results.iter().count());
            Err(DecodeError::MultiLength { operations, results })
        }
    }
}
