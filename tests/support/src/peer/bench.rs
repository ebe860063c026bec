//! The other end of a session without I/O.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use zk_client::session::{Change, Event, Session};
use zk_client::{Failure, SessionConfig, StreamEvent, WatchedEvent};
use zk_proto::*;

use crate::peer::frames::*;

/// A session on the bench: the test is its transport, its server and its clock.
///
/// Dropping it fails the test if the session has an event or bytes left.
#[derive(Debug)]
pub struct Bench {
    /// What is tested.
    pub session: Session<u32, u32>,
    /// The virtual time.
    pub now: Instant,
    start: Instant,
    zxid: i64,
}

impl Bench {
    /// A session with these settings that has not connected yet.
    pub fn new(config: SessionConfig) -> Self {
        let start = now().into_std();
        Self { session: Session::new(config), now: start, start, zxid: 0 }
    }

    /// The settings of most tests: [`TIMEOUT`] and three servers.
    pub fn config() -> SessionConfig {
        SessionConfig::new(TIMEOUT, 3)
    }

    /// A new session that is connected.
    pub fn attached() -> Self {
        let mut bench = Self::new(Self::config());
        bench.attach();
        bench
    }

    /// Begins a connection and takes the handshake off the wire.
    pub fn connect(&mut self) -> ConnectRequest {
        self.session.handle_connecting(self.now);
        let start = self.session.sasl().map(|sasl| sasl.mechanism().start("zk1"));
        if let Some(start) = start {
            self.session.begin_sasl(start.expect("an exchange"));
        }
        self.session.handle_connected(self.now);
        let frames = self.frames();
        let [frame] = frames.as_slice() else {
            panic!("{} frames instead of a handshake", frames.len());
        };
        ConnectRequest::decode_exact(frame).expect("a handshake")
    }

    /// Connects, and accepts the session.
    pub fn attach(&mut self) {
        self.connect();
        self.frame(payload(&welcome(TIMEOUT)));
        assert_eq!(self.said(), ["Connected"]);
    }

    /// Breaks the connection. The events of that are not consumed.
    pub fn cut(&mut self) {
        self.session.handle_disconnected(self.now);
    }

    /// Hands a frame to the session.
    pub fn frame(&mut self, payload: Bytes) {
        self.session.handle_frame(self.now, payload);
    }

    /// Answers a request with the next transaction.
    pub fn answer(&mut self, xid: i32, body: &impl Encode) {
        self.zxid += 1;
        self.frame(reply(Xid(xid), self.zxid, ErrorCode::OK, body));
    }

    /// Answers the search of a folder: these names are those of the session's own ephemeral nodes.
    pub fn answer_ephemerals(&mut self, xid: i32, folder: &str, names: &[&str]) {
        let paths = names.iter().map(|name| format!("{folder}{name}")).collect::<Vec<_>>();
        let paths = paths.iter().map(String::as_str).collect::<Vec<_>>();
        self.answer(xid, &GetEphemeralsResponse { ephemerals: List::new(&paths) });
    }

    /// Refuses a request.
    pub fn refuse(&mut self, xid: i32, code: ErrorCode) {
        self.zxid += 1;
        self.frame(reply(Xid(xid), self.zxid, code, &()));
    }

    /// Refuses a request with a zxid of 0, as a follower does by itself.
    pub fn refuse_alone(&mut self, xid: Xid, code: ErrorCode) {
        self.frame(reply(xid, 0, code, &()));
    }

    /// Answers a request with a frame of this length, of which only the head arrives.
    pub fn oversized(&mut self, xid: i32, code: ErrorCode, len: usize) {
        self.zxid += 1;
        let head = reply(Xid(xid), self.zxid, code, &());
        self.session.handle_oversized(self.now, &head, len);
    }

    /// Fires a watch at the next transaction.
    pub fn fire(&mut self, kind: EventType, path: &str) {
        self.zxid += 1;
        self.frame(notification(self.zxid, kind, path));
    }

