//! What wakes a future: a notification for all that wait, the first of two futures, or any of many.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::steady::mutex::lock;

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
        lock(&all).clone_from(cx.waker());
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
        let all = lock(&self.all).clone();
        all.wake();
    }
}
