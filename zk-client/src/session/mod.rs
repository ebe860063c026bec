//! One ZooKeeper session, without a socket, a clock or a runtime.
//!
//! [`Session`] is the protocol as a state machine: frames, time and requests go in; bytes to send,
//! events and the next deadline come out. The driver of this crate runs it on tokio; tests,
//! fuzzers and simulations run it by hand, and so may you on another runtime.
//!
//! The file is long because this is one machine: what is asked, what happens and what is to be done
//! share its fields. What can be decided apart (deadlines, the queue of requests, the handshake,
//! watches, claims, leases) is decided in the modules below, none of which knows this one.

mod timers;

mod pipeline;

mod pings;

mod deadline;

mod handshake;

mod watches;

mod event;

mod claims;

mod lease;

mod keeper;

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tracing::{debug, trace, warn};
use zk_proto::{
    AddWatchRequest, CheckVersionRequest, CloseSessionRequest, CreateRequest, Decode, Encode,
    ErrorCode, EventType, KeeperState, MultiOp, MultiRequest, Operation, PingRequest, Reader,
    ReplyHeader, RequestHeader, WatcherEvent, Writer, Xid, Zxid, frame,
};

use crate::config::{SessionConfig, SessionCredentials};
use crate::error::{Ended, Failure, Hangup, ProtocolError, Rejected};
use crate::event::{SessionState, StreamEvent, WatchMode, WatchedEvent};

pub use self::claims::ClaimId;
use self::claims::{Claims, Effect, Question};
pub use self::event::{Answer, Event, Watch};
use self::handshake::Verdict;
use self::keeper::{Connection, Keeper, Tended};
pub use self::lease::{Lapse, LeaseId, LeaseState};
use self::pings::Pings;
use self::pipeline::{Pipeline, Slot, Turn};
use self::timers::{Timer, Timers};
pub use self::watches::oneshots::{WatchId, WatchKind};
use self::watches::{Chore, Returned, Wanted, Watches};

/// A session with one ensemble, over one connection at a time.
///
/// `T` is what the caller wants back with a reply, `W` with a watch event and `S`, again and again,
/// with the events of a stream: a channel in the driver, a number in tests.
///
/// # Calling order
///
/// For every connection: [`handle_connecting`](Self::handle_connecting), then
/// [`handle_connected`](Self::handle_connected) once the transport is up, any number of
/// [`handle_frame`](Self::handle_frame), and [`handle_disconnected`](Self::handle_disconnected)
/// when it is gone or could not be made; [`hang_up`](Self::hang_up) before that says why.
/// [`handle_timeout`](Self::handle_timeout) at any time: early or spurious calls do nothing.
/// Requests at any time, in the order they shall have on the wire. After each of them:
/// [`poll_event`](Self::poll_event) until it is empty, [`poll_transmit`](Self::poll_transmit) if
/// the transport has room, and [`poll_timeout`](Self::poll_timeout) for the next deadline.
pub struct Session<T, W, S = W> {
    config: SessionConfig,
    phase: Phase,
    /// As the server settled it, or as it was asked for.
    timeout: Duration,
    credentials: Option<SessionCredentials>,
    last_zxid: Zxid,
    pipeline: Pipeline<Purpose<T>>,
    watches: Watches<W, S>,
    claims: Claims<T>,
    timers: Timers,
    /// Handshake and pings: what goes out ahead of the pipeline and is in no slot of it.
    control: BytesMut,
    pings: Pings,
    keeper: Keeper,
    /// setWatches requests without a reply: until the last is answered, events tell of the past.
    rearming: u32,
    closing: bool,
    /// Closing on this side alone: the session shall live on without us.
    detaching: bool,
    /// The last state that was told.
    state: SessionState,
    last_hangup: Hangup,
    events: VecDeque<Event<T, W, S>>,
}

/// Where the connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is none.
    Idle,
    /// The connect request is on its way.
    Handshake,
    /// Serving.
    Established,
    /// It broke the protocol or died; nothing it says counts any more.
    Broken,
    /// The session is over.
    Over(Ended),
}

