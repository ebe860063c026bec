//! The states of a session as a stream, in which none is lost without a word.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use crate::client::handle::Client;
use crate::driver::shared_session::SharedSession;
use crate::driver::state_log::{self, Found};
use crate::model::event::{SessionState, StateEvent};

impl Client {
    /// Every state of the session in order, from the one of now on: for who must see each
    /// disconnect, where [`states`](Self::states) holds the latest alone.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) {
    /// use zk_client::{SessionState, StateEvent};
    ///
    /// let mut states = client.state_stream();
    /// while let Some(event) = states.next().await {
    ///     match event {
    ///         StateEvent::Entered(SessionState::Disconnected) => println!("cut off"),
    ///         StateEvent::Entered(state) => println!("{state:?}"),
    ///         StateEvent::Lagged(missed) => println!("{missed} states went by unseen"),
    ///         _ => {}
    ///     }
    /// }
    /// println!("the session is over");
    /// # }
    /// ```
    pub fn state_stream(&self) -> StateStream {
        let shared = Arc::clone(self.shared());
        let changes = shared.states();
        let next = shared.state_log(|log| log.latest());
        StateStream { shared, changes, next }
    }
}

/// The states of a session, one after the other: see [`Client::state_stream`].
///
/// It keeps neither the client nor the session alive.
pub struct StateStream {
    shared: Arc<SharedSession>,
    changes: watch::Receiver<SessionState>,
    /// The number of the state to be told of next.
    next: u64,
}

impl StateStream {
    /// States that are kept for readers. Whoever falls behind by more is told how many it
    /// [missed](StateEvent::Lagged), and then of those that are kept.
    pub const CAPACITY: usize = state_log::CAPACITY;

    /// The next state; `None` behind the one in which the session [ended](SessionState::ended),
    /// which is always told.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: call it again.
    pub async fn next(&mut self) -> Option<StateEvent> {
        loop {
            // What comes behind this look wakes us.
            let state = *self.changes.borrow_and_update();
            match self.shared.state_log(|log| log.read(&mut self.next)) {
                Found::Next(state) => return Some(StateEvent::Entered(state)),
                Found::Missed(missed) => return Some(StateEvent::Lagged(missed)),
                Found::Nothing if state.ended().is_some() => return None,
                // No error can come: the sender is in the shared session, which we hold.
                Found::Nothing => drop(self.changes.changed().await),
            }
        }
    }
}

impl fmt::Debug for StateStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateStream").field("next", &self.next).finish_non_exhaustive()
    }
}
