//! Releases of ZooKeeper, and since which of them something holds.
//!
//! A change is often made in several lines of releases at once, so a since is a list: `3.8.4/3.9.2`
//! is true of 3.8.4 and of 3.9.2, and not of 3.9.0.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail};

/// A release such as 3.8.0, or the newest of a line such as 3.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    line: (u16, u16),
    /// [`u16::MAX`] for the newest.
    patch: u16,
}

impl Release {
    /// The newest release whose behaviour the claims describe.
    pub const NEWEST: Self = Self { line: (3, 9), patch: u16::MAX };

    /// Whether this is a release of 3.9, or later.
    pub(super) fn is_newest_line(self) -> bool {
        self.line >= Self::NEWEST.line
    }
}

impl FromStr for Release {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || format!("{text:?} is no release: expected one like 3.9.3 or 3.9");
        let numbers: Result<Vec<u16>, _> = text.split('.').map(str::parse).collect();
        match *numbers.with_context(bad)? {
            [major, minor] => Ok(Self { line: (major, minor), patch: u16::MAX }),
            [major, minor, patch] => Ok(Self { line: (major, minor), patch }),
            _ => bail!(bad()),
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.line;
        match self.patch {
            u16::MAX => write!(f, "{major}.{minor}"),
            patch => write!(f, "{major}.{minor}.{patch}"),
        }
    }
}

/// The first release of each line that does something. Later lines do it too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Since(Vec<Release>);

impl Since {
    /// The oldest release that the claims know.
    pub(super) const ALWAYS: &'static str = "3.4.0";

    pub(super) fn includes(&self, release: Release) -> bool {
        match self.0.iter().find(|first| first.line == release.line) {
            Some(first) => release >= *first,
            None => self.0.iter().any(|first| release > *first),
        }
    }
}

impl FromStr for Since {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(Self(text.split('/').map(str::parse).collect::<Result<_>>()?))
    }
}

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let releases: Vec<_> = self.0.iter().map(Release::to_string).collect();
        f.write_str(&releases.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_since_counts_within_each_line_of_releases() {
        let check = |since: &str, release: &str, expected| {
            let since: Since = since.parse().unwrap();
            assert_eq!(since.includes(release.parse().unwrap()), expected, "{since} {release}");
        };
        check("3.8.4/3.9.2", "3.8.3", false);
        check("3.8.4/3.9.2", "3.8.4", true);
        check("3.8.4/3.9.2", "3.9.1", false);
        check("3.8.4/3.9.2", "3.9", true);
        check("3.8.4/3.9.2", "3.10.0", true);
        check("3.8.4/3.9.2", "3.7.9", false);
        check("3.4.0", "3.8.0", true);
    }
}
