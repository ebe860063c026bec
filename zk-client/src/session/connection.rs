//! The connections of a session, one at a time: the attempt, the handshake, the frames and the
//! loss.
//!
//! Time, frames and the state of the transport come in here, and bytes go out.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tracing::{trace, warn};
use zk_proto::{
    CloseSessionRequest, DecodeError, Encode, OpCode, Operation, PingRequest, RequestHeader,
    Writer, Xid, frame,
};

use crate::config::SessionConfig;
use crate::error::{Ended, Failure, Hangup, ProtocolError};
use crate::model::event::SessionState;
use crate::session::event::Event;
use crate::session::handshake::{self, HandshakeResult};
use crate::session::lost_requests::{LostRequests, MAX_HANG_UPS};
use crate::session::pipeline::{PendingRequest, Priority};
use crate::session::requests::V3_5;
use crate::session::state::{Phase, Purpose, Session};
use crate::session::timers::{self, Timer};
use crate::trace;

/// The size in bytes from which on a single hang-up is a hint that a request was too large: on
/// smaller ones most are by chance.
const SUSPICIOUS: usize = frame::SERVER_FRAME_LIMIT / 10;

/// How long a close waits for the answer to the first handshake, so that the server need not keep
/// an empty session until it expires.
const CLOSE_NEW: Duration = Duration::from_secs(1);

/// The inputs from the transport and the clock, and the bytes to send.
impl<T, W, S: Clone> Session<T, W, S> {
    /// An attempt to connect to a server begins.
    pub fn handle_connecting(&mut self, now: Instant) {
        if self.phase == Phase::Idle {
            self.totals.attempts += 1;
            self.timers.set(Timer::Attempt, now + self.attempt_timeout());
        }
    }

    /// The transport is up.
    pub fn handle_connected(&mut self, now: Instant) {
        if self.phase != Phase::Idle {
            return;
        }
        if self.config.sasl.is_some() && self.exchange.is_none() {
            return self.hang_up(Hangup::Sasl);
        }
        self.phase = Phase::Handshake;
        self.leases.shaking_hands(now);
        let wanted = self.config.timeout;
        let request =
            handshake::request(self.identity, wanted, self.last_zxid, self.config.allow_read_only);
        self.control.clear();
        self.put_control(|writer| request.encode(writer));
    }

    /// A whole frame was received.
    #[inline]
    pub fn handle_frame(&mut self, now: Instant, frame: Bytes) {
        self.receive(now, frame.len(), |session| match session.phase {
            Phase::Handshake => session.handle_handshake(now, &frame),
            Phase::Authenticating { xid, read_only } => {
                session.timers.received(now, session.timeout);
                session.handle_token(now, &frame, xid, read_only)
            }
            Phase::Established => {
                session.timers.received(now, session.timeout);
                session.handle_reply(now, frame)
            }
            Phase::Idle | Phase::Broken | Phase::Over(_) => Ok(()),
        });
    }

    /// Like [`handle_frame`](Self::handle_frame), for a frame that begins as an
    /// [event](zk_proto::Xid::NOTIFICATION) does. Nothing of it is kept, so it need not have memory
    /// of its own.
    pub(crate) fn handle_event(&mut self, now: Instant, frame: &[u8]) {
        if self.phase != Phase::Established {
            return self.handle_frame(now, Bytes::copy_from_slice(frame));
        }
        self.receive(now, frame.len(), |session| {
            session.timers.received(now, session.timeout);
            session.handle_notification(frame)
        });
    }

