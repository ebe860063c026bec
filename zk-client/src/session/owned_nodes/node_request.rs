//! The requests about an owned node, which the session makes by itself and sends like those of
//! callers.
//!
//! Knows how they are encoded, and nothing of what the replies mean.

use std::sync::Arc;

use zk_proto::{
    DeleteRequest, Encode, ExistsRequest, GetChildrenRequest, GetEphemeralsRequest, OpCode,
    SyncRequest, Writer,
};

/// Identifies an owned node of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnedNodeId(pub(crate) u64);

/// A request to the server on an owned node's behalf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeRequest {
    /// Of a request [of a folder](NodeOp::is_of_folder), one of the nodes that it is for.
    pub(crate) node: OwnedNodeId,
    pub(crate) op: NodeOp,
    pub(crate) path: Arc<str>,
}

/// The requests of an owned node.
///
/// The search for lost creates in a folder begins with sync, since the server of the new connection
/// may be behind the one that got them. Right behind it, the server is asked for the ephemeral
/// nodes of this session in the folder, since the digits are not known: that reply is small,
/// however many others have nodes there. Servers before 3.6 must list the folder instead. Then
/// comes stat for each candidate, since only the owner shows which session it belongs to, and only
/// its czxid is a fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeOp {
    Sync,
    Ephemerals,
    List,
    Stat,
    Delete,
}

impl NodeOp {
    /// True for the requests of a search that are for all lost nodes of a folder, whose path they
    /// name.
    pub(crate) fn is_of_folder(self) -> bool {
        matches!(self, Self::Sync | Self::Ephemerals | Self::List)
    }
}

impl NodeRequest {
    pub(crate) fn op_code(&self) -> OpCode {
        match self.op {
            NodeOp::Sync => OpCode::SYNC,
            NodeOp::Ephemerals => OpCode::GET_EPHEMERALS,
            NodeOp::List => OpCode::GET_CHILDREN,
            NodeOp::Stat => OpCode::EXISTS,
            NodeOp::Delete => OpCode::DELETE,
        }
    }

    /// True if this is the [delete](NodeOp::Delete) of the node at `path`.
    pub(crate) fn deletes(&self, path: &str) -> bool {
        self.op == NodeOp::Delete && *self.path == *path
    }

    /// The request of a [delete](NodeOp::Delete), to be put into a multi.
    pub(crate) fn deletion(&self) -> DeleteRequest<'_> {
        DeleteRequest { path: &self.path, version: -1 }
    }
}

impl Encode for NodeRequest {
    fn encode(&self, writer: &mut Writer<'_>) {
        let path = &*self.path;
        match self.op {
            NodeOp::Sync => SyncRequest { path: path.into() }.encode(writer),
            NodeOp::Ephemerals => {
                let inside = inside(path);
                GetEphemeralsRequest { prefix_path: inside.as_str().into() }.encode(writer)
            }
            NodeOp::List => GetChildrenRequest { path, watch: false }.encode(writer),
            NodeOp::Stat => ExistsRequest { path, watch: false }.encode(writer),
            NodeOp::Delete => self.deletion().encode(writer),
        }
    }
}

/// What the paths of all nodes below this folder begin with.
pub(crate) fn inside(folder: &str) -> String {
    format!("{}/", folder.trim_end_matches('/'))
}
