//! Nodes as values: the options of a create, and the nodes that were created or read.

use std::time::Duration;

use bytes::Bytes;
use zk_proto::{CreateMode, CreateResponse, Decode, DecodeError, OpCode, Reader, Stat, Zxid};

use crate::model::acl::Acl;
use crate::model::child_names::Names;

/// The options of a create: the kind of node, and its access list.
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
    /// The mode without the time to live.
    mode: CreateMode,
    pub(crate) acl: &'a [Acl],
    ttl: Option<Duration>,
    container_parents: bool,
}

/// Data below this size is copied out of the read buffer, so that a value that is kept does not
/// keep 64 KiB with it.
const COPY_BELOW: usize = 32 * 1024;

/// The longest time to live in milliseconds. Servers keep it in 40 bits of the node's owner.
const MAX_TTL: u128 = (1 << 40) - 1;

impl<'a> CreateOptions<'a> {
    const fn new(mode: CreateMode) -> Self {
        Self { mode, acl: Acl::OPEN, ttl: None, container_parents: false }
    }

    /// A node that stays until it is deleted.
    pub const fn persistent() -> Self {
        Self::new(CreateMode::PERSISTENT)
    }

    /// A node that is deleted when the session ends. It cannot have children.
    pub const fn ephemeral() -> Self {
        Self::new(CreateMode::EPHEMERAL)
    }

    /// A node that the server deletes some time after its last child. Since ZooKeeper 3.5.1.
    pub const fn container() -> Self {
        Self::new(CreateMode::CONTAINER)
    }

    /// Lets the server append ten digits that count the parent's children ever created.
    ///
    /// Containers stay as they are.
    #[must_use]
    pub const fn sequential(self) -> Self {
        let mode = match self.mode {
            CreateMode::PERSISTENT => CreateMode::PERSISTENT_SEQUENTIAL,
            CreateMode::EPHEMERAL => CreateMode::EPHEMERAL_SEQUENTIAL,
            other => other,
        };
        Self { mode, ..self }
    }

    /// Gives a persistent node a time to live. Since ZooKeeper 3.5.3.
    ///
    /// The server deletes the node some time after it has had no children and was not written to
    /// for that long. The time is in whole milliseconds, rounded up, from 1 to 2^40 - 1, some 34
    /// years.
    ///
    /// Servers look once a minute by default (`znode.container.checkIntervalMs`). Children that are
    /// created and deleted do not renew the time.
    ///
    /// Servers accept it only with `zookeeper.extendedTypesEnabled=true`, and answer
    /// `Unimplemented` otherwise. A time out of range, or that of an ephemeral node or a container,
    /// is [`InvalidOptions`](crate::ErrorKind::InvalidOptions) when the node is created.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use std::time::Duration;
    /// use zk_client::CreateOptions;
    ///
    /// let hour = CreateOptions::persistent().sequential().ttl(Duration::from_secs(3600));
    /// client.create("/results/r-", b"42", &hour).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// Creates missing parents as containers, if the [dialect](crate::Dialect) has them.
    ///
    /// Servers delete containers again some time after their last child. Without this option the
    /// parents are persistent, unless the node itself is a container. The option is for
    /// [`create_all`](crate::Client::create_all); a create of a single node ignores it.
    #[must_use]
    pub const fn container_parents(self) -> Self {
        Self { container_parents: true, ..self }
    }

    /// The options of a node's missing parents, on servers that have containers or not.
    pub(crate) const fn for_parents(self, has_containers: bool) -> Self {
        match self.container_parents && has_containers {
            true => Self { mode: CreateMode::CONTAINER, ..self }.as_parent(),
            false => self.as_parent(),
        }
    }

    /// The options of a node that may have children: a container if this is one, else a persistent
    /// node, under the name that it is given.
    pub(crate) const fn as_parent(self) -> Self {
        let mode = match self.mode {
            CreateMode::CONTAINER => CreateMode::CONTAINER,
            _ => CreateMode::PERSISTENT,
        };
        Self { mode, ttl: None, ..self }
    }

    /// Sets the access list. By default everyone may do everything: see [`Acl`].
    #[must_use]
    pub const fn with_acl(self, acl: &'a [Acl]) -> Self {
        Self { acl, ..self }
    }

    pub(crate) const fn is_ephemeral(&self) -> bool {
        self.mode.is_ephemeral()
    }

    pub(crate) const fn is_sequential(&self) -> bool {
        self.mode.is_sequential()
    }

    /// The mode in the request. A mode without a time to live never goes out with one: that kills
    /// servers of 3.9.3 for good.
    pub(crate) const fn mode(&self) -> CreateMode {
        match (self.mode, self.ttl) {
            (CreateMode::PERSISTENT, Some(_)) => CreateMode::PERSISTENT_WITH_TTL,
            (CreateMode::PERSISTENT_SEQUENTIAL, Some(_)) => {
                CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL
            }
            (mode, _) => mode,
        }
    }

