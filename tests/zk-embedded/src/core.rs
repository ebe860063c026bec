//! The server as a state machine, without a socket, a clock or a runtime.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tracing::debug;
use zk_proto::{SessionId, Stat, WatcherType, Zxid, frame};

use crate::config::Config;
use crate::connection::{Connection, ConnectionId, Partition, Phase};
use crate::fault::Fault;
use crate::history::Commit;
use crate::mutation::Mutation;
use crate::node::Node;
use crate::state::State;

/// A standalone ZooKeeper server without I/O: bytes and time go in, bytes and deadlines come out.
///
/// [`Server`](crate::Server) runs it on tokio; simulations and fuzzers run it by hand. It is
/// deterministic: the same calls give the same bytes.
///
/// # Calling order
///
/// For every connection, call [`handle_connection`](Self::handle_connection), then
/// [`handle_input`](Self::handle_input) any number of times, and
/// [`handle_disconnected`](Self::handle_disconnected) when it is gone, whichever side closed it.
/// [`handle_timeout`](Self::handle_timeout) may be called at any time: early or spurious calls do
/// nothing.
///
/// After each of these calls, and after each command, call [`poll_ready`](Self::poll_ready) until
/// it returns `None`, with [`poll_transmit`](Self::poll_transmit) for each connection that it
/// names, and [`poll_timeout`](Self::poll_timeout) for the next deadline. When the bytes of a
/// connection are sent, [`poll_delay`](Self::poll_delay) says when there is more, and
/// [`poll_abort`](Self::poll_abort) says whether to drop the bytes that were not sent. Then handle
/// the rest of its input again. Time must never go back.
///
/// ```
/// use std::time::{Duration, Instant};
/// use bytes::BytesMut;
/// use zk_embedded::{Config, Core};
///
/// # #[expect(clippy::disallowed_methods)]
/// let now = Instant::now();
/// let mut core = Core::new(Config::new(), now, Duration::from_secs(1_700_000_000));
/// let one = core.handle_connection(now, ([127, 0, 0, 1], 50_000).into());
/// core.handle_input(now, one, &mut BytesMut::from("ruok"));
///
/// let mut out = BytesMut::new();
/// assert_eq!(core.poll_ready(), Some(one));
/// let close = core.poll_transmit(now, one, &mut out);
/// assert_eq!((&out[..], close), (&b"imok"[..], true));
/// ```
pub struct Core {
    start: Instant,
    pub(crate) state: State,
}

/// A watch of a client: see [`Core::watches`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Watch {
    /// The session whose connection has the watch.
    pub session: SessionId,
    /// The path that is watched.
    pub path: String,
    /// What of it is watched: `DATA`, `CHILDREN`, `PERSISTENT` or `PERSISTENT_RECURSIVE`.
    pub kind: WatcherType,
}

impl Core {
    /// The number of unsent bytes beyond which a client is not served until it reads.
    ///
    /// A limit is needed because a request of a few bytes can ask for a large reply.
    pub const MAX_BEHIND: usize = 1024 * 1024;

    /// Creates an empty server that starts now, when the wall clock shows `wall` since 1970.
    pub fn new(config: Config, now: Instant, wall: Duration) -> Self {
        Self { start: now, state: State::new(config, wall) }
    }

