//! The bytes of one connection: buffers that are filled from the transport and emptied into it.
//!
//! Reads share one large buffer, so that frames are slices of it and few of them cost an
//! allocation. This file splits no frames, and knows no session.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::AsyncWrite;
use tokio_util::io::poll_read_buf;

use crate::error::Hangup;
use crate::net::codec::FrameReader;
use crate::net::transport::Transport;

/// Room for one read: enough for a burst of small replies.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// An output buffer that a burst of requests has made larger than this is not kept.
const KEPT_OUTPUT: usize = 64 * 1024;

/// The least room for a read: small enough that one buffer serves many reads.
const MIN_ROOM: usize = 4 * 1024;

/// A connection, with the bytes that are read or written only in part.
pub(crate) struct Wire {
    io: Box<dyn Transport>,
    pub(crate) reader: FrameReader,
    pub(crate) input: BytesMut,
    pub(crate) output: BytesMut,
    /// How many bytes of the output are written.
    written: usize,
    /// If the input has less room than this, the next read gets a new buffer: as much as the last
    /// reads took.
    room: usize,
    /// Whether the transport may still hold bytes that need a flush.
    unflushed: bool,
    /// Why nothing can be written any more. Replies that came before may still be read.
    unwritable: Option<Hangup>,
    /// The transport's error, which says more than its kind.
    pub(crate) broken: Option<io::Error>,
}

impl Wire {
    pub(crate) fn new(io: Box<dyn Transport>, reader: FrameReader) -> Self {
        let (input, output) = (BytesMut::new(), BytesMut::new());
        Self {
            io,
            reader,
            input,
            output,
            written: 0,
            room: MIN_ROOM,
            unflushed: false,
            unwritable: None,
            broken: None,
        }
    }

    fn broken(&mut self, error: io::Error) -> Hangup {
        Hangup::Io(self.broken.insert(error).kind())
    }

    /// Reads the available bytes, but no more than a buffer full. Ready if there may be more.
    ///
    /// The error is the first one of the transport, be it of a read or of a write.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Hangup>> {
        let left = self.input.len();
        if self.input.capacity() - left < self.room {
            // The start of a frame moves to the front of the buffer, which need not grow for that.
            let rest = READ_BYTES.checked_sub(left).filter(|rest| *rest >= MIN_ROOM);
            self.input.reserve(rest.unwrap_or(READ_BYTES));
        }
        let before = self.input.len();
        while self.input.len() < self.input.capacity() {
            match ready!(poll_read_buf(Pin::new(&mut self.io), cx, &mut self.input)) {
                Ok(0) => return Poll::Ready(Err(self.unwritable.take().unwrap_or(Hangup::Eof))),
                Ok(_) => self.room = (self.input.len() - before).clamp(MIN_ROOM, READ_BYTES),
                Err(error) => {
                    let why = self.unwritable.take();
                    return Poll::Ready(Err(why.unwrap_or_else(|| self.broken(error))));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// True if everything was written, and more can be.
    pub(crate) fn is_writable(&self) -> bool {
        self.output.is_empty() && self.unwritable.is_none()
    }

    /// Writes as much as the transport accepts. The task is woken when the rest can be written, and
    /// calls this again. After an error nothing is written any more.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) {
        if self.unwritable.is_none() {
            self.unwritable = self.try_write(cx).err();
        }
    }

    fn try_write(&mut self, cx: &mut Context<'_>) -> Result<(), Hangup> {
        while let Some(rest @ [_, ..]) = self.output.get(self.written..) {
            match Pin::new(&mut self.io).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Err(Hangup::Io(io::ErrorKind::WriteZero)),
                Poll::Ready(Ok(n)) => self.written += n,
                Poll::Ready(Err(error)) => return Err(self.broken(error)),
                Poll::Pending => return Ok(()),
            }
            self.unflushed = true;
        }
        self.written = 0;
        self.output.clear();
        if self.output.capacity() > KEPT_OUTPUT {
            self.output = BytesMut::new();
        }
        if self.unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.io).poll_flush(cx)
        {
            flushed.map_err(|error| self.broken(error))?;
            self.unflushed = false;
        }
        Ok(())
    }
}
