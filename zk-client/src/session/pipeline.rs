//! What is owed a reply: the queue of requests, those in flight first and behind them those that
//! wait to be sent, and the pings.
//!
//! ZooKeeper answers the requests of a session in order, so this is a queue and not a map: a reply
//! whose xid is not that of the front is a protocol error. A request stays if its caller has gone.
//! Knows no sockets, clock or watches.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::{Buf, BytesMut};
use tracing::{Level, enabled, trace};
use zk_proto::{Encode, EncodeError, ErrorCode, OpCode, RequestHeader, Xid, frame};

use crate::config::Limits;
use crate::error::{Limit, ProtocolError};
use crate::trace;

/// The id of a request, by which it can be [withdrawn](crate::session::Session::withdraw).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// A request that is owed a reply.
#[derive(Debug)]
pub(crate) struct PendingRequest<P> {
    pub(crate) id: RequestId,
    /// The length of the whole frame in bytes.
    len: usize,
    pub(crate) xid: Xid,
    pub(crate) op: OpCode,
    /// When it was handed to the transport, if it was.
    pub(crate) sent_at: Option<Instant>,
    /// Kept of a [large](LARGE) request, and of others while traces are on.
    pub(crate) path: Option<Box<str>>,
    pub(crate) purpose: P,
}

/// The size in bytes from which on a request may be too large for a server: none runs with a
/// `jute.maxbuffer` below this.
const LARGE: usize = 1024;

impl<P> PendingRequest<P> {
    pub(crate) fn is_large(&self) -> bool {
        self.size() >= LARGE
    }

    /// The size of the request in bytes, as servers compare it with their `jute.maxbuffer`.
    pub(crate) fn size(&self) -> usize {
        self.len.saturating_sub(frame::PREFIX)
    }
}

/// Bytes of a request's header.
const HEADER_BYTES: usize = 8;

/// Errors that servers may answer as soon as they read the request, ahead of the replies to earlier
/// ones. The first two close the connection; with the others a server that runs with
/// `zookeeper.enableEagerACLCheck` refuses writes by itself.
const OVERTAKING: [ErrorCode; 4] = [
    ErrorCode::UNIMPLEMENTED,
    ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH,
    ErrorCode::NO_AUTH,
    ErrorCode::INVALID_ACL,
];

/// Where a request is put in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Behind all others.
    Normal,
    /// Behind requests that are sent, ahead of those that are not: for the session's own requests
    /// after a reconnect.
    Urgent,
}

/// Requests in wire order. The first `sent` are in flight; the next `urgent` are encoded in one
/// buffer, the rest in another.
pub(crate) struct Pipeline<P> {
    limits: Limits,
    next: Xid,
    next_id: u64,
    requests: VecDeque<PendingRequest<P>>,
    sent: usize,
    urgent: usize,
    urgent_bytes: BytesMut,
    bytes: BytesMut,
}

