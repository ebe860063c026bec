//! A contender as the picture shows it: what its process has come to know, and its link.
//!
//! The processes write here what they know, after it was recorded. Nobody decides by it.

use zk_client::SessionState;
use zk_embedded::SessionId;

use crate::scene::{Connection, LinkState, LockState};
use crate::script::{Contender, Mode};

#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(crate) name: String,
    pub(crate) mode: Mode,
    /// The contender whose process it is in: itself, unless it is another's task. What is known of
    /// the connection, the link and the session is known of that one.
    pub(crate) process: usize,
    pub(crate) connection: Connection,
    pub(crate) running: bool,
    pub(crate) link: LinkState,
    /// Its server is drawn apart from the others: the script cuts it off from them.
    pub(crate) is_apart: bool,
    pub(crate) delay_ms: u64,
    pub(crate) lock: LockState,
    pub(crate) token: Option<String>,
    pub(crate) lease_until_us: Option<u64>,
    /// The session that the server has opened last.
    pub(crate) session: Option<SessionId>,
    /// The next reply is to be lost.
    pub(crate) loses_reply: bool,
}

impl Actor {
    pub(crate) fn new(contender: &Contender, process: usize, is_apart: bool) -> Self {
        Self {
            name: contender.name.clone(),
            mode: contender.mode,
            process,
            connection: Connection::Connecting,
            running: true,
            link: LinkState::Up,
            is_apart,
            delay_ms: 0,
            lock: LockState::Idle,
            token: None,
            lease_until_us: None,
            session: None,
            loses_reply: false,
        }
    }

    /// Forgets what a process knew.
    pub(crate) fn forget(&mut self, connection: Connection) {
        (self.connection, self.running) = (connection, true);
        self.let_go(LockState::Idle);
    }

    /// The lock is not its own, or not any more.
    pub(crate) fn let_go(&mut self, lock: LockState) {
        self.lock = lock;
        (self.token, self.lease_until_us) = (None, None);
    }
}

/// What a client knows of its connection, and how that is told.
pub(crate) fn connection(state: SessionState) -> (Connection, &'static str) {
    match state {
        SessionState::Connecting => (Connection::Connecting, "connects"),
        SessionState::Connected | SessionState::ConnectedReadOnly => {
            (Connection::Connected, "is connected")
        }
        SessionState::Disconnected => (Connection::Suspended, "has lost the connection"),
        SessionState::Closed => (Connection::Closed, "has closed the session"),
        _ => (Connection::Expired, "knows that the session is over"),
    }
}