    pub(crate) fn since_start(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.start)
    }

    /// Adds a connection: a client has connected.
    pub fn handle_connection(&mut self, now: Instant, peer: SocketAddr) -> ConnectionId {
        let id = self.state.open(self.since_start(now), peer);
        debug!(connection = %id, %peer, "connected");
        id
    }

    /// Handles bytes that a client has sent.
    ///
    /// Whole frames are taken off the front of `input`; the rest must stay there until more bytes
    /// come. While more than [`MAX_BEHIND`](Self::MAX_BEHIND) bytes wait to be sent to the client,
    /// whole frames stay there too: call this again after the bytes were sent.
    pub fn handle_input(&mut self, now: Instant, id: ConnectionId, input: &mut BytesMut) {
        let now = self.since_start(now);
        self.state.turn(now);
        loop {
            let Some(connection) = self.state.connections.get(id) else {
                return input.clear();
            };
            let (phase, session) = (connection.phase, connection.session);
            if phase == Phase::Closing || connection.outbox.is_silent() || connection.is_refused {
                return input.clear();
            }
            if connection.outbox.len() > Self::MAX_BEHIND {
                return;
            }
            let waits = phase == Phase::Fresh && connection.asked.is_some();
            if phase == Phase::Fresh
                && !waits
                && let Some(answer) = self.state.word(now, id, input)
            {
                self.state.connections.send(id, |one| one.outbox.raw(answer.as_bytes()));
                self.state.end(id);
                continue;
            }
            let frame = match frame::split(input, self.state.config.max_buffer) {
                Ok(Some(frame)) => frame,
                Ok(None) => return,
                Err(error) => {
                    debug!(connection = %id, %error, "hanging up");
                    self.state.abort(id);
                    continue;
                }
            };
            self.state.received += 1;
            if let Some(connection) = self.state.connections.get_mut(id) {
                connection.counts.received += 1;
                connection.counts.heard = now;
            }
            match session {
                Some(session) => self.state.request(now, id, session, &frame),
                // The reply to its handshake waits for the leader.
                None if waits => self.state.wait(id, &frame),
                None => self.state.handshake(now, id, &frame),
            }
        }
    }

    /// Removes a connection that is closed, by either side. Its session lives on until it expires.
    pub fn handle_disconnected(&mut self, id: ConnectionId) {
        self.state.forget(id);
    }

    /// Does everything that is due.
    ///
    /// Sessions expire, connections that have sent no handshake in time are closed, containers are
    /// removed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.state.turn(self.since_start(now));
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.start.checked_add(self.state.deadline()?)
    }

    /// Returns a connection that has something to send or is to be closed.
    pub fn poll_ready(&mut self) -> Option<ConnectionId> {
        self.state.connections.next_ready()
    }

    /// Appends the bytes to send now. Returns whether to close the connection behind them.
    pub fn poll_transmit(&mut self, now: Instant, id: ConnectionId, out: &mut BytesMut) -> bool {
        let now = self.since_start(now);
        match self.state.connections.get_mut(id) {
            Some(connection) => connection.outbox.take(now, out),
            None => true,
        }
    }

    /// Returns whether to close the connection at once, without sending its remaining bytes.
    ///
    /// These are the bytes that [`poll_transmit`](Self::poll_transmit) has returned and the client
    /// has not taken yet.
    pub fn poll_abort(&self, id: ConnectionId) -> bool {
        self.state.connections.get(id).is_none_or(|connection| connection.outbox.is_aborted())
    }

    /// Returns when a delayed reply may be sent.
    ///
    /// From then on [`poll_transmit`](Self::poll_transmit) returns it.
    pub fn poll_delay(&self, id: ConnectionId) -> Option<Instant> {
        let connection = self.state.connections.get(id)?;
        self.start.checked_add(connection.outbox.deadline()?)
    }

    /// Returns how many bytes wait to be sent to a connection.
    pub fn unsent(&self, id: ConnectionId) -> usize {
        self.state.connections.get(id).map_or(0, |connection| connection.outbox.len())
    }

    /// Injects a fault: something that goes wrong at a later request.
    pub fn inject(&mut self, fault: Fault) {
        self.state.faults.add(fault);
    }

    /// Returns how many faults have not happened yet, for instance because no request matches them.
    pub fn pending_faults(&self) -> usize {
        self.state.faults.len()
    }

    /// Removes the faults that have not happened yet.
    pub fn clear_faults(&mut self) {
        self.state.faults.clear();
    }

    /// Returns the replies that [`Fault::mutate`] has corrupted, oldest first.
    pub fn mutations(&self) -> &[Mutation] {
        &self.state.connections.mutations
    }

    /// Ends a session as if its timeout had passed. Returns whether there was such a session.
    ///
    /// Its ephemeral nodes are deleted, and its client's connection is closed.
    pub fn expire(&mut self, now: Instant, session: SessionId) -> bool {
        let known = self.state.sessions.get(session).is_some();
        self.state.expire(self.since_start(now), session);
        known
    }

    /// Cuts the connection of a session, which stays alive. Returns whether it had a connection.
    pub fn disconnect(&mut self, session: SessionId) -> bool {
        let attached = self.state.attached.get(&session).copied();
        if let Some(id) = attached {
            self.state.abort(id);
        }
        attached.is_some()
    }

    /// Cuts every connection. The sessions stay alive.
    pub fn disconnect_all(&mut self) {
        for id in self.state.connections.ids() {
            self.state.abort(id);
        }
    }

    /// Cuts the server of this session's connection off from its ensemble, without its noticing.
    ///
    /// That server answers pings and nothing else, and the ensemble sees neither the pings nor the
    /// requests. (A real server still answers reads, from a tree that becomes stale. Here they wait
    /// like writes.) Returns whether there is such a connection.
    ///
    /// The session expires unless its client finds another connection in time. The client is not
    /// notified until [`heal`](Self::heal).
    pub fn partition(&mut self, session: SessionId) -> bool {
        let zxid = self.state.store.last_zxid();
        let attached = self.state.attached.get(&session).copied();
        let Some(connection) = attached.and_then(|id| self.state.connections.get_mut(id)) else {
            return false;
        };
        connection.partition.get_or_insert_with(|| Partition::new(zxid));
        true
    }

    /// Ends all partitions.
    ///
    /// Events that were held back are sent, and requests that were held back are served. If
    /// meanwhile the session has ended or moved to another connection, this connection is closed
    /// instead.
    pub fn heal(&mut self, now: Instant) {
        let now = self.since_start(now);
        self.state.turn(now);
        for id in self.state.connections.ids() {
            let Some(connection) = self.state.connections.get_mut(id) else {
                continue;
            };
            let (Some(partition), Some(session)) =
                (connection.partition.take(), connection.session)
            else {
                continue;
            };
            if partition.is_over {
                self.state.hang_up(id);
                continue;
            }
            self.state.connections.send(id, |one| one.outbox.raw(&partition.events));
            self.state.leave_if_closing(id);
            for frame in partition.requests {
                let serving =
                    |one: &Connection| one.phase == Phase::Serving && !one.outbox.is_silent();
                if self.state.connections.get(id).is_some_and(serving) {
                    self.state.request(now, id, session, &frame);
                }
            }
        }
    }

    /// Stops or resumes serving.
    ///
    /// A server that does not serve closes all connections. Its sessions do not end and do not age,
    /// and their timeouts start anew when it serves again.
    pub fn set_serving(&mut self, now: Instant, serving: bool) {
        self.state.serving = serving;
        self.state.run_clocks(self.since_start(now));
        if !serving {
            self.disconnect_all();
        }
    }

    /// Makes the server read-only, or writable again. All connections are closed.
    ///
    /// A server is read-only when it has lost its quorum and is allowed to continue
    /// (`readonlymode.enabled`).
    ///
    /// While there is no quorum, sessions do not end and do not age. Clients that accept a
    /// read-only server get other sessions, if [local sessions](Config::local_sessions) are
    /// enabled. No other server knows these sessions, and they are over when there is a quorum
    /// again.
    pub fn set_read_only(&mut self, now: Instant, read_only: bool) {
        if !read_only {
            self.state.sessions.close_local();
        }
        self.state.read_only = read_only;
        self.state.run_clocks(self.since_start(now));
        self.disconnect_all();
    }

    /// Sets the number of the next sequential child of `path`.
    ///
    /// Returns whether there is such a node.
    ///
    /// It also sets what `cversion` shows. With a number above 0, a container counts as used.
    pub fn preset_sequence(&mut self, path: &str, next: i32) -> bool {
        self.state.store.tree.get_mut(path).map(|node| node.created = next).is_some()
    }

    /// Sets the version of the data of `path`. Returns whether there is such a node.
    pub fn preset_version(&mut self, path: &str, version: i32) -> bool {
        self.state.store.tree.get_mut(path).map(|node| node.version = version).is_some()
    }

    /// Removes empty containers and expired nodes now, ahead of the next check.
    pub fn reap(&mut self, now: Instant) {
        let now = self.since_start(now);
        self.state.reap(now);
    }

    /// Returns the sessions that have not ended, oldest first.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.state.sessions.ids().collect()
    }

    /// Returns whether there is a node at `path`.
    pub fn has_node(&self, path: &str) -> bool {
        self.state.store.tree.get(path).is_some()
    }

    /// Returns the names of the children of `path` in order, or nothing if there is no such node.
    ///
    /// The names are without the path.
    pub fn children(&self, path: &str) -> Vec<String> {
        self.state.store.tree.children(path).map(str::to_owned).collect()
    }

    /// Returns the stat of the node at `path`, or nothing if there is no such node.
    pub fn stat(&self, path: &str) -> Option<Stat> {
        self.state.store.tree.get(path).map(Node::stat)
    }

    /// Returns the data of the node at `path`, or nothing if there is no such node.
    pub fn data(&self, path: &str) -> Option<Bytes> {
        let node = self.state.store.tree.get(path)?;
        Some(node.data.as_deref().map(Bytes::copy_from_slice).unwrap_or_default())
    }

    /// Returns when a session ends unless its client is heard from before.
    ///
    /// `None` if there is no such session, or if its clock is stopped because no server can end it.
    pub fn session_deadline(&self, session: SessionId) -> Option<Instant> {
        self.start.checked_add(self.state.sessions.deadline_of(session)?)
    }

    /// Returns the watches that are set, ordered by session, path and kind.
    ///
    /// The watch of an exists request is one of [`WatcherType::DATA`]. A persistent watch comes
    /// once.
    pub fn watches(&self) -> Vec<Watch> {
        let session = |id| self.state.connections.get(id).and_then(|one| one.session);
        let watches = self.state.watches.iter().filter_map(|(id, path, kind)| {
            Some(Watch { session: session(id)?, path: path.to_owned(), kind })
        });
        let mut watches = watches.collect::<Vec<_>>();
        watches.sort_by(|a, b| {
            (a.session.0, &a.path, a.kind.0).cmp(&(b.session.0, &b.path, b.kind.0))
        });
        watches
    }

    /// Returns how many watches are set.
    ///
    /// One kind on one path of one connection counts once. A persistent watch, which watches data
    /// and children, counts twice.
    pub fn watch_count(&self) -> usize {
        self.state.watches.len()
    }

    /// Returns how many recursive watches are among [`watch_count`](Self::watch_count).
    pub fn recursive_watch_count(&self) -> usize {
        self.state.watches.recursive()
    }

    /// Returns whether this member of an ensemble leads it, and has a majority.
    pub fn leads(&self) -> bool {
        self.state.serving && self.state.member.as_ref().is_some_and(|member| member.leads)
    }

    /// Returns the zxid of the last transaction.
    pub fn last_zxid(&self) -> Zxid {
        self.state.store.last_zxid()
    }

    /// Returns every change since the start, if [`Config::keep_history`] is set, else nothing.
    pub fn history(&self) -> &[Commit] {
        self.state.store.history()
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start: _, state } = self;
        f.debug_struct("Core")
            .field("zxid", &state.store.last_zxid())
            .field("nodes", &state.store.tree.len())
            .field("sessions", &state.sessions.len())
            .field("connections", &state.connections.len())
            .finish_non_exhaustive()
    }
}
