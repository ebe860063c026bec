//! A recording played again, by a client or by a server.
//!
//! Both play the connections of a recording in their order, one after another, and send the
//! recorded bytes as they are. The other side decides when the next frame is due, and not the
//! clock: a side sends what it sent in the recording as soon as it has received as many frames as
//! it had then. So a replay needs no pauses, and it ends early at a peer that says less. Pings go
//! by the clock, so they are not part of what is played: a client sends none, and a server answers
//! those that come.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use zk_proto::any::Frame;
use zk_proto::{Decode, Encode, ErrorCode, Reader, ReplyHeader, Xid, Zxid, frame};

use crate::dialog::Dialog;
use crate::queue::{Side, Stamp};
use crate::recording::Entry;

/// The frames of one connection, in the order in which they passed.
type Script = VecDeque<(Side, Vec<u8>)>;

/// How a replay went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that came and say the same as in the recording.
    pub same: u64,
    /// What differed in the other frames: those of a client in any field, those of a server in the
    /// result.
    pub different: Vec<String>,
    /// Recorded frames of the other side that did not come.
    pub missing: u64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.different.iter().try_for_each(|text| writeln!(f, "{text}"))?;
        writeln!(
            f,
            "{} frames sent, {} received as recorded, {} different, {} missing",
            self.sent,
            self.same,
            self.different.len(),
            self.missing
        )
    }
}

/// The connections of a recording.
fn scripts(entries: &[Entry]) -> Vec<Script> {
    let mut order = Vec::new();
    let mut scripts = Vec::<Script>::new();
    for entry in entries {
        if let Entry::Frame { connection, from, payload, .. } = entry
            && !is_ping(payload)
        {
            let known = order.iter().position(|other| other == connection);
            let place = known.unwrap_or_else(|| {
                order.push(*connection);
                scripts.push(Script::new());
                scripts.len() - 1
            });
            if let Some(script) = scripts.get_mut(place) {
                script.push_back((*from, payload.clone()));
            }
        }
    }
    scripts
}

/// Plays the clients of a recording against a server, a host and a port.
///
/// A frame that does not come within `patience` is missing, and ends its connection.
///
/// # Errors
///
/// The errors of connecting, which may take `patience`. A server that closes a connection is no
/// error.
pub async fn as_client(entries: &[Entry], target: &str, patience: Duration) -> io::Result<Outcome> {
    let mut outcome = Outcome::default();
    for script in scripts(entries) {
        let stream = timeout(patience, TcpStream::connect(target)).await??;
        play(stream, Side::Client, script, patience, &mut outcome).await?;
    }
    Ok(outcome)
}

/// Plays the servers of a recording to the clients that connect to `listener`, until each recorded
/// connection was played once.
///
/// A frame that does not come within `patience` is missing, and ends its connection.
///
/// # Errors
///
/// The errors of accepting; no client connects within `patience`. A client that closes a connection
/// is no error.
pub async fn as_server(
    entries: &[Entry],
    listener: &TcpListener,
    patience: Duration,
) -> io::Result<Outcome> {
    let mut outcome = Outcome::default();
    for script in scripts(entries) {
        let (stream, _) = timeout(patience, listener.accept()).await??;
        play(stream, Side::Server, script, patience, &mut outcome).await?;
    }
    Ok(outcome)
}

/// Plays one side of a connection.
async fn play(
    mut stream: TcpStream,
    own: Side,
    mut script: Script,
    patience: Duration,
    outcome: &mut Outcome,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BytesMut::new();
    // What each frame is, in the recording and now.
    let (mut then, mut now) = (Dialog::default(), Dialog::default());
    while let Some((side, payload)) = script.pop_front() {
        if side == own {
            let mut framed = BytesMut::new();
            frame::encode(&mut framed, frame::CLIENT_FRAME_LIMIT, |out| out.put(&payload))
                .map_err(io::Error::other)?;
            let written = timeout(patience, stream.write_all(&framed)).await;
            if !matches!(written, Ok(Ok(()))) {
                outcome.missing +=
                    1 + script.iter().filter(|(side, _)| *side != own).count() as u64;
                return Ok(());
            }
            outcome.sent += 1;
            drop(then.frame(side, Stamp::ZERO, &payload));
            drop(now.frame(side, Stamp::ZERO, &payload));
            continue;
        }
        let received = timeout(patience, receive(&mut stream, &mut input, own)).await;
        let Ok(Ok(Some(received))) = received else {
            outcome.missing += 1 + script.iter().filter(|(side, _)| *side != own).count() as u64;
            return Ok(());
        };
        let (recorded, _) = then.frame(side, Stamp::ZERO, &payload);
        let (received, _) = now.frame(side, Stamp::ZERO, &received);
        match (recorded, received) {
            (Ok(recorded), Ok(received)) if says_the_same(side, &recorded, &received) => {
                outcome.same += 1;
            }
            (Ok(recorded), Ok(received)) => {
                outcome.different.push(format!("recorded {recorded}; received {received}"));
            }
            (Err(_), Err(_)) => outcome.same += 1,
            (Err(error), Ok(other)) => {
                outcome.different.push(format!("recorded {error}; received {other}"));
            }
            (Ok(other), Err(error)) => {
                outcome.different.push(format!("recorded {other}; received {error}"));
            }
        }
    }
    Ok(())
}

/// Whether a frame says what was recorded.
///
/// Zxids, times and sessions are others in each run, so of a reply only the request and the result
/// count, and of an event what has happened.
fn says_the_same(side: Side, recorded: &Frame<'_>, received: &Frame<'_>) -> bool {
    use zk_proto::any::Message::{ConnectResponse, Notification, Reply};
    match (recorded.message(), received.message()) {
        _ if side == Side::Client => recorded.payload() == received.payload(),
        (Reply(a, _), Reply(b, _)) => (a.xid, a.error) == (b.xid, b.error),
        (Notification(_, a), Notification(_, b)) => a == b,
        (ConnectResponse(a), ConnectResponse(b)) => a.is_expired() == b.is_expired(),
        _ => false,
    }
}

/// Whether a frame is a ping or the answer to one.
fn is_ping(payload: &[u8]) -> bool {
    Xid::decode(&mut Reader::new(payload)) == Ok(Xid::PING)
}

/// The next frame that is no ping; `None` at the end of the stream.
async fn receive(
    stream: &mut TcpStream,
    input: &mut BytesMut,
    own: Side,
) -> io::Result<Option<Bytes>> {
    loop {
        let split = frame::split(input, frame::CLIENT_FRAME_LIMIT).map_err(io::Error::other)?;
        if let Some(payload) = split {
            if !is_ping(&payload) {
                return Ok(Some(payload));
            }
            if own == Side::Server {
                let pong = ReplyHeader { xid: Xid::PING, zxid: Zxid(0), error: ErrorCode::OK };
                let mut framed = BytesMut::new();
                frame::encode(&mut framed, frame::CLIENT_FRAME_LIMIT, |out| pong.encode(out))
                    .map_err(io::Error::other)?;
                stream.write_all(&framed).await?;
            }
        } else if stream.read_buf(input).await? == 0 {
            return Ok(None);
        }
    }
}
