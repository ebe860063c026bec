//! Tasks of a run.

use std::pin::Pin;

use tokio::task::JoinHandle;

/// Starts a task. As a box, so that the runtime's part of a task is compiled once for each type of
/// what they return, and not for each of them: that took an eighth of the time.
pub(crate) fn spawn<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let task: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(task);
    tokio::spawn(task)
}
