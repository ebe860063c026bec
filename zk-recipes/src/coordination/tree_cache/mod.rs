//! A subtree in memory, across reconnects and sessions.
//!
//! A future follows the tree: it sets one recursive watch, reads all nodes, and then reads each
//! node again that the watch reports. On each connection it begins anew, and keeps what is the same
//! as before.

mod reader;
mod shared;
mod status;
mod tree;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::watch;
use zk_client::{Client, Ended, Error as ClientError, SessionKeeper, WatchMode, Zxid};

use self::reader::Reader;
use self::shared::{Held, Shared};
use self::status::{begin_anew, tell_current};
use crate::coordination::follow::{Follow, Freshness, Stop, follow};
use crate::error::Error;
use crate::steady::retries::Attempts;

pub use self::shared::TreeLimits;
pub use self::status::TreeStatus;
pub use self::tree::{TreeNode, TreeView};

/// A node and everything below it, kept in memory by one recursive watch.
///
/// Reading it costs no request. Clones share the tree.
///
/// ```
/// # async fn f(keeper: zk_client::SessionKeeper) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_recipes::{Freshness, TreeCache, TreeLimits};
///
/// let (services, following) = TreeCache::follow(&keeper, "/services", TreeLimits::default())?;
/// tokio::spawn(following);
///
/// let mut status = services.status();
/// status.wait_for(|status| status.freshness == Freshness::Current).await?;
/// loop {
///     println!("at {}:", status.borrow_and_update().zxid);
///     for name in services.children("/services").unwrap_or_default() {
///         if let Some(node) = services.get(&format!("/services/{name}")) {
///             println!("{name}: {} bytes", node.data.len());
///         }
///     }
///     status.changed().await?; // an error once the keeper is closed
/// }
/// # }
/// ```
///
/// # What it promises
///
/// While the tree is [`Current`](crate::Freshness::Current), a change comes into it after the event
/// and one read. [`wait_for_zxid`](Self::wait_for_zxid) waits until a certain change is in it. A
/// node is never older than it was before, also when another server that lags answers, and in the
/// next session. While the tree is [`Stale`](crate::Freshness::Stale), it stays as it was, and is
/// then read again: until it is `Current`, parts of it may be newer than others.
///
/// The exception is an ensemble whose data was replaced by older data, for instance from a backup.
/// It looks like a server that lags, for one session timeout, and the tree is `Stale` with the
/// error [`Behind`](zk_client::ErrorKind::Behind). Then an empty transaction shows that the
/// ensemble itself is behind, and the tree begins anew: its zxid goes back to 0, and then becomes
/// that of the new data. The nodes stay until they are read again.
///
/// A server [without a quorum](zk_client::SessionState::ConnectedReadOnly) gives no current tree:
/// while the client is connected to one, the tree is `Stale`, as while the client is cut off.
///
/// Changes of several nodes in one transaction may be seen one after another, before the
/// [epoch](TreeStatus::epoch) that has them all.
///
/// # What is not in it
///
/// Nodes that the session may not read, and everything below them. A change of an access list is no
/// event: such a node comes or goes when it is read the next time.
#[derive(Clone, Debug)]
pub struct TreeCache {
    keeper: SessionKeeper,
    shared: Arc<Shared>,
    status: watch::Receiver<TreeStatus>,
}

impl TreeCache {
    /// Follows a node, which need not exist, and everything below it, in each session of a keeper.
    ///
    /// Returns the tree, and the future that follows it, which is to be spawned.
    ///
    /// # The future
    ///
    /// It ends when all clones of the tree and all receivers of its [status](Self::status) are
    /// dropped, with `Ok`. It ends with an error when the keeper is over, or when the tree is
    /// larger than its limits: [`TreeTooLarge`](crate::ErrorKind::TreeTooLarge). Until then it
    /// keeps the keeper and its session alive, as a clone of the keeper would, and so does the
    /// tree. Dropping the future removes the watch, and leaves the last tree as stale.
    ///
    /// # Cost
    ///
    /// On each connection a watch, a read of each node and another one of each node that has
    /// children, up to 128 of them in flight at once. Then one event and one read for each change;
    /// changes of a node that follow one another while it is read are one. Without a change, there
    /// is one read in each session timeout. A server that is behind costs an empty transaction in
    /// each session timeout.
    ///
    /// The memory is that of the paths and the data, and up to 150 bytes for each node. While many
    /// nodes are read, there are also the paths that are to be read, and those that have changed
    /// meanwhile. The limits bound the tree when it has been read. They may be passed
    /// twofold before that, because a node may be read at its new place before the old one is
    /// removed.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper.
    ///
    /// All other errors are in the [status](TreeStatus::error), and what failed is repeated in each
    /// session timeout: a root that the session may not read; a server before 3.6, which has no
    /// recursive watches ([`Unimplemented`](zk_client#old-servers)).
    pub fn follow(
        keeper: &SessionKeeper,
        path: &str,
        limits: TreeLimits,
    ) -> Result<(Self, impl Future<Output = Result<(), Error>> + Send + use<>), Error> {
        zk_client::check_path(path)?;
        let (sender, status) = watch::channel(TreeStatus::default());
        let shared = Arc::new(Shared {
            root: path.to_owned(),
            limits,
            tree: Held::default(),
            wanted: watch::Sender::default(),
        });
        let follower = Follower { shared: Arc::clone(&shared), sender };
        let following = follow(keeper.clone(), follower);
        Ok((Self { keeper: keeper.clone(), shared, status }, following))
    }

