//! The owned nodes among the results of a multi.
//!
//! One answer serves many creators: each is told of its own node, or all of them of the refusal.
//! Knows no creators: a node is asked for by its place in the multi.

use zk_proto::{
    Create2Response, CreateResponse, Decode, DecodeError, MultiResponse, MultiResult, Reader,
};

use crate::error::Failure;
use crate::session::event::Answer;

/// The paths that the operations at these places have created, or why the server refused.
///
/// The outer error is an answer that makes no sense, behind which anything may have been created.
pub(crate) fn created_paths(
    answer: &Answer,
    places: impl Iterator<Item = usize>,
) -> Result<Result<Vec<String>, Failure>, DecodeError> {
    let response = MultiResponse::decode(&mut Reader::new(&answer.body))?;
    if let Some((index, code)) = response.failure() {
        return Ok(Err(Failure::OpRefused { index, code }));
    }
    let path_at = |place: usize| match response.iter().nth(place) {
        Some(
            MultiResult::Create(CreateResponse { path })
            | MultiResult::Create2(Create2Response { path, .. }),
        ) => Ok(path.to_owned()),
        Some(other) => Err(DecodeError::UnknownMultiEntry(other.op().0)),
        None => {
            let (operations, results) = (place + 1, response.iter().count());
            Err(DecodeError::MultiLength { operations, results })
        }
    };
    places.map(path_at).collect::<Result<_, _>>().map(Ok)
}
