//! In which ways a server is not Apache's of today: those of other makers, and of the next release.
//!
//! Each deviation is a switch with a name and a source. A manner is a set of them, with the
//! operations that the server lacks.

use std::fmt;

use zk_proto::OpCode;

/// One way in which a server behaves differently from Apache's of today.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Deviation {
    /// A session ends with its connection, and a handshake always gets a new one, whatever session
    /// it names (ClickHouse 116690, and Keeper's handler of connections).
    SessionEndsWithConnection,
    /// At an operation that it does not know, the server closes the connection without a reply
    /// (Keeper's handler of connections).
    HangsUpOnUnknown,
    /// An operation that it does not know gets no reply, and neither does anything behind it
    /// (RaftKeeper 34).
    IgnoresUnknown,
    /// A create with the flags of a container or of a time to live is `BadArguments` (Keeper until
    /// ClickHouse 108908).
    RefusesContainers,
    /// The events of a recursive watch name the path of the watch, and not that of the node that
    /// has changed (ClickHouse 115475).
    EventsNameTheWatch,
    /// While it does not serve, the server answers a handshake with the protocol version 42
    /// (Keeper's handler of connections).
    SaysThatNobodyLeads,
    /// The nodes `/keeper/api_version` and `/keeper/feature_flags` tell what the server knows
    /// (Keeper's storage).
    TellsItsFlags,
    /// The `cversion` of a parent rises as well when the data of a child is written (ClickHouse
    /// 115457, and Keeper's storage).
    WritesCountInParents,
    /// The `pzxid` of a parent stays as it is when a child is deleted (ClickHouse 115457, and
    /// Keeper's storage).
    DeletesLeavePzxid,
    /// The version of data is never -1, which stands for any version in a request: 0 follows -2
    /// (ZOOKEEPER-4743).
    VersionsSkipMinusOne,
    /// A container that never had a child is removed as well, five minutes after it was written
    /// last (ZOOKEEPER-4915).
    RemovesUnusedContainers,
}

/// How a server that is not Apache's of today behaves: see
/// [`Config::manner`](crate::Config::manner).
///
/// ```
/// use zk_embedded::{Config, Deviation, Manner, OpCode};
///
/// let keeper = Manner::clickhouse_keeper();
/// assert!(keeper.has(Deviation::SessionEndsWithConnection) && !keeper.knows(OpCode::CREATE2));
///
/// // Apache's, but for one thing.
/// let old = Manner::apache().with(Deviation::HangsUpOnUnknown).without_op(OpCode::ADD_WATCH);
/// let config = Config::new().manner(old);
/// # let _ = config;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Manner {
    /// A bit for each deviation.
    deviations: u32,
    /// A bit for each operation that the server lacks.
    lacks: u128,
}

impl Manner {
    /// Apache's own: the default.
    pub const fn apache() -> Self {
        Self { deviations: 0, lacks: 0 }
    }

    /// ClickHouse Keeper before the operations of 2025 and 2026.
    ///
    /// Read in its sources and issues up to autumn 2026; it was compared with no running one.
    pub const fn clickhouse_keeper() -> Self {
        Self::apache()
            .with(Deviation::SessionEndsWithConnection)
            .with(Deviation::HangsUpOnUnknown)
            .with(Deviation::RefusesContainers)
            .with(Deviation::EventsNameTheWatch)
            .with(Deviation::SaysThatNobodyLeads)
            .with(Deviation::TellsItsFlags)
            .with(Deviation::WritesCountInParents)
            .with(Deviation::DeletesLeavePzxid)
            .without_op(OpCode::CREATE2)
            .without_op(OpCode::RECONFIG)
            .without_op(OpCode::CHECK_WATCHES)
            .without_op(OpCode::REMOVE_WATCHES)
            .without_op(OpCode::CREATE_CONTAINER)
            .without_op(OpCode::DELETE_CONTAINER)
            .without_op(OpCode::CREATE_TTL)
            .without_op(OpCode::SASL)
            .without_op(OpCode::SET_WATCHES)
            .without_op(OpCode::GET_EPHEMERALS)
            .without_op(OpCode::GET_ALL_CHILDREN_NUMBER)
            .without_op(OpCode::SET_WATCHES2)
            .without_op(OpCode::ADD_WATCH)
            .without_op(OpCode::WHO_AM_I)
    }

