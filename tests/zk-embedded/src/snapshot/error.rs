//! Why a snapshot is refused.

use std::fmt;

use zk_proto::DecodeError;

/// Why a snapshot cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The bytes do not begin or do not end as a snapshot does. One that is compressed does not
    /// begin as one.
    NotASnapshot,
    /// The snapshot has a version of the format that is not known.
    UnknownVersion(i32),
    /// The bytes are no snapshot from some place on, for example because their end is missing.
    Malformed(DecodeError),
    /// The bytes are not those that were written: a checksum differs.
    WrongChecksum,
    /// The snapshot is whole, and no server can have such nodes.
    Inconsistent(&'static str),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASnapshot => f.write_str("this is no snapshot of a ZooKeeper server"),
            Self::UnknownVersion(version) => write!(f, "a snapshot of unknown version {version}"),
            Self::Malformed(error) => write!(f, "the snapshot is broken: {error}"),
            Self::WrongChecksum => f.write_str("the snapshot is broken: a checksum differs"),
            Self::Inconsistent(what) => write!(f, "the snapshot is inconsistent: {what}"),
        }
    }
}

// No source: the text says it.
impl std::error::Error for SnapshotError {}

impl From<DecodeError> for SnapshotError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}
