//! How a connection ended, and whether another attempt at the same server could do better.

use std::io;
use std::time::Duration;

use crate::auth::sasl::SaslError;
use crate::error::Hangup;
use crate::net::transport::PermanentRefusal;

/// A connection that is over, or could not be made.
pub(crate) struct ConnectionEnd {
    /// Why it ended.
    pub(crate) why: String,
    /// Whether the next attempt at this server would fail for the same reason.
    pub(crate) is_permanent: bool,
    /// Whether the client had no valid credential for SASL.
    pub(crate) lacks_credential: bool,
    /// How long the transport was up.
    pub(crate) lived: Duration,
}

impl ConnectionEnd {
    pub(crate) fn ended(why: Hangup, lived: Duration) -> Self {
        Self { why: why.to_string(), is_permanent: false, lacks_credential: false, lived }
    }

    pub(crate) fn broken(error: &io::Error, lived: Duration) -> Self {
        let is_permanent = PermanentRefusal::is_in(error);
        Self { why: error.to_string(), is_permanent, lacks_credential: false, lived }
    }

    /// The SASL exchange could not be started.
    pub(crate) fn unauthenticated(mechanism: &str, error: &SaslError) -> Self {
        let lacks_credential = matches!(error, SaslError::Credential(_));
        let why = format!("{mechanism}: {error}");
        Self { why, is_permanent: lacks_credential, lacks_credential, lived: Duration::ZERO }
    }
}