    /// ClickHouse Keeper of the middle of 2026, with all of its flags: it knows create2, persistent
    /// watches, their removal, and containers.
    pub const fn clickhouse_keeper_26() -> Self {
        Self::clickhouse_keeper()
            .without(Deviation::RefusesContainers)
            .with_op(OpCode::CREATE2)
            .with_op(OpCode::CREATE_CONTAINER)
            .with_op(OpCode::ADD_WATCH)
            .with_op(OpCode::SET_WATCHES2)
            .with_op(OpCode::REMOVE_WATCHES)
    }

    /// RaftKeeper, as far as its public issues tell: it ignores the operations of 3.6 and later.
    pub const fn raftkeeper() -> Self {
        Self::apache()
            .with(Deviation::IgnoresUnknown)
            .without_op(OpCode::CREATE_TTL)
            .without_op(OpCode::GET_EPHEMERALS)
            .without_op(OpCode::GET_ALL_CHILDREN_NUMBER)
            .without_op(OpCode::SET_WATCHES2)
            .without_op(OpCode::ADD_WATCH)
            .without_op(OpCode::WHO_AM_I)
    }

    /// Apache's 3.10 before its release: what the sources of July 2026 do otherwise than 3.9.5.
    ///
    /// These are all differences that clients can see in how requests are carried out. In the rest
    /// the server follows its [`ServerVersion`](crate::ServerVersion), which should be 3.9.
    pub const fn zookeeper_3_10() -> Self {
        Self::apache()
            .with(Deviation::VersionsSkipMinusOne)
            .with(Deviation::RemovesUnusedContainers)
    }

    /// The manners that the program knows, by the names that it takes.
    pub const ALL: [(&'static str, Self); 5] = [
        ("apache", Self::apache()),
        ("clickhouse-keeper", Self::clickhouse_keeper()),
        ("clickhouse-keeper-26", Self::clickhouse_keeper_26()),
        ("raftkeeper", Self::raftkeeper()),
        ("zookeeper-3.10", Self::zookeeper_3_10()),
    ];

    /// The same with this deviation.
    #[must_use]
    pub const fn with(self, deviation: Deviation) -> Self {
        Self { deviations: self.deviations | 1 << deviation as u32, ..self }
    }

    /// The same without this deviation.
    #[must_use]
    pub const fn without(self, deviation: Deviation) -> Self {
        Self { deviations: self.deviations & !(1 << deviation as u32), ..self }
    }

    /// The same with this operation.
    #[must_use]
    pub const fn with_op(self, op: OpCode) -> Self {
        Self { lacks: self.lacks & !bit(op), ..self }
    }

    /// The same without this operation.
    #[must_use]
    pub const fn without_op(self, op: OpCode) -> Self {
        Self { lacks: self.lacks | bit(op), ..self }
    }

    /// Whether the server deviates so.
    pub const fn has(&self, deviation: Deviation) -> bool {
        self.deviations & 1 << deviation as u32 != 0
    }

    /// Whether the server knows this operation, if Apache's do.
    pub const fn knows(&self, op: OpCode) -> bool {
        self.lacks & bit(op) == 0
    }

    /// What `/keeper/feature_flags` says: the first flag is the highest bit of the first byte.
    pub(crate) fn keeper_flags(&self) -> [u8; 2] {
        let flags = [(1, OpCode::MULTI_READ), (7, OpCode::ADD_WATCH), (8, OpCode::CREATE2)];
        let set = flags.into_iter().filter(|(_, op)| self.knows(*op));
        set.fold(0_u16, |set, (flag, _)| set | 1 << (15 - flag)).to_be_bytes()
    }
}

/// The bit of an operation of clients. Those that a server cannot lack have none.
const fn bit(op: OpCode) -> u128 {
    match op {
        OpCode::PING => 0,
        OpCode(code @ 1..128) => 1 << code,
        _ => 0,
    }
}

impl fmt::Debug for Manner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lacks = OpCode::ALL.iter().filter(|op| !self.knows(**op)).collect::<Vec<_>>();
        f.debug_struct("Manner").field("lacks", &lacks).finish_non_exhaustive()
    }
}
