//! A server in memory, and what tests of locks ask it: which contenders are in the queue, and what
//! is left behind.

use std::future::Future;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zk_client::{Acl, Client, ClientBuilder, CreateOptions, Id, Perms};
use zk_embedded::{Config, Server};
use zk_proto::{List, SetAclRequest};
use zk_recipes::{Hold, Lock};

pub use crate::explore::settle;
use crate::raw::RawClient;

/// The lock's folder in most tests.
pub const LOCK: &str = "/locks/one";

/// The session timeout of most tests.
pub const TIMEOUT: Duration = Duration::from_secs(6);

/// An identity that no connection in memory has.
pub fn nobody() -> Acl {
    Acl::new(Perms::ALL, Id::ip("10.0.0.1"))
}

/// A server in memory.
#[derive(Debug)]
pub struct World {
    /// The server.
    pub server: Server,
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
        Self { server: Server::in_memory(config) }
    }

    /// The builder of its clients.
    pub fn builder(&self) -> ClientBuilder {
        Client::builder().session_timeout(TIMEOUT).connector(self.server.connector())
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
        settle().await;
        let before = self.received().await;
        let result = act.await;
        settle().await;
        // The four-letter word counts itself.
        (self.received().await - before - 1, result)
    }

    async fn received(&self) -> u64 {
        let mut connection = self.server.connect();
        connection.write_all(b"srvr").await.expect("in memory");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.expect("in memory");
        let received = answer.lines().find_map(|line| line.strip_prefix("Received: "));
        received.and_then(|n| n.parse().ok()).expect("a number")
    }
}
