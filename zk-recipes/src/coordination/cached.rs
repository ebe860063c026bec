//! The value of one node at hand, across reconnects and sessions.
//!
//! A future follows the node: it reads it, with a watch, and reads it again when the watch fires.

use std::convert::Infallible;
use std::future::Future;

use tokio::sync::watch;
use zk_client::{Client, Error as ClientError, Node, SessionKeeper, Watcher, Zxid};

use crate::coordination::follow::{Follow, Freshness, Stop, follow};
use crate::error::Error;
use crate::steady::absent::unless_absent;
use crate::steady::retries::Attempts;
use crate::steady::watch::Awaited;

/// What is known of a node: see [`Cached::follow`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Cached {
    /// The node as it was read last. `None` if there was none, or if nothing was read yet.
    pub node: Option<Node>,
    /// Whether it may be outdated.
    pub freshness: Freshness,
    /// Why the node could not be read, if the last attempt failed for another reason than a lost
    /// connection, for instance without permission.
    pub error: Option<Error>,
    /// What the server had applied when the node was read.
    zxid: Zxid,
}

impl Cached {
    /// Follows a node, which need not exist, in each session of a keeper.
    ///
    /// Returns the receiver of its values, and the future that follows it, which is to be spawned.
    /// For the live configuration of a service:
    ///
    /// ```
    /// # fn apply(_: Option<&[u8]>) {}
    /// # async fn f(keeper: zk_client::SessionKeeper) -> Result<(), Box<dyn std::error::Error>> {
    /// use zk_recipes::{Cached, Freshness};
    ///
    /// let (mut config, following) = Cached::follow(&keeper, "/config/shop")?;
    /// tokio::spawn(following);
    ///
    /// // Do not begin to serve without it, nor wait for a permission that is missing.
    /// let is_read = |it: &Cached| it.freshness == Freshness::Current || it.error.is_some();
    /// if let Some(error) = config.wait_for(is_read).await?.error.clone() {
    ///     return Err(error.into());
    /// }
    /// loop {
    ///     let now = config.borrow_and_update().clone();
    ///     apply(now.node.as_ref().map(|node| &node.data[..]));
    ///     if now.freshness == Freshness::Stale {
    ///         println!("cut off: this may be outdated");
    ///     }
    ///     config.changed().await?; // an error once the keeper is closed
    /// }
    /// # }
    /// ```
    ///
    /// # What the receiver gets
    ///
    /// Values that follow one another quickly may be left out, but the last one never is. A value
    /// is never older than the one before, also when another server that lags answers, and in the
    /// next session: the value stays [`Stale`](Freshness::Stale) until the server has caught up,
    /// after one session timeout with the error [`Behind`](zk_client::ErrorKind::Behind).
    ///
    /// The exception is an ensemble whose data was replaced by older data, for instance from a
    /// backup. It looks like a server that lags, until that error. Then an empty transaction shows
    /// that the ensemble itself is behind, and the value is read anew.
    ///
    /// # The future
    ///
    /// It ends when all receivers are dropped, with `Ok`, or when the keeper is over, with its
    /// error. Until then it keeps the keeper and its session alive, as a clone of the keeper would.
    /// Dropping it removes the watch, and leaves the last value to the receivers as stale.
    ///
    /// # Cost
    ///
    /// One watch, and one read for each change and each connection; two while there is no node. An
    /// event is not sent to a client that may no longer read the node, so there is also one read in
    /// each session timeout without a change. When a read is refused, it is repeated as seldom. A
    /// server that is behind costs an empty transaction in each session timeout. The memory is that
    /// of one value.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper.
    pub fn follow(
        keeper: &SessionKeeper,
        path: &str,
    ) -> Result<
        (watch::Receiver<Self>, impl Future<Output = Result<(), Error>> + Send + use<>),
        Error,
    > {
        zk_client::check_path(path)?;
        let (sender, values) = watch::channel(Self::default());
        let follower = Follower { path: path.to_owned(), sender };
        Ok((values, follow(keeper.clone(), follower)))
    }
}

/// The future's side of a cached value.
struct Follower {
    path: String,
    sender: watch::Sender<Cached>,
}

impl Follow for Follower {
    type Value = Cached;

    fn sender(&self) -> &watch::Sender<Cached> {
        &self.sender
    }

    fn freshness_and_error(value: &mut Cached) -> (&mut Freshness, &mut Option<Error>) {
        (&mut value.freshness, &mut value.error)
    }

    fn seen(&self) -> Zxid {
        self.sender.borrow().zxid
    }

    fn begin_anew(&self) {
        self.sender.send_if_modified(|cached| {
            cached.zxid = Zxid::default();
            false
        });
    }

    async fn keep_up(&self, client: &Client, attempts: &Attempts) -> Result<Infallible, Stop> {
        let version =
            |cached: &Cached| (cached.freshness, cached.node.as_ref().map(|node| node.stat.mzxid));
        loop {
            let (node, watcher, zxid) = self.look(client).await?;
            attempts.note_success();
            let found = Cached { node, freshness: Freshness::Current, error: None, zxid };
            self.sender.send_if_modified(|cached| {
                let is_known = version(cached) == version(&found);
                *cached = found;
                !is_known
            });
            // A watch that fails is as good as one that fires.
            drop(Awaited::from(watcher).changed(client).await);
            // The next look counts as an attempt, since it may end the connection.
            attempts.begin();
        }
    }
}

impl Follower {
    /// Reads the node, and sets a watch that fires when it changes.
    async fn look(&self, client: &Client) -> Result<(Option<Node>, Watcher, Zxid), ClientError> {
        client.wait_for_zxid(self.seen()).await?;
        loop {
            let read = client.get_data_and_watch(&self.path).with_zxid().await;
            if let Some(((node, watcher), zxid)) = unless_absent(read)? {
                return Ok((Some(node), watcher, zxid));
            }
            let ((stat, watcher), zxid) = client.exists_and_watch(&self.path).with_zxid().await?;
            if stat.is_none() {
                return Ok((None, watcher, zxid));
            }
        }
    }
}
