//! Encoding, with the claims that hold for every value.
//!
//! The claims that start with bytes and those that start with values both use this.

use bytes::BytesMut;

use crate::error::EncodeError;
use crate::jute::{Encode, Writer};

/// Encodes a value, and also tries a limit that is one byte too small.
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