/// Why a request was made.
#[derive(Debug)]
enum Purpose<T> {
    Call {
        token: T,
        watch: Option<WatchId>,
    },
    Create(ClaimId),
    /// Creates with their places in the multi.
    Multi(Vec<(usize, ClaimId)>),
    Question(Question),
    Rearm,
    Chore(Chore),
    /// The session's own, to learn whether a quorum is there.
    Probe,
    Close,
}

impl<T, W, S: Clone> Session<T, W, S> {
    /// A session that has yet to meet its first server.
    pub fn new(config: SessionConfig) -> Self {
        Self {
            phase: Phase::Idle,
            timeout: config.timeout,
            credentials: config.resume,
            last_zxid: Zxid::default(),
            pipeline: Pipeline::new(config.limits),
            watches: Watches::new(),
            claims: Claims::new(),
            timers: Timers::default(),
            control: BytesMut::new(),
            pings: Pings::default(),
            keeper: Keeper::new(config.deadline_rule, config.timeout),
            rearming: 0,
            closing: false,
            detaching: false,
            state: SessionState::Connecting,
            last_hangup: Hangup::Eof,
            events: VecDeque::new(),
            config,
        }
    }

    /// The session's id and password, once a server has given them.
    pub fn credentials(&self) -> Option<SessionCredentials> {
        self.credentials
    }

    /// The session timeout: the server's after the first handshake, the wanted one before.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The highest transaction that a reply has told of.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// Where the session stands, as it was last told.
    pub fn state(&self) -> SessionState {
        self.state
    }

    /// How the session ended, if it did.
    pub fn ended(&self) -> Option<Ended> {
        match self.phase {
            Phase::Over(ended) => Some(ended),
            _ => None,
        }
    }

    /// Requests without an answer, watches and streams that are set, and nodes that are owned.
    pub fn load(&self) -> (usize, usize, usize) {
        (self.pipeline.len(), self.watches.len(), self.claims.len())
    }

    // Requests. They are queued whatever the connection does, and sent as soon as it can.

    /// Queues a request. Its answer comes as [`Event::Completed`].
    pub fn submit(&mut self, request: &impl Operation, token: T) -> Result<(), Rejected> {
        self.accept()?;
        self.queue(request, Purpose::Call { token, watch: None })
    }

    /// Queues a request that sets a watch.
    pub fn submit_watching(
        &mut self,
        request: &impl Operation,
        token: T,
        watch: Watch<W>,
    ) -> Result<WatchId, Rejected> {
        self.accept()?;
        let id = self.watches.next_id();
        self.queue(request, Purpose::Call { token, watch: Some(id) })?;
        let Watch { kind, path, watcher } = watch;
        self.watches.asked(id, path, Wanted::Once(kind, Some(watcher)));
        Ok(id)
    }

    /// Queues an addWatch. `stream` comes with every event of the path and, if the mode is
    /// recursive, of everything below it, from the reply on and until it is
    /// [forgotten](Self::unwatch).
    ///
    /// Servers before 3.6 refuse with `Unimplemented`, and hang up.
    pub fn submit_stream(
        &mut self,
        path: &str,
        mode: WatchMode,
        token: T,
        stream: S,
    ) -> Result<WatchId, Rejected> {
        self.accept()?;
        let id = self.watches.next_id();
        let request = AddWatchRequest { path, mode: mode.into() };
        self.queue(&request, Purpose::Call { token, watch: Some(id) })?;
        self.watches.asked(id, path.to_owned(), Wanted::Stream(mode, Some(stream)));
        Ok(id)
    }

    /// Queues the create of an ephemeral node that must not be forgotten.
    ///
    /// The request's path must be unique for ever up to the digits that the server appends. If the
    /// connection breaks before the reply, the session looks for the node after it is attached
    /// again and answers then: with the node, or with `ConnectionLoss` if there is none. The answer
    /// is a [`CreateResponse`](zk_proto::CreateResponse), and its zxid the node's czxid.
    pub fn submit_owned(
        &mut self,
        request: &CreateRequest<'_>,
        token: T,
    ) -> Result<ClaimId, Rejected> {
        self.accept()?;
        let claim = self.claims.open(request.path, token);
        let queued = self.queue(request, Purpose::Create(claim));
        queued.inspect_err(|_| drop(self.claims.withdraw(claim)))?;
        Ok(claim)
    }

