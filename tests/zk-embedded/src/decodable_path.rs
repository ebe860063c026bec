//! What Java decodes and a strict decoder rejects, paths that are null or not UTF-8, and what Java
//! rejects while it decodes, creates without an access list.

use zk_proto::{Acl, CreateMode, Decode, DecodeError, List, MultiHeader, OpCode, Reader, Text};

use crate::store::NULL_PATH;

/// Returns the body with a path that can be decoded, if it begins with one that cannot.
///
/// Java replaces bytes that are not UTF-8 by U+FFFD, which no path may contain. It also decodes a
/// null path, on which some operations fail only later.
pub(crate) fn with_decodable_path(op: OpCode, body: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(body);
    let path = Option::<&[u8]>::decode(&mut reader).ok()?;
    let is_replaced = match path {
        Some(path) => std::str::from_utf8(path).is_err(),
        None => is_single_write(op) || matches!(op, OpCode::REMOVE_WATCHES | OpCode::CHECK_WATCHES),
    };
    if !is_replaced {
        return None;
    }
    let mut legible = Vec::with_capacity(body.len());
    put_legible(&mut legible, path);
    legible.extend_from_slice(reader.rest());
    Some(legible)
}

/// Returns a multi with paths that can be decoded, if it has any that are null or not UTF-8.
pub(crate) fn with_decodable_paths(body: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(body);
    let mut legible = Vec::new();
    // What is behind the last path that was replaced.
    let mut rest = body;
    while let MultiHeader { op, done: false, .. } = MultiHeader::decode(&mut reader).ok()? {
        let before = rest.len() - reader.remaining();
        let path = Option::<&[u8]>::decode(&mut reader).ok()?;
        if path.is_none_or(|path| std::str::from_utf8(path).is_err()) {
            legible.extend_from_slice(rest.get(..before)?);
            put_legible(&mut legible, path);
            rest = reader.rest();
        }
        skip_behind_path(op, &mut reader).ok()?;
    }
    legible.extend_from_slice(rest);
    (rest.len() < body.len()).then_some(legible)
}

/// Appends a path as Java reads it, or the stand-in for a null path.
fn put_legible(out: &mut Vec<u8>, path: Option<&[u8]>) {
    let path = path.map_or(NULL_PATH.to_owned(), |path| Text::from_bytes(path).to_java_string());
    out.extend_from_slice(&(path.len() as u32).to_be_bytes());
    out.extend_from_slice(path.as_bytes());
}

/// Whether a server since 3.9 fails, before anything else is wrong, at a create of a multi that has
/// null for its access list.
pub(crate) fn fails_at_null_acl(body: &[u8]) -> bool {
    let mut reader = Reader::new(body);
    let mut first_is_read = None;
    while let Ok(MultiHeader { op, done: false, .. }) = MultiHeader::decode(&mut reader) {
        if Option::<&[u8]>::decode(&mut reader).is_err() {
            return false;
        }
        match op {
            OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER => {
                let modes = CreateMode::PERSISTENT..=CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL;
                match decode_acl_and_mode(&mut reader) {
                    Ok((acl, mode)) if acl.is_null() => return modes.contains(&mode),
                    // Without a time to live, the last two modes are wrong as well.
                    Ok((_, mode)) if (*modes.start()..=CreateMode::CONTAINER).contains(&mode) => {}
                    _ => return false,
                }
            }
            _ if skip_behind_path(op, &mut reader).is_err() => return false,
            _ => {}
        }
        let is_read = matches!(op, OpCode::GET_DATA | OpCode::GET_CHILDREN);
        if *first_is_read.get_or_insert(is_read) != is_read {
            return false;
        }
    }
    false
}

/// Reads what is behind the path of a create.
fn decode_acl_and_mode<'a>(
    reader: &mut Reader<'a>,
) -> Result<(List<'a, Acl<'a>>, CreateMode), DecodeError> {
    Option::<&[u8]>::decode(reader)?;
    Ok((List::decode(reader)?, CreateMode::decode(reader)?))
}

/// Reads what is behind the path of an entry of a multi.
fn skip_behind_path(op: OpCode, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    match op {
        OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => {
            Option::<&[u8]>::decode(reader)?;
            List::<Acl<'_>>::decode(reader)?;
            i32::decode(reader)?;
            if op == OpCode::CREATE_TTL {
                i64::decode(reader)?;
            }
        }
        OpCode::SET_DATA => {
            Option::<&[u8]>::decode(reader)?;
            i32::decode(reader)?;
        }
        OpCode::DELETE | OpCode::CHECK => {
            i32::decode(reader)?;
        }
        OpCode::GET_DATA | OpCode::GET_CHILDREN => {
            bool::decode(reader)?;
        }
        OpCode(other) => return Err(DecodeError::UnknownMultiEntry(other)),
    }
    Ok(())
}

pub(crate) fn is_single_write(op: OpCode) -> bool {
    op.is_write() && op.has_path()
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use zk_proto::{
        CheckVersionRequest, CreateMode, CreateRequest, CreateTtlRequest, DeleteRequest, Encode,
        GetDataRequest, MultiOp, MultiRequest, SetDataRequest, Writer,
    };

    use super::*;

    /// Every entry of a multi with one path. The data is no text in any case.
    fn multi(path: &str) -> Vec<u8> {
        let (data, acl) = (Some(&[0xff][..]), List::new(&[Acl::OPEN]));
        let create = CreateRequest { path, data, acl, mode: CreateMode::PERSISTENT };
        let mode = CreateMode::PERSISTENT_WITH_TTL;
        let entries = [
            MultiOp::Create(create),
            MultiOp::CreateTtl(CreateTtlRequest { path, data, acl, mode, ttl: 7 }),
            MultiOp::SetData(SetDataRequest { path, data, version: 1 }),
            MultiOp::Delete(DeleteRequest { path, version: 2 }),
            MultiOp::Check(CheckVersionRequest { path, version: 3 }),
            MultiOp::GetData(GetDataRequest { path, watch: false }),
        ];
        let mut bytes = BytesMut::new();
        MultiRequest::new(&entries).encode(&mut Writer::new(&mut bytes, usize::MAX));
        bytes.to_vec()
    }

    #[test]
    fn every_path_of_a_multi_can_be_decoded() {
        assert_eq!(with_decodable_paths(&multi("/a/b")), None);
        let mut bytes = multi("/a/b");
        for at in 0..bytes.len() {
            if bytes[at..].starts_with(b"/a/b") {
                bytes[at + 3] = 0xed;
            }
        }
        assert!(MultiRequest::decode(&mut Reader::new(&bytes)).is_err());
        assert_eq!(with_decodable_paths(&bytes), Some(multi("/a/\u{fffd}")));
        for end in 0..bytes.len() {
            assert_eq!(with_decodable_paths(&bytes[..end]), None, "{end} bytes");
        }
    }

    #[test]
    fn a_null_path_of_a_multi_has_its_stand_in() {
        let mut bytes = multi("/a/b");
        let length = 4_u32.to_be_bytes();
        while let Some(at) = bytes.windows(8).position(|it| it == [&length, &b"/a/b"[..]].concat())
        {
            bytes.splice(at..at + 8, [0xff; 4]);
        }
        assert_eq!(with_decodable_paths(&bytes), Some(multi(NULL_PATH)));
    }
}
