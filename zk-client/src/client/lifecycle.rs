//! The session behind a client: where it stands, and how it ends.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::client::handle::Client;
use crate::config::SessionCredentials;
use crate::driver::clock::Clock;
use crate::driver::shared_session::Core;
use crate::model::event::SessionState;

impl Client {
    /// Where the session stands now.
    pub fn state(&self) -> SessionState {
        self.shared().state()
    }

    /// Where the session stands, as a channel that can be waited on. It holds the latest state
    /// alone, so a short disconnect may go unseen.
    pub fn states(&self) -> watch::Receiver<SessionState> {
        self.shared().states()
    }

    /// The session's id and password, once a server that serves writes has given them: what another
    /// client needs to take it up.
    pub fn session(&self) -> Option<SessionCredentials> {
        self.shared().look(|core| core.credentials())
    }

    /// Whether another client began the session, which this one [took
    /// up](crate::ClientBuilder::session): then it may have ephemeral nodes that this client did
    /// not make.
    pub fn is_resumed(&self) -> bool {
        self.shared().look(|core| core.is_resumed())
    }

    /// What this client reads time from.
    pub fn clock(&self) -> &Clock {
        self.shared().clock()
    }

    /// The session timeout: as the server settled it, or as wanted before the first connection.
    pub fn session_timeout(&self) -> Duration {
        self.shared().look(|core| core.timeout())
    }

    /// Ends the session and waits until the server has said so: its ephemeral nodes are gone then,
    /// and everything called before is answered. Calls that come later fail at once.
    ///
    /// Always returns: if no server answers anything, after one session timeout at most. The
    /// ensemble then ends the session by itself, as soon as it has not heard of it for that long.
    ///
    /// # Cancel safety
    ///
    /// The session is closed whether or not the future is awaited.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        self.shared().with(Core::close);
        let mut states = self.shared().states();
        async move {
            // An error means that the shared session was dropped, and the session with it.
            drop(states.wait_for(|state| state.ended().is_some()).await);
        }
    }

    /// Ends this client and leaves its session to another: unlike [`close`](Self::close) it does
    /// not tell the server, so ephemeral nodes stay for as long as the session does without a
    /// client, one session timeout.
    ///
    /// Everything called before is sent and answered, and the connection is dropped then. All
    /// clones are closed: calls that come later fail at once, and owned nodes are nobody's, so
    /// that dropping them, or a reply that would have brought one, deletes nothing any more.
    ///
    /// Returns the id and password that [`ClientBuilder::session`](crate::ClientBuilder::session)
    /// takes the session up with, and there [`adopt`](Self::adopt) the nodes. The password is a
    /// secret: whoever has it has the session. `None` if there is no session to take up: no server
    /// has given one yet, or it has ended otherwise.
    ///
    /// Always returns: what is not answered within one session timeout fails as closed, with its
    /// [`outcome`](crate::Error::outcome).
    ///
    /// # Cancel safety
    ///
    /// The client is detached whether or not the future is awaited.
    pub fn detach(&self) -> impl Future<Output = Option<SessionCredentials>> + Send + use<> {
        let shared = Arc::clone(self.shared());
        shared.with(Core::detach);
        let mut states = shared.states();
        async move {
            drop(states.wait_for(|state| state.ended().is_some()).await);
            shared.look(Core::detached)
        }
    }
}
