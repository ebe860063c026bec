//! The metadata of a node.

use crate::connect::SessionId;
use crate::header::Zxid;
use crate::jute::record;

record! {
    /// The metadata of a node, 68 bytes on the wire.
    Stat {
        /// The transaction that created the node.
        czxid: Zxid,
        /// The transaction that last wrote the data.
        mzxid: Zxid,
        /// When the node was created: the leader's wall clock, milliseconds since 1970.
        ctime: i64,
        /// When the data was last written, likewise.
        mtime: i64,
        /// Counts writes of the data.
        version: i32,
        /// Twice the number of children ever created, minus the number of children that exist.
        cversion: i32,
        /// Counts changes of the access list.
        aversion: i32,
        /// The session that an ephemeral node belongs to; 0 for every other node.
        ephemeral_owner: SessionId,
        /// The length of the data in bytes.
        data_length: i32,
        /// The number of children.
        num_children: i32,
        /// The transaction that last created or deleted a child.
        pzxid: Zxid,
    }
}

impl Stat {
    /// The version that a request gives if the node may have any.
    ///
    /// On servers up to 3.9, this is also the version of a node after 2^32 - 1 writes.
    pub const ANY_VERSION: i32 = -1;
}
