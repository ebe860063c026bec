//! The handle that users hold: one method per operation.
//!
//! A call checks its path, encodes its request into the session and returns; whatever is awaited
//! is only the answer. Knows nothing of sockets, servers or time.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{oneshot, watch};
use zk_proto::{
    Create2Response, CreateRequest, DeleteRequest, ErrorCode, ExistsRequest, ExistsResponse,
    GetChildren2Request, GetChildren2Response, GetDataRequest, GetDataResponse, List, OpCode,
    Operation, SetDataRequest, SetDataResponse, Stat, SyncRequest, SyncResponse,
};

use crate::clock::Clock;
use crate::config::SessionCredentials;
use crate::error::{Error, Failure, Rejected};
use crate::event::{SessionState, WatchMode};
use crate::inbox::Inbox;
use crate::link::{Completion, Core, Link};
use crate::multi::{self, Named, Op, OpResult};
use crate::node::{Children, CreateOptions, Created, Node};
use crate::path::{self, Chroot};
use crate::reply::{Call, Reply};
use crate::session::{Watch, WatchKind};
use crate::stream::WatchStream;
use crate::watcher::Watcher;

/// Data below this size is copied out of the buffer it was read into, so that a value that is kept
/// does not keep 64 KiB with it.
const COPY_BELOW: usize = 32 * 1024;

/// Any version will do.
const ANY_VERSION: i32 = -1;

/// A session with a ZooKeeper ensemble.
///
/// Clones share the session. Dropping the last of them, and of the
/// [`OwnedNode`](crate::OwnedNode)s, closes it in the background; [`close`](Client::close) does so
/// and waits.
///
/// # Ordering
///
/// A call's request is on its way when the call returns, whether or not the [`Reply`] is awaited:
/// requests reach the server in call order and are answered in that order. A watch event is
/// delivered before any reply that reflects the change.
///
/// # Cancel safety
///
/// No method loses anything by being dropped: a request is sent in any case, and a wait can be
/// repeated.
///
/// # Errors
///
/// Every method fails if its path breaks a rule, its request is above
/// [`Limits`](crate::Limits), the server refuses, the connection breaks before the answer, or the
/// session is over. While the client is cut off, requests wait for the next connection; those that
/// were sent before fail with [`ConnectionLoss`](crate::ErrorKind::ConnectionLoss) and
/// [`outcome`](Error::outcome) `Unknown`.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
    pub(crate) chroot: Chroot,
}

/// What the clones of a client share; dropping it closes the session.
struct Handle(Arc<Link>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.with(Core::close);
    }
}

impl Client {
    pub(crate) fn new(link: Arc<Link>, chroot: Chroot) -> Self {
        Self { handle: Arc::new(Handle(link)), chroot }
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.handle.0
    }

