//! The session behind a client: its state, and how it ends.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::config::SessionIdentity;
use crate::driver::clock::Clock;
use crate::driver::shared_session::Core;
use crate::handles::client::Client;
use crate::model::event::SessionState;

impl Client {
    /// The current state of the session.
    ///
    /// A request that the end of the session has failed may return a moment before this says so:
    /// [`Error::is_session_over`](crate::Error::is_session_over) does then.
    pub fn state(&self) -> SessionState {
        self.shared().state()
    }

    /// The state of the session, as a channel to wait on.
    ///
    /// The channel holds only the latest state, so a short disconnect may go unseen.
    pub fn states(&self) -> watch::Receiver<SessionState> {
        self.shared().states()
    }

    /// The session's id and password, with which another client can resume it.
    ///
    /// `None` until a server that serves writes has assigned them.
    pub fn session(&self) -> Option<SessionIdentity> {
        self.shared().read(|core| core.identity())
    }

    /// True if this client [resumed](crate::ClientBuilder::session) a session that another client
    /// began.
    ///
    /// The session may then have ephemeral nodes that this client did not create.
    pub fn is_resumed(&self) -> bool {
        self.shared().read(|core| core.is_resumed())
    }

    /// The clock that this client reads time from.
    pub fn clock(&self) -> &Clock {
        self.shared().clock()
    }

    /// The tokio runtime on which the session runs: the one on which its driver was first polled.
    ///
    /// `None` until then. A task of the session, like one that watches over its nodes, is spawned
    /// here: it runs for as long as the session does, whatever becomes of the runtime of a caller.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) {
    /// if let Some(runtime) = client.runtime() {
    ///     let states = client.states();
    ///     runtime.spawn(async move { println!("{:?}", *states.borrow()) });
    /// }
    /// # }
    /// ```
    pub fn runtime(&self) -> Option<Handle> {
        self.shared().runtime()
    }

    /// The session timeout: as negotiated with the server, or as requested until the first
    /// connection.
    pub fn session_timeout(&self) -> Duration {
        self.shared().read(|core| core.timeout())
    }

    /// Ends the session and waits until the server has confirmed it.
    ///
    /// Its ephemeral nodes are gone then, and all earlier calls have their replies. Later calls
    /// fail at once. Watches report no change from then on, only that the session is over.
    ///
    /// The future always completes: if no server replies, after one session timeout at most. The
    /// ensemble then ends the session by itself, as soon as it has not heard from the client for
    /// that long.
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

    /// Ends this client and leaves its session to another client.
    ///
    /// Unlike [`close`](Self::close), it does not end the session at the server. So ephemeral nodes
    /// stay for as long as the session lives without a client, which is one session timeout.
    ///
    /// Requests of earlier calls are sent and answered, and then the connection is dropped. All
    /// clones are closed: later calls fail at once. Owned nodes have no owner any more: dropping
    /// them, or a reply that would have brought one, deletes nothing. Nodes that were released
    /// before are deleted first, except those that the server does not let the client delete: these
    /// stay, and [`undeleted`](Self::undeleted) returns them.
    ///
    /// Returns the id and password. With them,
    /// [`ClientBuilder::session`](crate::ClientBuilder::session) resumes the session, and the new
    /// client can [`adopt`](Self::adopt) the nodes. The password is a secret: it is all that it
    /// takes to have the session. `None` if there is no session to resume: no server has assigned
    /// one yet, or it has ended otherwise.
    ///
    /// The future always completes: a request without a reply after one session timeout fails as
    /// closed, with its [`outcome`](crate::Error::outcome).
    ///
    /// # Cancel safety
    ///
    /// The client is detached whether or not the future is awaited.
    pub fn detach(&self) -> impl Future<Output = Option<SessionIdentity>> + Send + use<> {
        let shared = Arc::clone(self.shared());
        shared.with(Core::detach);
        let mut states = shared.states();
        async move {
            drop(states.wait_for(|state| state.ended().is_some()).await);
            shared.read(Core::detached)
        }
    }

    /// The paths of owned nodes that were released and that the server has refused to delete, for
    /// instance because the client lacks the permission `DELETE` on their folder.
    ///
    /// The client tries again after each session timeout and on each connection. Nodes that are
    /// gone are no longer returned. After [`detach`](Self::detach) these are the nodes that it has
    /// left behind, although they have no owner. They stay for as long as the session lives, unless
    /// another client deletes them.
    pub fn undeleted(&self) -> Vec<String> {
        let undeleted = self.shared().read(|core| core.undeleted());
        undeleted.iter().map(|path| self.chroot.strip(path).to_owned()).collect()
    }
}
