//! Encoding, with the claims that hold of every value.
//!
//! Both ways into the codec's claims, from bytes and from values, go through here.

use bytes::BytesMut;

use crate::error::EncodeError;
use crate::jute::{Encode, Writer};

/// Encodes, and on the way tries a limit that is one byte short.
pub(crate) fn encoded(value: &impl Encode) -> BytesMut {
    let mut wire = BytesMut::new();
    let mut writer = Writer::new(&mut wire, usize::MAX);
    value.encode(&mut writer);
    let finished = writer.finish();
    assert_eq!(finished, Ok(wire.len()), "an encoder counts what it writes");

    if let Some(limit) = wire.len().checked_sub(1) {
        let mut out = BytesMut::from(&b"before"[..]);
        let mut writer = Writer::new(&mut out, limit);
        value.encode(&mut writer);
        let error = EncodeError::TooLong { len: wire.len(), limit };
        assert_eq!(writer.finish(), Err(error), "a limit one byte short");
        assert_eq!(out, b"before"[..], "an encoder that fails leaves nothing behind");
    }
    wire
}
