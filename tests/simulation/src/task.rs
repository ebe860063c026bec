//! Tasks of a run.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

/// Starts a task. As a box, so that the runtime's part of a task is compiled once for each type of
/// what they return, and not for each of them: that took an eighth of the time.
pub(crate) fn spawn<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let task: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(task);
    tokio::spawn(task)
}

/// Does something after a while.
pub(crate) fn later<T: Send + Sync + 'static>(
    shared: &Arc<T>,
    after: Duration,
    act: impl FnOnce(&Arc<T>) + Send + 'static,
) {
    let shared = Arc::clone(shared);
    spawn(async move {
        tokio::time::sleep(after).await;
        act(&shared);
    });
}
