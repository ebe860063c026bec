//! What the servers of an ensemble understand.
//!
//! This is the only place where it is written down: the session asks it which operations it may
//! send, and whether it outlives its connections. Which operations there are is in the table of
//! `zk-proto`.

use std::fmt;

use zk_proto::OpCode;

/// What the servers of an ensemble understand, where that is not what Apache's do.
///
/// ZooKeeper's protocol is spoken by other servers too. Each lacks some operations, and most close
/// the connection on a request that they do not know, without a reply. So a client must know
/// beforehand with whom it speaks: see
/// [`ClientBuilder::dialect`](crate::ClientBuilder::dialect).
///
/// A request that the dialect does not have is refused with
/// [`Unimplemented`](zk_proto::ErrorCode::UNIMPLEMENTED) before it is sent. Where there is another
/// way to do the same, the client takes it: [`create`](crate::Client::create) sends the create of
/// the first versions, [`watch_nodes`](crate::Client::watch_nodes) asks for each node, and watches
/// that cannot be removed stay with the server until they fire.
///
/// ```
/// use zk_client::{Client, Dialect, OpCode};
///
/// let keeper = Dialect::clickhouse_keeper();
/// assert!(!keeper.understands(OpCode::CREATE2) && keeper.ends_sessions());
///
/// // One that runs with the flags CREATE_WITH_STATS and PERSISTENT_WATCHES.
/// let newer = keeper.with(OpCode::CREATE2).with(OpCode::ADD_WATCH);
/// let builder = Client::builder().dialect(newer);
/// # let _ = builder;
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// The operations that the servers lack, a bit each.
    lacks: u128,
    ends_sessions: bool,
    recursive_watches: bool,
    zxids: bool,
}

/// The operations of Apache's servers that no version of ClickHouse Keeper knows without a flag.
const NOT_IN_KEEPER: [OpCode; 14] = [
    OpCode::CREATE2,
    OpCode::RECONFIG,
    OpCode::CHECK_WATCHES,
    OpCode::REMOVE_WATCHES,
    OpCode::CREATE_CONTAINER,
    OpCode::CREATE_TTL,
    OpCode::MULTI_READ,
    OpCode::SET_WATCHES,
    OpCode::SASL,
    OpCode::GET_EPHEMERALS,
    OpCode::GET_ALL_CHILDREN_NUMBER,
    OpCode::SET_WATCHES2,
    OpCode::ADD_WATCH,
    OpCode::WHO_AM_I,
];

/// The operations that a flag of ClickHouse Keeper stands for, with the number of the flag.
const KEEPER_FLAGS: [(usize, OpCode); 3] =
    [(1, OpCode::MULTI_READ), (7, OpCode::ADD_WATCH), (8, OpCode::CREATE2)];

impl Dialect {
    /// Apache ZooKeeper of any version: the default.
    ///
    /// An operation that a server is too old for is sent once, and refused by that server.
    pub const fn apache() -> Self {
        Self { lacks: 0, ends_sessions: false, recursive_watches: true, zxids: true }
    }

    /// ClickHouse Keeper, as every version of it is.
    ///
    /// It knows the operations of the first versions of ZooKeeper; what a newer one knows is added
    /// by hand, or [read from its flags](crate::Client::keeper_dialect). Its sessions
    /// [end with their connections](Self::ends_sessions).
    ///
    /// On Apache's servers this dialect is safe, but a lock recovers more slowly: the client takes
    /// every lost connection for the end of its session, and the servers keep that session, with
    /// its nodes, until it times out. The client does not notice it: nothing that it reads anyway
    /// tells the two apart.
    ///
    /// This was read in the sources and the issues of Keeper up to autumn 2026, and tried on an
    /// imitation of it, not on a running one.
    pub const fn clickhouse_keeper() -> Self {
        let mut dialect =
            Self { lacks: 0, ends_sessions: true, recursive_watches: false, zxids: false };
        let mut rest: &[OpCode] = &NOT_IN_KEEPER;
        while let [op, behind @ ..] = rest {
            dialect = dialect.without(*op);
            rest = behind;
        }
        dialect
    }

    /// ClickHouse Keeper with these flags, as its node `/keeper/feature_flags` has them.
    ///
    /// A flag of which no operation of Apache's servers depends means nothing here.
    /// [`Client::keeper_dialect`](crate::Client::keeper_dialect) reads that node.
    pub fn with_keeper_flags(flags: &[u8]) -> Self {
        // The first flag is the highest bit of the first byte.
        let is_set = |flag: &usize| {
            flags.get(flag / 8).is_some_and(|byte| byte & (0b1000_0000 >> (flag % 8)) != 0)
        };
        let known = KEEPER_FLAGS.iter().filter(|(flag, _)| is_set(flag));
        known.fold(Self::clickhouse_keeper(), |dialect, (_, op)| dialect.with(*op))
    }