    /// The first bytes of a frame that is longer than the limit were received.
    ///
    /// The frame is `len` bytes long, above [`Limits::max_reply`](crate::Limits::max_reply). `head`
    /// is its first [`HEAD_BYTES`], or all of it if it is shorter. The reader of the stream
    /// discards the rest as it comes, and reports it by [`handle_part`](Self::handle_part).
    ///
    /// If the frame is a reply, its request fails with
    /// [`ReplyTooLarge`](crate::Failure::ReplyTooLarge), and that is all. The session looks for a
    /// node that the request may have created for an owner.
    ///
    /// [`HEAD_BYTES`]: crate::session::HEAD_BYTES
    pub fn handle_oversized(&mut self, now: Instant, head: &[u8], len: usize) {
        let limit = self.config.limits.max_reply;
        self.receive(now, head.len(), |session| match session.phase {
            Phase::Handshake | Phase::Authenticating { .. } => {
                Err(DecodeError::FrameTooLong { len, limit }.into())
            }
            Phase::Established => {
                session.timers.received(now, session.timeout);
                session.handle_head(now, head, len)
            }
            Phase::Idle | Phase::Broken | Phase::Over(_) => Ok(()),
        });
    }

    /// Bytes were received that complete no frame.
    ///
    /// They show that the connection lives, as long as at least 1,024 bytes come in each second on
    /// average. They are never evidence that the ensemble keeps the session: a lease needs replies.
    pub fn handle_part(&mut self, now: Instant, bytes: usize) {
        if self.phase == Phase::Established && bytes > 0 {
            self.timers.received_part(now, self.timeout, bytes);
        }
    }

    /// Ends this connection without losing replies, to go on at another server. Nothing happens
    /// where the session would [end](crate::Dialect::ends_sessions) with it.
    ///
    /// No more requests are sent. When all that were sent are answered, or after a third of the
    /// session timeout, the session hangs up and gives `why` as the reason.
    ///
    /// An attempt that has no transport yet is given up at once. A session that is closing stays.
    pub fn leave(&mut self, now: Instant, why: Hangup) {
        match self.phase {
            Phase::Idle => self.hang_up(why),
            _ if self.config.dialect.ends_sessions() && self.identity.is_some() => {}
            Phase::Handshake | Phase::Authenticating { .. } | Phase::Established
                if !self.closing && self.leaving.is_none() =>
            {
                self.leaving = Some(why);
                self.timers.set(Timer::Leave, now + self.timeout / 3);
                self.leave_if_done();
            }
            _ => {}
        }
    }

    /// Sets the number of servers, which share the time for attempts.
    ///
    /// The shares are those of [`SessionConfig::new`].
    pub fn set_server_count(&mut self, servers: usize) {
        self.config.attempt_timeout = SessionConfig::share(self.config.timeout, servers);
    }

