//! Several servers with one store, without I/O: a leader, and followers that may be behind it.
//!
//! Each member is a whole server with a tree of its own. The leader carries out the writes of all
//! clients, and each follower applies the leader's transactions from a queue, in which they may
//! stay for a while. The replies to writes and syncs of its clients are in the same queue.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tracing::debug;
use zk_proto::{SessionId, Zxid};

use crate::config::Config;
use crate::connection::ConnectionId;
use crate::core::Core;
use crate::fault::Fault;
use crate::history::Commit;
use crate::manner::Manner;
use crate::seat::Seat;

/// How many ticks a member that is cut off goes on serving: `syncLimit` of the sample `zoo.cfg`.
const SYNC_LIMIT: u32 = 5;

/// The bits of a zxid below its epoch.
const EPOCH_SHIFT: u32 = 32;

/// An ensemble of ZooKeeper servers without I/O.
///
/// [`Ensemble`](crate::Ensemble) runs it on tokio and says what it does. It is called in the same
/// way as a [`Core`], and is deterministic too. Members are named by their index, from 0 on.
#[derive(Debug)]
pub struct EnsembleCore {
    pub(crate) start: Instant,
    pub(crate) give_up_after: Duration,
    /// When the members next tell the leader which sessions they have heard.
    pub(crate) next_report: Duration,
    /// How often they do: every half tick.
    pub(crate) report_interval: Duration,
    pub(crate) members: Vec<Seat>,
    pub(crate) leader: usize,
    pub(crate) epoch: i64,
    /// The member at which the client of a session is.
    pub(crate) owners: HashMap<SessionId, usize>,
    pub(crate) moved_writes: u64,
    /// Whether members without a quorum serve reads.
    pub(crate) read_only_mode: bool,
}

impl EnsembleCore {
    /// The most members of an ensemble.
    pub const MAX_MEMBERS: usize = 254;

    /// Creates an ensemble of empty servers, when the wall clock shows `wall` since 1970.
    ///
    /// There are `members` of them, at least one and at most [`MAX_MEMBERS`](Self::MAX_MEMBERS).
    /// The first member leads, in epoch 1.
    pub fn new(config: Config, members: usize, now: Instant, wall: Duration) -> Self {
        let members = (0..members.clamp(1, Self::MAX_MEMBERS)).map(|index| {
            let config = config.clone().manner(Manner::apache());
            let mut core = Core::new(config, now, wall);
            core.state.join(index as u8);
            Seat {
                core,
                lag: Duration::ZERO,
                queue: VecDeque::new(),
                call_lag: Duration::ZERO,
                calls: VecDeque::new(),
                is_cut: false,
                is_stopped: false,
                lost_since: None,
                is_stale: false,
            }
        });
        let mut ensemble = Self {
            start: now,
            next_report: Duration::ZERO,
            report_interval: (config.tick_time / 2).max(Duration::from_millis(1)),
            give_up_after: config.tick_time.saturating_mul(SYNC_LIMIT),
            members: members.collect(),
            leader: 0,
            epoch: 0,
            owners: HashMap::new(),
            moved_writes: 0,
            read_only_mode: false,
        };
        ensemble.elect(now, 0);
        ensemble
    }

    /// Returns how many members there are.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// Returns the index of the leader: the member that was elected last.
    pub fn leader(&self) -> usize {
        self.leader
    }

    /// Returns the server that is this member, to see its tree, its watches and its zxid.
    pub fn member(&self, member: usize) -> Option<&Core> {
        self.members.get(member).map(|seat| &seat.core)
    }

    // Input and output, as of a `Core`.

    /// Adds a connection to a member. One to a member that does not exist is to be closed at once.
    pub fn handle_connection(
        &mut self,
        now: Instant,
        member: usize,
        peer: SocketAddr,
    ) -> ConnectionId {
        match self.members.get_mut(member) {
            Some(seat) => seat.core.handle_connection(now, peer),
            None => ConnectionId::NOBODY,
        }
    }

    /// Handles bytes that a client has sent: see [`Core::handle_input`].
    pub fn handle_input(&mut self, now: Instant, id: ConnectionId, input: &mut BytesMut) {
        self.report(now);
        match self.members.get_mut(id.member()) {
            Some(seat) => seat.core.handle_input(now, id, input),
            None => input.clear(),
        }
        self.settle(now);
    }

    /// Removes a connection that is closed, by either side.
    pub fn handle_disconnected(&mut self, id: ConnectionId) {
        if let Some(seat) = self.members.get_mut(id.member()) {
            seat.core.handle_disconnected(id);
        }
    }