    /// Creates a node. The parent must exist.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use zk_client::CreateOptions;
    ///
    /// let options = CreateOptions::persistent().sequential();
    /// let created = client.create("/jobs/job-", b"42", &options).await?;
    /// assert!(created.path.starts_with("/jobs/job-"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(&self, path: &str, data: &[u8], options: &CreateOptions<'_>) -> Reply<Created> {
        let CreateOptions { mode, acl } = *options;
        let check = if mode.is_sequential() { path::check_sequential } else { path::check };
        self.at(path, check, |full| {
            let acl = List::new(acl);
            let request = CreateRequest { path: full, data: Some(data), acl, mode };
            self.send(path, &request, |call, completion| {
                let answer = call.answer(completion)?;
                let Create2Response { path, stat } = call.decode(&answer)?;
                Ok(Created { path: call.chroot.strip(path).to_owned(), stat })
            })
        })
    }

    /// Deletes a node that has no children, if it is at `version` or that is `None`.
    pub fn delete(&self, path: &str, version: Option<i32>) -> Reply<()> {
        self.at(path, path::check, |full| {
            let request = DeleteRequest { path: full, version: version.unwrap_or(ANY_VERSION) };
            self.send(path, &request, |call, completion| call.answer(completion).map(drop))
        })
    }

    /// The state of a node, or `None` if there is none.
    pub fn exists(&self, path: &str) -> Reply<Option<Stat>> {
        self.at(path, path::check, |full| {
            let request = ExistsRequest { path: full, watch: false };
            self.send(path, &request, exists)
        })
    }

    /// The same, with a watch for the node's creation, change or deletion.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// let (stat, mut watch) = client.exists_and_watch("/ready").await?;
    /// if stat.is_none() {
    ///     watch.changed().await?; // created
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn exists_and_watch(&self, path: &str) -> Reply<(Option<Stat>, Watcher)> {
        self.at(path, path::check, |full| {
            let request = ExistsRequest { path: full, watch: true };
            self.send_watching(path, full, &request, WatchKind::Exist, exists)
        })
    }

    /// A node's data and state.
    pub fn get_data(&self, path: &str) -> Reply<Node> {
        self.at(path, path::check, |full| {
            self.send(path, &GetDataRequest { path: full, watch: false }, node)
        })
    }

    /// The same, with a watch for the node's change or deletion.
    pub fn get_data_and_watch(&self, path: &str) -> Reply<(Node, Watcher)> {
        self.at(path, path::check, |full| {
            let request = GetDataRequest { path: full, watch: true };
            self.send_watching(path, full, &request, WatchKind::Data, node)
        })
    }

    /// Watches many nodes for change or deletion, by one request and without reading them: for
    /// whoever has just listed them.
    ///
    /// The watchers come in the order of `paths`. That of a node which is gone, or was written to
    /// since the last answer of the server, has fired by then, with an event marked as
    /// [`missed`](crate::WatchedEvent::missed); all others are set, at one moment. Nobody asks
    /// whether the nodes may be read: servers of 3.8.4, 3.9.2 and later tell nothing of those that
    /// may not.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// for mut watcher in client.watch_nodes(&["/a", "/b"]).await? {
    ///     println!("{:?}", watcher.changed().await?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch_nodes(&self, paths: &[&str]) -> Reply<Vec<Watcher>> {
        let mut nodes = Vec::new();
        let mut events = Vec::new();
        for path in paths {
            if let Err(error) = path::check(path) {
                return Reply::failed(error);
            }
            let (watching, event) = oneshot::channel();
            let full = self.chroot.apply(path).into_owned();
            events.push((full.clone(), event));
            nodes.push((full, watching));
        }
        let path = paths.first().copied().unwrap_or("/");
        let (answering, answer) = oneshot::channel();
        match self.link().with(|core| core.submit_watching_all(nodes, answering)) {
            Ok(ids) => {
                let watchers = ids.into_iter().zip(events).map(|(id, (path, event))| {
                    Watcher::new(Arc::clone(self.link()), id, path, self.chroot.clone(), event)
                });
                let watchers = watchers.collect::<Vec<_>>();
                Reply::waiting(self.call(OpCode::SET_WATCHES, path), answer, |call, completion| {
                    call.answer(completion).map(|_| watchers)
                })
            }
            Err(rejected) => self.rejected(OpCode::SET_WATCHES, path, rejected),
        }
    }

    /// Replaces a node's data, if it is at `version` or that is `None`. Returns its new state.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// let node = client.get_data("/counter").await?;
    /// // Fails with `BadVersion` if somebody else has written meanwhile.
    /// client.set_data("/counter", b"43", Some(node.stat.version)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Reply<Stat> {
        self.at(path, path::check, |full| {
            let version = version.unwrap_or(ANY_VERSION);
            let request = SetDataRequest { path: full, data: Some(data), version };
            self.send(path, &request, |call, completion| {
                let SetDataResponse { stat } = call.decode(&call.answer(completion)?)?;
                Ok(stat)
            })
        })
    }

    /// The names of a node's children, and the node's state.
    pub fn get_children(&self, path: &str) -> Reply<Children> {
        self.at(path, path::check, |full| {
            self.send(path, &GetChildren2Request { path: full, watch: false }, children)
        })
    }

    /// The same, with a watch for children that come or go, and for the node's deletion.
    pub fn get_children_and_watch(&self, path: &str) -> Reply<(Children, Watcher)> {
        self.at(path, path::check, |full| {
            let request = GetChildren2Request { path: full, watch: true };
            self.send_watching(path, full, &request, WatchKind::Child, children)
        })
    }

    /// Every change from the reply on, of a node that need not exist, or of everything below it
    /// too.
    ///
    /// Servers can do so since 3.6. Older ones refuse with `Unimplemented` and hang up, which costs
    /// the connection but not the session.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use zk_client::{StreamEvent, WatchMode};
    ///
    /// let mut changes = client.watch("/jobs", WatchMode::PersistentRecursive).await?;
    /// client.create("/jobs/7", b"", &zk_client::CreateOptions::persistent()).await?;
    /// if let StreamEvent::Changed(event) = changes.next().await? {
    ///     assert_eq!(event.path, "/jobs/7");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(&self, path: &str, mode: WatchMode) -> Reply<WatchStream> {
        self.at(path, path::check, |full| {
            let (answering, answer) = oneshot::channel();
            let inbox = Arc::new(Inbox::default());
            let stream = Arc::clone(&inbox);
            let submitted =
                self.link().with(|core| core.submit_stream(full, mode, answering, stream));
            match submitted {
                Ok(id) => {
                    let (link, chroot) = (Arc::clone(self.link()), self.chroot.clone());
                    let stream = WatchStream::new(link, id, full.to_owned(), chroot, inbox);
                    let call = self.call(OpCode::ADD_WATCH, path);
                    Reply::waiting(call, answer, move |call, completion| {
                        call.answer(completion).map(|_| stream)
                    })
                }
                Err(rejected) => self.rejected(OpCode::ADD_WATCH, path, rejected),
            }
        })
    }

    /// Waits until this client's server has caught up with the leader as of now.
    ///
    /// It is not a quorum operation (ZOOKEEPER-1675): a leader that has just been deposed may answer.
    pub fn sync(&self, path: &str) -> Reply<()> {
        self.at(path, path::check, |full| {
            self.send(path, &SyncRequest { path: full.into() }, |call, completion| {
                let answer = call.answer(completion)?;
                call.decode::<SyncResponse<'_>>(&answer).map(drop)
            })
        })
    }

    /// Carries all operations out, or none: as one transaction, in this order.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use zk_client::{CreateOptions, Op};
    ///
    /// let (from, to) = (client.get_data("/todo/7").await?, "/done/7");
    /// let moved = client.multi(&[
    ///     Op::create(to, &from.data, &CreateOptions::persistent()),
    ///     Op::delete("/todo/7", Some(from.stat.version)),
    /// ]);
    /// if let Err(error) = moved.await {
    ///     println!("operation {:?} failed: {error}", error.failed_op());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Returns what each operation came to, in order. An empty list is a transaction that changes
    /// nothing. Limits hold for the request as a whole.
    ///
    /// # Errors
    ///
    /// A refused multi is [`Refused`](crate::ErrorKind::Refused) with the [`code`](Error::code) of
    /// the operation that failed, whose place [`failed_op`](Error::failed_op) tells. `None` there
    /// means that the server refused the request as a whole. An [owned](Op::create_owned) create is
    /// [`InvalidOp`](crate::ErrorKind::InvalidOp): that is for
    /// [`multi_owned`](Self::multi_owned).
    pub fn multi(&self, ops: &[Op<'_>]) -> Reply<Vec<OpResult>> {
        let named = match Named::new(ops, false) {
            Ok(named) => named,
            Err(error) => return Reply::failed(error),
        };
        multi::request(ops, &self.chroot, |request| {
            let name = named.to_string();
            self.send(&name, request, move |call, completion| named.results(call, completion))
        })
    }

    /// Sends all requests that `calls` makes in one go: one write for all of them.
    ///
    /// Without it two calls may be two packets, if the driver wakes up between them. `calls` must
    /// not block: no request of this session leaves while it runs.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// let (a, b) = client.batch(|| (client.get_data("/a"), client.get_data("/b")));
    /// println!("{:?} {:?}", a.await?, b.await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch<R>(&self, calls: impl FnOnce() -> R) -> R {
        let _cork = self.link().cork();
        calls()
    }

    /// 128 random bits, for names that nobody else will use.
    pub fn unique(&self) -> u128 {
        self.link().unique()
    }

    /// Where the session stands now.
    pub fn state(&self) -> SessionState {
        self.link().state()
    }

    /// Where the session stands, as a channel that can be waited on. It holds the latest state
    /// alone, so a short disconnect may go unseen.
    pub fn states(&self) -> watch::Receiver<SessionState> {
        self.link().states()
    }

    /// The session's id and password, once a server has given them: what another client needs to
    /// take it up.
    pub fn session(&self) -> Option<SessionCredentials> {
        self.link().look(|core| core.credentials())
    }

    /// What this client reads time from.
    pub fn clock(&self) -> &Clock {
        self.link().clock()
    }

    /// The session timeout: as the server settled it, or as wanted before the first connection.
    pub fn session_timeout(&self) -> Duration {
        self.link().look(|core| core.timeout())
    }

    /// Ends the session and waits until the server has said so: its ephemeral nodes are gone then,
    /// and everything called before is answered. Calls that come later fail at once.
    ///
    /// Always returns: if no server answers anything, after one session timeout at most. The
    /// ensemble then ends the session by itself, as soon as it has not heard of it for that long.
    ///
    /// # Cancel safety
    ///
    /// The session is closed whether or not the future is awaited.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        self.link().with(Core::close);
        let mut states = self.link().states();
        async move {
            // An error means that the link is gone, and the session with it.
            drop(states.wait_for(|state| state.ended().is_some()).await);
        }
    }

    /// Ends this client and leaves its session to another: unlike [`close`](Self::close) it does
    /// not tell the server, so ephemeral nodes stay for as long as the session does without a
    /// client, one session timeout.
    ///
    /// Everything called before is sent and answered, and the connection is dropped then. All
    /// clones are closed: calls that come later fail at once, and owned nodes are nobody's, so
    /// that dropping them, or a reply that would have brought one, deletes nothing any more.
    ///
    /// Returns the id and password that [`ClientBuilder::session`](crate::ClientBuilder::session)
    /// takes the session up with, and there [`adopt`](Self::adopt) the nodes. The password is a
    /// secret: whoever has it has the session. `None` if there is no session to take up: no server
    /// has given one yet, or it has ended otherwise.
    ///
    /// Always returns: what is not answered within one session timeout fails as closed, with its
    /// [`outcome`](Error::outcome).
    ///
    /// # Cancel safety
    ///
    /// The client is detached whether or not the future is awaited.
    pub fn detach(&self) -> impl Future<Output = Option<SessionCredentials>> + Send + use<> {
        let link = Arc::clone(self.link());
        link.with(Core::detach);
        let mut states = link.states();
        async move {
            drop(states.wait_for(|state| state.ended().is_some()).await);
            link.look(Core::detached)
        }
    }

    pub(crate) fn at<R>(
        &self,
        path: &str,
        check: fn(&str) -> Result<(), Error>,
        call: impl FnOnce(&str) -> Reply<R>,
    ) -> Reply<R> {
        match check(path) {
            Ok(()) => call(&self.chroot.apply(path)),
            Err(error) => Reply::failed(error),
        }
    }

    pub(crate) fn call(&self, op: OpCode, path: &str) -> Call {
        Call { op, path: path.to_owned(), chroot: self.chroot.clone() }
    }

    pub(crate) fn rejected<R>(&self, op: OpCode, path: &str, rejected: Rejected) -> Reply<R> {
        Reply::failed(Error::rejected(op, path, rejected))
    }

    pub(crate) fn send<R>(
        &self,
        path: &str,
        request: &impl Operation,
        finish: impl FnOnce(&Call, Completion) -> Result<R, Error> + Send + 'static,
    ) -> Reply<R> {
        let (answering, answer) = oneshot::channel();
        match self.link().with(|core| core.submit(request, answering)) {
            Ok(()) => Reply::waiting(self.call(request.op(), path), answer, finish),
            Err(rejected) => self.rejected(request.op(), path, rejected),
        }
    }

    fn send_watching<R>(
        &self,
        path: &str,
        full: &str,
        request: &impl Operation,
        kind: WatchKind,
        finish: impl FnOnce(&Call, Completion) -> Result<R, Error> + Send + 'static,
    ) -> Reply<(R, Watcher)> {
        let (answering, answer) = oneshot::channel();
        let (watching, event) = oneshot::channel();
        let watch = Watch { kind, path: full.to_owned(), watcher: watching };
        match self.link().with(|core| core.submit_watching(request, answering, watch)) {
            Ok(id) => {
                let (link, chroot) = (Arc::clone(self.link()), self.chroot.clone());
                let watcher = Watcher::new(link, id, full.to_owned(), chroot, event);
                let call = self.call(request.op(), path);
                Reply::waiting(call, answer, move |call, completion| {
                    match finish(call, completion) {
                        Ok(result) => Ok((result, watcher)),
                        Err(error) => {
                            watcher.was_not_set();
                            Err(error)
                        }
                    }
                })
            }
            Err(rejected) => self.rejected(request.op(), path, rejected),
        }
    }
}

fn exists(call: &Call, completion: Completion) -> Result<Option<Stat>, Error> {
    match completion {
        Err(Failure::Refused(ErrorCode::NO_NODE)) => Ok(None),
        completion => {
            let ExistsResponse { stat } = call.decode(&call.answer(completion)?)?;
            Ok(Some(stat))
        }
    }
}

fn node(call: &Call, completion: Completion) -> Result<Node, Error> {
    let answer = call.answer(completion)?;
    let GetDataResponse { data, stat } = call.decode(&answer)?;
    let data = match data {
        None => Bytes::new(),
        Some(data) if data.len() < COPY_BELOW => Bytes::copy_from_slice(data),
        Some(data) => answer.body.slice_ref(data),
    };
    Ok(Node { data, stat })
}

fn children(call: &Call, completion: Completion) -> Result<Children, Error> {
    let answer = call.answer(completion)?;
    let GetChildren2Response { children, stat } = call.decode(&answer)?;
    Ok(Children { names: children.iter().map(str::to_owned).collect(), stat })
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("session", self.link())
            .field("chroot", &self.chroot)
            .finish()
    }
}
