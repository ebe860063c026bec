//! Frames out of a stream of bytes, for tokio-util's readers.
//!
//! A frame above the limit is told by its head alone, and the rest of it is thrown away as it comes:
//! whoever knows what was asked can fail that request and no other. There is no encoder: requests
//! are framed where they are encoded, in the session.

use bytes::{Buf, Bytes, BytesMut};
use tokio_util::codec::Decoder;
use zk_proto::{DecodeError, frame};

use crate::error::ProtocolError;
use crate::session::HEAD_BYTES;

/// Splits one connection's bytes into frames of at most `max_frame` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameCodec {
    max_frame: usize,
    /// What is to come of a frame that is thrown away.
    skip: usize,
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Whole(Bytes),
    /// The first bytes of a frame that is too long.
    Oversized {
        head: Bytes,
        /// Of the frame, if it is what it says.
        len: usize,
    },
}

/// A stream that ended, or bytes that are no frame.
#[derive(Debug)]
pub(crate) enum CodecError {
    Io(std::io::Error),
    Garbage(ProtocolError),
}

impl From<std::io::Error> for CodecError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl FrameCodec {
    /// For the bytes of a new connection.
    pub(crate) fn new(max_frame: usize) -> Self {
        Self { max_frame, skip: 0 }
    }
}

impl Decoder for FrameCodec {
    type Item = Frame;
    type Error = CodecError;

    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, CodecError> {
        let skipped = self.skip.min(input.len());
        input.advance(skipped);
        self.skip -= skipped;
        match frame::split(input, self.max_frame) {
            Ok(frame) => Ok(frame.map(Frame::Whole)),
            Err(DecodeError::FrameTooLong { len, .. }) => {
                let head = len.min(HEAD_BYTES);
                if input.len() < frame::PREFIX + head {
                    return Ok(None);
                }
                input.advance(frame::PREFIX);
                self.skip = len - head;
                Ok(Some(Frame::Oversized { head: input.split_to(head).freeze(), len }))
            }
            Err(error) => Err(CodecError::Garbage(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a codec makes of a frame of 100 bytes between two small ones, read in pieces.
    #[test]
    fn a_frame_above_the_limit_is_its_head_however_it_is_cut() {
        let mut wire = BytesMut::new();
        for payload in [&[1; 8][..], &[2; 100], &[3; 32]] {
            frame::encode(&mut wire, usize::MAX, |writer| writer.put(payload)).unwrap();
        }
        for piece in 1..=wire.len() {
            let mut codec = FrameCodec::new(32);
            let mut input = BytesMut::new();
            let mut frames = Vec::new();
            for bytes in wire.chunks(piece) {
                input.extend_from_slice(bytes);
                frames.extend(std::iter::from_fn(|| codec.decode(&mut input).unwrap()));
                assert!(input.len() < frame::PREFIX + 32, "{} bytes are kept", input.len());
            }
            let small = |byte, len| Frame::Whole(Bytes::from(vec![byte; len]));
            let head = Bytes::from_static(&[2; HEAD_BYTES]);
            let expected = [small(1, 8), Frame::Oversized { head, len: 100 }, small(3, 32)];
            assert_eq!(frames, expected, "in pieces of {piece}");
            assert!(input.is_empty());
        }
    }
}
