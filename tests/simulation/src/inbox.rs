//! What has arrived at a client's end of a connection, until the client reads it.

use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::io::ReadBuf;

/// Bytes that have arrived and are not read yet, and the end of the connection behind them.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: BytesMut,
    is_over: bool,
    reader: Option<Waker>,
}

impl Inbox {
    /// Adds bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.wake();
    }

    /// Ends the connection behind what has arrived.
    pub fn end(&mut self) {
        self.is_over = true;
        self.wake();
    }

    /// Reads for the client: nothing at the end. Returns what was read.
    pub fn poll_read(&mut self, cx: &Context<'_>, into: &mut ReadBuf<'_>) -> Poll<BytesMut> {
        if self.bytes.is_empty() && !self.is_over {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = self.bytes.len().min(into.remaining());
        let read = self.bytes.split_to(count);
        into.put_slice(&read);
        Poll::Ready(read)
    }

    fn wake(&mut self) {
        self.reader.take().into_iter().for_each(Waker::wake);
    }
}
