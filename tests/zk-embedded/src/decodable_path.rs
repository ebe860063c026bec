//! Paths that Java decodes and a strict decoder rejects: null, and what is not UTF-8.

use zk_proto::{Decode, OpCode, Reader};

use crate::store::NULL_PATH;

/// Whether the body of a request begins with a path.
pub(crate) fn begins_with_path(op: OpCode) -> bool {
    (OpCode::CREATE..=OpCode::GET_CHILDREN).contains(&op)
        || matches!(
            op,
            OpCode::GET_CHILDREN2
                | OpCode::CREATE2
                | OpCode::CHECK_WATCHES
                | OpCode::REMOVE_WATCHES
                | OpCode::CREATE_CONTAINER
                | OpCode::CREATE_TTL
                | OpCode::GET_ALL_CHILDREN_NUMBER
                | OpCode::ADD_WATCH
        )
}

/// Returns the body with a path that can be decoded, if it begins with one that cannot.
///
/// Java replaces bytes that are not UTF-8 by U+FFFD, which no path may contain. Here they are
/// replaced by another forbidden character, of one byte. Java also decodes a null path, on which
/// some operations fail only later.
pub(crate) fn with_decodable_path(op: OpCode, body: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(body);
    let Some(path) = Option::<&[u8]>::decode(&mut reader).ok()? else {
        let name = NULL_PATH.as_bytes();
        let length = (name.len() as u32).to_be_bytes();
        let reads_null =
            is_single_write(op) || matches!(op, OpCode::REMOVE_WATCHES | OpCode::CHECK_WATCHES);
        return reads_null.then(|| [&length, name, reader.rest()].concat());
    };
    if std::str::from_utf8(path).is_ok() {
        return None;
    }
    let mut legible = Vec::with_capacity(body.len());
    legible.extend_from_slice(&(path.len() as u32).to_be_bytes());
    for chunk in path.utf8_chunks() {
        legible.extend_from_slice(chunk.valid().as_bytes());
        legible.extend(chunk.invalid().iter().map(|_| 1));
    }
    legible.extend_from_slice(reader.rest());
    Some(legible)
}

pub(crate) fn is_single_write(op: OpCode) -> bool {
    op.is_write() && !matches!(op, OpCode::MULTI | OpCode::RECONFIG)
}
