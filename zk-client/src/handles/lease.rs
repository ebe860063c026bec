//! What the holder of an owned node may rely on, and until when.
//!
//! Reading a lease reads the clock, so it is true even when nothing else of this process has run
//! since. Whoever waits for a change is woken by the driver. It decides nothing: see
//! `session/assurance`.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::driver::shared_session::SharedSession;
use crate::session::{Lapse, LeaseId, LeaseState};

/// The time that the holder of an [`OwnedNode`](crate::OwnedNode) can count on: see
/// [`OwnedNode::lease`](crate::OwnedNode::lease).
///
/// Not `Clone`. Dropping it does nothing to the node; while any lease of the session has not
/// lapsed, the session asks for the proofs that keep it valid.
#[must_use = "dropping it gives it up"]
pub struct Lease {
    shared: Arc<SharedSession>,
    id: LeaseId,
}

impl Lease {
    pub(crate) fn new(shared: Arc<SharedSession>, id: LeaseId) -> Self {
        Self { shared, id }
    }

    /// Where it stands now, by the client's [`Clock`](crate::Clock), which says on which systems a
    /// suspension of the machine counts.
    ///
    /// It may lapse between this and what the caller does next: only the servers can tell at the
    /// moment of a write whether a node is still there.
    pub fn state(&self) -> LeaseState {
        let clock = self.shared.clock();
        // Under the lock, so that what is read here and what the session marks are in one order.
        self.shared.look(|core| core.lease_state(clock.now(), self.id))
    }

    /// For how long from now it is surely good, whether it is valid or suspended. Zero if it has
    /// lapsed.
    pub fn remaining(&self) -> Duration {
        let clock = self.shared.clock();
        let (now, state) = self.shared.look(|core| {
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

    /// Waits until it stands differently than `from`: it was suspended, became valid again, or has
    /// lapsed. That `until` moves is no change. Returns at once if it does already.
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
    /// Dropping the future loses nothing. Any number may wait.
    pub async fn changed(&self, from: LeaseState) -> LeaseState {
        loop {
            let mut news = pin!(self.shared.leases());
            news.as_mut().enable();
            let state = self.state();
            if std::mem::discriminant(&state) != std::mem::discriminant(&from) {
                return state;
            }
            news.await;
        }
    }

    /// Waits until it has lapsed, and tells why.
    ///
    /// A machine that was suspended meanwhile may be told late; [`state`](Self::state) is not.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. Any number may wait.
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