    /// Queues a multi, some of whose operations create nodes that must not be forgotten.
    ///
    /// `owned` names each of them by its place in the multi and by its path up to the digits, with
    /// a token that is answered as by [`submit_owned`](Self::submit_owned); nothing else tells how
    /// the multi went. The claims come in the same order.
    pub fn submit_multi_owned<'p>(
        &mut self,
        request: &MultiRequest<'_>,
        owned: impl IntoIterator<Item = (usize, &'p str, T)>,
    ) -> Result<Vec<ClaimId>, Rejected> {
        self.accept()?;
        let open = |(place, stem, token)| (place, self.claims.open(stem, token));
        let owned = owned.into_iter().map(open).collect::<Vec<_>>();
        let claims = owned.iter().map(|(_, claim)| *claim).collect::<Vec<_>>();
        let queued = self.queue(request, Purpose::Multi(owned));
        queued.inspect_err(|_| claims.iter().for_each(|id| drop(self.claims.withdraw(*id))))?;
        Ok(claims)
    }

    /// Takes over a node that belongs to this session already. It is held from now on.
    pub fn adopt(&mut self, path: &str) -> Result<ClaimId, Rejected> {
        self.own()?;
        Ok(self.claims.adopt(path))
    }

    /// Ends the claim of a node that is held, and leaves the node alone.
    pub fn forget(&mut self, claim: ClaimId) {
        self.claims.forget(claim);
    }

    /// Lets go of a node: it is deleted now, or as soon as it is known to exist, and again on
    /// every connection until the server has answered.
    ///
    /// `releaser` hears the answer to the first delete, or `NoNode` at once if the node is not
    /// known to exist.
    pub fn release(&mut self, claim: ClaimId, releaser: Option<T>) -> Result<(), Rejected> {
        self.own()?;
        self.claims.release(claim, releaser);
        self.upkeep(Turn::Last);
        Ok(())
    }

    /// Forgets a watch or a stream. `path` is the one it was set with.
    ///
    /// The server is told once nobody waits at that path and nothing on its way sets a watch there.
    /// Servers before 3.5 answer that with `Unimplemented` and hang up; then it is not asked again.
    pub fn unwatch(&mut self, id: WatchId, path: &str) {
        let returned = self.watches.remove(id, path);
        self.give_back(returned);
        self.upkeep(Turn::Last);
    }

    /// Forgets a one-shot watch and lets the server find out by itself, for a node that is about
    /// to go: one event more will come, and be ignored. One whose request has no reply yet is
    /// [unwatched](Self::unwatch).
    pub fn forget_watch(&mut self, id: WatchId, path: &str) {
        let returned = self.watches.forget(id, path);
        self.give_back(returned);
        self.upkeep(Turn::Last);
    }

    /// Ends the session behind everything that is queued; later requests are refused.
    ///
    /// Gives up if nothing is answered for one session timeout, counted from the next
    /// [`handle_timeout`](Self::handle_timeout).
    pub fn close(&mut self) {
        if self.closing || self.ended().is_some() {
            return;
        }
        self.closing = true;
        self.end_leases(Ended::Closed);
        if self.phase == Phase::Idle && self.credentials.is_none() {
            return self.end(Ended::Closed);
        }
        let queued = self.queue(&CloseSessionRequest {}, Purpose::Close);
        if queued.is_err() {
            self.end(Ended::Closed);
        }
    }

    /// Ends the session on this side alone and at once: nobody will drive it any more.
    pub fn abandon(&mut self) {
        if self.ended().is_none() {
            self.end(Ended::Closed);
        }
    }

    /// Ends this side of the session once everything that is queued was answered; later requests
    /// and releases are refused. The server is not told, and nodes that are held stay.
    ///
    /// Gives up like [`close`](Self::close).
    pub fn detach(&mut self) {
        if self.closing || self.ended().is_some() {
            return;
        }
        self.closing = true;
        self.detaching = true;
        self.detach_if_done();
    }

    /// The session that was left alone by [`detach`](Self::detach), once that is done.
    pub fn detached(&self) -> Option<SessionCredentials> {
        let is_detached = self.detaching && self.ended() == Some(Ended::Closed);
        self.credentials.filter(|_| is_detached)
    }

