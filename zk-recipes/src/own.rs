//! A watch on the own node, which goes when the node does.

use std::task::{Context, Poll};

use zk_client::{Error as ClientError, WatchedEvent, Watcher};

/// Such a watch, if it is set. Dropping it asks the server for nothing: the node is let go then, or
/// is watched again.
#[derive(Debug, Default)]
pub(crate) struct OwnWatch(pub(crate) Option<Watcher>);

impl OwnWatch {
    /// Whether it has fired. One that is not set never does.
    pub(crate) fn poll_changed(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<WatchedEvent, ClientError>> {
        self.0.as_mut().map_or(Poll::Pending, |watcher| watcher.poll_changed(cx))
    }
}

impl Drop for OwnWatch {
    fn drop(&mut self) {
        if let Some(watcher) = self.0.take() {
            watcher.forget();
        }
    }
}
