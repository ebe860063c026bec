//! One connection: who it is, where it stands, and what is still to be sent to it.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zk_proto::{Encode, OpCode, SessionId, Xid, Zxid, frame};

use crate::access::Identities;
use crate::fault::Effect;

/// How many bytes may wait to be sent to one connection, or to be heard of by its server while that
/// is cut off. A connection that goes beyond is closed, where a real server goes on until its
/// memory ends.
pub(crate) const MAX_UNSENT: usize = 64 * 1024 * 1024;

/// One connection to a server, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub(crate) u64);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has not said who it is.
    Fresh,
    Serving,
    /// Nothing that is received counts any more; what is to be sent still is.
    Closing,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    pub(crate) phase: Phase,
    /// Whom it serves or has served.
    pub(crate) session: Option<SessionId>,
    pub(crate) identities: Identities,
    pub(crate) outbox: Outbox,
    /// Set while this connection's server is cut off from its ensemble.
    pub(crate) partition: Option<Partition>,
    /// The fault that takes effect with the reply to the request at hand; a delay is the time at
    /// which it ends.
    pub(crate) struck: Option<Effect>,
    /// Its handshake had the byte that says whether a read-only server will do; so have the
    /// answers.
    pub(crate) has_read_only_byte: bool,
    /// It was refused a session, and nothing more is heard of it until its time is over.
    pub(crate) is_refused: bool,
    /// Whether the connection is in the list of those with something to send.
    pub(crate) is_ready: bool,
    pub(crate) opened: Duration,
    pub(crate) counts: Counts,
}

/// What waits while a server is cut off.
#[derive(Debug)]
pub(crate) struct Partition {
    /// The last transaction that its server has heard of.
    pub(crate) zxid: Zxid,
    pub(crate) requests: VecDeque<Bytes>,
    /// Bytes of the requests.
    held: usize,
    pub(crate) events: BytesMut,
    /// The session ended meanwhile, and nobody here knows.
    pub(crate) is_over: bool,
}

impl Partition {
    pub(crate) fn new(zxid: Zxid) -> Self {
        let (requests, events) = (VecDeque::new(), BytesMut::new());
        Self { zxid, requests, held: 0, events, is_over: false }
    }

    pub(crate) fn hold(&mut self, request: Bytes) {
        self.held += request.len();
        self.requests.push_back(request);
    }

    /// Whether no more can be held back.
    pub(crate) fn is_full(&self) -> bool {
        self.held + self.events.len() > MAX_UNSENT
    }
}

/// What the four-letter words tell of a connection.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) last_op: Option<OpCode>,
    pub(crate) last_xid: Xid,
    pub(crate) last_zxid: Zxid,
}

impl Counts {
    /// Before anything was said. Where there is no last request, real servers have `last` for its
    /// numbers: 0 at first, and -1 after a reset.
    pub(crate) fn new(last: i32) -> Self {
        Self {
            received: 0,
            sent: 0,
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
            struck: None,
            has_read_only_byte: false,
            is_refused: false,
            is_ready: false,
            opened,
            counts: Counts::new(0),
        }
    }
}

/// Bytes to send, with what holds them up and where they end.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: BytesMut,
    /// Bytes ever handed out.
    sent: u64,
    /// From which byte on to wait until when.
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
        // A multiRead can ask for one large node a thousand times over.
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

    /// Appends bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        if !self.is_dead() {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Whether nothing appended now would ever be sent.
    fn is_dead(&self) -> bool {
        self.is_silent || self.end.is_some_and(|end| end <= self.position())
    }

    /// What is appended from here on waits until `until`.
    pub(crate) fn delay(&mut self, until: Duration) {
        self.delays.push_back((self.position(), until));
    }

    /// Sends `bytes` more and then closes.
    pub(crate) fn cut_after(&mut self, bytes: usize) {
        let end = self.position().saturating_add(bytes as u64);
        self.end = Some(self.end.map_or(end, |earlier| earlier.min(end)));
    }

    /// Closes behind what was appended, unless nobody would hear of that either.
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

    /// Whether to close without what was handed out and is not written yet.
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

    /// Moves what may be sent now to `out`; says whether the connection is to be closed behind it.
    pub(crate) fn take(&mut self, now: Duration, out: &mut BytesMut) -> bool {
        while self.delays.front().is_some_and(|(_, until)| *until <= now) {
            self.delays.pop_front();
        }
        let held = self.delays.front().map_or(self.position(), |(from, _)| *from);
        let until = self.end.map_or(held, |end| end.min(held));
        let count = (until.saturating_sub(self.sent)) as usize;
        if count >= self.bytes.len() && out.is_empty() {
            // Gives the whole buffer away, and takes the other's room for what comes.
            std::mem::swap(out, &mut self.bytes);
        } else {
            out.extend_from_slice(&self.bytes.split_to(count.min(self.bytes.len())));
        }
        self.sent += count as u64;
        self.end.is_some_and(|end| end <= self.sent)
    }

    /// When more may be sent.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.delays.front().map(|(_, until)| *until)
    }

    /// Bytes that wait.
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
}