    fn detach_if_done(&mut self) {
        let is_done = self.pipeline.len() == 0 && !self.claims.is_busy();
        if self.detaching && is_done && self.ended().is_none() {
            self.end(Ended::Closed);
        }
    }

    /// Whether nodes may still be taken and let go.
    fn own(&self) -> Result<(), Ended> {
        match self.phase {
            Phase::Over(ended) => Err(ended),
            _ if self.detaching => Err(Ended::Closed),
            _ => Ok(()),
        }
    }

    // Leases: what somebody relies on while it holds a node.

    /// Begins to watch over a node that is owned: until the lease lapses or is closed, the session
    /// asks for a proof that it is kept, as often as the deadline rule needs one. When the lease
    /// lapses, the node is deleted as if it had been released. `term` is when it lapses at the
    /// latest. A change is told as [`Event::Leases`].
    ///
    /// A lease of a node that was released, or of which a lease has lapsed, has lapsed.
    pub fn open_lease(&mut self, now: Instant, claim: ClaimId, term: Option<Instant>) -> LeaseId {
        self.expire_leases(now);
        let connection = self.connection();
        let id = self.keeper.open(now, claim, term, connection);
        if !self.claims.holds(claim) {
            self.keeper.void(id);
        }
        if let Some(ended) = self.ended().or(self.closing.then_some(Ended::Closed)) {
            // Nobody waits for this one yet.
            self.keeper.end(ended);
        }
        self.expire_leases(now);
        self.tend_leases(now);
        id
    }

    /// Where a lease stands: the truth even if the session was not told of the time for long.
    pub fn lease_state(&self, now: Instant, id: LeaseId) -> LeaseState {
        self.keeper.state(now, id, self.connection())
    }

    /// Forgets a lease. Its node stays, unless the lease has lapsed.
    pub fn close_lease(&mut self, id: LeaseId) {
        self.keeper.close(id);
    }

    /// What has lapsed by now stays so, and its nodes go.
    fn expire_leases(&mut self, now: Instant) {
        for claim in self.keeper.expire(now, self.connection()) {
            self.claims.release(claim, None);
            self.upkeep(Turn::Last);
        }
    }

    /// Does what leases want done.
    fn tend_leases(&mut self, now: Instant) {
        let connection = self.connection();
        let Tended { probe, changed } = self.keeper.tend(now, connection, &mut self.timers);
        if probe {
            // Where "/" may not be read it is refused, which proves as much.
            let check = MultiOp::Check(CheckVersionRequest { path: "/", version: -1 });
            let multi = [check];
            let request = MultiRequest::new(&multi);
            let probe = self.pipeline.push(Turn::Urgent, request.op(), &request, Purpose::Probe);
            if let Err(error) = probe {
                warn!(%error, "leases get no proof");
            }
        }
        if changed {
            self.events.push_back(Event::Leases);
        }
    }

    fn end_leases(&mut self, ended: Ended) {
        if self.keeper.end(ended) {
            self.events.push_back(Event::Leases);
        }
    }

    fn connection(&self) -> Connection {
        Connection {
            up: self.phase == Phase::Established && self.state == SessionState::Connected,
            oldest: self.pipeline.oldest().into_iter().chain(self.pings.oldest()).min(),
            timeout: self.timeout,
        }
    }

    fn accept(&self) -> Result<(), Rejected> {
        match self.phase {
            Phase::Over(ended) => Err(ended.into()),
            _ if self.closing => Err(Ended::Closed.into()),
            _ => Ok(self.pipeline.room()?),
        }
    }

    fn queue(&mut self, request: &impl Operation, purpose: Purpose<T>) -> Result<(), Rejected> {
        trace!(op = %request.op(), "queued");
        Ok(self.pipeline.push(Turn::Last, request.op(), request, purpose)?)
    }

