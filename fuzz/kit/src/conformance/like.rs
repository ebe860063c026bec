//! What a server should be like.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Error, Result};

use super::client::Client;
use super::release::Release;

/// A server to compare with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Like {
    /// The release of Apache's server.
    pub release: Release,
}

impl Default for Like {
    fn default() -> Self {
        Self { release: Release::NEWEST }
    }
}

impl FromStr for Like {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let release = text.strip_prefix("apache-").context("expected one like apache-3.9")?;
        Ok(Self { release: release.parse()? })
    }
}

impl fmt::Display for Like {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "apache-{}", self.release)
    }
}

/// What the server tells of itself; nothing if it is none of Apache's, or does not allow `srvr`.
///
/// # Errors
///
/// A server that cannot be reached.
pub(super) async fn ask(address: &str, patience: Duration) -> Result<Option<Like>> {
    let told = Client::new("ask", address, patience).word(b"srvr").await?;
    let version = told.split(' ').find_map(|word| word.strip_prefix("Zookeeper-version="));
    let release = version.and_then(|version| version.split(['-', ',']).next()?.parse().ok());
    Ok(release.map(|release| Like { release }))
}
