//! A barrier: a node that keeps everybody waiting while it exists.

use zk_client::{Client, CreateOptions, EventType, Stat};

use crate::error::Error;
use crate::steady::absent::unless_absent;
use crate::steady::quorum::{Quorum, by_quorum};
use crate::steady::retries::{Retries, with_retries};
use crate::steady::watch::Awaited;

/// A barrier: whoever comes to it waits while it is closed.
///
/// ```
/// # async fn migrate() {}
/// # async fn f(client: &zk_client::Client) -> Result<(), zk_recipes::Error> {
/// use zk_recipes::Barrier;
///
/// let migration = Barrier::new(client, "/barriers/migration")?;
///
/// // One process: keeps the others out.
/// migration.close().await?;
/// migrate().await;
/// migration.open().await?;
///
/// // All others, before they begin.
/// migration.wait().await?;
/// # Ok(())
/// # }
/// ```
///
/// The barrier is closed while the node at its path exists. The node is persistent: it stays closed
/// when the process that closed it has gone, and anybody can open it.
///
/// When it is opened, all who wait go on at once, and the server notifies each of them. That is
/// what a barrier is for. Whoever must go on alone takes a [`Lock`](crate::Lock).
///
/// # What it does not promise
///
/// A barrier keeps nobody out who is past it: closing it does not stop work that has begun. To let
/// work stop, hold a lock.
///
/// # Servers without a quorum
///
/// A [read-only](zk_client::SessionState::ConnectedReadOnly) server lets nobody pass: while the
/// client is connected to one, every question waits, as it does while the client is cut off, and
/// [`close`](Self::close) is refused.
///
/// # Who shares it
///
/// Curator's `DistributedBarrier` and kazoo's `Barrier`.
#[derive(Clone, Debug)]
pub struct Barrier {
    client: Client,
    path: String,
}

impl Barrier {
    /// Makes a barrier of the node at `path`.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper.
    pub fn new(client: &Client, path: &str) -> Result<Self, Error> {
        zk_client::check_path(path)?;
        Ok(Self { client: client.clone(), path: path.to_owned() })
    }

    /// The path of the node.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Closes the barrier. If it is closed already, this changes nothing.
    ///
    /// Missing ancestors are created as containers. It costs one round trip, or two if there are
    /// some.
    ///
    /// # Errors
    ///
    /// As any write, for instance without permission. A lost connection is one only if several
    /// break in a row.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the barrier may be closed or not.
    pub async fn close(&self) -> Result<(), Error> {
        let options = CreateOptions::persistent().container_parents();
        match with_retries(|| self.client.create_all(&self.path, b"", &options)).await {
            Err(error) if !error.is_node_exists() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Opens the barrier for all who wait. If it is open already, this changes nothing.
    ///
    /// If a reply is lost, this looks whether the barrier is still the one that it was to open. So
    /// it does not open one that somebody closed anew meanwhile, unless that happens between the
    /// look and the delete.
    ///
    /// It costs two round trips.
    ///
    /// # Errors
    ///
    /// As [`close`](Self::close).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the barrier may be open or not.
    pub async fn open(&self) -> Result<(), Error> {
        let mut retries = Retries::default();
        let mut closed = None;
        while let Some(stat) = self.look().await? {
            if *closed.get_or_insert(stat.czxid) != stat.czxid {
                break;
            }
            match unless_absent(self.client.delete(&self.path, None).await) {
                Ok(_) => return Ok(()),
                Err(error) => retries.count(error)?,
            }
        }
        Ok(())
    }

    /// True if the barrier is open, as the server sees it to which the client is connected. Waits
    /// while that has [no quorum](Self#servers-without-a-quorum).
    ///
    /// # Errors
    ///
    /// As any read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn is_open(&self) -> Result<bool, Error> {
        Ok(self.look().await?.is_none())
    }

    /// Waits until the barrier is open. Returns at once if it is.
    ///
    /// A barrier that is opened and closed again lets those go on who have waited, even if they
    /// were cut off at that time.
    ///
    /// An open barrier costs one round trip and leaves no watch behind. A closed one costs the same
    /// and one event, and a read in each session timeout: servers do not report the end of a node
    /// to a client that may no longer read it.
    ///
    /// # Errors
    ///
    /// As any read, for instance without permission, and the end of the session. A lost connection
    /// is one only if several break in a row over the reads.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future removes its watch, and loses nothing.
    pub async fn wait(&self) -> Result<(), Error> {
        let mut closed = None;
        let mut retries = Retries::default();
        loop {
            let quorum = Quorum::unless_read_only(&self.client).await;
            let found = self.client.get_data_and_watch(&self.path).await;
            let stands = quorum.stands();
            match found {
                Ok((node, watcher)) if stands => {
                    retries.reset();
                    // Another node means that the one that we have waited for is gone.
                    if *closed.get_or_insert(node.stat.czxid) != node.stat.czxid {
                        return Ok(());
                    }
                    // The event may be that of a server without a quorum, as a reply may be.
                    let event = Awaited::from(watcher).changed(&self.client).await?;
                    let is_gone = event.is_some_and(|event| event.kind == EventType::NODE_DELETED);
                    if is_gone && quorum.stands() {
                        return Ok(());
                    }
                }
                Ok((_, watcher)) => watcher.abandon(),
                Err(error) if error.is_no_node() && stands => return Ok(()),
                Err(error) if error.is_no_node() => {}
                Err(error) => retries.count(error)?,
            }
        }
    }

    /// The state of the node, if the barrier is closed.
    async fn look(&self) -> Result<Option<Stat>, Error> {
        let look = || by_quorum(&self.client, || self.client.exists(&self.path));
        Ok(with_retries(look).await?)
    }
}
