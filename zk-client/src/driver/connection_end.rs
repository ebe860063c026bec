//! How a connection ended, and whether another attempt at the same server could do better.

use std::io;
use std::time::Duration;

use crate::auth::sasl::SaslError;
use crate::error::{Hangup, Prospect};
use crate::net::transport::PermanentRefusal;

/// A connection that is over, or could not be made.
pub(crate) struct ConnectionEnd {
    /// Why it ended.
    pub(crate) why: String,
    /// Whether the next attempt at this server could succeed.
    pub(crate) prospect: Prospect,
    /// How long the transport was up.
    pub(crate) lived: Duration,
}

impl ConnectionEnd {
    pub(crate) fn ended(why: Hangup, lived: Duration) -> Self {
        Self { why: why.to_string(), prospect: Prospect::Open, lived }
    }

    pub(crate) fn broken(error: &io::Error, lived: Duration) -> Self {
        let prospect = match PermanentRefusal::is_in(error) {
            true => Prospect::Refused,
            false => Prospect::Open,
        };
        Self { why: error.to_string(), prospect, lived }
    }

    /// The SASL exchange could not be started.
    pub(crate) fn unauthenticated(mechanism: &str, error: &SaslError) -> Self {
        let prospect = match error {
            SaslError::Credential(_) => Prospect::NoCredential,
            _ => Prospect::Open,
        };
        Self { why: format!("{mechanism}: {error}"), prospect, lived: Duration::ZERO }
    }
}
