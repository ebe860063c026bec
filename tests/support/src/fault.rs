//! Connections that break at a chosen frame.
//!
//! A [`Faults`] is a connector over another one, most often TCP, that reads along. Its faults are
//! those of real networks, at the worst moment instead of a random one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncWriteExt, DuplexStream};
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

    /// True if one of these faults is armed; then it is disarmed.
    fn strikes(&self, met: [Fault; 2]) -> bool {
        self.state(|state| state.next.take_if(|armed| met.contains(armed)).is_some())
    }

    /// The place of the next request, or of the next reply.
    fn place(&self, of: fn(&mut State) -> &mut usize) -> usize {
        self.state(|state| {
            let next = of(state);
            *next += 1;
            *next - 1
        })
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

    /// Tells whether the armed fault breaks a new connection at this frame.
    fn breaker(&self) -> impl FnMut(Passing) -> Option<Bytes> + Send + use<> {
        let (faults, mut asked) = (self.clone(), VecDeque::new());
        move |passing| {
            let met = match passing {
                Passing::Request(RequestHeader { xid: Xid::PING, .. })
                | Passing::Reply(Xid::PING | Xid::NOTIFICATION) => return None,
                Passing::Request(header) => {
                    asked.push_back(header.op);
                    let at = faults.place(|state| &mut state.asked);
                    [Fault::LoseRequest(header.op), Fault::LoseRequestAt(at)]
                }
                Passing::Reply(_) => {
                    let at = faults.place(|state| &mut state.answered);
                    [Fault::LoseReply(asked.pop_front()?), Fault::LoseReplyAt(at)]
                }
            };
            faults.strikes(met).then(Bytes::new)
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
    mut client: DuplexStream,
    mut server: impl Transport,
    mut breaks: impl FnMut(Passing) -> Option<Bytes>,
) -> Option<()> {
    let (mut asked, mut answered) = (BytesMut::new(), BytesMut::new());
    send_frame(&mut server, &next_frame(&mut client, &mut asked).await?).await?;
    send_frame(&mut client, &next_frame(&mut server, &mut answered).await?).await?;
    loop {
        tokio::select! {
            request = next_frame(&mut client, &mut asked) => {
                let request = request?;
                let header = RequestHeader::decode(&mut Reader::new(&request)).ok()?;
                if let Some(last) = breaks(Passing::Request(header)) {
                    return client.write_all(&last).await.ok();
                }
                send_frame(&mut server, &request).await?;
            }
            reply = next_frame(&mut server, &mut answered) => {
                let reply = reply?;
                let xid = Xid::decode(&mut Reader::new(&reply)).ok()?;
                if let Some(last) = breaks(Passing::Reply(xid)) {
                    return client.write_all(&last).await.ok();
                }
                send_frame(&mut client, &reply).await?;
            }
        }
    }
}
