//! Many tasks that wait for one source.
//!
//! A source remembers the last waker alone. It gets this one, which passes the call on to everybody
//! who waits then.

use std::sync::Arc;
use std::task::Wake;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Whether there is something to look at.
#[derive(Debug, Default)]
pub(crate) struct News(Notify);

impl News {
    pub(crate) fn tell(&self) {
        self.0.notify_waiters();
    }

    /// Waits for what is told from when the future was first polled or enabled.
    pub(crate) fn next(&self) -> Notified<'_> {
        self.0.notified()
    }
}

impl Wake for News {
    fn wake(self: Arc<Self>) {
        self.tell();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.tell();
    }
}