    /// The transport is gone, or could not be opened.
    pub fn handle_disconnected(&mut self, now: Instant) {
        if self.ended().is_some() {
            return;
        }
        self.expire_leases(now);
        self.hang_up(Hangup::Eof);
        self.events.retain(|event| !matches!(event, Event::Hangup(_)));
        self.phase = Phase::Idle;
        let why = self.last_hangup;
        self.control.clear();
        self.exchange = None;
        self.pings.clear();
        self.leases.disconnected();
        self.leaving = None;
        let mut close_lost = false;
        let sent = self.pipeline.take_sent().collect::<Vec<_>>();
        let urgent = self.pipeline.take_urgent();
        let blamed = match why {
            Hangup::Eof | Hangup::Io(_) => self.refused_by_hang_up(now, &sent),
            _ => None,
        };
        let counts = &self.totals.requests;
        let has_rearmed = counts.iter().any(|one| is_rearm(one.op) && one.succeeded > 0);
        if self.rearming > 0 && !has_rearmed {
            self.rearms_lost += 1;
        }
        self.rearming = 0;
        let over = self.has_ended_with_connection();
        let lost = |sent| match over {
            Some(ended) => Failure::Ended { sent, ended },
            None => Failure::ConnectionLoss { sent, why },
        };
        for (index, request) in sent.into_iter().enumerate() {
            self.totals.count(request.op, |counts| counts.unanswered += 1);
            close_lost |= matches!(request.purpose, Purpose::Close);
            let failure = match blamed {
                Some((blamed, losses)) if blamed == index => {
                    hung_up(request.size(), losses, why).unwrap_or_else(|| lost(true))
                }
                _ => lost(true),
            };
            if let Failure::NeverAnswered { .. } = failure {
                match request.is_of_caller() {
                    true => self.given_up = Some((request.op, failure)),
                    false => self.note_unsupported(request.op),
                }
            }
            self.fail_request(request, failure);
        }
        // The session's own requests that were not sent are queued anew.
        for request in urgent {
            self.fail_request(request, lost(false));
        }
        if let Some(ended) = over {
            return self.end(ended);
        }
        self.do_housekeeping(Priority::Normal);
        if self.closing && self.identity.is_none() {
            return self.end(Ended::Closed);
        }
        if close_lost && self.queue(&CloseSessionRequest, Purpose::Close).is_err() {
            return self.end(Ended::Closed);
        }
        if self.state.is_connected() {
            self.report_state(SessionState::Disconnected);
        }
        self.detach_if_done();
        self.update_lease_timers(now);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.expire_leases(now);
        if self.closing && self.ended().is_none() && !self.timers.is_set(Timer::Close) {
            // A session that no server has given yet leaves nothing behind, at most an empty one.
            let is_new = self.phase == Phase::Handshake && self.identity.is_none();
            let patience = if is_new { self.timeout.min(CLOSE_NEW) } else { self.timeout };
            self.timers.set(Timer::Close, now + patience);
        }
        while let Some(timer) = self.timers.take_due(now) {
            trace!(target: trace::SESSION, ?timer, "due");
            match timer {
                Timer::Attempt => {
                    let time = self.attempt_timeout();
                    self.hang_up(match self.is_shaking_hands() {
                        true => Hangup::Unanswered(time),
                        false => Hangup::AttemptTimedOut(time),
                    });
                }
                Timer::Ping => self.queue_ping(now),
                Timer::Silence => self.hang_up(Hangup::Silence(timers::silence(self.timeout))),
                Timer::Expiry => self.end(Ended::Expired),
                Timer::Close => self.end(Ended::Closed),
                Timer::Leave => self.leaving.into_iter().for_each(|why| self.hang_up(why)),
                Timer::SearchLostNodes => {
                    self.owned_nodes.search_again();
                    self.do_housekeeping(Priority::Normal);
                    if self.owned_nodes.has_uncertain() {
                        self.schedule_search(now);
                    }
                }
                Timer::RepeatDeletes => {
                    // At the end of its use the session only waits for what is on its way.
                    if !self.closing {
                        self.owned_nodes.repeat_refused();
                        self.do_housekeeping(Priority::Normal);
                        self.schedule_deletes(now);
                    }
                }
                // `update_lease_timers` handles these below.
                Timer::Probe | Timer::LeaseAtRisk | Timer::Lapse => {}
            }
        }
        self.update_lease_timers(now);
    }

    /// Appends the bytes to send to `out`, and returns true if there were any.
    ///
    /// From then on they count as sent: a request among them that gets no reply has an unknown
    /// outcome. So call this when the transport is ready to take bytes, and not before.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut BytesMut) -> bool {
        if self.control.is_empty() && self.pipeline.lengths().1 == 0 {
            return false;
        }
        let before = out.len();
        out.extend_from_slice(&self.control);
        self.control.clear();
        let mut frames = usize::from(out.len() > before);
        if self.phase == Phase::Handshake && out.len() > before {
            self.leases.shaking_hands(now);
        }
        if self.phase == Phase::Established {
            let pings = self.pings.sent(now);
            frames = pings as usize;
            let mut keeps = out.len() > before;
            if self.leaving.is_none() {
                self.leases.sent(now);
                // An auth request does not keep the session alive: servers answer it without
                // touching the session.
                keeps |= self.pipeline.waiting().any(|op| op != OpCode::AUTH);
                frames += self.pipeline.transmit(now, out);
            }
            if keeps {
                self.timers.sent(now, self.timeout);
            }
            self.totals.pings_sent += u64::from(pings);
            self.update_lease_timers(now);
        }
        self.totals.frames_sent += frames as u64;
        self.totals.bytes_sent += (out.len() - before) as u64;
        out.len() > before
    }
}

