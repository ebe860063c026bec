//! The whole state of a server: its tree, sessions, watches and connections, and the changes that
//! affect several of them.
//!
//! Time is counted from the server's start. The files below implement the requests.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use zk_proto::{Acl, EventType, SessionId, Zxid};

use crate::access::AccessList;
use crate::calls::{Call, Member};
use crate::config::{Config, ServerVersion};
use crate::connection::{Connection, ConnectionId, Phase};
use crate::connections::Connections;
use crate::fault::Faults;
use crate::history::Change;
use crate::manner::Deviation;
use crate::sessions::Sessions;
use crate::store::{SessionChange, Store, Told};
use crate::tree::parent_of;
use crate::watches::Watches;

/// The shortest time that a connection has to send its handshake:
/// `zookeeper.nio.sessionlessCnxnTimeout`.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// What `gtmk` prints until `stmk` sets it: requests, packets, sessions and warnings.
const TRACE_MASK: i64 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8;

/// When a connection is closed that has sent nothing until then. Like sessions, connections expire
/// by buckets, each as long as the timeout, so that they have up to twice as long.
fn handshake_deadline(opened: Duration) -> Duration {
    bucket_end(opened + HANDSHAKE_TIMEOUT)
}

/// When the bucket of connections with this deadline expires.
pub(crate) fn bucket_end(deadline: Duration) -> Duration {
    let bucket = deadline.as_millis() / HANDSHAKE_TIMEOUT.as_millis() + 1;
    HANDSHAKE_TIMEOUT.saturating_mul(u32::try_from(bucket).unwrap_or(u32::MAX))
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: Config,
    /// The wall clock at the start, since 1970.
    epoch: Duration,
    pub(crate) store: Store,
    pub(crate) sessions: Sessions,
    pub(crate) watches: Watches,
    pub(crate) connections: Connections,
    /// The connection that serves a session.
    pub(crate) attached: HashMap<SessionId, ConnectionId>,
    /// Connections that have not sent their handshake, by their deadlines.
    fresh: BTreeSet<(Duration, ConnectionId)>,
    pub(crate) faults: Faults,
    /// Requests that are served at a later time, in the order of these times.
    late: Vec<(Duration, Late)>,
    pub(crate) serving: bool,
    pub(crate) read_only: bool,
    /// Set if this server is a member of an ensemble.
    pub(crate) member: Option<Member>,
    next_reap: Duration,
    /// Sessions that end, since their connection has.
    orphans: Vec<SessionId>,
    pub(crate) received: u64,
    /// How many connections were too many.
    pub(crate) rejected: u64,
    /// The mask that `stmk` has set. It traces nothing.
    pub(crate) trace_mask: i64,
}

/// A request whose connection has gone before it was served.
#[derive(Debug)]
pub(crate) struct Late {
    /// The state of the connection when it was closed.
    pub(crate) connection: Connection,
    pub(crate) session: SessionId,
    pub(crate) frame: Bytes,
}

impl State {
    pub(crate) fn new(config: Config, wall: Duration) -> Self {
        Self {
            epoch: wall,
            store: Store::new(&config),
            sessions: Sessions::new(config.tick_time, whole_millis(wall), config.nth),
            watches: Watches::new(config.server_version),
            connections: Connections::default(),
            attached: HashMap::new(),
            fresh: BTreeSet::new(),
            faults: Faults::default(),
            late: Vec::new(),
            serving: true,
            read_only: false,
            member: None,
            next_reap: config.container_check_interval,
            orphans: Vec::new(),
            received: 0,
            rejected: 0,
            trace_mask: TRACE_MASK,
            config,
        }
    }

    /// The wall clock, in milliseconds.
    pub(crate) fn millis(&self, now: Duration) -> i64 {
        whole_millis(self.epoch.saturating_add(now))
    }

    /// Adds a connection. If there are too many, it is closed without a reply.
    pub(crate) fn open(&mut self, now: Duration, peer: SocketAddr) -> ConnectionId {
        let limit = self.config.max_connections_per_host;
        let from_there = |other: &&Connection| other.peer.ip() == peer.ip();
        let full = limit > 0 && self.connections.iter().filter(from_there).count() >= limit;
        let id = self.connections.put(Connection::new(peer, now));
        if full {
            self.rejected += 1;
            self.end(id);
        } else {
            self.fresh.insert((handshake_deadline(now), id));
        }
        id
    }

    /// Closes a connection behind the bytes that were sent to it.
    pub(crate) fn end(&mut self, id: ConnectionId) {
        self.connections.send(id, |connection| {
            connection.phase = Phase::Closing;
            connection.outbox.end();
        });
        self.unbind_session(id);
    }

    /// Closes a connection at once.
    pub(crate) fn abort(&mut self, id: ConnectionId) {
        self.connections.send(id, |connection| {
            connection.phase = Phase::Closing;
            connection.outbox.abort();
        });
        self.unbind_session(id);
    }

