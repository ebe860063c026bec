//! Nodes as values: what to create, and what was created or read.

use bytes::Bytes;
use zk_proto::{CreateMode, OpCode, Stat};

use crate::acl::Acl;

/// What a create makes: the kind of node, and who may use it.
///
/// ```
/// use zk_client::{Acl, CreateOptions, Id, Perms};
///
/// let job = CreateOptions::persistent().sequential();
/// let local = [Acl::new(Perms::ALL, Id::ip("127.0.0.1"))];
/// let private = CreateOptions::ephemeral().with_acl(&local);
/// # let _ = (job, private);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateOptions<'a> {
    pub(crate) mode: CreateMode,
    pub(crate) acl: &'a [Acl],
}

impl<'a> CreateOptions<'a> {
    const fn new(mode: CreateMode) -> Self {
        Self { mode, acl: Acl::OPEN }
    }

    /// A node that stays until it is deleted.
    pub const fn persistent() -> Self {
        Self::new(CreateMode::PERSISTENT)
    }

    /// A node that goes with the session. It cannot have children.
    pub const fn ephemeral() -> Self {
        Self::new(CreateMode::EPHEMERAL)
    }

    /// A node that the server removes some time after its last child. Since ZooKeeper 3.5.1.
    pub const fn container() -> Self {
        Self::new(CreateMode::CONTAINER)
    }

    /// Lets the server append ten digits that count the parent's children ever created. Containers
    /// stay as they are.
    #[must_use]
    pub const fn sequential(self) -> Self {
        let mode = match self.mode {
            CreateMode::PERSISTENT => CreateMode::PERSISTENT_SEQUENTIAL,
            CreateMode::EPHEMERAL => CreateMode::EPHEMERAL_SEQUENTIAL,
            other => other,
        };
        Self { mode, ..self }
    }

    /// Sets the access list, which by default lets everybody do everything: see [`Acl`].
    #[must_use]
    pub const fn with_acl(self, acl: &'a [Acl]) -> Self {
        Self { acl, ..self }
    }

    pub(crate) const fn is_sequential(&self) -> bool {
        self.mode.is_sequential()
    }

    /// What it goes out under in a multi.
    pub(crate) const fn op_in_multi(&self) -> OpCode {
        match self.mode {
            CreateMode::CONTAINER => OpCode::CREATE_CONTAINER,
            _ => OpCode::CREATE,
        }
    }
}

/// A node that was created.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Created {
    /// Its path, with the digits of a sequential one.
    pub path: String,
    /// Its state as created.
    pub stat: Stat,
}

/// A node that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// Its data; null reads as empty.
    pub data: Bytes,
    /// Its state.
    pub stat: Stat,
}

/// The children of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Children {
    /// Their names, without the parent's path and in no order.
    pub names: Vec<String>,
    /// The parent's state.
    pub stat: Stat,
}

/// What became of an owned node that was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deletion {
    /// This delete removed it.
    Deleted,
    /// It was gone before: somebody else deleted it.
    AlreadyGone,
}
