//! The source of a claim's clients: a server of any kind, reached in any way.
//!
//! A claim sees only a tree that is new and empty, and clients that may each be on another server
//! of it; so another client reads what one has written only after a sync. A connector makes the
//! connections, and the servers are kept as long as the target is.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use zk_client::{Client, ClientBuilder, Connector, CreateOptions, Dialect, OpCode};

use crate::fault::Way;
use crate::server::{Ensemble, Standalone};

/// The session timeout that clients of a target ask for. Each server decides what they get.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(15);

/// Servers that share one tree, and how clients reach it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The connect string without a chroot.
    servers: String,
    /// The node that claims see as their root; empty for the servers' own root.
    root: String,
    way: Way,
    /// What the servers understand.
    dialect: Dialect,
    /// The servers, which end with the last target.
    keep: Arc<dyn Any + Send + Sync>,
}

impl Target {
    /// Servers at these addresses, which last as long as `keep` does.
    pub fn new(servers: impl Into<String>, keep: impl Any + Send + Sync) -> Self {
        let (servers, root, keep) = (servers.into(), String::new(), Arc::new(keep));
        Self { servers, root, way: Way::default(), dialect: Dialect::apache(), keep }
    }

    /// The same servers, which understand this.
    #[must_use]
    pub fn speaking(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
    }

    /// The same servers, reached in another way.
    ///
    /// An example is TLS, for which they listen at other addresses.
    #[must_use]
    pub fn reached(self, servers: impl Into<String>, by: impl Connector) -> Self {
        Self { servers: servers.into(), way: Way::new(by), ..self }
    }

    /// The same servers, with an empty tree at a new node for each of these names.
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

    /// Waits until every server has applied all earlier writes: a new client may get any server.
    pub async fn catch_up(&self) -> Result<()> {
        for client in self.connect_to_each().await? {
            client.sync("/").await?;
            client.close().await;
        }
        Ok(())
    }

    /// The connect string of this tree.
    pub fn servers(&self) -> String {
        format!("{}{}", self.servers, self.root)
    }

    /// The builder of every client of this target.
    ///
    /// Servers on a busy machine may be silent for seconds, which claims are not about.
    pub fn builder(&self) -> ClientBuilder {
        let builder = Client::builder().session_timeout(SESSION_TIMEOUT).dialect(self.dialect);
        builder.connector(self.way.clone())
    }

    /// The operation that clients of these servers send for this one: the create of any other node
    /// stands in for that of a container, and the oldest create for that.
    pub fn op(&self, op: OpCode) -> OpCode {
        match op {
            _ if self.dialect.understands(op) => op,
            OpCode::CREATE_CONTAINER => self.op(OpCode::CREATE2),
            OpCode::CREATE2 => OpCode::CREATE,
            op => op,
        }
    }

    /// What a client sends once more for each node that it creates and owns: where the reply to a
    /// create has no Stat, and its zxid may be another's, the node is read.
    pub(crate) fn read_when_created(&self) -> Option<OpCode> {
        (self.op(OpCode::CREATE2) == OpCode::CREATE).then_some(OpCode::EXISTS)
    }

    /// What sets the two watches of a contender that waits.
    pub(crate) fn set_two_watches(&self) -> &'static [OpCode] {
        match self.dialect.understands(OpCode::SET_WATCHES) {
            true => &[OpCode::SET_WATCHES],
            false => &[OpCode::EXISTS; 2],
        }
    }

    /// The connector of this target.
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// Whether the servers count the nodes below a quota: the embedded one does not.
    pub fn counts_quotas(&self) -> bool {
        let kept: &dyn Any = &*self.keep;
        !(kept.is::<zk_embedded::Server>() || kept.is::<Arc<zk_embedded::Server>>())
    }

    /// A client that sees this tree.
    pub async fn connect(&self) -> Result<Client> {
        Ok(self.builder().connect(&self.servers()).await?)
    }

    /// A client for each of the servers, connected only to that one.
    pub async fn connect_to_each(&self) -> Result<Vec<Client>> {
        let mut clients = Vec::new();
        for server in self.servers.split(',') {
            let servers = format!("{server}{}", self.root);
            clients.push(self.builder().connect(&servers).await?);
        }
        Ok(clients)
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
