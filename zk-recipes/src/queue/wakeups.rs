//! What wakes a future: a timer, a notification for all that wait, a watch that sends nothing when
//! it is dropped, the first of two futures, or any of many.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::unconstrained;
use tokio::time::{Sleep, sleep, sleep_until};
use zk_client::{Client, Error as ClientError, WatchedEvent, Watcher};

/// A timer that any runtime may poll. If the last one that did was another, which may have ended
/// since, the timer moves. Outside of a runtime it stays pending: there only events wake a waiter.
#[derive(Debug, Default)]
pub(crate) struct Timer(Option<(runtime::Id, Pin<Box<Sleep>>)>);

impl Timer {
    /// Sets the timer to `time` from now, unless it is set. Ready when that has passed, once.
    pub(crate) fn poll(
        &mut self,
        time: impl FnOnce() -> Duration,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let Ok(here) = Handle::try_current().map(|runtime| runtime.id()) else {
            return Poll::Pending;
        };
        let elsewhere = self.0.take_if(|(runtime, _)| *runtime != here);
        let (_, timer) = self.0.get_or_insert_with(|| {
            let timer = match elsewhere {
                Some((_, timer)) => sleep_until(timer.deadline()),
                None => sleep(time()),
            };
            (here, Box::pin(timer))
        });
        let fired = pin!(unconstrained(timer.as_mut())).poll(cx);
        if fired.is_ready() {
            self.0 = None;
        }
        fired
    }
}

/// Fires when nothing has happened for one session timeout. Taking a permission away silences a
/// watch, so a waiter lists the queue again then.
#[derive(Debug, Default)]
pub(crate) struct RecheckTimer(Timer);

impl RecheckTimer {
    pub(crate) fn poll(&mut self, client: &Client, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll(|| client.session_timeout(), cx)
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
