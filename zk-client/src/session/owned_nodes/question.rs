//! What an owned node asks the server: small requests of the session's own, sent like anybody's.
//!
//! Knows what goes on the wire, and nothing of what the answers mean.

use std::sync::Arc;

use zk_proto::{
    DeleteRequest, Encode, ExistsRequest, GetChildrenRequest, OpCode, SyncRequest, Writer,
};

/// One owned node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnedNodeId(pub(crate) u64);

/// Something to ask the server on an owned node's behalf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) node: OwnedNodeId,
    pub(crate) query: Query,
    pub(crate) path: Arc<str>,
}

/// The requests of an owned node.
///
/// A lost create is looked for with sync, since the server of the new connection may be behind the
/// one that got the create, and right behind it list, since the digits are not known. Then comes
/// stat, since only the owner tells whose the node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    Sync,
    List,
    Stat,
    Delete,
}

impl Question {
    pub(crate) fn op(&self) -> OpCode {
        match self.query {
            Query::Sync => OpCode::SYNC,
            Query::List => OpCode::GET_CHILDREN,
            Query::Stat => OpCode::EXISTS,
            Query::Delete => OpCode::DELETE,
        }
    }

    /// Whether this is the [delete](Query::Delete) of the node at `path`.
    pub(crate) fn deletes(&self, path: &str) -> bool {
        self.query == Query::Delete && *self.path == *path
    }

    /// What a [delete](Query::Delete) asks, to be put into a multi.
    pub(crate) fn deletion(&self) -> DeleteRequest<'_> {
        DeleteRequest { path: &self.path, version: -1 }
    }
}

impl Encode for Question {
    fn encode(&self, writer: &mut Writer<'_>) {
        let path = &*self.path;
        match self.query {
            Query::Sync => SyncRequest { path: path.into() }.encode(writer),
            Query::List => GetChildrenRequest { path, watch: false }.encode(writer),
            Query::Stat => ExistsRequest { path, watch: false }.encode(writer),
            Query::Delete => self.deletion().encode(writer),
        }
    }
}
