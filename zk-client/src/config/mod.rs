//! Settings: the connect string, and those of one session.
//!
//! The files below each hold one setting that callers give. This one puts those of a session
//! together, with the share of time that one attempt at a server gets.

pub(crate) mod connect_string;
pub(crate) mod deadline_rule;
pub(crate) mod dialect;
pub(crate) mod limits;
pub(crate) mod session_identity;

use std::time::Duration;

use crate::auth::sasl::Sasl;

pub(crate) use self::connect_string::ConnectString;
pub use self::connect_string::Host;
pub use self::deadline_rule::DeadlineRule;
pub use self::dialect::Dialect;
pub use self::limits::Limits;
pub use self::session_identity::SessionIdentity;

/// The settings of the session core.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionConfig {
    /// The requested session timeout; the server clamps it to its own bounds.
    pub timeout: Duration,
    /// How long connecting to one server, including the handshake, may take if the server grants
    /// the requested timeout. It shrinks and grows in proportion to the granted timeout.
    pub attempt_timeout: Duration,
    /// The SASL mechanism by which every connection begins, if any.
    pub sasl: Option<Sasl>,
    /// A session to resume instead of opening a new one.
    pub resume: Option<SessionIdentity>,
    /// Memory and size limits.
    pub limits: Limits,
    /// How to compute until when the ensemble certainly keeps the session.
    pub deadline_rule: DeadlineRule,
    /// Whether a read-only server may be used.
    pub allow_read_only: bool,
    /// What the servers understand.
    pub dialect: Dialect,
}

impl SessionConfig {
    /// The default session timeout.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

    /// The least time that an attempt at one server gets, however many servers there are.
    pub const MIN_ATTEMPT_TIMEOUT: Duration = Duration::from_millis(200);

    /// The settings of a new session with this timeout, which tries `hosts` servers in turn.
    ///
    /// Each attempt gets its share of the timeout, at most a third, so that one round of attempts
    /// fits into the timeout.
    pub fn new(timeout: Duration, hosts: usize) -> Self {
        Self {
            timeout,
            attempt_timeout: Self::share(timeout, hosts),
            sasl: None,
            resume: None,
            limits: Limits::default(),
            deadline_rule: DeadlineRule::default(),
            allow_read_only: false,
            dialect: Dialect::default(),
        }
    }

    /// The share of the timeout that one attempt gets with this many servers.
    pub(crate) fn share(timeout: Duration, hosts: usize) -> Duration {
        let share = timeout / u32::try_from(hosts.max(3)).unwrap_or(u32::MAX);
        share.max(Self::MIN_ATTEMPT_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_share_the_timeout() {
        let timeout = Duration::from_secs(6);
        assert_eq!(SessionConfig::new(timeout, 1).attempt_timeout, Duration::from_secs(2));
        assert_eq!(SessionConfig::new(timeout, 6).attempt_timeout, Duration::from_secs(1));
        assert_eq!(SessionConfig::new(timeout, 1000).attempt_timeout, Duration::from_millis(200));
    }
}
