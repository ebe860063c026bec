//! The framing of the protocol as a codec: splits a stream of bytes into frames, and writes frames
//! into a stream.
//!
//! The client does not use it. The driver reads frames in `driver/wire`, and requests are framed
//! where they are encoded, in the session.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};
use zk_proto::{DecodeError, EncodeError, frame};

/// The framing of ZooKeeper's protocol, as a codec for tokio-util.
///
/// A frame is a length of four bytes and a payload of that many bytes. The codec is for
/// [`Framed`](tokio_util::codec::Framed).
///
/// The item is a payload: that of a request, a reply or a notification, whose records `zk-proto`
/// decodes. So the codec is for proxies, recorders and servers as well as for clients; the example
/// `proxy` prints the frames between a client and its server.
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use tokio_util::codec::{Decoder, Encoder};
/// use zk_client::FrameCodec;
///
/// # fn main() -> Result<(), zk_client::FrameError> {
/// let mut codec = FrameCodec::new(1024);
/// let mut wire = BytesMut::new();
/// codec.encode(Bytes::from_static(b"ruok"), &mut wire)?;
/// assert_eq!(wire.as_ref(), b"\0\0\0\x04ruok");
/// assert_eq!(codec.decode(&mut wire)?.as_deref(), Some(&b"ruok"[..]));
/// # Ok(())
/// # }
/// ```
///
/// A frame with a payload of more than `max_frame` bytes is an error in both directions. After an
/// error the stream has lost its framing.
#[derive(Clone, Copy, Debug)]
pub struct FrameCodec {
    max_frame: usize,
}

/// Why [`FrameCodec`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The transport failed, or ended inside a frame.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The length of a frame is negative or above the limit.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A payload is above the limit.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl FrameCodec {
    /// A codec for payloads of at most `max_frame` bytes.
    pub const fn new(max_frame: usize) -> Self {
        Self { max_frame }
    }
}

impl Decoder for FrameCodec {
    type Item = Bytes;
    type Error = FrameError;

    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        Ok(frame::split(input, self.max_frame)?)
    }
}

impl Encoder<Bytes> for FrameCodec {
    type Error = FrameError;

    fn encode(&mut self, payload: Bytes, output: &mut BytesMut) -> Result<(), FrameError> {
        Ok(frame::encode(output, self.max_frame, |writer| writer.put(&payload))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_above_the_limit_is_refused_in_both_directions() {
        let mut wire = BytesMut::new();
        let refused = FrameCodec::new(3).encode(Bytes::from_static(b"four"), &mut wire);
        assert!(matches!(refused, Err(FrameError::Encode(_))), "{refused:?}");
        assert!(wire.is_empty());
        FrameCodec::new(4).encode(Bytes::from_static(b"four"), &mut wire).unwrap();
        let refused = FrameCodec::new(3).decode(&mut wire);
        let too_long = DecodeError::FrameTooLong { len: 4, limit: 3 };
        assert!(matches!(refused, Err(FrameError::Decode(error)) if error == too_long));
    }

    #[test]
    fn a_stream_that_ends_inside_a_frame_is_an_error() {
        let mut wire = BytesMut::from(&b"\0\0\0\x02a"[..]);
        let mut codec = FrameCodec::new(4);
        assert!(matches!(codec.decode(&mut wire), Ok(None)));
        assert!(matches!(codec.decode_eof(&mut wire), Err(FrameError::Io(_))));
    }
}
