//! One connection: its client, its phase, and the bytes that are still to be sent to it.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zk_proto::{Encode, OpCode, SessionId, Xid, Zxid, frame};

use crate::access::Identities;
use crate::fault::Effect;
use crate::mutation::{Mutation, corrupt};

/// How many bytes may wait to be sent to one connection, or may be held back while its server is
/// cut off. A connection beyond that is closed. A real server keeps them until it runs out of
/// memory.
pub(crate) const MAX_UNSENT: usize = 64 * 1024 * 1024;

/// The id of one connection to a server. Ids are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub(crate) u64);

impl ConnectionId {
    /// The id that no connection has.
    pub(crate) const NOBODY: Self = Self(u64::MAX);

    /// The bits above these are the index of the member of an ensemble that has the connection.
    pub(crate) const MEMBER_SHIFT: u32 = 48;

    /// Returns the index of the member of an ensemble that has the connection.
    pub fn member(self) -> usize {
        (self.0 >> Self::MEMBER_SHIFT) as usize
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The phase of a connection's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The client has not sent its handshake yet.
    Fresh,
    Serving,
    /// Received bytes are ignored from now on; bytes that wait are still sent.
    Closing,
}

/// A request on which the leader has to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) op: OpCode,
    pub(crate) xid: Xid,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    pub(crate) phase: Phase,
    /// The session that this connection serves or has served.
    pub(crate) session: Option<SessionId>,
    pub(crate) identities: Identities,
    pub(crate) outbox: Outbox,
    /// Set while this connection's server is cut off from its ensemble.
    pub(crate) partition: Option<Partition>,
    /// The request that the leader of the ensemble was asked for. The connection's other requests
    /// wait behind it.
    pub(crate) asked: Option<Question>,
    pub(crate) waiting: Waiting,
    /// The fault that takes effect with the reply to the current request. A delay is stored as the
    /// time at which it ends.
    pub(crate) struck: Option<Effect>,
    /// The client's handshake had the byte that says whether it accepts a read-only server; the
    /// replies to such a handshake have the byte too.
    pub(crate) has_read_only_byte: bool,
    /// The client was refused a session. Its input is ignored until the connection times out.
    pub(crate) is_refused: bool,
    /// Whether the connection is in the list of those with something to send.
    pub(crate) is_ready: bool,
    pub(crate) opened: Duration,
    pub(crate) counts: Counts,
}

/// The bytes that a request takes while it waits. An empty one takes some, too.
fn weight(request: &Bytes) -> usize {
    size_of::<Bytes>() + request.len()
}

/// Requests that wait to be served, in their order.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    requests: VecDeque<Bytes>,
    /// What the requests take, in bytes.
    held: usize,
}

impl Waiting {
    pub(crate) fn push(&mut self, request: Bytes) {
        self.held += weight(&request);
        self.requests.push_back(request);
    }

    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let request = self.requests.pop_front()?;
        self.held -= weight(&request);
        Some(request)
    }

    /// True if no more can be held back.
    pub(crate) fn is_full(&self) -> bool {
        self.held > MAX_UNSENT
    }
}

/// What is held back while a server is cut off.
#[derive(Debug)]
pub(crate) struct Partition {
    /// The last transaction that this server knows of.
    pub(crate) zxid: Zxid,
    pub(crate) requests: VecDeque<Bytes>,
    /// What the requests take, in bytes.
    held: usize,
    pub(crate) events: BytesMut,
    /// True if the session has ended meanwhile, which this server does not know.
    pub(crate) is_over: bool,
}

impl Partition {
    pub(crate) fn new(zxid: Zxid) -> Self {
        let (requests, events) = (VecDeque::new(), BytesMut::new());
        Self { zxid, requests, held: 0, events, is_over: false }
    }

    pub(crate) fn hold(&mut self, request: Bytes) {
        self.held += weight(&request);
        self.requests.push_back(request);
    }

    /// True if no more can be held back.
    pub(crate) fn is_full(&self) -> bool {
        self.held + self.events.len() > MAX_UNSENT
    }
}

