//! The ensemble, the network between it and its clients, and what is known of the processes.
//!
//! What a follower and the leader send each other keeps its order in each direction. It takes a
//! while that changes, or stalls, or the follower is cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use zk_client::Host;
use zk_embedded::{Config, ConnectionId, EnsembleCore, SessionId};
use zk_inputs::Random;
use zk_recipes::Guard;

use super::TICK;
use crate::clock::now;
use crate::frames;
use crate::gate::Gate;
use crate::journal::Journal;
use crate::link::Party;
use crate::net::{Net, Traffic, WALL, Way, Wired};
use crate::process::Phase;
use crate::wire::Reception;

/// A server, by its index.
pub(super) type ServerId = usize;

/// The server that leads.
pub(super) const LEADER: ServerId = 0;

pub(super) struct World {
    pub(super) net: Net<Self>,
    pub(super) journal: Journal,
    /// How many servers clients connect to.
    pub(super) servers: usize,
    pub(super) phase: Phase,
    /// The gate of each process in its current life.
    pub(super) gates: BTreeMap<usize, Arc<Gate>>,
    /// The processes that got the lock in the calm.
    pub(super) served: BTreeSet<usize>,
    /// How many processes there ever were.
    pub(super) processes: usize,
    /// The guards, each with its process. The newest ones come last.
    pub(super) believers: Vec<(usize, Arc<Guard>)>,
    /// The longest time that any message takes, in milliseconds.
    pub(super) latency: u64,
    /// How many changes were judged so far.
    judged: usize,
    /// How many writes were refused so far because their session had moved.
    moved_writes: u64,
    /// How long a server that is cut off goes on serving.
    patience: Duration,
    /// When the last stall between each server and the leader ends, or has ended: of what goes to
    /// the leader, and of what comes from it.
    stalled: Vec<[Instant; 2]>,
    random: Random,
}

pub(super) enum Due {
    /// Half a tick has passed.
    HalfTick,
    /// A stall is over.
    StallOver,
}

impl World {
    /// A few servers that clients connect to, which in some runs check access lists by themselves.
    /// There are others without clients, which are never cut off: a quorum remains.
    pub(super) fn new(traced: bool, random: &mut Random) -> Self {
        let patience = TICK * random.within(5..30) as u32;
        let is_eager = random.percent(50);
        let servers = random.within(2..4) as usize;
        let (mut random, start) = (random.fork(), now());
        let config = Config::new().tick_time(TICK).max_connections_per_host(0).keep_history(true);
        let mut core = EnsembleCore::new(config, 2 * servers - 1, start, WALL);
        core.set_give_up_after(patience);
        core.set_eager_acl_check(is_eager);
        let mut world = Self {
            net: Net::of(core),
            journal: Journal::new(traced),
            servers,
            phase: Phase::Storm,
            gates: BTreeMap::new(),
            served: BTreeSet::new(),
            processes: 0,
            believers: Vec::new(),
            latency: random.within(2..20),
            judged: 0,
            moved_writes: 0,
            patience,
            stalled: vec![[start; 2]; 2 * servers - 1],
            random: random.fork(),
        };
        world.plan(start, Due::HalfTick);
        world
    }

    /// Delays everything between a server and the leader by at least these times: what goes to the
    /// leader, and what comes from it.
    pub(super) fn stall_peer(&mut self, id: ServerId, times: [Duration; 2]) {
        for (way, time) in times.into_iter().enumerate() {
            let until = &mut self.stalled[id][way];
            *until = (*until).max(now() + time);
            self.plan(now() + time, Due::StallOver);
        }
        self.set_lags();
    }

    /// Cuts a follower off for this time. Neither side notices before the follower gives up.
    pub(super) fn isolate(&mut self, id: ServerId, time: Duration) {
        if time > self.patience {
            self.journal.strike("follower gave up");
        }
        self.stalled[id] = [now() + time; 2];
        self.serve(|core, now| core.cut(now, id));
    }

    /// True if nothing delays what a follower and the leader send each other, nor has delayed it a
    /// moment ago.
    pub(super) fn is_well(&self, id: ServerId) -> bool {
        self.stalled[id].iter().all(|until| *until + TICK < now())
    }

    /// Breaks the connection between a follower and the leader, so that both notice at once.
    pub(super) fn break_peer(&mut self, id: ServerId) {
        self.serve(|core, now| {
            core.stop(now, id);
            core.heal(now, id);
        });
    }

    /// Draws how long everything takes between the servers from now on.
    fn set_lags(&mut self) {
        for id in 0..self.stalled.len() {
            let lags = self.stalled[id].map(|until| match until > now() {
                true => Duration::MAX,
                false => self.random.millis(0..self.latency + 1),
            });
            self.serve(|core, now| {
                core.set_call_lag(now, id, lags[0]);
                core.set_lag(now, id, lags[1]);
            });
        }
    }
}

impl Wired for World {
    type Machine = EnsembleCore;
    type Party = Party;
    type Own = ();
    type Flight = Bytes;
    type Due = Due;

    const MOST_STEPS: u64 = 3_000_000;

    fn net(&mut self) -> &mut Net<Self> {
        &mut self.net
    }

    fn server(&self, host: &Host) -> ServerId {
        host.name.trim_start_matches("zk").parse().unwrap()
    }

    fn dial(&mut self, party: Party) -> (Reception, Duration) {
        (Reception::Accept, self.latency(party))
    }

    fn connected(&mut self, id: ConnectionId, party: Party) {
        self.journal.note(|| format!("{party:?} connects: {}", name_of(id)));
    }

    fn latency(&mut self, party: Party) -> Duration {
        match party {
            Party::Operator => Duration::ZERO,
            Party::Process(_) => self.random.millis(0..self.latency + 1),
        }
    }

    fn send(&mut self, id: ConnectionId, way: Way, bytes: Bytes) {
        self.carry(id, way, bytes);
    }

    fn arrive(&mut self, id: ConnectionId, way: Way, bytes: Bytes) {
        let Some(link) = self.net.links.get_mut(&id).filter(|link| link.is_heard(way)) else {
            return;
        };
        if link.pipe(way).is_whole() {
            let party = link.party;
            self.journal.note(|| {
                let what = frames::describe(way, &bytes);
                format!("{party:?} {} {way:?}: {what}", name_of(id))
            });
            self.deliver(id, way, &bytes);
        }
    }

    fn happen(&mut self, due: Due) {
        self.set_lags();
        if matches!(due, Due::HalfTick) {
            self.plan(now() + TICK / 2, Due::HalfTick);
        }
    }

    fn keep_time(&mut self) {
        let leader = self.net.core.member(LEADER).unwrap();
        let is_over = |session: &SessionId| leader.session_deadline(*session) <= Some(now());
        for _ in leader.sessions().iter().filter(|session| is_over(session)) {
            self.journal.count("sessions expired");
        }
        self.serve(|core, now| core.handle_timeout(now));
    }

    fn acted(&mut self) {
        let history = self.net.core.history();
        if history.len() > std::mem::replace(&mut self.judged, history.len()) {
            self.journal.commits(history);
            self.judge();
        }
        while self.moved_writes < self.net.core.moved_writes() {
            self.moved_writes += 1;
            self.journal.count("writes refused because the session had moved");
        }
    }

    fn stand_still(&mut self) {
        self.journal.violate("more events than time allows".to_owned());
    }
}

/// The name of a server, for clients.
pub(super) fn name(server: ServerId) -> String {
    format!("zk{server}:2181")
}

/// A connection in the trace.
pub(super) fn name_of(id: ConnectionId) -> String {
    format!("zk{}#{id}", id.member())
}