impl<P> Pipeline<P> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            next: Xid::FIRST,
            next_id: 0,
            requests: VecDeque::new(),
            sent: 0,
            urgent: 0,
            urgent_bytes: BytesMut::new(),
            bytes: BytesMut::new(),
        }
    }

    /// Requests that are owed a reply, sent or not.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Requests that are sent, and requests that wait to be.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        (self.sent, self.requests.len() - self.sent)
    }

    /// Bytes that wait to be sent.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.urgent_bytes.len() + self.bytes.len()
    }

    /// An error if no more requests may be taken from callers.
    pub(crate) fn check_capacity(&self) -> Result<(), Limit> {
        let Limits { max_requests, max_queued_bytes, .. } = self.limits;
        if self.requests.len() >= max_requests {
            Err(Limit::Requests(max_requests))
        } else if self.queued_bytes() >= max_queued_bytes {
            Err(Limit::Bytes(max_queued_bytes))
        } else {
            Ok(())
        }
    }

    /// Takes the next xid, for a request that is answered ahead of all requests in here.
    pub(crate) fn take_xid(&mut self) -> Xid {
        let xid = self.next;
        self.next = xid.next();
        xid
    }

    /// Queues a request and gives it the next xid; setWatches and auth have their own.
    pub(crate) fn push(
        &mut self,
        priority: Priority,
        op: OpCode,
        request: &dyn Encode,
        purpose: P,
    ) -> Result<RequestId, EncodeError> {
        let rearms = [OpCode::SET_WATCHES, OpCode::SET_WATCHES2].contains(&op);
        let xid = match op {
            OpCode::AUTH => Xid::AUTH,
            _ if rearms => Xid::SET_WATCHES,
            _ => self.next,
        };
        let bytes = match priority {
            Priority::Normal => &mut self.bytes,
            Priority::Urgent => &mut self.urgent_bytes,
        };
        let start = bytes.len();
        frame::encode(bytes, self.limits.max_request, |writer| {
            RequestHeader { xid, op }.encode(writer);
            request.encode(writer);
        })?;
        let (id, len) = (RequestId(self.next_id), bytes.len() - start);
        self.next_id += 1;
        let mut path = None;
        if len >= frame::PREFIX + LARGE || enabled!(target: trace::REQUEST, Level::TRACE) {
            let record = bytes.get(start + frame::PREFIX + HEADER_BYTES..).unwrap_or_default();
            path = trace::path(op, record).map(Box::from);
            trace!(target: trace::REQUEST, xid = xid.0, %op, path, "queued");
        }
        if xid == self.next {
            self.next = xid.next();
        }
        let request = PendingRequest { id, len, xid, op, sent_at: None, path, purpose };
        match priority {
            Priority::Normal => self.requests.push_back(request),
            Priority::Urgent => {
                self.requests.insert(self.sent + self.urgent, request);
                self.urgent += 1;
            }
        }
        Ok(id)
    }

    /// Takes back a request that was not sent, if `may` allows it. Most often this is the request
    /// that has waited for longest, and then it takes next to no time, however many wait.
    pub(crate) fn withdraw(
        &mut self,
        id: RequestId,
        may: impl FnOnce(&P) -> bool,
    ) -> Option<PendingRequest<P>> {
        let first = self.sent + self.urgent;
        // Normal requests that wait are in the order of their ids.
        let (mut low, mut high) = (first, self.requests.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.requests.get(middle) {
                Some(request) if request.id < id => low = middle + 1,
                _ => high = middle,
            }
        }
        self.requests.get(low).filter(|request| request.id == id && may(&request.purpose))?;
        let start = self.requests.range(first..low).map(|request| request.len).sum();
        let request = self.requests.remove(low)?;
        if start == 0 {
            self.bytes.advance(request.len);
        } else {
            self.bytes.copy_within(start + request.len.., start);
            self.bytes.truncate(self.bytes.len() - request.len);
        }
        Some(request)
    }

    /// Takes back the request that was queued last, if it was not sent and `may` allows it.
    pub(crate) fn take_last(&mut self, may: impl FnOnce(&P) -> bool) -> Option<PendingRequest<P>> {
        let is_waiting = self.requests.len() > self.sent + self.urgent;
        self.requests.back().filter(|request| is_waiting && may(&request.purpose))?;
        let request = self.requests.pop_back()?;
        self.bytes.truncate(self.bytes.len() - request.len);
        Some(request)
    }

    /// Requests that were sent and are owed a reply.
    pub(crate) fn in_flight(&self) -> usize {
        self.sent
    }

    /// When the oldest request that is owed a reply was sent.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.requests.front().and_then(|request| request.sent_at)
    }

    /// The requests that were not sent.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = OpCode> {
        self.requests.iter().skip(self.sent).map(|request| request.op)
    }

    /// Moves all requests that wait into `out`, in order, and returns their number. From then on
    /// they count as sent.
    pub(crate) fn transmit(&mut self, now: Instant, out: &mut BytesMut) -> usize {
        let (_, waiting) = self.lengths();
        for request in self.requests.iter_mut().skip(self.sent) {
            request.sent_at = Some(now);
            let PendingRequest { xid, op, path, .. } = request;
            trace!(target: trace::REQUEST, xid = xid.0, %op, path, "sent");
        }
        for bytes in [&mut self.urgent_bytes, &mut self.bytes] {
            if out.is_empty() {
                std::mem::swap(out, bytes);
            } else {
                out.extend_from_slice(bytes);
                bytes.clear();
            }
        }
        self.sent = self.requests.len();
        self.urgent = 0;
        waiting
    }

    /// The request that a reply answers: the oldest one.
    ///
    /// Auth requests may be answered ahead of earlier requests, and a few errors may come ahead of
    /// earlier replies, so these are looked up. Auth requests are answered in order among
    /// themselves.
    #[inline]
    pub(crate) fn take_reply(
        &mut self,
        xid: Xid,
        error: ErrorCode,
    ) -> Result<PendingRequest<P>, ProtocolError> {
        let expected = match self.requests.front() {
            Some(front) if self.sent > 0 => front.xid,
            _ => return Err(ProtocolError::Unasked(xid)),
        };
        let request = if expected == xid {
            self.requests.pop_front()
        } else if xid == Xid::AUTH || OVERTAKING.contains(&error) {
            let mut sent = self.requests.iter().take(self.sent);
            let position = sent.position(|request| request.xid == xid);
            position.and_then(|index| self.requests.remove(index))
        } else {
            None
        };
        let request = request.ok_or(ProtocolError::WrongXid { expected, got: xid })?;
        self.sent -= 1;
        Ok(request)
    }

    /// The connection is gone: gives up the requests that were sent and keeps the others.
    pub(crate) fn take_sent(&mut self) -> impl Iterator<Item = PendingRequest<P>> + use<P> {
        let kept = self.requests.split_off(self.sent);
        self.sent = 0;
        std::mem::replace(&mut self.requests, kept).into_iter()
    }

    /// Gives up the session's own requests that were not sent: they are queued anew on the next
    /// connection.
    pub(crate) fn take_urgent(&mut self) -> impl Iterator<Item = PendingRequest<P>> + use<P> {
        let behind = self.requests.split_off(self.sent + self.urgent);
        let urgent = self.requests.split_off(self.sent);
        self.requests.extend(behind);
        self.urgent = 0;
        self.urgent_bytes.clear();
        urgent.into_iter()
    }

    /// Gives up all requests, each with whether it was sent.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (bool, PendingRequest<P>)> + use<P> {
        let sent = std::mem::take(&mut self.sent);
        self.urgent = 0;
        self.urgent_bytes.clear();
        self.bytes.clear();
        let requests = std::mem::take(&mut self.requests).into_iter();
        requests.enumerate().map(move |(index, request)| (index < sent, request))
    }
}

