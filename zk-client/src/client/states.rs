//! The states of a session as a stream, which reports how many states it missed.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use crate::driver::shared_session::SharedSession;
use crate::driver::state_log::{self, Found};
use crate::handles::client::Client;
use crate::model::event::{SessionState, StateEvent};

impl Client {
    /// Every state of the session in order, from the current one on.
    ///
    /// This is for a caller that must see each disconnect. [`states`](Self::states) holds only the
    /// latest state.
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
    /// The number of the next state to return.
    next: u64,
}

impl StateStream {
    /// The number of states that are kept for readers.
    ///
    /// A reader that falls further behind receives the number of states that it
    /// [missed](StateEvent::Lagged), and then the states that are kept.
    pub const CAPACITY: usize = state_log::CAPACITY;

    /// Waits for the next state. Returns `None` after the state that [ended](SessionState::ended)
    /// the session.
    ///
    /// That last state is always returned.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: call it again.
    pub async fn next(&mut self) -> Option<StateEvent> {
        loop {
            // A change after this look wakes this task.
            let state = *self.changes.borrow_and_update();
            match self.shared.state_log(|log| log.read(&mut self.next)) {
                Found::Next(state) => return Some(StateEvent::Entered(state)),
                Found::Missed(missed) => return Some(StateEvent::Lagged(missed)),
                Found::Nothing if state.ended().is_some() => return None,
                // The sender cannot be gone: it is in the shared session, which we hold.
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
