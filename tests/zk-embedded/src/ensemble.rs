//! An ensemble on tokio: the handle, and a connection in memory to any of its members.
//!
//! All members share one lock and the task that keeps time, so that virtual time is deterministic.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::io::DuplexStream;
use tokio::task::JoinSet;
use zk_proto::SessionId;

use crate::config::Config;
use crate::core::Core;
use crate::ensemble_core::EnsembleCore;
use crate::fault::Fault;
use crate::history::Commit;
use crate::server::{STARTED, accept, keep_time, listen};
use crate::shared::{Shared, now, wall};
use crate::wire::connect;

/// Several ZooKeeper servers with one store, inside this process.
///
/// Each member has a tree of its own. The leader carries out the writes of all clients; the other
/// members, the followers, apply them afterwards, each after its own lag. A client is answered by
/// the member that it is connected to: reads from the tree of that member, and writes and syncs
/// once that member has applied them.
///
/// What a test decides:
///
/// | what happens | how |
/// |---|---|
/// | a member is behind, for a while or until the test says so | [`set_lag`], [`catch_up`] |
/// | what a member asks the leader for is late | [`set_call_lag`] |
/// | a member is cut off from the others, and notices it after five ticks | [`cut`], [`heal`] |
/// | it notices that sooner or later | [`set_give_up_after`] |
/// | members check access lists by themselves, too | [`set_eager_acl_check`] |
/// | a member goes down and comes up again | [`stop`], [`heal`], and [`elect`] for a leader |
/// | another member becomes the leader | [`elect`] |
/// | members without a quorum serve reads | [`set_read_only_mode`] |
/// | a session ends, or loses its connections | [`expire`], [`disconnect`] |
/// | a request at one member goes wrong | [`inject`] |
///
/// What members do by themselves, as real ones do:
///
/// * A member refuses a client that has seen a later transaction than its own last one, by closing
///   the connection.
/// * A client that resumes its session at another member takes the session with it. A write that
///   then arrives over its old connection closes that connection. (Servers call that
///   `SessionMoved`, but clients never get the code.) Reads there are still answered.
/// * A session that ends loses its connection at every member, once the member knows of it.
/// * A member without a quorum commits nothing, and after five ticks, by default, it closes all
///   connections.
///
/// There are no elections by themselves: a test that stops or cuts off the leader elects another.
/// Followers report every half tick which sessions they have heard, although no ping of the leader
/// asks them. `/zookeeper/config` is empty.
///
/// ```
/// use std::time::Duration;
/// use zk_client::{Client, CreateOptions};
/// use zk_embedded::{Config, Ensemble};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), zk_client::Error> {
/// let ensemble = Ensemble::in_memory(Config::new(), 3);
/// let client = |member: usize| {
///     Client::builder().connector(ensemble.connector()).connect(ensemble.address(member))
/// };
/// let (writer, reader) = (client(0).await?, client(1).await?);
///
/// // The member of the reader is behind, until the reader asks it to catch up.
/// ensemble.set_lag(1, Duration::from_millis(500));
/// let (_, zxid) = writer.create("/a", b"", &CreateOptions::persistent()).with_zxid().await?;
/// assert!(reader.exists("/a").await?.is_none());
/// reader.wait_for_zxid(zxid).await?;
/// assert!(reader.exists("/a").await?.is_some());
/// # Ok(())
/// # }
/// ```
///
/// [`set_lag`]: Self::set_lag
/// [`set_call_lag`]: Self::set_call_lag
/// [`set_give_up_after`]: Self::set_give_up_after
/// [`set_eager_acl_check`]: Self::set_eager_acl_check
/// [`catch_up`]: Self::catch_up
/// [`cut`]: Self::cut
/// [`heal`]: Self::heal
/// [`stop`]: Self::stop
/// [`elect`]: Self::elect
/// [`set_read_only_mode`]: Self::set_read_only_mode
/// [`expire`]: Self::expire
/// [`disconnect`]: Self::disconnect
/// [`inject`]: Self::inject
#[derive(Debug)]
pub struct Ensemble {
    addresses: Vec<String>,
    shared: Arc<Shared<EnsembleCore>>,
    /// The tasks that accept connections and keep time. They end with the handle.
    tasks: JoinSet<()>,
}