/// How many send times of pings are kept. A client sends up to fifteen pings in each session
/// timeout, and hangs up after two thirds of silence: only a server that answers everything else
/// can owe more replies than this.
const MAX_PING_TIMES: usize = 12;

/// The pings of one connection that have no reply.
///
/// They are answered in order but are not in the pipeline, so this is all that is known about them.
/// The size is bounded: with many in flight, some count as sent when an older one was.
#[derive(Debug, Default)]
pub(crate) struct Pings {
    waiting: u32,
    /// When some were sent, and how many, oldest first.
    sent: VecDeque<(Instant, u32)>,
}

impl Pings {
    /// A ping waits to be sent.
    pub(crate) fn queued(&mut self) {
        self.waiting += 1;
    }

    /// All pings that waited are sent. Returns how many.
    pub(crate) fn sent(&mut self, now: Instant) -> u32 {
        let count = std::mem::take(&mut self.waiting);
        let full = self.sent.len() == MAX_PING_TIMES;
        match self.sent.back_mut() {
            _ if count == 0 => {}
            Some((_, with)) if full => *with += count,
            _ => self.sent.push_back((now, count)),
        }
        count
    }

    /// A ping was answered. Returns the earliest time at which the oldest ping may have been sent,
    /// if it was sent. `None` if there is no ping.
    pub(crate) fn answered(&mut self) -> Option<Option<Instant>> {
        let Some((at, count)) = self.sent.front_mut() else {
            self.waiting = self.waiting.checked_sub(1)?;
            return Some(None);
        };
        let at = *at;
        *count -= 1;
        if *count == 0 {
            self.sent.pop_front();
        }
        Some(Some(at))
    }

