//! Work that is done under a hold, and dropped in time when the hold is lost.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Does `work` until `lost` is ready. What `lost` waits for may become known only when the client
/// runs, and after a stop of the process the work may be polled first. So `loss` is asked before
/// each poll of the work, and work whose hold is lost is never polled again.
pub(crate) async fn while_held<T, L>(
    loss: impl Fn() -> Option<L>,
    lost: impl Future<Output = L>,
    work: impl Future<Output = T>,
) -> Result<T, L> {
    let (mut lost, mut work) = (pin!(lost), pin!(work));
    poll_fn(|cx| {
        if let Some(loss) = loss() {
            return Poll::Ready(Err(loss));
        }
        match lost.as_mut().poll(cx) {
            Poll::Ready(loss) => Poll::Ready(Err(loss)),
            Poll::Pending => work.as_mut().poll(cx).map(Ok),
        }
    })
    .await
}