impl<T, W, S: Clone> Session<T, W, S> {
    /// Receives `len` bytes of a frame, which `handle` interprets.
    #[inline]
    fn receive(
        &mut self,
        now: Instant,
        len: usize,
        handle: impl FnOnce(&mut Self) -> Result<(), ProtocolError>,
    ) {
        self.expire_leases(now);
        self.totals.frames_received += 1;
        self.totals.bytes_received += (frame::PREFIX + len) as u64;
        if let Err(error) = handle(self) {
            self.hang_up(error.into());
        }
        self.update_lease_timers(now);
    }

    /// How the session has ended, if it ends with its connections.
    fn has_ended_with_connection(&self) -> Option<Ended> {
        let ended = if self.closing { Ended::Closed } else { Ended::Expired };
        (self.config.dialect.ends_sessions() && self.identity.is_some()).then_some(ended)
    }

    /// The server has hung up. Which of the requests that were sent, if any, may it have refused by
    /// that? Returns its index, and how many connections in a row it has ended.
    fn refused_by_hang_up(
        &mut self,
        now: Instant,
        sent: &[PendingRequest<Purpose<T>>],
    ) -> Option<(usize, u32)> {
        let patience = self.timeout / 3;
        // A server hangs up on such a request at once. One that has lost its quorum does so later.
        let is_recent = |request: &PendingRequest<_>| {
            request.sent_at.is_some_and(|at| now.saturating_duration_since(at) < patience)
        };
        let recent = sent.iter().enumerate().filter(|(_, request)| is_recent(request));
        // Servers read requests in order, so the first one that they do not know is why.
        let unknown = recent.clone().find(|(_, it)| self.may_be_unknown(it.op));
        let times = self.lost_requests.ended_on(unknown.map(|(_, request)| request.op));
        if let Some((index, _)) = unknown {
            return Some((index, times));
        }
        self.lost_requests.lost(recent.filter_map(|(index, it)| Some((index, it.large_kind()?))))
    }

    /// True for an operation that not all servers know, and that none has answered yet.
    fn may_be_unknown(&self, op: OpCode) -> bool {
        op.info().is_some_and(|info| info.since >= V3_5)
            && !self.lost_requests.was_answered(op)
            && !self.answered_ops().any(|answered| answered == op)
    }

    fn answered_ops(&self) -> impl Iterator<Item = OpCode> {
        let counts = self.totals.requests.iter();
        counts.filter(|counts| counts.succeeded + counts.refused > 0).map(|counts| counts.op)
    }

    /// On which requests servers have hung up, for the next session.
    pub(crate) fn losses(&self) -> LostRequests {
        let mut losses = self.lost_requests.clone();
        losses.note_answered(self.answered_ops());
        losses
    }

    /// Begins with what an earlier session has counted.
    pub(crate) fn inherit(&mut self, losses: LostRequests) {
        self.lost_requests = losses;
    }

    /// The request that is not to be repeated, since the last connection was the third in a row
    /// that has ended on it.
    pub(crate) fn given_up(&self) -> Option<(OpCode, Failure)> {
        self.given_up
    }

