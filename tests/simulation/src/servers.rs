//! Whose servers a run has: Apache's, or those in which a session ends with its connection.

use zk_client::Dialect;
use zk_embedded::{Manner, OpCode};

use super::Family;

/// The servers of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Servers {
    /// Apache's.
    #[default]
    Apache,
    /// In the manner of ClickHouse Keeper: each lost connection is the end of a session.
    Keeper,
}

impl Servers {
    /// The servers of this seed: one of eight is not Apache's.
    pub(super) fn of_seed(seed: u64, family: Family) -> Self {
        if seed % 8 == 5 && family.works_on(Self::Keeper) { Self::Keeper } else { Self::Apache }
    }

    pub(super) fn manner(self) -> Manner {
        match self {
            Self::Apache => Manner::apache(),
            Self::Keeper => Manner::clickhouse_keeper(),
        }
    }

    pub(super) fn dialect(self) -> Dialect {
        match self {
            Self::Apache => Dialect::apache(),
            Self::Keeper => Dialect::clickhouse_keeper(),
        }
    }

    /// The operation that clients of these servers send in place of this one.
    pub(super) fn op(self, op: OpCode) -> OpCode {
        match (self, op) {
            (Self::Keeper, OpCode::CREATE2) => OpCode::CREATE,
            (_, op) => op,
        }
    }
}
