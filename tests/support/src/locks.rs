//! A server in memory, and what tests of locks ask it: which contenders are in the queue, and what
//! is left behind.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_client::{Acl, Client, ClientBuilder, CreateOptions, ErrorCode, Host, Id, Perms};
use zk_embedded::{Config, Fault, OpCode, Server};
use zk_proto::{List, SetAclRequest};
use zk_recipes::{Error, Guard, Hold, Lock};

pub use crate::explore::settle;
use crate::raw::RawClient;
use crate::server::field;

/// The lock's folder in most tests.
pub const LOCK: &str = "/locks/one";

/// The session timeout of most tests.
pub const TIMEOUT: Duration = Duration::from_secs(6);

/// What happens to a read, or to any request that is made again when it is refused.
pub const READ_FAULTS: [fn() -> Fault; 3] =
    [Fault::lose_request, Fault::lose_reply, || Fault::refuse(ErrorCode::THROTTLED_OP)];

/// An identity that no connection in memory has.
pub fn nobody() -> Acl {
    Acl::new(Perms::ALL, Id::ip("10.0.0.1"))
}

/// Requests that a server got, and events that it sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Requests, or all packets that were received.
    pub requests: u64,
    /// What was sent and is no reply. It wraps around below zero, as there is no reply to some.
    pub events: u64,
}

impl Costs {
    /// The counts in the answer to the four-letter word `srvr`.
    pub fn of(answer: &str) -> Self {
        let count = |name| field(answer, name)?.parse::<u64>().ok();
        let requests = count("Received").expect("a number");
        let sent = count("Sent").expect("a number");
        Self { requests, events: sent.wrapping_sub(requests) }
    }

    /// The rows of the table of relatives on the performance page.
    pub fn documented() -> Vec<(String, Self)> {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../zk-client/src/performance.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let (_, table) = page.split_once("# Relatives of locks").expect("the table");
        let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
        let row = |line: &str| {
            let cells = line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
            // Curator's are behind ours.
            let [name, requests, events, ..] = cells[..] else { panic!("{line}") };
            let number = |cell: &str| cell.parse().expect("a number");
            let costs = Self { requests: number(requests), events: number(events) };
            (name.replace('`', ""), costs)
        };
        rows.map(row).collect()
    }
}

/// A server in memory.
#[derive(Debug)]
pub struct World {
    /// The server.
    pub server: Server,
    /// How many builders there were.
    builders: AtomicU64,
}

impl World {
    /// A server that keeps its history.
    #[expect(clippy::new_without_default, reason = "it starts a server")]
    pub fn new() -> Self {
        Self::with(Config::new())
    }

    /// A server with other settings.
    pub fn with(config: Config) -> Self {
        let config = config.keep_history(true).max_connections_per_host(0);
        Self { server: Server::in_memory(config), builders: AtomicU64::new(0) }
    }

    /// The builder of a client, whose random choices are the same in each run.
    pub fn builder(&self) -> ClientBuilder {
        let seed = self.builders.fetch_add(1, Ordering::Relaxed);
        let builder = Client::builder().session_timeout(TIMEOUT).seed(seed);
        builder.connector(self.server.connector())
    }

    /// The builder of clients of this server, and of another one once the flag is set.
    pub fn or(self: &Arc<Self>, other: &Arc<Self>) -> (ClientBuilder, Arc<AtomicBool>) {
        let builder = self.builder();
        let (this, other, moved) = (Arc::clone(self), Arc::clone(other), Arc::default());
        let has_moved: Arc<AtomicBool> = Arc::clone(&moved);
        let connector = move |_: &Host| {
            let world = if has_moved.load(Ordering::Relaxed) { &other } else { &this };
            Ok(world.server.connect())
        };
        (builder.connector(connector), moved)
    }

    /// A client.
    pub async fn client(&self) -> Client {
        self.builder().connect("zk").await.expect("the server is there")
    }

    /// A lock with a client of its own.
    pub async fn lock(&self) -> Lock {
        Lock::new(&self.client().await, LOCK).expect("a path")
    }

    /// The names in the folder, sorted by their sequence numbers.
    pub fn queue(&self) -> Vec<String> {
        let mut names = self.server.children(LOCK);
        names.sort_by_key(|name| name[name.len() - 10..].to_owned());
        names
    }

    /// Makes the folder, as a plain node.
    pub async fn make_folder(&self) {
        let client = self.client().await;
        for path in ["/locks", LOCK] {
            client.create(path, b"", &CreateOptions::persistent()).await.expect("new");
        }
        client.close().await;
    }

    /// Checks that the holder is the first in the server's queue.
    pub fn is_owner(&self, hold: &Hold) {
        let queue = self.queue();
        let first = queue.first().unwrap_or_else(|| panic!("{hold:?} holds, and nobody is there"));
        assert!(hold.node().ends_with(first.as_str()), "{hold:?} holds and the queue is {queue:?}");
    }

    /// Checks that no contender and no watch is left.
    pub async fn is_empty(&self) {
        settle().await;
        assert_eq!(self.queue(), [""; 0]);
        assert_eq!(self.server.watch_count(), 0, "watches are left");
    }

    /// Takes the permission to read or change a node from every client.
    pub async fn hide(&self, path: &str) {
        let nobody = nobody();
        let acl = [zk_proto::Acl::from(&nobody)];
        let acl = List::new(&acl);
        let mut client = RawClient::open(&self.server).await;
        client.reply(&SetAclRequest { path, acl, version: -1 }).await;
    }

    /// How many requests the server gets while a future runs, pings included.
    pub async fn requests<T>(&self, act: impl Future<Output = T>) -> (u64, T) {
        let (costs, result) = self.costs(act).await;
        (costs.requests, result)
    }

    /// Refuses a hundred transactions, as a server that lags: it gets no answer to them from the
    /// others in time.
    pub fn refuse_transactions(&self) {
        self.inject(100, &Fault::refuse(ErrorCode::THROTTLED_OP).op(OpCode::MULTI));
    }

    /// What the server gets and sends while a future runs, pings included.
    pub async fn costs<T>(&self, act: impl Future<Output = T>) -> (Costs, T) {
        settle().await;
        let before = self.counts().await;
        let result = act.await;
        settle().await;
        // The four-letter word counts itself, and its answer.
        let after = self.counts().await;
        let requests = after.requests - before.requests - 1;
        (Costs { requests, events: after.events.wrapping_sub(before.events) }, result)
    }

    async fn counts(&self) -> Costs {
        let mut client = RawClient::connect(&self.server);
        client.write(b"srvr").await;
        Costs::of(&String::from_utf8_lossy(&client.bytes().await))
    }

    /// A client, its lock, and the guard of that lock.
    pub async fn holder(&self) -> (Client, Lock, Guard) {
        let client = self.client().await;
        let lock = Lock::new(&client, LOCK).expect("a path");
        let guard = lock.acquire().await.expect("the lock is free");
        (client, lock, guard)
    }

    /// A task that has queued up for a lock.
    pub async fn queued(lock: &Lock) -> JoinHandle<Result<Guard, Error>> {
        let lock = lock.clone();
        let waiting = tokio::spawn(async move { lock.acquire().await });
        settle().await;
        waiting
    }

    /// Has a fault happen so many times.
    pub fn inject(&self, times: usize, fault: &Fault) {
        for _ in 0..times {
            self.server.inject(fault.clone());
        }
    }

    /// Has a fault happen once, to a request of this client.
    pub fn inject_for(&self, client: &Client, fault: Fault) {
        self.server.inject(fault.session(client.session().expect("connected").id));
    }
}
