//! What identifies a session to the ensemble: its id and password.
//!
//! A program that knows both can resume the session, so they are a secret. This file does not know
//! where they are kept.

use zk_proto::{Password, SessionId};

/// A session's id and password, with which another client can resume it.
///
/// Anyone who has them can use the session: keep them as secret as a password. `Debug` does not
/// show the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionIdentity {
    /// The session's id.
    pub id: SessionId,
    /// The session's password.
    pub password: Password,
}

impl SessionIdentity {
    /// Makes the identity from values that were stored.
    pub const fn new(id: SessionId, password: Password) -> Self {
        Self { id, password }
    }
}
