//! The value of one node at hand, across reconnects and sessions.
//!
//! A future follows the node: it reads it, with a watch, and reads it again when the watch fires.
//! What it finds goes through a watch channel of tokio, which holds the last value alone. The watch
//! is trusted only while the connection lasts; on the next one the node is read again.

use std::convert::Infallible;
use std::future::{Future, pending};

use tokio::sync::watch;
use zk_client::{Client, Error as ClientError, ErrorKind, Node, Op, SessionKeeper, Watcher, Zxid};

use crate::error::Error;
use crate::steady::quorum::{Quorum, has_quorum};
use crate::steady::retries::Attempts;
use crate::steady::wakeups::first_of;
use crate::steady::watch::{Awaited, pause};

/// Whether a [`Cached`] value may be outdated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Freshness {
    /// Nothing has been read yet.
    #[default]
    Unknown,
    /// The client is connected to a server with a quorum, and watches for the next change.
    ///
    /// The server may be some changes behind others, and the event of the next change may be on its
    /// way.
    Current,
    /// The client is cut off, between two sessions, at a server without a quorum, or may not read
    /// the node. The value is the last one that was read.
    Stale,
}

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
        let (tell, values) = watch::channel(Self::default());
        let (follower, keeper) = (Follower { path: path.to_owned(), tell }, keeper.clone());
        let following = async move {
            let unread = follower.tell.closed();
            follow_each(&keeper, unread, |client| follower.follow(client)).await
        };
        Ok((values, following))
    }
}

/// Runs `follow` in each session of a keeper, until that is over or nobody reads what it finds.
pub(super) async fn follow_each<W: Future<Output = Result<Infallible, Error>>>(
    keeper: &SessionKeeper,
    unread: impl Future<Output = ()>,
    follow: impl FnMut(Client) -> W,
) -> Result<(), Error> {
    let unread = async {
        unread.await;
        Ok(())
    };
    let following = async {
        let ended = keeper.run_each(follow).await;
        ended.map(|never: Infallible| match never {})
    };
    first_of(unread, following).await
}

/// Runs `read_on` on each connection of a session, and drops it when the connection ends. Returns
/// its error, and otherwise never: the end of the session is the end of this work.
pub(super) async fn on_each_connection<R: Future<Output = Result<Infallible, Error>>>(
    client: &Client,
    mut read_on: impl FnMut() -> R,
) -> Result<Infallible, Error> {
    loop {
        let mut states = Quorum::wait(client).await.into_states();
        if client.state().ended().is_some() {
            // The session is over, and so is this work.
            return pending().await;
        }
        let cut_off = async {
            // An error means that the session is over.
            drop(states.wait_for(|state| !has_quorum(state)).await);
            None
        };
        let reading = async { Some(read_on().await) };
        if let Some(Err(over)) = first_of(cut_off, reading).await {
            return Err(over);
        }
    }
}

/// True if the ensemble has lost what was `seen`, because older data took the place of its own.
///
/// A server that is behind may just lag. But the ensemble commits each transaction behind all that
/// any of its servers has shown, so one with a lower zxid is proof. A server without a quorum
/// commits none.
pub(super) async fn has_gone_back(client: &Client, error: &ClientError, seen: Zxid) -> bool {
    if error.kind() != ErrorKind::Behind {
        return false;
    }
    let empty = client.multi(Vec::<Op<'_>>::new()).with_zxid().await;
    empty.is_ok_and(|(_, committed)| committed < seen)
}

/// The future's side of a cached value.
struct Follower {
    path: String,
    tell: watch::Sender<Cached>,
}

impl Follower {
    /// Follows the node for one session. Returns only when that is over.
    async fn follow(&self, client: Client) -> Result<Infallible, Error> {
        let attempts = Attempts::default();
        let read_on = || async {
            let _outdated = Outdated(&self.tell);
            Ok(self.read_on(&client, &attempts).await?)
        };
        on_each_connection(&client, read_on).await
    }

    /// Reads the node whenever it has changed. Returns only when the session is over.
    ///
    /// A read that breaks each connection would take all other requests of the session with it. So
    /// after several failures in a row, it is made once in a session timeout.
    async fn read_on(
        &self,
        client: &Client,
        attempts: &Attempts,
    ) -> Result<Infallible, ClientError> {
        loop {
            let attempt = attempts.begin();
            if attempt.is_late() {
                pause(client).await;
            }
            let awaited = match self.look(client).await {
                Ok((node, watcher, zxid)) => {
                    attempt.has_succeeded();
                    self.found(node, zxid);
                    Awaited::from(watcher)
                }
                Err(error) if error.is_session_over() => return Err(error),
                Err(error) if attempt.may_retry(&error) => continue,
                Err(error) => {
                    self.failed(error.clone());
                    let seen = self.tell.borrow().zxid;
                    if has_gone_back(client, &error, seen).await {
                        // What is found now takes the place of what was seen.
                        self.tell.send_if_modified(|cached| {
                            cached.zxid = Zxid::default();
                            false
                        });
                        attempt.has_succeeded();
                        continue;
                    }
                    attempt.has_paused();
                    Awaited::default()
                }
            };
            changed(client, awaited).await;
        }
    }

    /// Reads the node, and sets a watch that fires when it changes.
    async fn look(&self, client: &Client) -> Result<(Option<Node>, Watcher, Zxid), ClientError> {
        let seen = self.tell.borrow().zxid;
        client.wait_for_zxid(seen).await?;
        loop {
            match client.get_data_and_watch(&self.path).with_zxid().await {
                Ok(((node, watcher), zxid)) => return Ok((Some(node), watcher, zxid)),
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error),
            }
            let ((stat, watcher), zxid) = client.exists_and_watch(&self.path).with_zxid().await?;
            if stat.is_none() {
                return Ok((None, watcher, zxid));
            }
        }
    }

    fn found(&self, node: Option<Node>, zxid: Zxid) {
        let version = |node: &Option<Node>| node.as_ref().map(|node| node.stat.mzxid);
        let found = Cached { node, freshness: Freshness::Current, error: None, zxid };
        self.tell.send_if_modified(|cached| {
            let is_known = cached.freshness == found.freshness
                && version(&cached.node) == version(&found.node);
            *cached = found;
            !is_known
        });
    }

    fn failed(&self, error: ClientError) {
        self.tell.send_if_modified(|cached| {
            let is_known = cached.error.is_some();
            cached.error = Some(error.into());
            cached.freshness.outdate() || !is_known
        });
    }
}

impl Freshness {
    /// Makes what was current stale. Returns whether it was.
    pub(super) fn outdate(&mut self) -> bool {
        let was_current = *self == Self::Current;
        if was_current {
            *self = Self::Stale;
        }
        was_current
    }
}

/// Marks the value as stale when a connection ends, or the future is dropped.
struct Outdated<'a>(&'a watch::Sender<Cached>);

impl Drop for Outdated<'_> {
    fn drop(&mut self) {
        self.0.send_if_modified(|cached| cached.freshness.outdate());
    }
}

/// Waits until the node may have changed. A watch that fails is as good as one that fires.
async fn changed(client: &Client, mut awaited: Awaited) {
    drop(awaited.changed(client).await);
}
