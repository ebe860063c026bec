//! A node as the server keeps it, and the state of it that clients see.

use zk_proto::{SessionId, Stat, Zxid};

use crate::access::AccessList;

/// The kind of a node, which decides when the node is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Persistent,
    Ephemeral(SessionId),
    Container,
    /// Time to live: milliseconds after the last write.
    Ttl(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) data: Option<Box<[u8]>>,
    pub(crate) acl: AccessList,
    pub(crate) kind: Kind,
    pub(crate) czxid: Zxid,
    pub(crate) mzxid: Zxid,
    pub(crate) pzxid: Zxid,
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
    pub(crate) version: i32,
    pub(crate) aversion: i32,
    /// How many children were ever created; sequential children are numbered by it. It stays at the
    /// largest `i32`.
    pub(crate) created: i32,
    /// How many children there are.
    pub(crate) children: i32,
    /// How often the data of children was written, where `cversion` counts that.
    pub(crate) child_writes: i32,
    /// The buckets of the set in which a real server has the children, as a power of two.
    pub(crate) buckets: u8,
    /// The place among the changes of the transaction that has created the node.
    pub(crate) place: u16,
}

/// The zxid and the time of a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) zxid: Zxid,
    /// Wall clock, in milliseconds since 1970.
    pub(crate) millis: i64,
}

impl Node {
    pub(crate) fn new(data: Option<Box<[u8]>>, acl: AccessList, kind: Kind, now: Stamp) -> Self {
        let Stamp { zxid, millis } = now;
        Self {
            data,
            acl,
            kind,
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: millis,
            mtime: millis,
            version: 0,
            aversion: 0,
            created: 0,
            children: 0,
            child_writes: 0,
            buckets: 0,
            place: 0,
        }
    }

    pub(crate) fn stat(&self) -> Stat {
        let owner = match self.kind {
            Kind::Ephemeral(session) => session,
            _ => SessionId::default(),
        };
        let changes = self.created.wrapping_mul(2).wrapping_sub(self.children);
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: changes.wrapping_add(self.child_writes),
            aversion: self.aversion,
            ephemeral_owner: owner,
            data_length: self.data.as_ref().map_or(0, |data| data.len()) as i32,
            num_children: self.children,
            pzxid: self.pzxid,
        }
    }
}
