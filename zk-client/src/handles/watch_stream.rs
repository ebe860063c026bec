//! A persistent watch as a stream of events, from the reply that set it until it is dropped.
//!
//! The driver puts events into a bounded queue in wire order and never waits for a reader.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::driver::event_queue::{self, EventQueue};
use crate::driver::shared_session::SharedSession;
use crate::error::{Ended, Error};
use crate::model::event::{StreamEvent, WatchedEvent};
use crate::model::path::Chroot;
use crate::session::WatchId;

/// Reports every change of a node, or of a whole tree: see [`Client::watch`](crate::Client::watch).
///
/// It keeps neither the client nor the session alive. Dropping it removes the watch, and removes it
/// at the server when nothing else of this client watches that path.
///
/// # Ordering
///
/// Events come in the order of the changes, and are in the stream before any reply that reflects
/// them is delivered. So a caller that has the reply to a create, and then polls the stream until
/// it is pending, has seen all earlier changes.
///
/// # What is not reported
///
/// After [`Rearmed`](StreamEvent::Rearmed) and [`Lagged`](StreamEvent::Lagged) the caller must read
/// again to know the state of the tree. Use reads that set no watch, at least for the node that the
/// stream is set on: before 3.9 a one-shot watch ends a persistent one at the same path. The client
/// sets it again at once, which is one more `Rearmed`.
///
/// Servers of 3.8.4, 3.9.2 and later report nothing of nodes that the session may not read.
///
/// ```
/// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
/// use zk_client::{StreamEvent, WatchMode};
///
/// let mut changes = client.watch("/config", WatchMode::PersistentRecursive).await?;
/// // Read everything here: whatever changes from now on is told.
/// loop {
///     match changes.next().await? {
///         StreamEvent::Changed(event) => println!("{} {}", event.kind, event.path),
///         _ => println!("read everything again"),
///     }
/// }
/// # }
/// ```
#[must_use = "dropping it ends the watch: bind it to a name (`_` is none)"]
pub struct WatchStream {
    shared: Arc<SharedSession>,
    id: WatchId,
    /// The full path.
    path: String,
    chroot: Chroot,
    queue: Arc<EventQueue>,
    /// Events that were taken out of the queue and are not returned yet.
    read: VecDeque<StreamEvent>,
}

impl WatchStream {
    /// The size of the queue in bytes: a change takes those of its path and 64 more.
    ///
    /// Changes that come while the queue is full are dropped, and [counted](StreamEvent::Lagged) in
    /// their place.
    ///
    /// The queue holds ten thousand changes of ordinary paths. That is many times what the client
    /// reads from its connection before it lets readers run.
    pub const CAPACITY: usize = event_queue::CAPACITY;

    pub(crate) fn new(
        shared: Arc<SharedSession>,
        id: WatchId,
        path: String,
        chroot: Chroot,
        queue: Arc<EventQueue>,
    ) -> Self {
        Self { shared, id, path, chroot, queue, read: VecDeque::new() }
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// The session is over, and all earlier events were returned. Every later call fails in the
    /// same way.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: call it again.
    pub async fn next(&mut self) -> Result<StreamEvent, Error> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// [`next`](Self::next) for hand-written futures.
    ///
    /// If it is polled with different wakers, the last one is woken.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<StreamEvent, Error>> {
        if self.read.is_empty() {
            ready!(self.queue.poll_take(cx, &mut self.read));
        }
        let Some(event) = self.read.pop_front() else {
            let ended = self.shared.read(|core| core.ended());
            return Poll::Ready(Err(ended.unwrap_or(Ended::Closed).into()));
        };
        Poll::Ready(Ok(match event {
            StreamEvent::Changed(event) => StreamEvent::Changed(self.seen(event)),
            event => event,
        }))
    }

    /// The event with its path as this client names it.
    fn seen(&self, mut event: WatchedEvent) -> WatchedEvent {
        let inner = self.chroot.strip(&event.path);
        if inner.len() != event.path.len() {
            event.path = inner.to_owned();
        }
        event
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        self.shared.with(|core| core.unwatch(self.id, &self.path));
    }
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream").field("path", &self.path).finish_non_exhaustive()
    }
}