impl Ensemble {
    /// Starts an ensemble without sockets.
    ///
    /// It has so many members, at least one and at most [`EnsembleCore::MAX_MEMBERS`]. The first
    /// member leads. Clients reach them only by [`connector`](Self::connector) and
    /// [`connect`](Self::connect). So a test on tokio's paused clock fully controls the time.
    /// [`Config::listen`] is ignored.
    ///
    /// # Panics
    ///
    /// Panics as tokio does when called outside of a runtime with time enabled.
    pub fn in_memory(config: Config, members: usize) -> Self {
        // Names that do not resolve, so that no client connects to a real server by mistake.
        let name = |member| format!("member-{member}.invalid:2181");
        Self::new(config, (0..count(members)).map(name).collect())
    }

    /// Starts an ensemble whose members listen.
    ///
    /// They listen on the address of [`Config::listen`]: the first one on its port, and each other
    /// on the next port. If the port is 0, each listens on a free one. Otherwise it is like
    /// [`in_memory`](Self::in_memory).
    ///
    /// # Errors
    ///
    /// The errors of binding a socket, and [`InvalidInput`](io::ErrorKind::InvalidInput) if there
    /// are too few ports behind the first one.
    ///
    /// # Panics
    ///
    /// Panics as tokio does when called outside of a runtime with time and io enabled.
    pub async fn start(config: Config, members: usize) -> io::Result<Self> {
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        let (ip, first) = (config.listen.ip(), config.listen.port());
        for member in 0..count(members) {
            let behind = if first == 0 { 0 } else { member as u16 };
            let port = first.checked_add(behind).ok_or(io::ErrorKind::InvalidInput)?;
            let listener = listen((ip, port).into(), config.listen_backlog)?;
            addresses.push(listener.local_addr()?.to_string());
            listeners.push(listener);
        }
        let mut ensemble = Self::new(config, addresses);
        for (member, listener) in listeners.into_iter().enumerate() {
            ensemble.tasks.spawn(accept(listener, member, Arc::clone(&ensemble.shared)));
        }
        Ok(ensemble)
    }

    fn new(mut config: Config, addresses: Vec<String>) -> Self {
        config.nth = STARTED.fetch_add(1, Ordering::Relaxed);
        let core = EnsembleCore::new(config, addresses.len(), now(), wall());
        let shared = Arc::new(Shared::run(core));
        let mut tasks = JoinSet::new();
        tasks.spawn(keep_time(Arc::clone(&shared)));
        Self { addresses, shared, tasks }
    }

    /// Returns the address of a member.
    ///
    /// That of a member in memory does not resolve: `member-1.invalid:2181`. The address is empty
    /// if there is no such member.
    pub fn address(&self, member: usize) -> &str {
        self.addresses.get(member).map_or("", String::as_str)
    }

    /// Returns the connect string: the addresses of all members.
    ///
    /// A client tries them in an order of its own.
    pub fn connect_string(&self) -> String {
        self.addresses.join(",")
    }

    /// Opens a connection in memory to a member, which seems to come from 127.0.0.1.
    ///
    /// It is closed at once if there is no such member.
    pub fn connect(&self, member: usize) -> DuplexStream {
        connect(&self.shared, member)
    }

    /// Returns a function that opens connections in memory, for a client builder's `connector`.
    ///
    /// It connects to the member whose address the host is, and refuses any other host. `H` is the
    /// client's type of host name, which prints as `NAME:PORT`. The function outlives the ensemble;
    /// its connections are then closed at once.
    pub fn connector<H: Display>(
        &self,
    ) -> impl Fn(&H) -> io::Result<DuplexStream> + Clone + Send + Sync + use<H> {
        let (shared, addresses) = (Arc::clone(&self.shared), self.addresses.clone());
        move |host| {
            let host = host.to_string();
            let member = addresses.iter().position(|address| *address == host);
            Ok(connect(&shared, member.ok_or(io::ErrorKind::NotFound)?))
        }
    }

    /// Calls the state machine, and wakes the tasks that have something to do after it.
    fn command<R>(&self, act: impl FnOnce(&mut EnsembleCore, Instant) -> R) -> R {
        let _runtime = self.shared.runtime.enter();
        let mut running = self.shared.lock();
        let result = act(&mut running.core, now());
        self.shared.settle(&mut running, None);
        result
    }

    /// Returns the index of the leader: the member that was elected last.
    pub fn leader(&self) -> usize {
        self.command(|core, _| core.leader())
    }

