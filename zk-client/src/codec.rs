//! Frames out of a stream of bytes, for tokio-util's readers.
//!
//! There is no encoder: requests are framed where they are encoded, in the session.

use bytes::{Bytes, BytesMut};
use tokio_util::codec::Decoder;
use zk_proto::{DecodeError, frame};

use crate::error::ProtocolError;

/// Splits a server's bytes into frames of at most `max_frame` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameCodec {
    pub(crate) max_frame: usize,
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

impl From<DecodeError> for CodecError {
    fn from(error: DecodeError) -> Self {
        Self::Garbage(error.into())
    }
}

impl Decoder for FrameCodec {
    type Item = Bytes;
    type Error = CodecError;

    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Bytes>, CodecError> {
        Ok(frame::split(input, self.max_frame)?)
    }
}