    /// Does everything that is due.
    ///
    /// Beside what a [`Core`] does, transactions are applied whose time has come, and members that
    /// were cut off for long enough give up.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.report(now);
        // What was heard until now counts before sessions end.
        self.settle(now);
        for seat in &mut self.members {
            seat.core.handle_timeout(now);
        }
        self.settle(now);
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = self.members.iter().enumerate().flat_map(|(index, seat)| {
            let next = seat.queue.front().filter(|_| self.has_quorum(index));
            let next = next.and_then(|(sent, _)| sent.checked_add(seat.lag));
            let gives_up = seat.lost_since.filter(|_| seat.is_serving());
            let gives_up = gives_up.and_then(|since| since.checked_add(self.give_up_after));
            let call = seat.calls.front().filter(|_| self.has_quorum(index));
            let call = call.and_then(|(sent, _)| sent.checked_add(seat.call_lag));
            let report = seat.has_heard().then_some(self.next_report);
            let own = [next, gives_up, call, report].map(|due| self.start.checked_add(due?));
            own.into_iter().chain([seat.core.poll_timeout()]).flatten()
        });
        due.min()
    }

    /// Returns a connection that has something to send or is to be closed.
    pub fn poll_ready(&mut self) -> Option<ConnectionId> {
        self.members.iter_mut().find_map(|seat| seat.core.poll_ready())
    }

    /// Appends the bytes to send now. Returns whether to close the connection behind them.
    pub fn poll_transmit(&mut self, now: Instant, id: ConnectionId, out: &mut BytesMut) -> bool {
        let seat = self.members.get_mut(id.member());
        seat.is_none_or(|seat| seat.core.poll_transmit(now, id, out))
    }

    /// Returns whether to close the connection at once, without sending its remaining bytes.
    pub fn poll_abort(&self, id: ConnectionId) -> bool {
        self.member(id.member()).is_none_or(|core| core.poll_abort(id))
    }

    /// Returns when a delayed reply may be sent.
    pub fn poll_delay(&self, id: ConnectionId) -> Option<Instant> {
        self.member(id.member())?.poll_delay(id)
    }

    /// Returns how many bytes wait to be sent to a connection.
    pub fn unsent(&self, id: ConnectionId) -> usize {
        self.member(id.member()).map_or(0, |core| core.unsent(id))
    }

    // Commands.

    /// Injects a fault at a member: something that goes wrong at a later request that it reads.
    pub fn inject(&mut self, member: usize, fault: Fault) {
        if let Some(seat) = self.members.get_mut(member) {
            seat.core.inject(fault);
        }
    }

    /// Removes the faults that have not happened yet at a member.
    pub fn clear_faults(&mut self, member: usize) {
        if let Some(seat) = self.members.get_mut(member) {
            seat.core.clear_faults();
        }
    }

    /// Sets how long a member takes to apply a transaction after the leader: not at all by default.
    ///
    /// `Duration::MAX` stands for never, until [`catch_up`](Self::catch_up) or another lag. The
    /// replies to writes and syncs of its clients come after this time, too. The leader's own lag
    /// does nothing.
    pub fn set_lag(&mut self, now: Instant, member: usize, lag: Duration) {
        if let Some(seat) = self.members.get_mut(member) {
            seat.lag = lag;
        }
        self.settle(now);
    }

    /// Sets how long what a member asks the leader for is on its way: not at all by default.
    ///
    /// These are the writes and syncs of its clients, their handshakes, the ends of their sessions,
    /// and the report of the sessions that it has heard, which it makes every half tick.
    /// `Duration::MAX` stands for never, until another lag is set. The leader's own lag does
    /// nothing.
    pub fn set_call_lag(&mut self, now: Instant, member: usize, lag: Duration) {
        if let Some(seat) = self.members.get_mut(member) {
            seat.call_lag = lag;
        }
        self.settle(now);
    }

    /// Sets how long a member that is cut off goes on serving: five ticks by default, and for ever
    /// with `Duration::MAX`.
    pub fn set_give_up_after(&mut self, time: Duration) {
        self.give_up_after = time;
    }

    /// Sets whether members refuse by themselves what their own copy of an access list forbids.
    ///
    /// This is `zookeeper.enableEagerACLCheck`, which is off by default. Such a refusal comes at
    /// once, ahead of the replies to earlier requests, and with zxid 0.
    pub fn set_eager_acl_check(&mut self, enabled: bool) {
        for seat in &mut self.members {
            seat.member().checks_early = enabled;
        }
    }

    /// Applies everything that the leader has sent to a member until now, in spite of its lag.
    ///
    /// It does nothing while the member is cut off.
    pub fn catch_up(&mut self, now: Instant, member: usize) {
        if self.has_quorum(member) {
            self.deliver(self.elapsed(now), member, Duration::ZERO);
        }
        self.settle(now);
    }

    /// Cuts a member off from the others, without its noticing.
    ///
    /// It goes on serving reads from its tree, and answers pings, which keep no session alive.
    /// Writes wait. After five ticks, or another [time](Self::set_give_up_after), it gives up: see
    /// [`stop`](Self::stop). If too few members are left, they do the same.
    pub fn cut(&mut self, now: Instant, member: usize) {
        self.settle(now);
        if let Some(seat) = self.members.get_mut(member) {
            seat.is_cut = true;
        }
        self.settle(now);
    }

    /// Stops a member: it closes all connections, and serves nobody until [`heal`](Self::heal).
    pub fn stop(&mut self, now: Instant, member: usize) {
        self.settle(now);
        if let Some(seat) = self.members.get_mut(member) {
            (seat.is_stopped, seat.is_stale) = (true, true);
            seat.core.set_serving(now, false);
            seat.forget_calls();
        }
        self.settle(now);
    }

    /// Connects a member that was cut off with the others again, or starts one that was stopped.
    ///
    /// A member that has not noticed that it was cut off goes on where it was: requests that have
    /// waited are carried out, unless there was an election meanwhile. Any other applies all that
    /// it has missed, and serves again. If the leader was stopped or has given up, no member serves
    /// until one is elected.
    pub fn heal(&mut self, now: Instant, member: usize) {
        if let Some(seat) = self.members.get_mut(member) {
            (seat.is_cut, seat.is_stopped) = (false, false);
        }
        self.settle(now);
    }

    /// Makes this member the leader. Returns whether it can be.
    ///
    /// It cannot if it is cut off or stopped, or if more than half of the members would not follow
    /// it.
    ///
    /// An election takes no time. The members that take part close all their connections, and
    /// requests that were not carried out are lost. They apply all transactions of the leader
    /// before, and continue in the next epoch: its number is in the upper 32 bits of the zxids. All
    /// sessions live on, and their timeouts begin anew. The other members do not notice.
    pub fn elect(&mut self, now: Instant, leader: usize) -> bool {
        let can_lead = self.members.get(leader).is_some_and(Seat::is_up);
        if !can_lead || !self.has_majority() {
            return false;
        }
        self.settle(now);
        let time = self.elapsed(now);
        (self.leader, self.epoch) = (leader, self.epoch + 1);
        self.owners.clear();
        for seat in &mut self.members {
            seat.member().leads = false;
            seat.core.state.run_clocks(time);
            seat.core.state.store.keep_log(false);
            seat.is_stale = true;
        }
        self.rejoin(now, leader);
        if let Some(seat) = self.members.get_mut(leader) {
            seat.core.state.set_zxid(Zxid(self.epoch << EPOCH_SHIFT));
            seat.core.state.store.keep_log(true);
        }
        debug!(leader, epoch = self.epoch, "elected");
        self.settle(now);
        true
    }

    /// Sets whether members without a quorum serve reads when they give up: not by default.
    ///
    /// This is `readonlymode.enabled`. New sessions there need
    /// [`Config::local_sessions`](Config::local_sessions) too.
    pub fn set_read_only_mode(&mut self, enabled: bool) {
        self.read_only_mode = enabled;
    }

    /// Ends a session as if its timeout had passed. Returns whether there was such a session.
    ///
    /// There must be a leader with a quorum.
    pub fn expire(&mut self, now: Instant, session: SessionId) -> bool {
        self.settle(now);
        let expired = self.has_quorum(self.leader)
            && self.lead().is_some_and(|seat| seat.core.expire(now, session));
        self.settle(now);
        expired
    }

    /// Cuts the connections of a session at all members. Returns whether it had any.
    pub fn disconnect(&mut self, session: SessionId) -> bool {
        let cut = self.members.iter_mut().map(|seat| seat.core.disconnect(session));
        cut.fold(false, |any, one| any | one)
    }

    /// Returns the sessions that have not ended, ordered by their ids.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.member(self.leader).map(Core::sessions).unwrap_or_default()
    }

    /// Returns how many writes were refused because their session had moved to another member.
    pub fn moved_writes(&self) -> u64 {
        self.moved_writes
    }

    /// Returns every change since the start, if [`Config::keep_history`] is set, else nothing.
    pub fn history(&self) -> &[Commit] {
        self.member(self.leader).map(Core::history).unwrap_or_default()
    }
}
