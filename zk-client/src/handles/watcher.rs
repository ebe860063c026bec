//! A one-shot watch, from the reply that set it to the event that ends it.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::coop::poll_proceed;

use crate::driver::shared_session::SharedSession;
use crate::error::{Ended, Error, Fault};
use crate::model::event::{Change, WatchedEvent};
use crate::model::path::Chroot;
use crate::session::WatchId;

/// Waits for one change of a node.
///
/// It survives reconnects: what happened while the client was cut off is told on reconnect, marked
/// as [`missed`](WatchedEvent::missed). Dropping it forgets the watch. The server is told when
/// nobody else of this client watches that path; one before 3.5 does not understand and hangs up,
/// once in a session.
///
/// Where a [recursive stream](crate::WatchMode::PersistentRecursive) is set on the very same path,
/// a watch of children may fire without a change, and says `missed` then.
///
/// ```
/// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
/// let (node, mut watch) = client.get_data_and_watch("/config").await?;
/// println!("now {:?}", node.data);
/// let event = watch.changed().await?;
/// println!("{} {}", event.kind, event.path);
/// # Ok(())
/// # }
/// ```
pub struct Watcher {
    shared: Arc<SharedSession>,
    id: WatchId,
    /// The server's.
    path: Arc<str>,
    chroot: Chroot,
    /// Gone once the event was handed out.
    event: Option<oneshot::Receiver<Change>>,
}

impl Watcher {
    pub(crate) fn new(
        shared: Arc<SharedSession>,
        id: WatchId,
        path: Arc<str>,
        chroot: Chroot,
        event: oneshot::Receiver<Change>,
    ) -> Self {
        Self { shared, id, path, chroot, event: Some(event) }
    }

    /// The event, once. A watch is one-shot: read again and watch again to see the next change.
    ///
    /// # Errors
    ///
    /// The session is over, or the event was handed out before
    /// ([`WatchSpent`](crate::ErrorKind::WatchSpent)).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: call it again.
    pub async fn changed(&mut self) -> Result<WatchedEvent, Error> {
        poll_fn(|cx| {
            // Whoever finds event after event lets other tasks run in between.
            let coop = ready!(poll_proceed(cx));
            let event = ready!(self.poll_changed(cx));
            coop.made_progress();
            Poll::Ready(event)
        })
        .await
    }

    /// [`changed`](Self::changed) for hand-written futures: ready if the event is there, whatever
    /// tokio's budget for the task.
    pub fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<Result<WatchedEvent, Error>> {
        let event = match &mut self.event {
            None => {
                Err(Fault::WatchSpent { path: self.chroot.strip(&self.path).to_owned() }.into())
            }
            Some(receiver) => match received(receiver, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => Err(self.ended()),
                Poll::Ready(Some(change)) => Ok(change.of(self.chroot.strip(&self.path))),
            },
        };
        self.event = None;
        Poll::Ready(event)
    }

    /// Drops the watch without telling the server, for a node that is about to be deleted anyway:
    /// this saves a request, and costs an event that is ignored.
    pub fn forget(mut self) {
        if self.event.take().is_some() {
            self.shared.with(|core| core.forget_watch(self.id, &self.path));
        }
    }

    /// An event that cannot come any more means that the session is over.
    fn ended(&self) -> Error {
        self.shared.look(|core| core.ended()).unwrap_or(Ended::Closed).into()
    }
}

/// What is there, even for a task that has used up its budget: who does not wait takes "not yet"
/// for the truth.
fn received(
    receiver: &mut oneshot::Receiver<Change>,
    cx: &mut Context<'_>,
) -> Poll<Option<Change>> {
    match receiver.try_recv() {
        Ok(event) => Poll::Ready(Some(event)),
        Err(TryRecvError::Closed) => Poll::Ready(None),
        Err(TryRecvError::Empty) => Pin::new(receiver).poll(cx).map(Result::ok),
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if self.event.is_some() {
            self.shared.with(|core| core.unwatch(self.id, &self.path));
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("path", &self.path).finish_non_exhaustive()
    }
}
