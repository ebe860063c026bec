//! What a server should be like: a release of Apache's, and how it deviates from that.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Error, Result};

use super::allow::Allowed;
use super::client::Client;
use super::release::Release;

/// A server to compare with.
#[derive(Clone, Debug)]
pub struct Like {
    /// Such as `apache-3.9`.
    name: String,
    pub(super) release: Release,
    /// What it does otherwise, with the source of each.
    pub(super) known: Allowed,
}

impl Like {
    /// A release of Apache's server.
    pub fn apache(release: Release) -> Self {
        Self::other(&format!("apache-{release}"), release, Allowed::default())
    }

    /// A server that is like a release of Apache's, but for some claims that are known not to hold.
    pub fn other(name: &str, release: Release, known: Allowed) -> Self {
        Self { name: name.to_owned(), release, known }
    }
}

impl Default for Like {
    fn default() -> Self {
        Self::apache(Release::NEWEST)
    }
}

/// The servers that are not Apache's of today, each with what it does otherwise than the newest.
const OTHERS: [(&str, &str); 4] = [
    ("clickhouse-keeper", include_str!("known/clickhouse-keeper.txt")),
    ("clickhouse-keeper-26", include_str!("known/clickhouse-keeper-26.txt")),
    ("raftkeeper", include_str!("known/raftkeeper.txt")),
    ("zookeeper-3.10", include_str!("known/zookeeper-3.10.txt")),
];

/// A name such as `apache-3.9.3`, or `apache-3.9` for the newest release of a line; or that of a
/// server of another maker.
impl FromStr for Like {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some((name, known)) = OTHERS.iter().find(|(name, _)| *name == text) {
            return Ok(Self::other(name, Release::NEWEST, Allowed::parse(known)?));
        }
        let release = text.strip_prefix("apache-").with_context(|| {
            format!("expected one like apache-3.9, or {}", OTHERS.map(|(name, _)| name).join(", "))
        })?;
        Ok(Self::apache(release.parse()?))
    }
}

impl fmt::Display for Like {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
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
    Ok(release.map(Like::apache))
}