    /// The time to live of a [mode](Self::mode) that has one, in milliseconds.
    pub(crate) fn ttl_millis(&self) -> Option<i64> {
        let has_ttl = [CreateMode::PERSISTENT_WITH_TTL, CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL]
            .contains(&self.mode());
        let within = |ttl| i64::try_from(millis(ttl).clamp(1, MAX_TTL)).ok();
        self.ttl.filter(|_| has_ttl).and_then(within)
    }

    /// The rule that the options break, if any.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match (self.mode, self.ttl) {
            (_, None) => Ok(()),
            (CreateMode::PERSISTENT | CreateMode::PERSISTENT_SEQUENTIAL, Some(ttl)) => {
                match millis(ttl) {
                    1..=MAX_TTL => Ok(()),
                    _ => Err("a time to live is from 1 to 2^40 - 1 milliseconds"),
                }
            }
            _ => Err("only persistent nodes have a time to live"),
        }
    }

    /// The opcode of the create in a multi.
    pub(crate) const fn op_in_multi(&self) -> OpCode {
        match self.mode {
            CreateMode::CONTAINER => OpCode::CREATE_CONTAINER,
            _ if self.ttl.is_some() => OpCode::CREATE_TTL,
            _ => OpCode::CREATE,
        }
    }
}

/// Whole milliseconds, rounded up, so that no node is deleted early.
const fn millis(time: Duration) -> u128 {
    time.as_nanos().div_ceil(1_000_000)
}

/// A node that was created.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Created {
    /// Its path, with the digits of a sequential one.
    pub path: String,
    /// The zxid of the transaction that created it: 0 where neither the reply nor the
    /// [dialect](crate::Dialect::zxids_of_creates) tells.
    pub czxid: Zxid,
    /// Its state after the create.
    ///
    /// `None` for a create within a [`multi`](crate::Client::multi): servers before 3.7.2, 3.8.2
    /// and 3.9.0 do not send it there (ZOOKEEPER-4026). `None` also in a
    /// [dialect](crate::Dialect) without create2.
    pub stat: Option<Stat>,
}

/// The reply to a create. The one of the first versions has no Stat.
pub(crate) struct CreateReply<'a> {
    pub(crate) path: &'a str,
    pub(crate) stat: Option<Stat>,
}

impl<'a> CreateReply<'a> {
    /// Reads the reply to this operation.
    pub(crate) fn decode(op: OpCode, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let CreateResponse { path } = Decode::decode(reader)?;
        let stat = (op != OpCode::CREATE).then(|| Stat::decode(reader)).transpose()?;
        Ok(Self { path, stat })
    }
}

/// A node that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// Its data. Null data reads as empty.
    pub data: Bytes,
    /// Its state.
    pub stat: Stat,
}

impl Node {
    /// A node that was read from a frame, of which `data` is a part.
    pub(crate) fn read(frame: &Bytes, data: Option<&[u8]>, stat: Stat) -> Self {
        let data = match data {
            None => Bytes::new(),
            Some(data) if data.len() < COPY_BELOW => Bytes::copy_from_slice(data),
            Some(data) => frame.slice_ref(data),
        };
        Self { data, stat }
    }
}

/// The children of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Children {
    /// Their names, without the parent's path and in no order.
    pub names: Names,
    /// The parent's state.
    pub stat: Stat,
}

/// The record of a reply to getChildren2.
impl<'a> Decode<'a> for Children {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { names: Names::decode(reader)?, stat: Stat::decode(reader)? })
    }
}

/// The result of deleting an owned node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Deletion {
    /// This delete removed it.
    Deleted,
    /// The node was gone before: another client deleted it.
    AlreadyGone,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// createTTL with another mode, or with no time, ends servers of 3.9.3.
    #[test]
    fn a_time_to_live_and_its_mode_go_out_together_or_not_at_all() {
        let (persistent, ephemeral) = (CreateOptions::persistent(), CreateOptions::ephemeral());
        let container = CreateOptions::container();
        let times =
            [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(1), Duration::MAX];
        for base in [persistent, ephemeral, container] {
            for options in [base, base.sequential()] {
                let with = times.map(|time| options.ttl(time));
                for options in with.into_iter().chain([options]) {
                    let modes = [
                        CreateMode::PERSISTENT_WITH_TTL,
                        CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL,
                    ];
                    let has_mode = modes.contains(&options.mode());
                    assert_eq!(options.ttl_millis().is_some(), has_mode, "{options:?}");
                    if options.check().is_ok() {
                        let is_ttl = options.op_in_multi() == OpCode::CREATE_TTL;
                        assert_eq!(is_ttl, has_mode, "{options:?}");
                        assert!(options.ttl_millis().is_none_or(|ttl| (1..1 << 40).contains(&ttl)));
                    }
                }
            }
        }
        let sequential = persistent.ttl(Duration::from_micros(1_001)).sequential();
        assert_eq!(sequential.mode(), CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL);
        assert_eq!((sequential.ttl_millis(), sequential.is_sequential()), (Some(2), true));
    }
}
