//! What a recipe believes of a server without a quorum: nothing.
//!
//! Such a server may lack what the others have committed, and show what was never committed. So to
//! a recipe that reads, it is no connection: it waits for a server with a quorum, and reads again
//! what it has read while the connection changed.

use std::future::Future;

use tokio::sync::watch;
use zk_client::{Client, Error as ClientError, SessionState};

/// A connection to a server with a quorum, or none.
#[derive(Debug)]
pub(crate) struct Quorum {
    states: watch::Receiver<SessionState>,
    /// True if there was such a connection.
    is_connected: bool,
}

impl Quorum {
    /// Waits until the client is connected to a server with a quorum, or its session is over.
    pub(crate) async fn wait(client: &Client) -> Self {
        Self::wait_on(client.states()).await
    }

    /// As [`wait`](Self::wait), with a receiver of the client's states.
    pub(crate) async fn wait_on(mut states: watch::Receiver<SessionState>) -> Self {
        // An error means that the session is over, which the next request reports.
        let is_over = |state: &SessionState| has_quorum(state) || state.ended().is_some();
        drop(states.wait_for(is_over).await);
        Self { states, is_connected: true }
    }

    /// Waits while the client is connected to a server without a quorum. While it is cut off, it is
    /// the next request that waits, and a connection that comes meanwhile does not
    /// [stand](Self::stands).
    pub(crate) async fn unless_read_only(client: &Client) -> Self {
        let mut states = client.states();
        let mut is_connected = has_quorum(&states.borrow_and_update());
        if client.state() == SessionState::ConnectedReadOnly {
            drop(states.wait_for(|state| *state != SessionState::ConnectedReadOnly).await);
            is_connected = has_quorum(&states.borrow_and_update());
        }
        Self { states, is_connected }
    }

    /// True if the connection is still the same. So a reply that has come is that of a quorum.
    pub(crate) fn stands(&self) -> bool {
        self.is_connected && !self.states.has_changed().unwrap_or(false)
    }

    /// The receiver of states, which has seen the state that was waited for.
    pub(crate) fn into_states(self) -> watch::Receiver<SessionState> {
        self.states
    }
}

/// True if the client is connected to a server with a quorum.
pub(crate) fn has_quorum(state: &SessionState) -> bool {
    *state == SessionState::Connected
}

/// Reads from a server with a quorum, and again if the connection has changed meanwhile.
pub(crate) async fn by_quorum<T, R: Future<Output = Result<T, ClientError>>>(
    client: &Client,
    mut read: impl FnMut() -> R,
) -> Result<T, ClientError> {
    loop {
        let quorum = Quorum::unless_read_only(client).await;
        let found = read().await;
        let is_unanswered = found.as_ref().is_err_and(|error| error.code().is_none());
        // The caller counts the connections that were lost.
        if is_unanswered || quorum.stands() || client.state().ended().is_some() {
            return found;
        }
    }
}
