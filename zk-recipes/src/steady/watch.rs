//! Watches that may be silent: for how long they are believed, and what dropping one costs.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::{JoinHandle, unconstrained};
use tokio::time::sleep;
use zk_client::{Client, Error as ClientError, WatchedEvent, Watcher};

/// Fires one session timeout after it was set, or after another time. Taking a permission away
/// silences a watch, so a waiter lists the queue again then.
///
/// The time passes on the runtime of the session, so it does whatever becomes of the runtime that
/// polls this. If the session has no runtime, or that one has ended, the time passes on the runtime
/// that polls this; outside of any runtime only events wake a waiter then.
#[derive(Debug, Default)]
pub(crate) struct RecheckTimer(Option<JoinHandle<()>>);

impl RecheckTimer {
    /// Sets the timer, unless it is set. Ready when its time has passed, once.
    pub(crate) fn poll(&mut self, client: &Client, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_after(|| client.session_timeout(), client, cx)
    }

    /// The same for a timer that is set to `time`.
    pub(crate) fn poll_after(
        &mut self,
        time: impl Fn() -> Duration,
        client: &Client,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        for is_of_session in [true, false] {
            let timer = match &mut self.0 {
                Some(timer) => timer,
                None => {
                    let own = || Handle::try_current().ok();
                    let runtime = if is_of_session { client.runtime() } else { own() };
                    let Some(runtime) = runtime else { continue };
                    let time = time();
                    self.0.insert(runtime.spawn(async move { sleep(time).await }))
                }
            };
            let Poll::Ready(fired) = pin!(unconstrained(timer)).poll(cx) else {
                return Poll::Pending;
            };
            self.0 = None;
            // If the runtime on which it was set has ended, the timer has fired with an error.
            if fired.is_ok() {
                return Poll::Ready(());
            }
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

/// A watch that is waited for, and believed for one session timeout. Without a watch, just that
/// time.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    watcher: Option<Watcher>,
    recheck: RecheckTimer,
}

impl From<Watcher> for Awaited {
    fn from(watcher: Watcher) -> Self {
        Self { watcher: Some(watcher), recheck: RecheckTimer::default() }
    }
}

impl Awaited {
    /// Waits for the event. `None` if nothing has come for one session timeout, or if the time is
    /// all that is waited for. Then the caller looks again, and sets the watch anew.
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn changed(
        &mut self,
        client: &Client,
    ) -> Result<Option<WatchedEvent>, ClientError> {
        poll_fn(|cx| {
            if let Some(watcher) = &mut self.watcher
                && let Poll::Ready(event) = watcher.poll_changed(cx)
            {
                self.watcher = None;
                return Poll::Ready(event.map(Some));
            }
            self.recheck.poll(client, cx).map(|()| {
                if let Some(watcher) = self.watcher.take() {
                    watcher.abandon();
                }
                Ok(None)
            })
        })
        .await
    }
}

/// Waits for one session timeout.
pub(crate) async fn pause(client: &Client) {
    let mut timer = RecheckTimer::default();
    poll_fn(|cx| timer.poll(client, cx)).await;
}

/// A watch, if it is set. Dropping it sends no request, as a watcher's would: what it is on changes
/// soon or is watched again, and fires it.
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
