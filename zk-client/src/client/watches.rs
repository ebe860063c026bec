//! Watches that no read sets: on many nodes at once, or for every change to come.

use std::sync::Arc;

use tokio::sync::oneshot;
use zk_proto::OpCode;

use crate::client::handle::Client;
use crate::error::{Error, Rejected};
use crate::event::{Change, WatchMode};
use crate::exchange::Answering;
use crate::inbox::Inbox;
use crate::link::Core;
use crate::path;
use crate::reply::Reply;
use crate::session::WatchId;
use crate::stream::WatchStream;
use crate::watcher::Watcher;

/// Paths as the server names them, with where their events go.
type Nodes = Vec<(Arc<str>, oneshot::Sender<Change>)>;

impl Client {
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
        self.watch_all(paths, &[], |core, nodes, _, answering| {
            core.submit_watching_all(nodes, answering)
        })
    }

    /// Watches nodes that will be `there` by the time the server comes to this request, for change or
    /// deletion, and those that are `to_come`, for their creation: by one request, for whoever knows
    /// the nodes of requests ahead of it that have no answer yet.
    ///
    /// The watchers come in this order: those of `there`, then those of `to_come`. That of a node of
    /// `there` which is not there fires `NodeDeleted`, and that of one of `to_come` which is there
    /// already fires `NodeCreated`: both have done so when the reply comes, with an event marked as
    /// [`missed`](crate::WatchedEvent::missed). All others are set, at one moment. What was written
    /// to a node of `there` before that moment is not told, and its creation is not either.
    ///
    /// The watches are kept over a broken connection like all others. One that breaks, or that is
    /// yet to be made, may have a new one look for nodes of `there` ahead of the requests that make
    /// them: so an event that is marked as missed tells to look, and not what there is to see. If the
    /// request went down with its connection, it fails with `ConnectionLoss`, as that of
    /// [`watch_nodes`](Self::watch_nodes) does. Permissions are as there, too: nobody asks whether the
    /// nodes may be read, and servers of 3.8.4, 3.9.2 and later tell nothing of those that may not.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use zk_client::{CreateOptions, EventType};
    ///
    /// // All of it leaves together, and takes one round trip.
    /// let (created, watchers) = client.batch(|| {
    ///     let created = client.create("/jobs/7", b"", &CreateOptions::ephemeral());
    ///     (created, client.watch_expected(&["/jobs/7"], &["/results/7"]))
    /// });
    /// created.await?;
    /// if let [_job, result] = &mut watchers.await?[..] {
    ///     assert_eq!(result.changed().await?.kind, EventType::NODE_CREATED);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch_expected(&self, there: &[&str], to_come: &[&str]) -> Reply<Vec<Watcher>> {
        self.watch_all(there, to_come, Core::submit_expecting)
    }

    fn watch_all(
        &self,
        there: &[&str],
        to_come: &[&str],
        submit: impl FnOnce(&mut Core, Nodes, Nodes, Answering) -> Result<Vec<WatchId>, Rejected>,
    ) -> Reply<Vec<Watcher>> {
        let mut events = Vec::new();
        let mut listen = |paths: &[&str]| {
            let node = |path: &&str| {
                path::check(path)?;
                let (watching, event) = oneshot::channel();
                let full = Arc::<str>::from(self.chroot.apply(path));
                events.push((Arc::clone(&full), event));
                Ok((full, watching))
            };
            paths.iter().map(node).collect::<Result<Nodes, Error>>()
        };
        let (data, exist) = match (listen(there), listen(to_come)) {
            (Ok(data), Ok(exist)) => (data, exist),
            (Err(error), _) | (_, Err(error)) => return Reply::failed(error),
        };
        let path = there.iter().chain(to_come).next().copied().unwrap_or("/");
        let submitted =
            self.link().submit(path, |core, answering| submit(core, data, exist, answering));
        match submitted {
            Ok((ids, answer)) => {
                let watchers = ids.into_iter().zip(events).map(|(id, (path, event))| {
                    Watcher::new(Arc::clone(self.link()), id, path, self.chroot.clone(), event)
                });
                let watchers = watchers.collect::<Vec<_>>();
                Reply::waiting(self.call(OpCode::SET_WATCHES, answer), |call, completion| {
                    call.answer(completion).map(|_| watchers)
                })
            }
            Err(rejected) => self.rejected(OpCode::SET_WATCHES, path, rejected),
        }
    }

    /// Every change from the reply on, of a node that need not exist, or of everything below it
    /// too.
    ///
    /// Servers can do so since 3.6; older ones answer [`Unimplemented`](crate#old-servers).
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
            let inbox = Arc::new(Inbox::default());
            let stream = Arc::clone(&inbox);
            let submitted = self
                .link()
                .submit(path, |core, answering| core.submit_stream(full, mode, answering, stream));
            match submitted {
                Ok((id, answer)) => {
                    let (link, chroot) = (Arc::clone(self.link()), self.chroot.clone());
                    let stream = WatchStream::new(link, id, full.to_owned(), chroot, inbox);
                    let call = self.call(OpCode::ADD_WATCH, answer);
                    Reply::waiting(call, move |call, completion| {
                        call.answer(completion).map(|_| stream)
                    })
                }
                Err(rejected) => self.rejected(OpCode::ADD_WATCH, path, rejected),
            }
        })
    }
}