/// What the four-letter words print about a connection.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// When the client was heard from last.
    pub(crate) heard: Duration,
    pub(crate) last_op: Option<OpCode>,
    pub(crate) last_xid: Xid,
    pub(crate) last_zxid: Zxid,
}

impl Counts {
    /// The counts before any request. Where there is no last request, real servers use `last` for
    /// its numbers: 0 at first, and -1 after a reset.
    pub(crate) fn new(last: i32) -> Self {
        Self {
            received: 0,
            sent: 0,
            heard: Duration::ZERO,
            last_op: None,
            last_xid: Xid(last),
            last_zxid: Zxid(last.into()),
        }
    }
}

impl Connection {
    pub(crate) fn new(peer: SocketAddr, opened: Duration) -> Self {
        Self {
            peer,
            phase: Phase::Fresh,
            session: None,
            identities: Identities::new(peer.ip()),
            outbox: Outbox::default(),
            partition: None,
            asked: None,
            waiting: Waiting::default(),
            struck: None,
            has_read_only_byte: false,
            is_refused: false,
            is_ready: false,
            opened,
            counts: Counts { heard: opened, ..Counts::new(0) },
        }
    }
}

impl Connection {
    /// Appends a reply. The fault that struck its request takes effect here; returns the change if
    /// it corrupted the reply.
    pub(crate) fn answer(&mut self, header: &impl Encode, body: &impl Encode) -> Option<Mutation> {
        let struck = self.struck.take();
        match struck {
            Some(Effect::CutReply(bytes)) => {
                self.outbox.cut_after(bytes);
                self.phase = Phase::Closing;
            }
            Some(Effect::GoSilent) => self.outbox.go_silent(),
            Some(Effect::Delay(until)) => self.outbox.delay(until),
            _ => {}
        }
        let from = self.outbox.len();
        self.outbox.records(header, body);
        let mutation = match struck {
            Some(Effect::Mutate(seed)) => self.outbox.mutate(from, seed),
            _ => None,
        };
        if self.phase == Phase::Closing {
            // A cut beyond the end of the reply is a cut at its end.
            self.outbox.end();
        }
        mutation.map(|mutation| Mutation { session: self.session.unwrap_or_default(), ..mutation })
    }
}

/// The bytes to send, with their delays and the place where they end.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: BytesMut,
    /// How many bytes were ever handed out.
    sent: u64,
    /// From which byte on to wait, and until when.
    delays: VecDeque<(u64, Duration)>,
    /// The byte after which nothing is sent and the connection is closed.
    end: Option<u64>,
    is_silent: bool,
    is_aborted: bool,
}

impl Outbox {
    fn position(&self) -> u64 {
        self.sent + self.bytes.len() as u64
    }

