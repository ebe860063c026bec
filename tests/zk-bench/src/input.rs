//! The input of a blocking connection: the bytes of each read, split into frames.

use std::io::{self, Read};

use zk_proto::frame;

/// The room for one read. It grows if a frame is larger.
const READ_BYTES: usize = 256 * 1024;

/// Bytes that were read, of which frames are taken from the front.
#[derive(Debug)]
pub(crate) struct Input {
    buffer: Vec<u8>,
    /// The range of the buffer that was read and is not taken yet.
    start: usize,
    end: usize,
}

impl Default for Input {
    fn default() -> Self {
        Self { buffer: vec![0; READ_BYTES], start: 0, end: 0 }
    }
}

impl Input {
    /// Reads once. Returns `false` if the peer has closed the connection.
    pub(crate) fn read(&mut self, stream: &mut impl Read) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            self.buffer.resize(2 * self.end, 0);
        }
        let read = stream.read(&mut self.buffer[self.end..])?;
        self.end += read;
        Ok(read > 0)
    }

    /// The bytes that were read and are not taken yet.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes the payload of the next frame, if the frame is complete.
    pub(crate) fn next_frame(&mut self) -> io::Result<Option<&[u8]>> {
        let Some(prefix) = self.bytes().first_chunk::<{ frame::PREFIX }>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes(*prefix) as usize;
        if len > frame::CLIENT_FRAME_LIMIT {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let payload = self.start + frame::PREFIX;
        if self.end - payload < len {
            return Ok(None);
        }
        self.start = payload + len;
        Ok(Some(&self.buffer[payload..payload + len]))
    }
}
