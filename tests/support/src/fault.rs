//! Connections that break at a chosen frame.
//!
//! A [`Faults`] is a connector over another one, most often TCP, that reads along. Its faults are
//! those of real networks, at the worst moment instead of a random one.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zk_client::{Connecting, Connector, Host, TcpConnector, Transport};
use zk_proto::{Decode, OpCode, Reader, RequestHeader, Xid, frame};

/// A fault, which happens once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks in front of the reply to the next request of this kind.
    ///
    /// The server has carried the request out, but the client cannot know.
    LoseReply(OpCode),
    /// The connection breaks in front of the next request of this kind.
    LoseRequest(OpCode),
    /// The same with the reply to the request at this place, from zero, of whatever kind.
    LoseReplyAt(usize),
    /// The same with the request at this place.
    LoseRequestAt(usize),
}

/// A connector whose connections break at chosen frames.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    state: Arc<Mutex<State>>,
    over: Way,
}

/// Any connector, which can be used more than once.
#[derive(Clone, Debug)]
pub struct Way(Arc<dyn Connector>);

impl Way {
    /// Wraps a connector.
    pub fn new(connector: impl Connector) -> Self {
        Self(Arc::new(connector))
    }
}

impl Default for Way {
    fn default() -> Self {
        Self::new(TcpConnector)
    }
}

impl Connector for Way {
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
        self.0.connect(host)
    }
}

#[derive(Debug, Default)]
struct State {
    next: Option<Fault>,
    /// How many requests have been sent, and how many were answered.
    places: (usize, usize),
    writes: usize,
    frames: Vec<OpCode>,
}

impl Faults {
    /// A connector over TCP, without a fault so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// A connector over another one, without a fault so far.
    pub fn over(way: &Way) -> Self {
        Self { over: way.clone(), ..Self::default() }
    }

    /// Arms a fault. It happens once, on the first connection that meets it.
    pub fn arm(&self, fault: Fault) {
        self.state(|state| state.next = Some(fault));
    }

    /// Whether the armed fault has happened.
    pub fn happened(&self) -> bool {
        self.state(|state| state.next.is_none())
    }

    /// The number of write calls that carried requests, and these requests, since the last call.
    ///
    /// Pings and handshakes do not count.
    pub fn take_sent(&self) -> (usize, Vec<OpCode>) {
        self.state(|state| (std::mem::take(&mut state.writes), std::mem::take(&mut state.frames)))
    }

    fn state<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if a fault is armed that this request meets; then it is disarmed.
    fn strikes_request(&self, op: OpCode) -> bool {
        self.state(|state| {
            let at = state.places.0;
            state.places.0 += 1;
            let strikes = [Fault::LoseRequest(op), Fault::LoseRequestAt(at)];
            state.next.take_if(|armed| strikes.contains(armed)).is_some()
        })
    }

    /// The same with the reply to such a request.
    fn strikes_reply(&self, op: OpCode) -> bool {
        self.state(|state| {
            let at = state.places.1;
            state.places.1 += 1;
            let strikes = [Fault::LoseReply(op), Fault::LoseReplyAt(at)];
            state.next.take_if(|armed| strikes.contains(armed)).is_some()
        })
    }
}

impl Connector for Faults {
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
        Box::pin(async move {
            Ok(Box::new(Tap {
                io: self.over.connect(host).await?,
                faults: self.clone(),
                greeted: (false, false),
                sent: BytesMut::new(),
                received: BytesMut::new(),
                asked: VecDeque::new(),
                broken: false,
            }) as Box<dyn Transport>)
        })
    }
}

struct Tap {
    io: Box<dyn Transport>,
    faults: Faults,
    /// Whether the handshake frame of each side has passed.
    greeted: (bool, bool),
    sent: BytesMut,
    received: BytesMut,
    asked: VecDeque<OpCode>,
    broken: bool,
}

impl AsyncRead for Tap {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.broken {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
        this.received.extend_from_slice(&buf.filled()[before..]);
        while let Ok(Some(reply)) = frame::split(&mut this.received, frame::CLIENT_FRAME_LIMIT) {
            if !std::mem::replace(&mut this.greeted.1, true) {
                continue;
            }
            let Ok(xid) = Xid::decode(&mut Reader::new(&reply)) else { continue };
            if xid == Xid::NOTIFICATION || xid == Xid::PING {
                continue;
            }
            let op = this.asked.pop_front();
            if op.is_some_and(|op| this.faults.strikes_reply(op)) {
                // Frames that came in the same read are lost with it, as on a real network.
                this.broken = true;
                buf.set_filled(before);
                return Poll::Ready(Ok(()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tap {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let mut whole = this.sent.clone();
        whole.extend_from_slice(buf);
        let mut requests = Vec::new();
        let mut greeted = this.greeted.0;
        while let Ok(Some(request)) = frame::split(&mut whole, frame::CLIENT_FRAME_LIMIT) {
            if !std::mem::replace(&mut greeted, true) {
                continue;
            }
            if let Ok(header) = RequestHeader::decode(&mut Reader::new(&request))
                && header.xid != Xid::PING
            {
                requests.push(header.op);
            }
        }
        if requests.iter().any(|op| this.faults.strikes_request(*op)) {
            this.broken = true;
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let n = ready!(Pin::new(&mut this.io).poll_write(cx, buf))?;
        assert_eq!(n, buf.len(), "loopback takes what tests send in one go");
        this.greeted.0 = greeted;
        this.sent = whole;
        this.asked.extend(&requests);
        if !requests.is_empty() {
            this.faults.state(|state| {
                state.writes += 1;
                state.frames.extend(requests);
            });
        }
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}
