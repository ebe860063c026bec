//! A one-shot watch, from the reply that set it to the event that ends it.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::coop::poll_proceed;

use crate::driver::shared_session::SharedSession;
use crate::error::{Cause, Ended, Error};
use crate::model::event::{Change, WatchedEvent};
use crate::model::path::Chroot;
use crate::session::WatchId;

/// Waits for one change of a node.
///
/// It survives reconnects: a change that happened while the client was cut off is reported after
/// the reconnect, marked as [`missed`](WatchedEvent::missed). Dropping the watcher removes the
/// watch. The client removes it at the server, too, when nothing else of this client watches that
/// path. A server before 3.5 does not understand that and hangs up, once in a session.
///
/// If a [recursive stream](crate::WatchMode::PersistentRecursive) is set on the very same path, a
/// watch of children may fire without a change. Its event is marked as `missed` then.
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
#[must_use = "dropping it removes the watch: bind it to a name (`_` is none)"]
pub struct Watcher {
    shared: Arc<SharedSession>,
    id: WatchId,
    /// The full path.
    path: Arc<str>,
    chroot: Chroot,
    /// `None` once the event was returned.
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

    /// Waits for the event, which comes once.
    ///
    /// A watch is one-shot: to see the next change, read again and watch again.
    ///
    /// # Errors
    ///
    /// The session is over, or the event was returned before
    /// ([`WatchSpent`](crate::ErrorKind::WatchSpent)).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: call it again.
    pub async fn changed(&mut self) -> Result<WatchedEvent, Error> {
        poll_fn(|cx| {
            // A task that finds event after event ready lets other tasks run in between.
            let coop = ready!(poll_proceed(cx));
            let event = ready!(self.poll_changed(cx));
            coop.made_progress();
            Poll::Ready(event)
        })
        .await
    }

    /// [`changed`](Self::changed) for hand-written futures.
    ///
    /// It is ready if the event is there, whatever is left of tokio's budget for the task.
    pub fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<Result<WatchedEvent, Error>> {
        let event = match &mut self.event {
            None => {
                Err(Cause::WatchSpent { path: self.chroot.strip(&self.path).to_owned() }.into())
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

    /// Drops the watch without removing it at the server.
    ///
    /// This is for a node that is about to be deleted anyway. It saves a request, and costs an
    /// event that is ignored.
    pub fn abandon(mut self) {
        if self.event.take().is_some() {
            self.shared.with(|core| core.abandon_watch(self.id, &self.path));
        }
    }

    /// If the event cannot come any more, the session is over.
    fn ended(&self) -> Error {
        self.shared.read(|core| core.ended()).unwrap_or(Ended::Closed).into()
    }
}

/// Takes the event if it is there, even for a task that has used up its budget: a caller that does
/// not wait believes the answer "not yet".
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
