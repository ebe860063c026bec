//! Frames: a message is a four-byte length and that many bytes.
//!
//! A hostile peer can send any length, so it is checked against the caller's limit before any
//! memory is reserved for it.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::{DecodeError, EncodeError};
use crate::jute::Writer;

/// The largest payload that a server accepts by default, one byte short of a MiB.
///
/// Servers set it by `jute.maxbuffer`.
pub const SERVER_FRAME_LIMIT: usize = 0xf_ffff;

/// The largest payload that a client should accept by default.
///
/// A server does not limit what it sends: the reply with the data of the largest node is already
/// above [`SERVER_FRAME_LIMIT`], and the children of a huge node take many MiB.
pub const CLIENT_FRAME_LIMIT: usize = 16 * 1024 * 1024;

/// Bytes of the length prefix.
pub const PREFIX: usize = 4;

/// Appends one frame to `out`, with the payload that `body` writes.
///
/// On an error, `out` is unchanged.
pub fn encode(
    out: &mut BytesMut,
    limit: usize,
    body: impl FnOnce(&mut Writer<'_>),
) -> Result<(), EncodeError> {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX]);
    let mut writer = Writer::new(out, limit);
    body(&mut writer);
    match writer.finish() {
        Ok(len) => {
            if let Some(prefix) = out.get_mut(start..start + PREFIX) {
                // No writer takes more than fits into the 31 bits of the prefix.
                prefix.copy_from_slice(&(len as u32).to_be_bytes());
            }
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

/// Splits the payload of the next frame off the front of `input`.
///
/// Returns `None` if the frame is not complete yet. Once its length is known and within the limit,
/// this reserves memory in `input` for the rest of the frame.
///
/// After an error the stream has lost its framing and must be dropped.
///
/// ```
/// use bytes::BytesMut;
/// use zk_proto::frame;
///
/// let mut input = BytesMut::from(&b"\x00\x00\x00\x02ok\x00\x00"[..]);
/// assert_eq!(frame::split(&mut input, 1024)?.as_deref(), Some(&b"ok"[..]));
/// assert_eq!(frame::split(&mut input, 1024)?, None);
/// # Ok::<(), zk_proto::DecodeError>(())
/// ```
pub fn split(input: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, DecodeError> {
    let Some(prefix) = input.first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let announced = i32::from_be_bytes(*prefix);
    let len = usize::try_from(announced).map_err(|_| DecodeError::NegativeLength(announced))?;
    if len > limit {
        return Err(DecodeError::FrameTooLong { len, limit });
    }
    if input.len() - PREFIX < len {
        input.reserve(len + PREFIX - input.len());
        return Ok(None);
    }
    input.advance(PREFIX);
    Ok(Some(input.split_to(len).freeze()))
}