    /// Closes a connection at once, unless it is silent: then the peer must not notice.
    pub(crate) fn hang_up(&mut self, id: ConnectionId) {
        match self.connections.get_mut(id) {
            Some(connection) if connection.outbox.is_silent() => {
                connection.phase = Phase::Closing;
                self.unbind_session(id);
            }
            _ => self.abort(id),
        }
    }

    /// Forgets a connection that is closed.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.unbind_session(id);
        self.connections.remove(id);
    }

    /// Ends the service of a connection: it has no session any more, and gets no events.
    fn unbind_session(&mut self, id: ConnectionId) {
        self.watches.leave(id);
        if let Some(connection) = self.connections.get(id) {
            if let Some(session) = connection.session
                && self.attached.get(&session) == Some(&id)
            {
                self.attached.remove(&session);
                if self.config.manner.has(Deviation::SessionEndsWithConnection) {
                    self.orphans.push(session);
                }
            }
            self.fresh.remove(&(handshake_deadline(connection.opened), id));
        }
    }

    /// Unbinds from its session a connection that has ended because of a fault or because too many
    /// bytes wait for it.
    pub(crate) fn leave_if_closing(&mut self, id: ConnectionId) {
        if self.connections.get(id).is_some_and(|one| one.phase == Phase::Closing) {
            self.unbind_session(id);
        }
    }

    /// Attaches a connection to its session after the handshake.
    pub(crate) fn attach(&mut self, id: ConnectionId, session: SessionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.phase = Phase::Serving;
            connection.session = Some(session);
            self.fresh.remove(&(handshake_deadline(connection.opened), id));
            self.attached.insert(session, id);
        }
    }

    /// Ends a session and deletes its ephemeral nodes in one transaction. If another server leads,
    /// it is asked to do so.
    pub(crate) fn end_session(&mut self, now: Duration, session: SessionId) {
        if let Some(Member { leads: false, calls, .. }) = &mut self.member
            && self.sessions.get(session).is_some_and(|session| !session.is_local)
        {
            return calls.push(Call::End(session));
        }
        if self.sessions.close(session).is_none_or(|session| session.is_local) {
            return;
        }
        self.delete_ephemerals(now, session);
    }

    /// Deletes the ephemeral nodes of a session that has ended, in one transaction.
    pub(crate) fn delete_ephemerals(&mut self, now: Duration, session: SessionId) {
        let moment = self.store.begin(self.millis(now));
        let paths: Vec<_> = self.store.tree.ephemerals(session).cloned().collect();
        for path in paths {
            self.store.remove(&path, moment);
        }
        self.store.note_session(SessionChange::Closed(session));
        let told = self.store.commit(moment, Some(session));
        self.tell(moment.zxid, told);
    }

    /// Forgets all sessions without a transaction, and what is still to be done for them.
    pub(crate) fn forget_sessions(&mut self) {
        for session in self.sessions.ids().collect::<Vec<_>>() {
            self.sessions.close(session);
        }
        self.late.clear();
    }

    /// Ends a session whose timeout has passed, and closes its client's connection without a reply.
    pub(crate) fn expire(&mut self, now: Duration, session: SessionId) {
        if let Some(id) = self.attached.get(&session).copied() {
            match self.connections.get_mut(id).and_then(|one| one.partition.as_mut()) {
                Some(partition) => partition.is_over = true,
                None => self.hang_up(id),
            }
        }
        self.end_session(now, session);
    }

    /// The caller of a request whose connection may be gone when it is served.
    pub(crate) fn absent_caller(&self, id: ConnectionId) -> Option<Connection> {
        let one = self.connections.get(id)?;
        let mut caller = Connection::new(one.peer, one.opened);
        caller.identities = one.identities.clone();
        caller.has_read_only_byte = one.has_read_only_byte;
        Some(caller)
    }

    /// Serves a request at a later time. Its connection is about to be closed.
    pub(crate) fn postpone(
        &mut self,
        due: Duration,
        id: ConnectionId,
        session: SessionId,
        frame: &Bytes,
    ) {
        let Some(mut connection) = self.absent_caller(id) else {
            return;
        };
        connection.phase = Phase::Closing;
        connection.outbox.end();
        let at = self.late.partition_point(|(other, _)| *other <= due);
        self.late.insert(at, (due, Late { connection, session, frame: frame.clone() }));
    }

    /// Notifies all watchers of the changes.
    pub(crate) fn tell(&mut self, zxid: Zxid, changes: Vec<Told>) {
        let zxid = match self.config.server_version {
            ServerVersion::V3_8 => Zxid(-1),
            ServerVersion::V3_9 => zxid,
        };
        for Told { change, path, acl, parent_acl, .. } in changes {
            let (event, watchers) = match change {
                Change::Created => {
                    (EventType::NODE_CREATED, self.watches.changed(&path, EventType::NODE_CREATED))
                }
                Change::Deleted => (EventType::NODE_DELETED, self.watches.deleted(&path)),
                Change::DataSet => {
                    let event = EventType::NODE_DATA_CHANGED;
                    (event, self.watches.changed(&path, event))
                }
                Change::AclSet => continue,
            };
            self.notify(watchers, zxid, event, &path, &acl);
            if change != Change::DataSet {
                let parent = match parent_of(&path) {
                    "" => "/",
                    parent => parent,
                };
                let watchers = self.watches.children_changed(parent);
                let event = EventType::NODE_CHILDREN_CHANGED;
                self.notify(watchers, zxid, event, parent, &parent_acl);
            }
        }
    }

    /// Notifies the watchers that may read the node. The watches of the others are used up all the
    /// same (since ZOOKEEPER-4799).
    fn notify(
        &mut self,
        watchers: BTreeSet<ConnectionId>,
        zxid: Zxid,
        event: EventType,
        path: &str,
        acl: &AccessList,
    ) {
        let names = match self.config.manner.has(Deviation::EventsNameTheWatch) {
            true => self.watches.recursive_above(path),
            false => Default::default(),
        };
        for id in watchers {
            let path = names.get(&id).map_or(path, |watch| &**watch);
            let may_read =
                self.connections.get(id).is_some_and(|one| one.identities.may(Acl::READ, acl));
            if may_read {
                self.connections.notify(id, zxid, event, path);
                self.leave_if_closing(id);
            }
        }
    }

    /// Runs the clocks of the sessions that a server can end: all sessions if there is a leader,
    /// else only those that the read-only server has opened itself.
    pub(crate) fn run_clocks(&mut self, now: Duration) {
        let (serving, leads) = (self.serving, !self.read_only && !self.follows());
        self.sessions.run(now, |session| serving && (leads || session.is_local));
    }

    /// True if the server serves requests and there is a leader for them.
    fn has_leader(&self) -> bool {
        self.serving && !self.read_only
    }

    /// True if this is a member of an ensemble that cannot commit anything by itself.
    pub(crate) fn follows(&self) -> bool {
        self.member.as_ref().is_some_and(|member| !member.leads)
    }

    /// Does everything that is due.
    pub(crate) fn turn(&mut self, now: Duration) {
        for session in std::mem::take(&mut self.orphans) {
            self.end_session(now, session);
        }
        while let Some(session) = self.sessions.expired(now) {
            self.expire(now, session);
        }
        while self.late.first().is_some_and(|(due, _)| *due <= now) && self.has_leader() {
            let (_, late) = self.late.remove(0);
            self.serve_late(now, late);
        }
        while let Some((due, id)) = self.fresh.first().copied()
            && due <= now
        {
            self.abort(id);
        }
        if self.next_reap <= now {
            self.reap(now);
            self.next_reap = now + self.config.container_check_interval;
        }
    }

    /// Removes empty containers and nodes whose time to live is over.
    pub(crate) fn reap(&mut self, now: Duration) {
        if self.read_only || !self.serving || self.follows() {
            return;
        }
        let millis = self.millis(now);
        for path in self.store.tree.outlived(millis) {
            let moment = self.store.begin(millis);
            self.store.remove(&path, moment);
            let told = self.store.commit(moment, None);
            self.tell(moment.zxid, told);
        }
    }

    /// Checks what must hold between calls.
    pub(crate) fn audit(&self) {
        self.store.audit();
        self.sessions.audit();
        self.watches.audit();
        let mut fresh = BTreeSet::new();
        for (id, one) in self.connections.entries() {
            let attached = one.session.filter(|it| self.attached.get(it) == Some(id));
            let over = one.partition.as_ref().map(|partition| partition.is_over);
            match one.phase {
                Phase::Fresh => {
                    assert_eq!((one.session, over), (None, None), "{id} has not said who it is");
                    fresh.insert((handshake_deadline(one.opened), *id));
                }
                Phase::Serving => {
                    assert!(one.struck.is_none(), "{id}: a fault outlives its request");
                    let alive = attached.is_some_and(|it| self.sessions.get(it).is_some());
                    // A silent client never notices that its session has ended or moved to another
                    // connection.
                    let unaware =
                        over == Some(true) || attached.is_none() && one.outbox.is_silent();
                    assert_eq!(alive, !unaware, "{id} serves {:?}", one.session);
                }
                Phase::Closing => assert_eq!(attached, None, "{id} is closing"),
            }
        }
        assert_eq!(fresh, self.fresh);
        self.connections.audit();
        let serving = |id| self.connections.get(id).is_some_and(|one| one.phase == Phase::Serving);
        assert!(self.attached.values().all(|id| serving(*id)), "{:?}", self.attached);
        assert!(self.watches.watchers().all(serving), "nobody is there to be told");
        for (session, _) in self.store.tree.owners() {
            assert!(self.sessions.get(session).is_some(), "{session} is over and owns nodes");
        }
    }

    /// When something is due next. Delays of replies are not included.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        if !self.orphans.is_empty() {
            return Some(Duration::ZERO);
        }
        let sessions = self.sessions.deadline();
        let fresh = self.fresh.first().map(|(due, _)| *due);
        let reap = self.store.tree.has_expiring().then_some(self.next_reap);
        let late = self.late.first().map(|(due, _)| *due).filter(|_| self.has_leader());
        [sessions, fresh, reap, late].into_iter().flatten().min()
    }
}

fn whole_millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