    /// Lets time pass, and notifies the session.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        self.session.handle_timeout(self.now);
    }

    /// How long it is until the next deadline.
    pub fn due_in(&self) -> Option<Duration> {
        self.session.poll_timeout().map(|at| at.saturating_duration_since(self.now))
    }

    /// Counts of unanswered requests, of watches and streams, and of owned nodes.
    pub fn load(&self) -> (usize, usize, usize) {
        let stats = self.session.stats(self.now);
        (stats.in_flight + stats.queued, stats.watches + stats.streams, stats.owned_nodes)
    }

    /// How long this bench has existed, on its own clock.
    pub fn age(&self) -> Duration {
        self.now - self.start
    }

    /// The frames that the session sends now.
    pub fn frames(&mut self) -> Vec<Bytes> {
        let mut out = BytesMut::new();
        let any = self.session.poll_transmit(self.now, &mut out);
        assert_eq!(any, !out.is_empty());
        let split = || frame::split(&mut out, frame::SERVER_FRAME_LIMIT).expect("frames");
        let frames = std::iter::from_fn(split).collect();
        assert!(out.is_empty(), "half a frame was sent");
        frames
    }

    /// The requests that the session sends now.
    pub fn requests(&mut self) -> Vec<Request> {
        self.frames().into_iter().map(Request).collect()
    }

    /// The requests that the session sends now, as text.
    pub fn sent(&mut self) -> Vec<String> {
        self.requests().iter().map(Request::to_string).collect()
    }

    /// The events of the session, as text.
    ///
    /// Events read like this: `1 ok`, `1 NoNode`, `1 too large: 17`, `1 lost, sent` and `1 lost,
    /// unsent`, `1 never answered: 17 bytes, 3 times`, `1 over, sent: ..`, `7 saw NodeDeleted /a`
    /// with `at` a zxid and `, missed`, `7 unwatched`, `8 hears NodeCreated /a/b`, `8 Rearmed`, `8
    /// unstreamed`, the name of a state, or `hangup: ..`.
    pub fn said(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.session.poll_event()).map(text).collect()
    }
}

fn text(event: Event<u32, u32>) -> String {
    let sent = |sent| if sent { "sent" } else { "unsent" };
    match event {
        Event::Completed { token, result: Ok(_), .. } => format!("{token} ok"),
        Event::Completed { token, result: Err(failure), .. } => match failure {
            Failure::Refused(code) => format!("{token} {code}"),
            Failure::ReplyTooLarge { len, .. } => format!("{token} too large: {len}"),
            Failure::NeverAnswered { size, losses, .. } => {
                format!("{token} never answered: {size} bytes, {losses} times")
            }
            Failure::ConnectionLoss { sent: was, .. } => format!("{token} lost, {}", sent(was)),
            Failure::Ended { sent: was, ended } => {
                format!("{token} over, {}: {ended:?}", sent(was))
            }
            other => format!("{token} {other:?}"),
        },
        Event::WatchFired { watcher, path, change: Change { kind, zxid, missed, .. } } => {
            format!("{watcher} saw {}", change(kind, &path, zxid, missed))
        }
        Event::WatchRemoved { watcher } => format!("{watcher} unwatched"),
        Event::StreamEvent { stream, event: StreamEvent::Changed(event) } => {
            let WatchedEvent { kind, path, zxid, missed, .. } = event;
            format!("{stream} hears {}", change(kind, &path, zxid, missed))
        }
        Event::StreamEvent { stream, event } => format!("{stream} {event:?}"),
        Event::StreamClosed { stream } => format!("{stream} unstreamed"),
        Event::State(state) => format!("{state:?}"),
        Event::Hangup(why) => format!("hangup: {why}"),
        other => format!("{other:?}"),
    }
}

fn change(kind: EventType, path: &str, zxid: Option<Zxid>, missed: bool) -> String {
    let at = zxid.map(|zxid| format!(" at {zxid}")).unwrap_or_default();
    let missed = if missed { ", missed" } else { "" };
    format!("{kind} {path}{at}{missed}")
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.said(), [""; 0], "the session had something left to say");
            assert_eq!(self.sent(), [""; 0], "the session had something left to send");
        }
    }
}
