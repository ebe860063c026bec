//! Watches that no read sets: on many nodes at once, or for every change to come.

use std::sync::Arc;

use tokio::sync::oneshot;
use zk_proto::OpCode;

use crate::driver::event_queue::EventQueue;
use crate::error::Error;
use crate::handles::client::{Client, Reply};
use crate::handles::watch_stream::WatchStream;
use crate::handles::watcher::Watcher;
use crate::model::event::{Change, WatchMode};
use crate::model::path;

/// Full paths, each with the sender of its event.
type Nodes = Vec<(Arc<str>, oneshot::Sender<Change>)>;

impl Client {
    /// Watches many nodes for change or deletion, by one request and without reading them.
    ///
    /// This is for a caller that has just listed the nodes. The watchers come in the order of
    /// `paths`. If a node is gone, or was written to since the last reply of the server, its
    /// watcher has fired by then, with an event marked as [`missed`](crate::WatchedEvent::missed).
    /// All others are set, at one moment. Servers do not check whether the client may read the
    /// nodes: those of 3.8.4, 3.9.2 and later send no events of nodes that it may not read.
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
        let mut events = Vec::new();
        let node = |path: &&str| {
            path::check(path)?;
            let (watching, event) = oneshot::channel();
            let full = Arc::<str>::from(self.chroot.apply(path));
            events.push((Arc::clone(&full), event));
            Ok((full, watching))
        };
        let nodes = match paths.iter().map(node).collect::<Result<Nodes, Error>>() {
            Ok(nodes) => nodes,
            Err(error) => return Reply::rejected(error),
        };
        let path = paths.first().copied().unwrap_or("/");
        let submitted = self
            .shared()
            .submit(path, |core, responder| core.submit_watching_all(nodes, responder));
        match submitted {
            Ok((ids, receiver)) => {
                let watchers = ids.into_iter().zip(events).map(|(id, (path, event))| {
                    Watcher::new(Arc::clone(self.shared()), id, path, self.chroot.clone(), event)
                });
                let watchers = watchers.collect::<Vec<_>>();
                Reply::waiting(self.call(OpCode::SET_WATCHES, receiver), |call, completion| {
                    call.to_result(completion).map(|_| watchers)
                })
            }
            Err(rejected) => self.rejected(OpCode::SET_WATCHES, path, rejected),
        }
    }

    /// Streams every change from the reply on, of one node or of everything below it too.
    ///
    /// The node need not exist.
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
        self.with_checked_path(path, path::check, |full| {
            let queue = Arc::new(EventQueue::default());
            let stream = Arc::clone(&queue);
            let submitted = self
                .shared()
                .submit(path, |core, responder| core.submit_stream(full, mode, responder, stream));
            match submitted {
                Ok((id, receiver)) => {
                    let (shared, chroot) = (Arc::clone(self.shared()), self.chroot.clone());
                    let stream = WatchStream::new(shared, id, full.to_owned(), chroot, queue);
                    let call = self.call(OpCode::ADD_WATCH, receiver);
                    Reply::waiting(call, move |call, completion| {
                        call.to_result(completion).map(|_| stream)
                    })
                }
                Err(rejected) => self.rejected(OpCode::ADD_WATCH, path, rejected),
            }
        })
    }
}