    /// When the oldest ping was sent.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.sent.front().map(|(at, _)| *at)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zk_proto::SyncRequest;

    use super::*;

    #[test]
    fn numbers_start_again_at_one() {
        let mut pipeline = Pipeline::new(Limits::default());
        pipeline.next = Xid(i32::MAX - 1);
        for purpose in 0..3 {
            let sync = SyncRequest { path: "/".into() };
            pipeline.push(Priority::Normal, OpCode::SYNC, &sync, purpose).unwrap();
        }
        let xids = pipeline.requests.iter().map(|request| request.xid.0).collect::<Vec<_>>();
        assert_eq!(xids, [i32::MAX - 1, i32::MAX, 1]);
    }

    /// Whichever requests are withdrawn, the frames of the others are sent, in order.
    #[test]
    fn what_is_withdrawn_leaves_the_others_as_they_are() {
        for taken in 0..1_u32 << 5 {
            let mut pipeline = Pipeline::new(Limits::default());
            let path = |n: u32| format!("/{}", "x".repeat(n as usize));
            let push = |pipeline: &mut Pipeline<u32>, priority, n| {
                let path = path(n);
                let sync = SyncRequest { path: path.as_str().into() };
                pipeline.push(priority, OpCode::SYNC, &sync, n).unwrap()
            };
            push(&mut pipeline, Priority::Urgent, 9);
            let ids = (0..5).map(|n| push(&mut pipeline, Priority::Normal, n)).collect::<Vec<_>>();
            for (n, id) in (0..).zip(&ids) {
                if taken >> n & 1 == 1 {
                    assert!(pipeline.withdraw(*id, |_| false).is_none());
                    assert_eq!(pipeline.withdraw(*id, |_| true).unwrap().purpose, n);
                    assert!(pipeline.withdraw(*id, |_| true).is_none());
                }
            }
            let mut out = BytesMut::new();
            #[expect(clippy::disallowed_methods, reason = "there is no other way to an instant")]
            pipeline.transmit(Instant::now(), &mut out);
            let mut left = vec![9];
            left.extend((0..5).filter(|n| taken >> n & 1 == 0));
            for n in left {
                let frame = frame::split(&mut out, 1000).unwrap().unwrap();
                assert_eq!(frame.len(), HEADER_BYTES + 4 + path(n).len(), "{taken:b}: {n}");
            }
            assert!(out.is_empty());
            assert!(ids.iter().all(|id| pipeline.withdraw(*id, |_| true).is_none()), "sent");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
    fn many_pings_count_as_sent_no_later_than_they_were() {
        let start = Instant::now();
        let mut pings = Pings::default();
        for n in 0..1000 {
            pings.queued();
            pings.sent(start + Duration::from_secs(n));
        }
        assert_eq!(pings.sent.len(), MAX_PING_TIMES);
        for n in 0..1000 {
            let at = pings.answered().unwrap().unwrap();
            assert!(at <= start + Duration::from_secs(n), "ping {n}");
            assert!(n >= MAX_PING_TIMES as u64 || at == start + Duration::from_secs(n), "ping {n}");
        }
        assert_eq!(pings.answered(), None, "there are no more");
        pings.queued();
        assert_eq!(pings.answered(), Some(None), "answered before it was sent");
    }
}