    /// Does what claims and watches want done; what claims ask takes this turn.
    fn upkeep(&mut self, turn: Turn) {
        while let Some(effect) = self.claims.poll_effect() {
            match effect {
                Effect::Complete(token, result) => self.complete(token, result),
                Effect::Ask(question) => self.ask(turn, question),
            }
        }
        while let Some(chore) = self.watches.poll_chore() {
            // Without a server this is void: the next connection begins with what is wanted.
            if self.phase == Phase::Established && !self.closing {
                let purpose = Purpose::Chore(chore.clone());
                if let Err(error) = self.pipeline.push(Turn::Last, chore.op(), &chore, purpose) {
                    // A path near the frame limit, which another request has carried.
                    warn!(%error, ?chore, "not asked");
                }
            }
        }
    }

    fn ask(&mut self, turn: Turn, question: Question) {
        let purpose = Purpose::Question(question.clone());
        if let Err(error) = self.pipeline.push(turn, question.op(), &question, purpose) {
            // It is small, so this is a path near the frame limit.
            warn!(%error, "a node may outlive its owner until the session ends");
            let failure = Failure::ConnectionLoss { sent: false, why: self.last_hangup };
            self.claims.unanswered(&question, failure);
        }
    }

    // What happened.

    /// An attempt at a server begins.
    pub fn handle_connecting(&mut self, now: Instant) {
        if self.phase == Phase::Idle {
            self.timers.set(Timer::Attempt, now + self.attempt_timeout());
        }
    }

    /// The transport is up.
    pub fn handle_connected(&mut self, now: Instant) {
        if self.phase != Phase::Idle {
            return;
        }
        self.phase = Phase::Handshake;
        self.keeper.shaking_hands(now);
        let wanted = self.config.timeout;
        let request = handshake::request(self.credentials, wanted, self.last_zxid);
        self.control.clear();
        self.put_control(|writer| request.encode(writer));
    }

    /// One whole frame came.
    pub fn handle_frame(&mut self, now: Instant, frame: Bytes) {
        self.expire_leases(now);
        let handled = match self.phase {
            Phase::Handshake => self.handle_handshake(now, &frame),
            Phase::Established => {
                self.timers.heard(now, self.timeout);
                self.handle_reply(now, frame)
            }
            Phase::Idle | Phase::Broken | Phase::Over(_) => Ok(()),
        };
        if let Err(error) = handled {
            self.hang_up(error.into());
        }
        self.tend_leases(now);
    }

    /// The transport broke, or its bytes are no frames. The first reason is the one that counts.
    pub fn hang_up(&mut self, why: Hangup) {
        if !matches!(self.phase, Phase::Over(_) | Phase::Broken) {
            self.phase = Phase::Broken;
            self.last_hangup = why;
            self.timers.hung_up();
            self.events.push_back(Event::Hangup(why));
        }
    }

    /// The transport is gone, or could not be made.
    pub fn handle_disconnected(&mut self, now: Instant) {
        if self.ended().is_some() {
            return;
        }
        self.expire_leases(now);
        self.hang_up(Hangup::Eof);
        self.events.retain(|event| !matches!(event, Event::Hangup(_)));
        self.phase = Phase::Idle;
        let why = self.last_hangup;
        debug!(%why, "disconnected");
        self.control.clear();
        self.pings.clear();
        self.keeper.disconnected();
        self.rearming = 0;
        let mut close_lost = false;
        let sent = self.pipeline.take_sent();
        let urgent = self.pipeline.take_urgent();
        for (sent, slot) in sent.map(|slot| (true, slot)).chain(urgent.map(|slot| (false, slot))) {
            close_lost |= matches!(slot.purpose, Purpose::Close);
            self.give_up(slot, Failure::ConnectionLoss { sent, why });
        }
        self.upkeep(Turn::Last);
        if self.closing && self.credentials.is_none() {
            return self.end(Ended::Closed);
        }
        if close_lost && self.queue(&CloseSessionRequest {}, Purpose::Close).is_err() {
            return self.end(Ended::Closed);
        }
        if self.state.is_connected() {
            self.tell(SessionState::Disconnected);
        }
        self.detach_if_done();
        self.tend_leases(now);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.expire_leases(now);
        if self.closing && self.ended().is_none() && !self.timers.is_set(Timer::Close) {
            self.timers.set(Timer::Close, now + self.timeout);
        }
        while let Some(timer) = self.timers.take_due(now) {
            trace!(?timer, "due");
            match timer {
                Timer::Attempt => {
                    self.hang_up(Hangup::AttemptTimedOut(self.attempt_timeout()));
                }
                Timer::Ping => {
                    self.put_control(|writer| {
                        let ping = PingRequest {};
                        RequestHeader { xid: Xid::PING, op: ping.op() }.encode(writer);
                    });
                    self.pings.queued();
                    self.timers.sent(now, self.timeout);
                }
                Timer::Silence => self.hang_up(Hangup::Silence(timers::silence(self.timeout))),
                Timer::Expiry => self.end(Ended::Expired),
                Timer::Close => self.end(Ended::Closed),
                // Tended below.
                Timer::Probe | Timer::Suspend | Timer::Lapse => {}
            }
        }
        self.tend_leases(now);
    }

