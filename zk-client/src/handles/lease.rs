//! Leases: until when the holder of an owned node may rely on it.
//!
//! Reading a lease reads the clock, so the result is true even when nothing else of this process
//! has run since. The driver wakes tasks that wait for a change. This module decides nothing: see
//! `session/leases`.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::driver::shared_session::SharedSession;
use crate::session::{Lapse, LeaseId, LeaseState};

/// The time for which the holder of an [`OwnedNode`](crate::OwnedNode) can rely on it.
///
/// See [`OwnedNode::lease`](crate::OwnedNode::lease). It is not `Clone`. Dropping it does nothing
/// to the node. While any lease of the session has not lapsed, the session sends the probes that
/// keep it valid.
#[must_use = "dropping it gives it up: bind it to a name (`_` is none)"]
pub struct Lease {
    shared: Arc<SharedSession>,
    id: LeaseId,
}

impl Lease {
    pub(crate) fn new(shared: Arc<SharedSession>, id: LeaseId) -> Self {
        Self { shared, id }
    }

    /// The current state of the lease, by the client's [`Clock`](crate::Clock).
    ///
    /// The clock's documentation says on which systems a suspension of the machine counts. The
    /// lease may lapse between this call and the caller's next action: only the servers know at the
    /// moment of a write whether a node still exists.
    pub fn state(&self) -> LeaseState {
        let clock = self.shared.clock();
        // Read under the lock, so that this and the marks of the session are in one order.
        self.shared.read(|core| core.lease_state(clock.now(), self.id))
    }

    /// How long from now the lease surely holds, whether it is valid or suspended.
    ///
    /// Zero if it has lapsed.
    pub fn remaining(&self) -> Duration {
        let clock = self.shared.clock();
        let (now, state) = self.shared.read(|core| {
            let now = clock.now();
            (now, core.lease_state(now, self.id))
        });
        match state {
            LeaseState::Valid { until } | LeaseState::Suspended { until } => {
                until.saturating_duration_since(now)
            }
            LeaseState::Lapsed(_) => Duration::ZERO,
        }
    }

    /// Waits until the state differs from `from`: suspended, valid again, or lapsed.
    ///
    /// A new `until` is no change. Returns at once if the state already differs.
    ///
    /// ```
    /// # async fn f(lease: &zk_client::Lease) {
    /// use zk_client::LeaseState;
    ///
    /// let mut state = lease.state();
    /// while !matches!(state, LeaseState::Lapsed(_)) {
    ///     state = lease.changed(state).await;
    ///     println!("{state:?}");
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. Any number of tasks may wait.
    pub async fn changed(&self, from: LeaseState) -> LeaseState {
        loop {
            let mut news = pin!(self.shared.lease_changed());
            news.as_mut().enable();
            let state = self.state();
            if std::mem::discriminant(&state) != std::mem::discriminant(&from) {
                return state;
            }
            news.await;
        }
    }

    /// Waits until the lease has lapsed, and returns the reason.
    ///
    /// On a machine that was suspended meanwhile, this may return late; [`state`](Self::state) is
    /// right at once.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. Any number of tasks may wait.
    pub async fn lapsed(&self) -> Lapse {
        let mut state = self.state();
        loop {
            match state {
                LeaseState::Lapsed(lapse) => return lapse,
                _ => state = self.changed(state).await,
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.with(|core| core.close_lease(self.id));
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&self.state()).finish()
    }
}
