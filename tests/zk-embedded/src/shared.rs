//! The state that the tasks of a server share: the state machine, and the wakers of the tasks.
//!
//! One lock guards it. It is held as long as it takes to serve the bytes of one read. No other file
//! of this crate reads the clock.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::config::Config;
use crate::connection::ConnectionId;
use crate::core::Core;

/// The lowest port that connections in memory use.
pub(crate) const FIRST_PORT: u16 = 49_152;

/// A server, as seen by all of its tasks.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The runtime that all tasks run on.
    pub(crate) runtime: Handle,
    running: Mutex<Running>,
    /// Notified when something may be due earlier than before.
    pub(crate) rescheduled: Notify,
}

/// What the lock guards.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) core: Core,
    /// Wakes the task of each connection when there is something to send.
    pub(crate) wakers: BTreeMap<ConnectionId, Waker>,
    /// When the task that keeps time wakes up.
    pub(crate) deadline: Option<Instant>,
    /// The port of the newest connection in memory.
    pub(crate) last_port: u16,
    /// True once the handle is dropped.
    pub(crate) ended: bool,
}

impl Shared {
    /// A server without connections that starts now on this runtime.
    pub(crate) fn new(config: Config) -> Self {
        let core = Core::new(config, now(), wall());
        let wakers = BTreeMap::new();
        let running = Running { core, wakers, deadline: None, last_port: FIRST_PORT, ended: false };
        Self {
            runtime: Handle::current(),
            running: Mutex::new(running),
            rescheduled: Notify::new(),
        }
    }

    /// Ignores poisoning. No code panics half-way while it holds the lock; if it ever does, the
    /// user's tests go on.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the tasks that have something to do now, except that of `own`.
    pub(crate) fn settle(&self, running: &mut Running, own: Option<ConnectionId>) {
        while let Some(id) = running.core.poll_ready() {
            if Some(id) != own
                && let Some(waker) = running.wakers.get(&id)
            {
                waker.wake_by_ref();
            }
        }
        let deadline = running.core.poll_timeout();
        let earlier = match (running.deadline, deadline) {
            (Some(known), Some(deadline)) => deadline < known,
            (None, deadline) => deadline.is_some(),
            (Some(_), None) => false,
        };
        if earlier {
            running.deadline = deadline;
            self.rescheduled.notify_one();
        }
    }
}

/// The time is tokio's, so that tests can make it virtual.
#[expect(
    clippy::disallowed_methods,
    reason = "the task that runs the state machine reads the clock"
)]
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The wall clock at the start. From then on it follows [`now`].
#[expect(clippy::disallowed_methods, reason = "nodes carry the wall clock's time")]
fn wall() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
