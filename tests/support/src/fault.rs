//! Connections that break at a chosen frame.
//!
//! A [`Faults`] is a connector over another one, most often TCP, that reads along. Its faults are
//! those of real networks, at the worst moment instead of a random one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, split};
use tokio_util::io::InspectWriter;
use zk_client::{Connecting, Connector, Host, TcpConnector, Transport};
use zk_proto::{Decode, OpCode, Reader, RequestHeader, Xid, frame};

use crate::peer::{next_frame, send_frame};

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
    /// How many requests have been sent.
    asked: usize,
    /// How many of them were answered.
    answered: usize,
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

    /// Counts what each write of a new connection carries.
    fn counter(&self) -> impl FnMut(&[u8]) + Send + use<> {
        let (faults, mut unread, mut has_greeted) = (self.clone(), BytesMut::new(), false);
        move |written| {
            unread.extend_from_slice(written);
            let mut requests = Vec::new();
            while let Ok(Some(frame)) = frame::split(&mut unread, frame::CLIENT_FRAME_LIMIT) {
                let header = RequestHeader::decode(&mut Reader::new(&frame));
                let is_request = std::mem::replace(&mut has_greeted, true);
                requests.extend(header.ok().filter(|header| is_request && header.xid != Xid::PING));
            }
            faults.state(|state| {
                state.writes += usize::from(!requests.is_empty());
                state.frames.extend(requests.iter().map(|header| header.op));
            });
        }
    }

    /// Tells whether the armed fault breaks a new connection at this frame. Then it is disarmed.
    fn breaker(&self) -> impl FnMut(Passing) -> Option<Bytes> + Send + use<> {
        let (faults, mut asked) = (self.clone(), VecDeque::new());
        move |passing| {
            let mut state = faults.state.lock().unwrap_or_else(PoisonError::into_inner);
            let met = match passing {
                Passing::Request(RequestHeader { xid: Xid::PING, .. })
                | Passing::Reply(Xid::PING | Xid::NOTIFICATION) => return None,
                Passing::Request(RequestHeader { op, .. }) => {
                    asked.push_back(op);
                    state.asked += 1;
                    [Fault::LoseRequest(op), Fault::LoseRequestAt(state.asked - 1)]
                }
                Passing::Reply(_) => {
                    let op = asked.pop_front()?;
                    state.answered += 1;
                    [Fault::LoseReply(op), Fault::LoseReplyAt(state.answered - 1)]
                }
            };
            state.next.take_if(|armed| met.contains(armed)).map(|_| Bytes::new())
        }
    }
}

impl Connector for Faults {
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
        Box::pin(async move {
            let server = self.over.connect(host).await?;
            let (client, here) = tokio::io::duplex(1 << 20);
            tokio::spawn(pass(here, server, self.breaker()));
            Ok(Box::new(InspectWriter::new(client, self.counter())) as Box<dyn Transport>)
        })
    }
}

/// The head of a frame that passes, and is no handshake.
pub(crate) enum Passing {
    /// From the client.
    Request(RequestHeader),
    /// From the server.
    Reply(Xid),
}

/// Moves frames between a client and a server until either closes the connection, or `breaks`
/// returns the last bytes that the client gets, instead of this frame.
pub(crate) async fn pass(
    client: DuplexStream,
    server: impl Transport,
    breaks: impl FnMut(Passing) -> Option<Bytes> + Send,
) -> Option<()> {
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (split(client), split(server));
    let (mut asked, mut answered) = (BytesMut::new(), BytesMut::new());
    send_frame(&mut to_server, &next_frame(&mut from_client, &mut asked).await?).await?;
    send_frame(&mut to_client, &next_frame(&mut from_server, &mut answered).await?).await?;
    let breaks = Mutex::new(breaks);
    let request =
        |frame: &[u8]| RequestHeader::decode(&mut Reader::new(frame)).ok().map(Passing::Request);
    let reply = |frame: &[u8]| Xid::decode(&mut Reader::new(frame)).ok().map(Passing::Reply);
    // Neither direction waits for the other.
    let last = tokio::select! {
        last = carry(&mut from_client, &mut to_server, asked, request, &breaks) => last,
        last = carry(&mut from_server, &mut to_client, answered, reply, &breaks) => last,
    };
    to_client.write_all(&last?).await.ok()
}

/// Moves frames in one direction. Returns the last bytes that the client gets, if one breaks the
/// connection.
async fn carry(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut unread: BytesMut,
    head: impl Fn(&[u8]) -> Option<Passing>,
    breaks: &Mutex<impl FnMut(Passing) -> Option<Bytes>>,
) -> Option<Bytes> {
    loop {
        let frame = next_frame(from, &mut unread).await?;
        let passing = head(&frame)?;
        let last = breaks.lock().unwrap_or_else(PoisonError::into_inner)(passing);
        if last.is_some() {
            return last;
        }
        send_frame(to, &frame).await?;
    }
}