    /// Appends a frame.
    pub(crate) fn frame(&mut self, body: impl FnOnce(&mut zk_proto::Writer<'_>)) {
        if self.is_dead() {
            return;
        }
        // A multiRead can ask for one large node a thousand times.
        if frame::encode(&mut self.bytes, MAX_UNSENT, body).is_err() {
            self.end();
        }
    }

    /// Appends records as one frame.
    pub(crate) fn records(&mut self, header: &impl Encode, body: &impl Encode) {
        self.frame(|writer| {
            header.encode(writer);
            body.encode(writer);
        });
    }

    /// Corrupts what was appended behind the first `from` bytes, as `seed` decides.
    fn mutate(&mut self, from: usize, seed: u64) -> Option<Mutation> {
        let from = from.min(self.bytes.len());
        let before = self.bytes.split_off(from).freeze();
        if before.is_empty() {
            return None;
        }
        let after = Bytes::from(corrupt(&before, seed));
        self.bytes.extend_from_slice(&after);
        Some(Mutation { seed, session: SessionId(0), before, after })
    }

    /// Appends bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        if !self.is_dead() {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// True if anything that is appended now would never be sent.
    fn is_dead(&self) -> bool {
        self.is_silent || self.end.is_some_and(|end| end <= self.position())
    }

    /// Delays everything that is appended from here on until `until`.
    pub(crate) fn delay(&mut self, until: Duration) {
        self.delays.push_back((self.position(), until));
    }

    /// Sends `bytes` more and then closes the connection.
    pub(crate) fn cut_after(&mut self, bytes: usize) {
        let end = self.position().saturating_add(bytes as u64);
        self.end = Some(self.end.map_or(end, |earlier| earlier.min(end)));
    }

    /// Closes behind the bytes that were appended, unless the connection is silent: then the peer
    /// could not notice.
    pub(crate) fn end(&mut self) {
        if !self.is_silent {
            self.cut_after(0);
        }
    }

    /// Closes at once.
    pub(crate) fn abort(&mut self) {
        self.bytes.clear();
        self.delays.clear();
        self.end = Some(self.sent);
        self.is_aborted = true;
    }

    /// Whether to close the connection without the bytes that were handed out and are not written
    /// yet.
    pub(crate) fn is_aborted(&self) -> bool {
        self.is_aborted
    }

    /// Sends nothing more, and does not close.
    pub(crate) fn go_silent(&mut self) {
        self.is_silent = true;
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Moves what may be sent now to `out`. Returns whether to close the connection behind it.
    pub(crate) fn take(&mut self, now: Duration, out: &mut BytesMut) -> bool {
        while self.delays.front().is_some_and(|(_, until)| *until <= now) {
            self.delays.pop_front();
        }
        let held = self.delays.front().map_or(self.position(), |(from, _)| *from);
        let until = self.end.map_or(held, |end| end.min(held));
        let count = (until.saturating_sub(self.sent)) as usize;
        if count >= self.bytes.len() && out.is_empty() {
            // Swaps the whole buffer out, and reuses the capacity of the other one.
            std::mem::swap(out, &mut self.bytes);
        } else {
            out.extend_from_slice(&self.bytes.split_to(count.min(self.bytes.len())));
        }
        self.sent += count as u64;
        self.end.is_some_and(|end| end <= self.sent)
    }

    /// When more bytes may be sent.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.delays.front().map(|(_, until)| *until)
    }

    /// How many bytes wait.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(outbox: &mut Outbox, millis: u64) -> (Vec<u8>, bool) {
        let mut out = BytesMut::new();
        let closed = outbox.take(Duration::from_millis(millis), &mut out);
        (out.to_vec(), closed)
    }

    #[test]
    fn delays_hold_what_is_behind_them() {
        let mut outbox = Outbox::default();
        outbox.raw(b"ab");
        outbox.delay(Duration::from_millis(10));
        outbox.raw(b"cd");
        outbox.end();
        assert_eq!(take(&mut outbox, 0), (b"ab".to_vec(), false));
        assert_eq!(outbox.deadline(), Some(Duration::from_millis(10)));
        assert_eq!(take(&mut outbox, 9), (b"".to_vec(), false));
        assert_eq!(take(&mut outbox, 10), (b"cd".to_vec(), true));
    }

    #[test]
    fn a_cut_ends_in_the_middle() {
        let mut outbox = Outbox::default();
        outbox.raw(b"ab");
        outbox.cut_after(3);
        outbox.raw(b"cdef");
        outbox.raw(b"gh");
        assert_eq!(take(&mut outbox, 0), (b"abcde".to_vec(), true));
    }

    #[test]
    fn silence_says_nothing_more_and_does_not_close() {
        let mut outbox = Outbox::default();
        outbox.raw(b"ab");
        outbox.go_silent();
        outbox.raw(b"cd");
        assert_eq!(take(&mut outbox, 0), (b"ab".to_vec(), false));
    }

    #[test]
    fn an_abort_drops_what_waits() {
        let mut outbox = Outbox::default();
        outbox.raw(b"ab");
        outbox.abort();
        assert_eq!(take(&mut outbox, 0), (b"".to_vec(), true));
    }

    #[test]
    fn empty_requests_that_wait_are_bounded_too() {
        let mut waiting = Waiting::default();
        let mut count = 0;
        while !waiting.is_full() {
            waiting.push(Bytes::new());
            count += 1;
            assert!(count <= MAX_UNSENT);
        }
        while waiting.pop().is_some() {}
        assert!(!waiting.is_full());
    }
}
