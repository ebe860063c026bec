//! The owned nodes among the results of a multi.
//!
//! One answer serves many creators: each is told of its own node, or all of them of the refusal.
//! Pure, like the claims that it feeds.

use zk_proto::{
    Create2Response, CreateResponse, Decode, DecodeError, MultiResponse, MultiResult, Reader,
};

use crate::error::Failure;
use crate::session::claims::ClaimId;
use crate::session::event::Answer;

/// One owned create of a multi.
#[derive(Debug)]
pub(crate) struct OwnedOp<T> {
    /// Its place in the multi.
    pub(crate) index: usize,
    pub(crate) token: T,
    pub(crate) claim: ClaimId,
}

/// The paths that these operations have created, or why the server refused.
///
/// The outer error is an answer that makes no sense, behind which anything may have been created.
pub(crate) fn created_paths<T>(
    answer: &Answer,
    owned: &[OwnedOp<T>],
) -> Result<Result<Vec<String>, Failure>, DecodeError> {
    let response = MultiResponse::decode(&mut Reader::new(&answer.body))?;
    if let Some((index, code)) = response.failure() {
        return Ok(Err(Failure::OpRefused { index, code }));
    }
    let path_of = |op: &OwnedOp<T>| match response.iter().nth(op.index) {
        Some(
            MultiResult::Create(CreateResponse { path })
            | MultiResult::Create2(Create2Response { path, .. }),
        ) => Ok(path.to_owned()),
        Some(other) => Err(DecodeError::UnknownMultiEntry(other.op().0)),
        None => {
            let (operations, results) = (op.index + 1, response.iter().count());
            Err(DecodeError::MultiLength { operations, results })
        }
    };
    owned.iter().map(path_of).collect::<Result<_, _>>().map(Ok)
}
