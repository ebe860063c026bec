//! The relay between a client and zk-embedded.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use zk_proto::any::{Frame, Message, Reply};
use zk_proto::{Decode, OpCode, Reader, Xid, frame};

use super::fault::{Act, Fault, framed};
use super::plan::{Place, Plan};

/// A fault that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// The frame.
    pub place: Place,
    /// The kind of fault.
    pub fault: Fault,
    /// The frame as it was, and what was done to it.
    pub told: String,
}

/// What a node held: its path, its version and its data.
pub(super) type Held = (String, i32, Vec<u8>);

/// A hostile server. Dropping it closes its connections.
#[derive(Debug)]
pub struct Hostile {
    address: String,
    shared: Arc<Shared>,
    cut: watch::Sender<()>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    /// Where zk-embedded is.
    target: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` once the server behaves.
    plan: Option<Plan>,
    connections: u32,
    applied: Vec<Applied>,
    /// What the server said that nodes held, before any fault.
    held: BTreeSet<Held>,
}

impl Hostile {
    /// Starts on a free port of 127.0.0.1, in front of the server at `target`.
    ///
    /// # Errors
    ///
    /// Those of listening.
    pub async fn start(plan: Plan, target: &str) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let state =
            State { plan: Some(plan), connections: 0, applied: Vec::new(), held: BTreeSet::new() };
        let shared = Arc::new(Shared { target: target.to_owned(), state: Mutex::new(state) });
        let (cut, _) = watch::channel(());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared), cut.clone()));
        Ok(Self { address, shared, cut, _tasks: tasks })
    }

    /// Where clients connect.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Closes all connections, and behaves from now on.
    pub fn behave(&self) {
        self.shared.state().plan = None;
        self.cut.send_replace(());
    }

    /// The faults that have happened, by their places.
    pub fn applied(&self) -> Vec<Applied> {
        let mut applied = self.shared.state().applied.clone();
        applied.sort_by_key(|applied| applied.place);
        applied
    }

    /// Whether the server has ever said that a node held this.
    pub(super) fn has_said(&self, held: &Held) -> bool {
        self.shared.state().held.contains(held)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, cut: watch::Sender<()>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let number = {
            let mut state = shared.state();
            state.connections += 1;
            state.connections
        };
        let shared = Arc::clone(&shared);
        let mut cut = cut.subscribe();
        connections.spawn(async move {
            tokio::select! {
                // An error ends both connections, and each end sees it.
                _ = connection(client, number, &shared) => {}
                _ = cut.changed() => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// What is in flight on one connection.
#[derive(Default)]
struct Dialog {
    client_has_spoken: bool,
    frames: u32,
    asked: VecDeque<(Xid, OpCode, String)>,
}

async fn connection(client: TcpStream, number: u32, shared: &Shared) -> io::Result<()> {
    let server = TcpStream::connect(&shared.target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut client_in, mut client_out) = client.into_split();
    let (mut server_in, mut server_out) = server.into_split();
    let (mut up, mut down) = (BytesMut::new(), BytesMut::new());
    let mut dialog = Dialog::default();
    let mut held = Vec::new();
    let mut is_silent = false;
    loop {
        let before = up.len();
        tokio::select! {
            read = client_in.read_buf(&mut up) => {
                if read? == 0 {
                    return Ok(());
                }
                let new = up.get(before..).unwrap_or_default().to_vec();
                while let Some(payload) =
                    frame::split(&mut up, frame::SERVER_FRAME_LIMIT).map_err(io::Error::other)?
                {
                    dialog.note_request(&payload);
                }
                if !is_silent {
                    server_out.write_all(&new).await?;
                }
            }
            read = server_in.read_buf(&mut down) => {
                if read? == 0 {
                    return Ok(());
                }
                while let Some(payload) =
                    frame::split(&mut down, usize::MAX).map_err(io::Error::other)?
                {
                    if is_silent {
                        continue;
                    }
                    let act = dialog.act(&payload, number, shared);
                    let late = std::mem::take(&mut held);
                    match act {
                        Act::Send(bytes) => client_out.write_all(&bytes).await?,
                        Act::SendSlowly(bytes) => send_slowly(&mut client_out, &bytes).await?,
                        Act::SendLate(pause, bytes) => {
                            tokio::time::sleep(pause).await;
                            client_out.write_all(&bytes).await?;
                        }
                        Act::Hold(bytes) => held = bytes,
                        Act::Close(bytes) => {
                            client_out.write_all(&bytes).await?;
                            return client_out.shutdown().await;
                        }
                        Act::FallSilent => is_silent = true,
                    }
                    client_out.write_all(&late).await?;
                }
            }
        }
    }
}

/// Writes byte by byte, each in a packet of its own as far as the kernel likes.
async fn send_slowly(out: &mut OwnedWriteHalf, bytes: &[u8]) -> io::Result<()> {
    for byte in bytes {
        out.write_all(&[*byte]).await?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

impl Dialog {
    fn note_request(&mut self, payload: &[u8]) {
        if !std::mem::replace(&mut self.client_has_spoken, true) {
            return;
        }
        if let Ok(request) = Frame::request(payload)
            && let Some((xid, op)) = request.xid().zip(request.op())
        {
            let path = request.path().unwrap_or_default().to_owned();
            self.asked.push_back((xid, op, path));
        }
    }

    /// What to do with a frame of the server.
    fn act(&mut self, payload: &[u8], connection: u32, shared: &Shared) -> Act {
        let is_first = self.frames == 0;
        let mut path = String::new();
        let frame = match is_first {
            true => Frame::connect_response(payload),
            false => Frame::from_server(payload, |xid| {
                let at = self.asked.iter().position(|(asked, ..)| *asked == xid)?;
                let (_, op, asked) = self.asked.remove(at)?;
                path = asked;
                Some(op)
            }),
        };
        let frame = frame.ok();
        if !is_first && Xid::decode(&mut Reader::new(payload)) == Ok(Xid::PING) {
            return Act::Send(framed(payload));
        }
        let place = Place::new(connection, self.frames);
        self.frames += 1;
        let mut state = shared.state();
        if let Some(Message::Reply(_, Reply::GetData(reply))) = frame.as_ref().map(Frame::message) {
            let data = reply.data.unwrap_or_default().to_vec();
            state.held.insert((path, reply.stat.version, data));
        }
        let Some((fault, mut rng)) = state.plan.as_ref().and_then(|plan| plan.fault(place)) else {
            return Act::Send(framed(payload));
        };
        let (act, told) = fault.act(payload, frame.as_ref(), &mut rng);
        let shown = frame.map_or_else(|| "a frame".to_owned(), |frame| frame.to_string());
        let told = format!("{}: {told}; it was {shown}", fault.name());
        state.applied.push(Applied { place, fault, told });
        act
    }
}