    /// The same with this operation.
    #[must_use]
    pub const fn with(self, op: OpCode) -> Self {
        Self { lacks: self.lacks & !bit(op), ..self }
    }

    /// The same without this operation. Those that no client can do without stay: ping, auth, and
    /// what opens and ends a session.
    #[must_use]
    pub const fn without(self, op: OpCode) -> Self {
        match op {
            OpCode::PING | OpCode::AUTH | OpCode::CREATE => self,
            _ => Self { lacks: self.lacks | bit(op), ..self },
        }
    }

    /// Sets whether a session ends with its connection, as in ClickHouse Keeper.
    ///
    /// Then each lost connection is the end of the session for the client as well, at the first
    /// sign of the loss: every guard is lost, requests without a reply have an unknown outcome, and
    /// nothing is resumed. A client stays with its server, whatever
    /// [`set_servers`](crate::Client::set_servers) says, and [`detach`](crate::Client::detach)
    /// leaves no session behind.
    ///
    /// Between the moment in which the server ends a connection and the first sign of it at the
    /// client, another client may get what this one believes to hold: a proxy may keep its side of
    /// the connection open, and a process that is stopped sees nothing. The deadline rule bounds
    /// that time, and no client can make it zero. There, exclusion rests on fencing: on tokens that
    /// the resource checks, or on writes that name the lock's node.
    #[must_use]
    pub const fn session_ends_with_connection(self, ends: bool) -> Self {
        Self { ends_sessions: ends, ..self }
    }

    /// Sets whether the events of a recursive watch name the node that has changed, as in Apache's
    /// servers. Otherwise such a watch is refused with
    /// [`Unimplemented`](zk_proto::ErrorCode::UNIMPLEMENTED), since whoever kept a tree by it would
    /// go stale without a sign.
    #[must_use]
    pub const fn recursive_watches(self, named: bool) -> Self {
        Self { recursive_watches: named, ..self }
    }

    /// Sets whether the zxid in the reply to a create is the czxid of the node, as in Apache's
    /// servers. Otherwise [`create_owned`](crate::Client::create_owned) reads the node before it
    /// returns it, where the reply has no Stat: one more round trip, for a token that is right.
    #[must_use]
    pub const fn zxids_of_creates(self, are_czxids: bool) -> Self {
        Self { zxids: are_czxids, ..self }
    }

    /// Whether the servers understand this operation, if their version does.
    pub const fn understands(&self, op: OpCode) -> bool {
        self.lacks & bit(op) == 0
    }

    /// Whether a [session ends with its connection](Self::session_ends_with_connection).
    pub const fn ends_sessions(&self) -> bool {
        self.ends_sessions
    }

    /// Whether the [events of recursive watches](Self::recursive_watches) can be trusted.
    pub const fn has_recursive_watches(&self) -> bool {
        self.recursive_watches
    }

    pub(crate) const fn tells_czxids(&self) -> bool {
        self.zxids
    }

    /// The opcode to send for this operation: the create of the first versions stands in for the
    /// one whose reply has a Stat.
    pub(crate) const fn spell(&self, op: OpCode) -> OpCode {
        match op {
            OpCode::CREATE2 if !self.understands(op) => OpCode::CREATE,
            op => op,
        }
    }
}

/// The bit of an operation. Those of servers alone, and unknown ones, have none.
const fn bit(op: OpCode) -> u128 {
    match op.0 {
        0..128 => 1 << op.0,
        _ => 0,
    }
}

impl Default for Dialect {
    fn default() -> Self {
        Self::apache()
    }
}

/// Names the operations that are missing.
impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lacks = OpCode::ALL.iter().filter(|op| !self.understands(**op)).collect::<Vec<_>>();
        f.debug_struct("Dialect")
            .field("lacks", &lacks)
            .field("ends_sessions", &self.ends_sessions)
            .field("recursive_watches", &self.recursive_watches)
            .field("zxids_of_creates", &self.zxids)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dialect_has_all_operations_but_those_that_are_taken_out() {
        let apache = Dialect::apache();
        assert!(OpCode::ALL.iter().all(|op| apache.understands(*op)));
        let without = apache.without(OpCode::WHO_AM_I);
        let missing = OpCode::ALL.iter().filter(|op| !without.understands(**op));
        assert_eq!(missing.collect::<Vec<_>>(), [&OpCode::WHO_AM_I]);
        assert_eq!(without.with(OpCode::WHO_AM_I), apache);
        assert_eq!(apache.without(OpCode::PING).without(OpCode::CREATE), apache);
    }

    #[test]
    fn the_old_create_stands_in_for_the_new_one() {
        let old = Dialect::apache().without(OpCode::CREATE2);
        assert_eq!(old.spell(OpCode::CREATE2), OpCode::CREATE);
        assert_eq!(Dialect::apache().spell(OpCode::CREATE2), OpCode::CREATE2);
        assert_eq!(old.spell(OpCode::CREATE_CONTAINER), OpCode::CREATE_CONTAINER);
    }
}