    // What to do.

    /// Appends what is to be sent to `out` and says whether there was anything.
    ///
    /// From then on it counts as sent: a request in it that gets no answer has an unknown outcome.
    /// So call this when the transport is ready to take bytes, and not before.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut BytesMut) -> bool {
        let before = out.len();
        out.extend_from_slice(&self.control);
        self.control.clear();
        if self.phase == Phase::Handshake && out.len() > before {
            self.keeper.shaking_hands(now);
        }
        if self.phase == Phase::Established {
            self.pings.sent(now);
            self.keeper.sent(now, self.pipeline.waiting());
            self.pipeline.transmit(now, out);
            self.tend_leases(now);
            if out.len() > before {
                self.timers.sent(now, self.timeout);
            }
        }
        out.len() > before
    }

    /// The next thing that the session has to say.
    pub fn poll_event(&mut self) -> Option<Event<T, W, S>> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    // How it is done.

    /// Scaled like the session timeout was by the server, so that all servers can be tried before
    /// the session is over.
    fn attempt_timeout(&self) -> Duration {
        let SessionConfig { timeout: wanted, attempt_timeout, .. } = self.config;
        let millis = |duration: Duration| duration.as_millis().max(1);
        let scaled = millis(attempt_timeout) * millis(self.timeout) / millis(wanted);
        let scaled = Duration::from_millis(u64::try_from(scaled).unwrap_or(u64::MAX));
        scaled.max(SessionConfig::MIN_ATTEMPT_TIMEOUT)
    }

    /// Handshake and pings have no slot and no limit to run into.
    fn put_control(&mut self, body: impl FnOnce(&mut Writer<'_>)) {
        if let Err(error) = frame::encode(&mut self.control, frame::SERVER_FRAME_LIMIT, body) {
            warn!(%error, "a control frame does not encode");
        }
    }

    fn complete(&mut self, token: T, result: Result<Answer, Failure>) {
        self.events.push_back(Event::Completed { token, result });
    }

    fn tell(&mut self, state: SessionState) {
        self.state = state;
        self.events.push_back(Event::State(state));
    }

    fn handle_handshake(&mut self, now: Instant, frame: &[u8]) -> Result<(), ProtocolError> {
        match handshake::judge(self.credentials, frame)? {
            // A close whose answer was lost is answered like this.
            Verdict::Expired if self.closing && !self.detaching => self.end(Ended::Closed),
            Verdict::Expired => self.end(Ended::Expired),
            Verdict::Established { session, timeout, read_only } => {
                debug!(id = %session.id, ?timeout, read_only, "established");
                self.credentials = Some(session);
                self.timeout = timeout;
                self.phase = Phase::Established;
                self.timers.stop(Timer::Attempt);
                self.timers.sent(now, self.timeout);
                self.timers.heard(now, self.timeout);
                self.keeper.established(now, timeout);
                self.reattach();
                self.tell(match read_only {
                    true => SessionState::ConnectedReadOnly,
                    false => SessionState::Connected,
                });
            }
        }
        Ok(())
    }

    /// Queues what must precede every request of the callers': watches, lost creates, due deletes.
    fn reattach(&mut self) {
        let Self { config, watches, pipeline, rearming, last_zxid, .. } = self;
        watches.rearm(*last_zxid, config.limits.max_request, |rearm| {
            let pushed = pipeline.push(Turn::Urgent, rearm.op(), rearm, Purpose::Rearm);
            match pushed {
                Ok(()) => *rearming += 1,
                Err(error) => warn!(%error, "a watch with a path of this length is lost"),
            }
        });
        self.claims.attached();
        self.upkeep(Turn::Urgent);
    }

    fn handle_reply(&mut self, now: Instant, frame: Bytes) -> Result<(), ProtocolError> {
        let mut reader = Reader::new(&frame);
        let header = ReplyHeader::decode(&mut reader)?;
        match header.xid {
            Xid::NOTIFICATION => return self.handle_notification(header.zxid, reader),
            Xid::PING => {
                let sent = self.pings.answered().ok_or(ProtocolError::Unasked(Xid::PING))?;
                if let Some(sent) = sent {
                    self.keeper.ponged(sent);
                }
                return Ok(());
            }
            _ => {}
        }
        let slot = self.pipeline.take_reply(header.xid, header.error)?;
        if self.timers.is_set(Timer::Close) {
            // A server that works through what was asked before will come to the close.
            self.timers.set(Timer::Close, now + self.timeout);
        }
        trace!(xid = %header.xid, op = %slot.op, error = %header.error, "answered");
        self.last_zxid = self.last_zxid.max(header.zxid);
        let requested_at = slot.sent_at.unwrap_or(now);
        self.keeper.answered(requested_at, slot.op, header.error);
        let result = match header.error {
            ErrorCode::OK => {
                let body = frame.slice(frame.len() - reader.remaining()..);
                Ok(Answer { zxid: header.zxid, body, requested_at })
            }
            error => Err(Failure::Refused(error)),
        };
        self.conclude(slot, result)?;
        self.detach_if_done();
        Ok(())
    }

    /// Does what a request's answer asks for.
    fn conclude(
        &mut self,
        slot: Slot<Purpose<T>>,
        result: Result<Answer, Failure>,
    ) -> Result<(), ProtocolError> {
        let mut sense = Ok(());
        match slot.purpose {
            Purpose::Call { token, watch } => {
                if let Some(id) = watch {
                    let returned = self.watches.answered(id, code(&result));
                    self.give_back(returned);
                }
                self.complete(token, result);
            }
            Purpose::Create(claim) => sense = self.claims.create_answered(claim, result),
            Purpose::Multi(owned) => sense = self.claims.multi_answered(&owned, result),
            Purpose::Question(question) => {
                let own = self.credentials.map(|own| own.id);
                sense = self.claims.answered(question, result, own);
            }
            Purpose::Rearm => {
                self.rearming = self.rearming.saturating_sub(1);
                // Watches that are not armed would wait for ever: the next connection may do it.
                if let Err(Failure::Refused(code)) = result {
                    self.hang_up(Hangup::Rearm(code));
                } else if self.rearming == 0 {
                    let streams = self.watches.streams();
                    self.notice(streams, &StreamEvent::Rearmed);
                }
            }
            Purpose::Chore(chore) => self.conclude_chore(chore, &result),
            Purpose::Probe => {}
            Purpose::Close => self.end(Ended::Closed),
        }
        self.upkeep(Turn::Last);
        sense
    }

    fn conclude_chore(&mut self, chore: Chore, result: &Result<Answer, Failure>) {
        match (chore, code(result)) {
            (Chore::Restore(mode, path), Some(ErrorCode::OK)) => {
                let (watchers, streams) = self.watches.restored(mode, &path);
                let kind = EventType::NODE_CHILDREN_CHANGED;
                let event = WatchedEvent { kind, path, zxid: None, missed: true };
                for watcher in watchers {
                    self.events.push_back(Event::Watched { watcher, event: event.clone() });
                }
                self.notice(streams, &StreamEvent::Rearmed);
            }
            (Chore::Restore(..), Some(code)) => self.hang_up(Hangup::Rearm(code)),
            (Chore::Remove(_), Some(ErrorCode::UNIMPLEMENTED)) => self.watches.cannot_remove(),
            // There may be nothing left to remove: an event was faster.
            (Chore::Remove(_), _) | (Chore::Restore(..), None) => {}
        }
    }

    fn notice(&mut self, streams: Vec<S>, event: &StreamEvent) {
        let noticed = |stream| Event::Noticed { stream, event: event.clone() };
        self.events.extend(streams.into_iter().map(noticed));
    }

    /// Tells everybody who watches.
    fn watched(&mut self, event: WatchedEvent) {
        let (watchers, streams) = self.watches.see(event.kind, &event.path);
        for watcher in watchers {
            self.events.push_back(Event::Watched { watcher, event: event.clone() });
        }
        self.notice(streams, &StreamEvent::Changed(event));
    }

    fn give_back(&mut self, returned: Option<Returned<W, S>>) {
        self.events.extend(returned.map(Event::from));
    }

    fn handle_notification(
        &mut self,
        zxid: Zxid,
        mut reader: Reader<'_>,
    ) -> Result<(), ProtocolError> {
        let WatcherEvent { kind, state, path } = Decode::decode(&mut reader)?;
        if !(EventType::NODE_CREATED..=EventType::NODE_CHILDREN_CHANGED).contains(&kind) {
            return Err(ProtocolError::UnknownEvent(kind));
        }
        if state != KeeperState::SYNC_CONNECTED {
            return Err(ProtocolError::UnknownState(state));
        }
        trace!(%kind, path, "watch event");
        let event = WatchedEvent {
            kind,
            path: path.to_owned(),
            zxid: (zxid.0 > 0).then_some(zxid),
            missed: self.rearming > 0,
        };
        // Servers tell the zxid since 3.9, and since then no watch silences another.
        let silenced = match event.zxid {
            None => self.watches.silenced(kind, path),
            Some(_) => None,
        };
        let parent = silenced.map(|parent| WatchedEvent {
            kind: EventType::NODE_CHILDREN_CHANGED,
            path: parent.to_owned(),
            ..event
        });
        self.watched(event);
        if let Some(parent) = parent {
            self.watched(parent);
        }
        self.upkeep(Turn::Last);
        Ok(())
    }

    /// A request will get no answer.
    fn give_up(&mut self, slot: Slot<Purpose<T>>, failure: Failure) {
        match slot.purpose {
            Purpose::Create(claim) => self.give_up_create(claim, failure),
            Purpose::Multi(owned) => {
                owned.into_iter().for_each(|(_, claim)| self.give_up_create(claim, failure));
            }
            Purpose::Call { token, watch } => {
                self.complete(token, Err(failure));
                let returned = watch.and_then(|id| self.watches.answered(id, None));
                self.give_back(returned);
            }
            Purpose::Question(question) => self.claims.unanswered(&question, failure),
            Purpose::Rearm | Purpose::Chore(_) | Purpose::Probe | Purpose::Close => {}
        }
    }

    fn give_up_create(&mut self, claim: ClaimId, failure: Failure) {
        if let Some(creator) = self.claims.create_unanswered(claim, failure) {
            self.complete(creator, Err(failure));
        }
    }

    /// The session is over: everybody who waits hears it, and nothing is left.
    fn end(&mut self, ended: Ended) {
        debug!(%ended, "session over");
        let connected = matches!(self.phase, Phase::Handshake | Phase::Established);
        self.phase = Phase::Over(ended);
        for (sent, slot) in self.pipeline.take_all() {
            self.give_up(slot, Failure::Ended { sent, ended });
        }
        self.claims.end(Failure::Ended { sent: true, ended });
        self.end_leases(ended);
        self.upkeep(Turn::Last);
        let watchers = self.watches.take_all();
        self.events.extend(watchers.map(Event::from));
        self.timers.stop_all();
        self.control.clear();
        self.tell(ended.into());
        if connected {
            self.events.push_back(Event::Hangup(Hangup::Ended(ended)));
        }
    }
}

impl<T, W, S: Clone> fmt::Debug for Session<T, W, S> {
    /// Shows where it stands; what waits to be sent may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("state", &self.state)
            .field("id", &self.credentials.map(|own| own.id))
            .field("timeout", &self.timeout)
            .field("last_zxid", &self.last_zxid)
            .field("load", &self.load())
            .finish_non_exhaustive()
    }
}

/// What a server said, if it answered.
fn code(result: &Result<Answer, Failure>) -> Option<ErrorCode> {
    match result {
        Ok(_) => Some(ErrorCode::OK),
        Err(Failure::Refused(code)) => Some(*code),
        Err(_) => None,
    }
}