    /// Looks at the server that is this member: its tree, its watches, its zxid.
    ///
    /// Returns `None` if there is no such member. The server waits until `look` returns.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use zk_embedded::{Config, Ensemble, Zxid};
    ///
    /// let ensemble = Ensemble::in_memory(Config::new(), 3);
    /// let zxid = ensemble.member(2, |server| server.last_zxid());
    /// assert_eq!(zxid, Some(Zxid(1 << 32)), "epoch 1, without a transaction");
    /// # }
    /// ```
    pub fn member<R>(&self, member: usize, look: impl FnOnce(&Core) -> R) -> Option<R> {
        self.command(|core, _| core.member(member).map(look))
    }

    /// Sets how long a member takes to apply a transaction: see [`EnsembleCore::set_lag`].
    pub fn set_lag(&self, member: usize, lag: Duration) {
        self.command(|core, now| core.set_lag(now, member, lag));
    }

    /// Sets how long what a member asks the leader for is on its way: see
    /// [`EnsembleCore::set_call_lag`].
    pub fn set_call_lag(&self, member: usize, lag: Duration) {
        self.command(|core, now| core.set_call_lag(now, member, lag));
    }

    /// Sets how long a member that is cut off goes on serving: see
    /// [`EnsembleCore::set_give_up_after`].
    pub fn set_give_up_after(&self, time: Duration) {
        self.command(|core, _| core.set_give_up_after(time));
    }

    /// Sets whether members refuse by themselves what their own copy of an access list forbids: see
    /// [`EnsembleCore::set_eager_acl_check`].
    pub fn set_eager_acl_check(&self, enabled: bool) {
        self.command(|core, _| core.set_eager_acl_check(enabled));
    }

    /// Lets a member apply everything now, in spite of its lag: see [`EnsembleCore::catch_up`].
    pub fn catch_up(&self, member: usize) {
        self.command(|core, now| core.catch_up(now, member));
    }

    /// Cuts a member off from the others: see [`EnsembleCore::cut`].
    pub fn cut(&self, member: usize) {
        self.command(|core, now| core.cut(now, member));
    }

    /// Stops a member: see [`EnsembleCore::stop`].
    pub fn stop(&self, member: usize) {
        self.command(|core, now| core.stop(now, member));
    }

    /// Brings a member back that was cut off or stopped: see [`EnsembleCore::heal`].
    pub fn heal(&self, member: usize) {
        self.command(|core, now| core.heal(now, member));
    }

    /// Makes this member the leader, if it can be: see [`EnsembleCore::elect`].
    pub fn elect(&self, leader: usize) -> bool {
        self.command(|core, now| core.elect(now, leader))
    }

    /// Sets whether members without a quorum serve reads: see
    /// [`EnsembleCore::set_read_only_mode`].
    pub fn set_read_only_mode(&self, enabled: bool) {
        self.command(|core, _| core.set_read_only_mode(enabled));
    }

    /// Injects a fault at a member: something that goes wrong at a later request that it reads.
    pub fn inject(&self, member: usize, fault: Fault) {
        self.command(|core, _| core.inject(member, fault));
    }

    /// Removes the faults that have not happened yet at a member.
    pub fn clear_faults(&self, member: usize) {
        self.command(|core, _| core.clear_faults(member));
    }

    /// Ends a session as if its timeout had passed: see [`EnsembleCore::expire`].
    pub fn expire(&self, session: SessionId) -> bool {
        self.command(|core, now| core.expire(now, session))
    }

    /// Cuts the connections of a session at all members. Returns whether it had any.
    pub fn disconnect(&self, session: SessionId) -> bool {
        self.command(|core, _| core.disconnect(session))
    }

    /// Returns the sessions that have not ended, ordered by their ids.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.command(|core, _| core.sessions())
    }

    /// Returns every change since the start, if [`Config::keep_history`] is set, else nothing.
    pub fn history(&self) -> Vec<Commit> {
        self.command(|core, _| core.history().to_vec())
    }
}

impl Drop for Ensemble {
    /// Closes all connections.
    fn drop(&mut self) {
        let mut running = self.shared.lock();
        running.ended = true;
        running.wakers.values().for_each(Waker::wake_by_ref);
    }
}

/// How many members there are if so many are asked for.
fn count(members: usize) -> usize {
    members.clamp(1, EnsembleCore::MAX_MEMBERS)
}
