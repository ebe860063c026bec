//! The I/O of one connection: it reads and writes bytes, and passes them to the state machine.
//!
//! Each connection is a task of its own, over TCP or in memory. This file does not interpret the
//! bytes.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::time::Sleep;
use tokio_util::io::poll_read_buf;
use tracing::debug;

use crate::connection::ConnectionId;
use crate::core::Core;
use crate::shared::{FIRST_PORT, Machine, Shared, now};

/// How much room to reserve for one read.
const READ_BYTES: usize = 64 * 1024;

/// How many bytes a connection in memory holds before its writer waits.
const DUPLEX_BYTES: usize = 1024 * 1024;

/// A connection in memory, as if from 127.0.0.1, to this one of the servers.
pub(crate) fn connect<M: Machine>(shared: &Arc<Shared<M>>, server: usize) -> DuplexStream {
    let (client, io) = tokio::io::duplex(DUPLEX_BYTES);
    let port = {
        let mut running = shared.lock();
        running.last_port = running.last_port.checked_add(1).unwrap_or(FIRST_PORT);
        running.last_port
    };
    let peer = (Ipv4Addr::LOCALHOST, port).into();
    shared.runtime.spawn(serve(io, peer, server, Arc::clone(shared)));
    client
}

/// One connection with its half-read input and half-written output.
struct Wire<S, M: Machine> {
    io: S,
    id: ConnectionId,
    shared: Arc<Shared<M>>,
    input: BytesMut,
    output: BytesMut,
    /// How many bytes the state machine holds for the client behind the output.
    unsent: usize,
    /// Whether written bytes may still be in a buffer of `io`, as with encrypted connections.
    flushing: bool,
    closing: bool,
    alarm: Pin<Box<Sleep>>,
}

/// Serves one connection to one of the servers until either side closes it.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin, M: Machine>(
    io: S,
    peer: SocketAddr,
    server: usize,
    shared: Arc<Shared<M>>,
) {
    let id = {
        let mut running = shared.lock();
        let id = running.core.handle_connection(now(), server, peer);
        shared.settle(&mut running, Some(id));
        id
    };
    let mut wire = Wire {
        io,
        id,
        shared,
        input: BytesMut::new(),
        output: BytesMut::new(),
        unsent: 0,
        flushing: false,
        closing: false,
        alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
    };
    if let Err(error) = poll_fn(|cx| wire.poll_serve(cx)).await {
        debug!(connection = %id, %error, "connection broke");
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, M: Machine> Wire<S, M> {
    fn poll_serve(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let behind = self.is_behind();
            let read = if behind || self.closing {
                Poll::Pending
            } else {
                self.input.reserve(READ_BYTES);
                poll_read_buf(Pin::new(&mut self.io), cx, &mut self.input)
            };
            if let Poll::Ready(read) = &read
                && !matches!(read, Ok(1..))
            {
                let closed = read.as_ref().map(|_| ()).map_err(|error| error.kind().into());
                return Poll::Ready(closed);
            }
            self.turn(cx);
            let mut wrote = false;
            while !self.output.is_empty() {
                match Pin::new(&mut self.io).poll_write(cx, &self.output) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(count)) => {
                        self.output.advance(count);
                        wrote = true;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => break,
                }
            }
            let written = self.output.is_empty();
            self.flushing |= wrote;
            if self.flushing {
                match Pin::new(&mut self.io).poll_flush(cx) {
                    Poll::Ready(Ok(())) => self.flushing = false,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {}
                }
            }
            if written && self.closing {
                return Pin::new(&mut self.io).poll_shutdown(cx);
            }
            // There is room now, for the rest of the state machine's bytes or for another read.
            let more = (wrote && written) || (behind && !self.is_behind());
            if read.is_pending() && !more {
                return Poll::Pending;
            }
        }
    }

    /// True if the client must first read its replies before more of its requests are read.
    fn is_behind(&self) -> bool {
        self.output.len() + self.unsent > Core::MAX_BEHIND
    }

    /// Passes input, output and the time to and from the state machine once.
    fn turn(&mut self, cx: &mut Context<'_>) {
        let mut running = self.shared.lock();
        let now = now();
        if !self.input.is_empty() && !running.ended {
            running.core.handle_input(now, self.id, &mut self.input);
        }
        if running.ended || running.core.poll_abort(self.id) {
            self.output.clear();
            self.closing = true;
        } else if self.output.is_empty() {
            self.closing = running.core.poll_transmit(now, self.id, &mut self.output);
        }
        self.unsent = running.core.unsent(self.id);
        match running.wakers.get_mut(&self.id) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => {
                running.wakers.insert(self.id, cx.waker().clone());
            }
        }
        self.shared.settle(&mut running, Some(self.id));
        let delay = running.core.poll_delay(self.id);
        drop(running);
        // Bytes that are already due behind the output are taken when the output is written.
        if let Some(until) = delay.filter(|until| *until > now) {
            if self.alarm.deadline().into_std() != until {
                self.alarm.as_mut().reset(until.into());
            }
            if self.alarm.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
    }
}

impl<S, M: Machine> Drop for Wire<S, M> {
    fn drop(&mut self) {
        let mut running = self.shared.lock();
        running.wakers.remove(&self.id);
        running.core.handle_disconnected(self.id);
        self.shared.settle(&mut running, None);
    }
}