    fn handle_handshake(&mut self, now: Instant, frame: &[u8]) -> Result<(), ProtocolError> {
        match handshake::judge(self.identity, frame)? {
            // A server answers so if the session was closed and the reply to that was lost.
            HandshakeResult::Expired if self.is_closing() => self.end(Ended::Closed),
            HandshakeResult::Expired => self.end(Ended::Expired),
            HandshakeResult::Established { session, timeout, read_only } => {
                // No other server knows the session that a read-only server gives, so it cannot be
                // resumed. Nothing is lost with it, since it cannot own anything.
                if !read_only {
                    self.identity = Some(session);
                }
                self.timeout = timeout;
                self.first_connected.get_or_insert(now);
                self.connected = Some(now);
                self.totals.connections += 1;
                // A close has the whole session timeout from here on.
                self.timers.stop(Timer::Close);
                self.timers.received(now, self.timeout);
                if !read_only {
                    self.leases.established(now, timeout);
                }
                self.authenticate(now, read_only);
            }
        }
        Ok(())
    }

    /// Begins to serve the requests that wait.
    pub(super) fn serve(&mut self, now: Instant, read_only: bool) {
        self.phase = Phase::Established;
        self.given_up = None;
        self.timers.stop(Timer::Attempt);
        self.timers.sent(now, self.timeout);
        self.reattach();
        self.report_state(match read_only {
            true => SessionState::ConnectedReadOnly,
            false => SessionState::Connected,
        });
        self.leave_if_done();
    }

    /// Ends this side of the session if it is to be detached and waits for nothing.
    #[inline]
    pub(super) fn detach_if_done(&mut self) {
        let is_busy =
            || self.pipeline.len() > 0 || self.owned_nodes.is_busy() || self.auths.is_busy();
        if self.detaching && !is_busy() && self.ended().is_none() {
            self.end(Ended::Closed);
        }
    }

    /// Hangs up if the session is to leave this server and no request is in flight.
    pub(super) fn leave_if_done(&mut self) {
        if let Some(why) = self.leaving
            && self.phase == Phase::Established
            && self.pipeline.in_flight() == 0
        {
            self.hang_up(why);
        }
    }

    /// Stays at this server.
    pub(super) fn stay(&mut self) {
        self.leaving = None;
        self.timers.stop(Timer::Leave);
    }

    /// How long an attempt may take. This is scaled as the server has scaled the session timeout,
    /// so that all servers can be tried before the session is over.
    pub(super) fn attempt_timeout(&self) -> Duration {
        let SessionConfig { timeout: wanted, attempt_timeout, .. } = self.config;
        let millis = |duration: Duration| duration.as_millis().max(1);
        let scaled = millis(attempt_timeout) * millis(self.timeout) / millis(wanted);
        let scaled = Duration::from_millis(u64::try_from(scaled).unwrap_or(u64::MAX));
        scaled.max(SessionConfig::MIN_ATTEMPT_TIMEOUT)
    }

    /// Queues a ping ahead of all requests, and sets the timer of the next one.
    fn queue_ping(&mut self, now: Instant) {
        self.put_control(|writer| {
            let ping = PingRequest;
            RequestHeader { xid: Xid::PING, op: ping.op() }.encode(writer);
        });
        self.pings.queued();
        self.timers.sent(now, self.timeout);
    }

    /// Queues a frame that is not in the pipeline, such as the handshake or a ping. The limits
    /// of requests do not apply to it.
    pub(super) fn put_control(&mut self, body: impl FnOnce(&mut Writer<'_>)) {
        if let Err(error) = frame::encode(&mut self.control, frame::SERVER_FRAME_LIMIT, body) {
            warn!(target: trace::CONNECTION, %error, "a control frame does not encode");
        }
    }
}

/// True for a request that arms watches again.
fn is_rearm(op: OpCode) -> bool {
    [OpCode::SET_WATCHES, OpCode::SET_WATCHES2].contains(&op)
}

/// How a request fails on which a server has hung up for the `losses`th time in a row, if that is
/// told.
fn hung_up(size: usize, losses: u32, why: Hangup) -> Option<Failure> {
    match losses {
        MAX_HANG_UPS.. => Some(Failure::NeverAnswered { size, losses, why }),
        _ if size >= SUSPICIOUS => {
            Some(Failure::ConnectionLoss { sent: true, why: Hangup::OnRequest { size } })
        }
        _ => None,
    }
}
