//! The state that the tasks of a server share: the state machine, and the wakers of the tasks.
//!
//! One lock guards it. It is held as long as it takes to serve the bytes of one read. No other file
//! of this crate reads the clock.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::config::Config;
use crate::connection::ConnectionId;
use crate::core::Core;
use crate::ensemble_core::EnsembleCore;

/// The lowest port that connections in memory use.
pub(crate) const FIRST_PORT: u16 = 49_152;

/// A state machine of one server or several, which something else gives its input and its time: see
/// [`Core`], whose methods these are.
pub trait Machine: Send + 'static {
    /// Adds a connection to one of its servers, of which a [`Core`] has one.
    fn handle_connection(&mut self, now: Instant, server: usize, peer: SocketAddr) -> ConnectionId;
    /// See [`Core::handle_input`].
    fn handle_input(&mut self, now: Instant, id: ConnectionId, input: &mut BytesMut);
    /// See [`Core::handle_disconnected`].
    fn handle_disconnected(&mut self, id: ConnectionId);
    /// See [`Core::handle_timeout`].
    fn handle_timeout(&mut self, now: Instant);
    /// See [`Core::poll_timeout`].
    fn poll_timeout(&self) -> Option<Instant>;
    /// See [`Core::poll_ready`].
    fn poll_ready(&mut self) -> Option<ConnectionId>;
    /// See [`Core::poll_transmit`].
    fn poll_transmit(&mut self, now: Instant, id: ConnectionId, out: &mut BytesMut) -> bool;
    /// See [`Core::poll_abort`].
    fn poll_abort(&self, id: ConnectionId) -> bool;
    /// See [`Core::poll_delay`].
    fn poll_delay(&self, id: ConnectionId) -> Option<Instant>;
    /// See [`Core::unsent`].
    fn unsent(&self, id: ConnectionId) -> usize;
}

/// Implements [`Machine`] by the methods of the same names.
macro_rules! machine {
    ($machine:ty, |$core:ident, $now:ident, $server:ident, $peer:ident| $connect:expr) => {
        impl Machine for $machine {
            fn handle_connection(
                &mut self,
                $now: Instant,
                $server: usize,
                $peer: SocketAddr,
            ) -> ConnectionId {
                let $core = self;
                $connect
            }

            fn handle_input(&mut self, now: Instant, id: ConnectionId, input: &mut BytesMut) {
                self.handle_input(now, id, input);
            }

            fn handle_disconnected(&mut self, id: ConnectionId) {
                self.handle_disconnected(id);
            }

            fn handle_timeout(&mut self, now: Instant) {
                self.handle_timeout(now);
            }

            fn poll_timeout(&self) -> Option<Instant> {
                self.poll_timeout()
            }

            fn poll_ready(&mut self) -> Option<ConnectionId> {
                self.poll_ready()
            }

            fn poll_transmit(
                &mut self,
                now: Instant,
                id: ConnectionId,
                out: &mut BytesMut,
            ) -> bool {
                self.poll_transmit(now, id, out)
            }

            fn poll_abort(&self, id: ConnectionId) -> bool {
                self.poll_abort(id)
            }

            fn poll_delay(&self, id: ConnectionId) -> Option<Instant> {
                self.poll_delay(id)
            }

            fn unsent(&self, id: ConnectionId) -> usize {
                self.unsent(id)
            }
        }
    };
}

machine!(Core, |core, now, _server, peer| core.handle_connection(now, peer));
machine!(EnsembleCore, |core, now, server, peer| core.handle_connection(now, server, peer));

/// A server, as seen by all of its tasks.
#[derive(Debug)]
pub(crate) struct Shared<M = Core> {
    /// The runtime that all tasks run on.
    pub(crate) runtime: Handle,
    running: Mutex<Running<M>>,
    /// Notified when something may be due earlier than before.
    pub(crate) rescheduled: Notify,
}

/// What the lock guards.
#[derive(Debug)]
pub(crate) struct Running<M = Core> {
    pub(crate) core: M,
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
        Self::run(Core::new(config, now(), wall()))
    }
}

impl<M: Machine> Shared<M> {
    /// Runs a state machine without connections on this runtime.
    pub(crate) fn run(core: M) -> Self {
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
    pub(crate) fn lock(&self) -> MutexGuard<'_, Running<M>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the tasks that have something to do now, except that of `own`.
    pub(crate) fn settle(&self, running: &mut Running<M>, own: Option<ConnectionId>) {
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
pub(crate) fn wall() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