    /// A receiver of the status, for instance to wait for the next change of the tree.
    ///
    /// Changes that follow one another quickly may be one. The tree may already be newer than the
    /// status, but is never older.
    pub fn status(&self) -> watch::Receiver<TreeStatus> {
        self.status.clone()
    }

    /// A node of the tree, or `None` if there is none at this path.
    pub fn get(&self, path: &str) -> Option<TreeNode> {
        self.read(|tree| tree.get(path).cloned())
    }

    /// The names of a node's children, sorted; `None` if there is no such node.
    pub fn children(&self, path: &str) -> Option<Vec<String>> {
        self.read(|tree| tree.children(path).map(|names| names.map(str::to_owned).collect()))
    }

    /// Looks at several nodes at one moment, and without a copy.
    ///
    /// The tree does not change meanwhile, and its future waits, with its thread. So `look` must
    /// not block, nor wait for a look of another thread. Another look inside of it, on the same
    /// thread, never waits for a change, whichever tree it is at.
    pub fn read<R>(&self, look: impl FnOnce(&TreeView) -> R) -> R {
        self.shared.tree.look(look)
    }

    /// Waits until every change up to `zxid` is in the tree.
    ///
    /// With the zxid of a write, from [`with_zxid`](zk_client::Reply::with_zxid) or a
    /// [`Stat`](zk_client::Stat), this makes the tree show that write:
    ///
    /// ```
    /// # use zk_client::{Client, SessionKeeper};
    /// # use zk_recipes::{Error, TreeCache};
    /// # async fn f(client: &Client, tree: &TreeCache) -> Result<(), Error> {
    /// let (_, zxid) = client.set_data("/services/shop", b"2", None).with_zxid().await?;
    /// tree.wait_for_zxid(zxid).await?;
    /// assert!(tree.get("/services/shop").is_some_and(|node| node.mzxid >= zxid));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// None if the tree has come so far. Else a read, and before it a
    /// [sync](zk_client::Client::wait_for_zxid) if the session has not seen that zxid. Several
    /// calls at once share the read.
    ///
    /// # Replaced data
    ///
    /// If the ensemble's data is replaced by older data meanwhile, this fails with
    /// [`Behind`](zk_client::ErrorKind::Behind) unless the new data comes so far within one session
    /// timeout. Until the tree has begun anew, a zxid of the new data is taken for an earlier one,
    /// which the tree has.
    ///
    /// # Errors
    ///
    /// [`Behind`](zk_client::ErrorKind::Behind) if no server has come so far within one session
    /// timeout; why the tree [could not be read](TreeStatus::error);
    /// [`Closed`](zk_client::ErrorKind::Closed) if nobody follows the tree any more. While the
    /// client is cut off, this waits.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn wait_for_zxid(&self, zxid: Zxid) -> Result<(), Error> {
        let mut status = self.status.clone();
        loop {
            if status.borrow().zxid >= zxid {
                return Ok(());
            }
            self.keeper.run_each(|client| async move { client.wait_for_zxid(zxid).await }).await?;
            self.shared.wanted.send_if_modified(|wanted| {
                let before = std::mem::replace(wanted, zxid.max(*wanted));
                before < zxid
            });
            let is_over = |status: &TreeStatus| {
                // If the tree begins anew, what is wanted is let go.
                let has_begun_anew = *self.shared.wanted.borrow() < zxid;
                status.zxid >= zxid || status.error.is_some() || has_begun_anew
            };
            let Ok(told) = status.wait_for(is_over).await else {
                return Err(ClientError::from(Ended::Closed).into());
            };
            if let Some(error) = told.error.as_ref().filter(|_| told.zxid < zxid) {
                return Err(error.clone());
            }
        }
    }
}

/// The future's side of a tree.
struct Follower {
    shared: Arc<Shared>,
    sender: watch::Sender<TreeStatus>,
}

impl Follow for Follower {
    type Value = TreeStatus;

    fn sender(&self) -> &watch::Sender<TreeStatus> {
        &self.sender
    }

    fn freshness_and_error(value: &mut TreeStatus) -> (&mut Freshness, &mut Option<Error>) {
        (&mut value.freshness, &mut value.error)
    }

    fn seen(&self) -> Zxid {
        let newest = self.shared.tree.look(|tree| tree.newest);
        newest.max(*self.shared.wanted.borrow())
    }

    fn begin_anew(&self) {
        self.shared.tree.change(|tree| tree.newest = Zxid::default());
        begin_anew(&self.sender, || self.shared.wanted.send_replace(Zxid::default()));
    }

    /// Reads the tree, and each node of it again that has changed.
    async fn keep_up(&self, client: &Client, attempts: &Attempts) -> Result<Infallible, Stop> {
        // Nothing older is read than what the tree has.
        let newest = self.shared.tree.look(|tree| tree.newest);
        client.wait_for_zxid(newest).await?;
        let watch = client.watch(&self.shared.root, WatchMode::PersistentRecursive);
        let (events, since) = watch.with_zxid().await?;
        let mut reader = Reader::new(client, &self.shared, events, since);
        loop {
            let reached = reader.read_changed().await?;
            attempts.note_success();
            self.publish(reached);
            reader.wait(reached).await?;
        }
    }
}

impl Follower {
    /// Tells that the tree is current.
    fn publish(&self, reached: Zxid) {
        let now = self.shared.tree.change(|tree| {
            tree.is_whole = true;
            let (epoch, nodes, bytes) = (tree.changes, tree.nodes.len(), tree.bytes);
            TreeStatus { zxid: reached, epoch, nodes, bytes, ..TreeStatus::default() }
        });
        tell_current(&self.sender, now, || *self.shared.wanted.borrow());
    }
}
