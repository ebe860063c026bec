//! What a recipe believes of a server without a quorum: nothing.
//!
//! Such a server may lack what the others have committed, and show what was never committed. So to
//! a recipe that reads, it is no connection: it waits for a server with a quorum, and reads again
//! what it has read while the connection changed.

use std::future::Future;

use tokio::sync::watch;
use zk_client::{Client, Error as ClientError, SessionState};

/// A connection to a server with a quorum, or the end of the session.
#[derive(Debug)]
pub(crate) struct Quorum(watch::Receiver<SessionState>);

impl Quorum {
    /// Waits until the client is connected to a server with a quorum, or its session is over.
    pub(crate) async fn wait(client: &Client) -> Self {
        Self::wait_on(client.states()).await
    }

    /// As [`wait`](Self::wait), with a receiver of the client's states.
    pub(crate) async fn wait_on(mut states: watch::Receiver<SessionState>) -> Self {
        // An error means that the session is over, which the next request reports.
        drop(states.wait_for(|state| has_quorum(state) || state.ended().is_some()).await);
        Self(states)
    }

    /// True if the connection is still the same. So a reply that has come is that of a quorum.
    pub(crate) fn stands(&self) -> bool {
        !self.0.has_changed().unwrap_or(false)
    }

    /// The receiver of states, which has seen the state that was waited for.
    pub(crate) fn into_states(self) -> watch::Receiver<SessionState> {
        self.0
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
        let quorum = Quorum::wait(client).await;
        let found = read().await;
        let is_lost = found.as_ref().is_err_and(ClientError::is_connection_loss);
        // The caller counts the connections that were lost.
        if is_lost || quorum.stands() || client.state().ended().is_some() {
            return found;
        }
    }
}
