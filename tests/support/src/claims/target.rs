//! Where a claim gets its clients from: a server of any kind, reached in any way.
//!
//! A claim sees nothing but a tree that is new and empty, and clients that may each be at another
//! server of it; so what one has written, another reads after a sync. How connections are made is
//! said by a connector, and what serves them is kept for as long as the target is.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use zk_client::{Client, ClientBuilder, Connector, CreateOptions};

use crate::fault::Way;
use crate::server::{Ensemble, Standalone, four_letter};

/// What clients of a target ask for. Each server decides what they get.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(15);

/// Servers that share one tree, and how clients reach it.
#[derive(Clone)]
pub struct Target {
    /// Without a chroot.
    servers: String,
    /// The node that claims see as their root; empty for the servers' own.
    root: String,
    way: Way,
    /// Where four-letter words are answered, in the clear.
    words: Vec<String>,
    /// What serves, and ends with the last of the targets.
    keep: Arc<dyn Any + Send + Sync>,
}

impl Target {
    /// Servers at these addresses, which last as long as `keep` does.
    pub fn new(servers: impl Into<String>, keep: impl Any + Send + Sync) -> Self {
        let servers: String = servers.into();
        let words = servers.split(',').map(str::to_owned).collect();
        let way = Way::default();
        Self { servers, root: String::new(), way, words, keep: Arc::new(keep) }
    }

    /// The same servers, where clients reach them in another way: through TLS, say, for which
    /// they listen at other addresses. Four-letter words go where they went.
    #[must_use]
    pub fn reached(self, servers: impl Into<String>, by: impl Connector) -> Self {
        Self { servers: servers.into(), way: Way::new(by), ..self }
    }

    /// The same servers, with an empty tree of its own at a new node for each of these names.
    pub async fn divided(&self, names: &[&str]) -> Result<Vec<Self>> {
        let client = self.connect().await?;
        for name in names {
            client.create(&format!("/{name}"), b"", &CreateOptions::persistent()).await?;
        }
        client.close().await;
        self.catch_up().await?;
        let part = |name| Self { root: format!("{}/{name}", self.root), ..self.clone() };
        Ok(names.iter().map(part).collect())
    }

    /// Waits until every server knows what was written before: a new client may come to any.
    pub async fn catch_up(&self) -> Result<()> {
        for server in self.servers.split(',') {
            let client = self.builder().connect(server).await?;
            client.sync("/").await?;
            client.close().await;
        }
        Ok(())
    }

    /// The connect string of this tree.
    pub fn servers(&self) -> String {
        format!("{}{}", self.servers, self.root)
    }

    /// What the servers call the root of this tree, if it is a part: empty if it is the whole.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// What every client of this target is made with. Servers on a busy machine may be silent for
    /// seconds, which is not what a claim is about.
    pub fn builder(&self) -> ClientBuilder {
        Client::builder().session_timeout(SESSION_TIMEOUT).connector(self.way.clone())
    }

    /// How connections are made.
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// Whether the servers count what is below a quota: the embedded one does not.
    pub fn counts_quotas(&self) -> bool {
        let kept: &dyn Any = &*self.keep;
        !(kept.is::<zk_embedded::Server>() || kept.is::<Arc<zk_embedded::Server>>())
    }

    /// A client that sees this tree.
    pub async fn connect(&self) -> Result<Client> {
        Ok(self.builder().connect(&self.servers()).await?)
    }

    /// For each of the servers, a client that is at that one alone.
    pub async fn connect_to_each(&self) -> Result<Vec<Client>> {
        let mut clients = Vec::new();
        for server in self.servers.split(',') {
            let servers = format!("{server}{}", self.root);
            clients.push(self.builder().connect(&servers).await?);
        }
        Ok(clients)
    }

    /// A client that sees the part of this tree at `chroot`.
    pub async fn connect_at(&self, chroot: &str) -> Result<Client> {
        Ok(self.builder().connect(&format!("{}{chroot}", self.servers())).await?)
    }

    /// How many paths of this tree are watched, for data, by anybody.
    pub async fn watched(&self) -> Result<usize> {
        let mut watched = 0;
        for address in &self.words {
            let answer = four_letter(address, "wchp").await?;
            let below = |line: &&str| {
                let inside = line.strip_prefix(&self.root);
                inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            watched += answer.lines().filter(|line| !line.is_empty()).filter(below).count();
        }
        Ok(watched)
    }
}

impl From<Standalone> for Target {
    fn from(server: Standalone) -> Self {
        Self::new(server.address().to_owned(), server)
    }
}

impl From<Ensemble> for Target {
    fn from(ensemble: Ensemble) -> Self {
        Self::new(ensemble.connect_string(), ensemble)
    }
}

impl From<zk_embedded::Server> for Target {
    fn from(server: zk_embedded::Server) -> Self {
        Self::new(server.address().to_owned(), server)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.servers())
    }
}
