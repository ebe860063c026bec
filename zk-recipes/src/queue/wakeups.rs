//! What wakes a future: a timer, a notification for all that wait, a watch that sends nothing when
//! it is dropped, the first of two futures, or any of many.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::{JoinHandle, unconstrained};
use tokio::time::sleep;
use zk_client::{Client, Error as ClientError, WatchedEvent, Watcher};

/// Fires when nothing has happened for one session timeout. Taking a permission away silences a
/// watch, so a waiter lists the queue again then.
///
/// The time passes on the runtime of the session, so it does whatever becomes of the runtime that
/// polls this. If the session has no runtime, or that one has ended, the time passes on the runtime
/// that polls this; outside of any runtime only events wake a waiter then.
#[derive(Debug, Default)]
pub(crate) struct RecheckTimer(Option<JoinHandle<()>>);

impl RecheckTimer {
    /// Sets the timer, unless it is set. Ready when its time has passed, once.
    pub(crate) fn poll(&mut self, client: &Client, cx: &mut Context<'_>) -> Poll<()> {
        let time = client.session_timeout();
        for runtime in [client.runtime(), Handle::try_current().ok()].into_iter().flatten() {
            let timer =
                self.0.get_or_insert_with(|| runtime.spawn(async move { sleep(time).await }));
            let Poll::Ready(fired) = pin!(unconstrained(timer)).poll(cx) else {
                return Poll::Pending;
            };
            self.0 = None;
            if fired.is_ok() {
                return Poll::Ready(());
            }
            // The runtime on which the timer was set has ended.
        }
        Poll::Pending
    }
}

impl Drop for RecheckTimer {
    fn drop(&mut self) {
        if let Some(timer) = &self.0 {
            timer.abort();
        }
    }
}

/// Wakes all tasks that wait for one source. A source remembers only the last waker, so it is given
/// this one.
#[derive(Debug, Default)]
pub(crate) struct Notifier(Notify);

impl Notifier {
    pub(crate) fn notify(&self) {
        self.0.notify_waiters();
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        self.0.notified()
    }
}

impl Wake for Notifier {
    fn wake(self: Arc<Self>) {
        self.notify();
    }
}

/// Waits for the first of two futures. If both are ready, the first argument counts.
pub(crate) async fn first_of<T>(
    first: impl Future<Output = T>,
    second: impl Future<Output = T>,
) -> T {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|cx| match first.as_mut().poll(cx) {
        Poll::Pending => second.as_mut().poll(cx),
        ready => ready,
    })
    .await
}

/// Waits until all futures are done, or until one of them fails. Each is polled only when it was
/// woken.
pub(crate) async fn all_of<E>(
    futures: impl Iterator<Item = impl Future<Output = Result<(), E>>>,
) -> Result<(), E> {
    let all = Arc::new(Mutex::new(Waker::noop().clone()));
    let one = || Arc::new(One { is_woken: AtomicBool::new(true), all: Arc::clone(&all) });
    let mut running = futures.map(|future| (Box::pin(future), one())).collect::<Vec<_>>();
    poll_fn(|cx| {
        all.lock().unwrap_or_else(PoisonError::into_inner).clone_from(cx.waker());
        let mut failed = None;
        running.retain_mut(|(future, one)| {
            if failed.is_some() || !one.is_woken.swap(false, Ordering::AcqRel) {
                return true;
            }
            let waker = Waker::from(Arc::clone(one));
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => return true,
                Poll::Ready(done) => failed = done.err(),
            }
            false
        });
        match failed {
            Some(error) => Poll::Ready(Err(error)),
            None if running.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}

/// What wakes one of many futures, and the task of all of them.
struct One {
    is_woken: AtomicBool,
    all: Arc<Mutex<Waker>>,
}

impl Wake for One {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.wake();
    }
}

/// A watch, if it is set. Dropping it sends no request, as a watcher's would: our own node, which
/// fires it, is deleted then, or watched again.
#[derive(Debug, Default)]
pub(crate) struct QuietWatch(Option<Watcher>);

impl QuietWatch {
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// Waits for the next event. A watch that is not set never fires, and one that fired is not set
    /// any more.
    pub(crate) fn poll_changed(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<WatchedEvent, ClientError>> {
        let polled = self.0.as_mut().map_or(Poll::Pending, |watcher| watcher.poll_changed(cx));
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl From<Watcher> for QuietWatch {
    fn from(watcher: Watcher) -> Self {
        Self(Some(watcher))
    }
}

impl Drop for QuietWatch {
    fn drop(&mut self) {
        if let Some(watcher) = self.0.take() {
            watcher.abandon();
        }
    }
}
