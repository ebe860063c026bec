//! The families of locks, of their relatives and of what is kept in memory, and what tells them
//! apart in a run.

use zk_embedded::OpCode;

use super::Servers;

/// The locks that contend for the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Exclusive locks.
    Lock,
    /// Read/write locks.
    RwLock,
    /// Two-level exclusive locks, in some seeds beside one-level locks.
    ReentrantLock,
    /// Two-level read/write locks, in some seeds beside one-level locks.
    ReentrantRwLock,
    /// Two-level exclusive locks of keys, of which none is kept that is not in use.
    KeyedLocks,
    /// Exclusive locks that are left with a ticket, and resumed by it.
    Ticket,
    /// Exclusive locks that are requeued turn after turn, until something disturbs that.
    Requeue,
    /// Locks of which tasks take several together.
    MultiLock,
    /// Semaphores, of which tasks want one permit or several.
    Semaphore,
    /// A counter.
    Counter,
    /// Elections.
    Election,
    /// Partitioners.
    Partitioner,
    /// Barriers.
    Barrier,
    /// Double barriers.
    DoubleBarrier,
    /// Groups, with observers.
    Group,
    /// Trees that are kept in memory.
    TreeCache,
    /// A value that is kept in memory.
    Cached,
    /// Exclusive locks on an ensemble, in a world of their own, which chosen faults do not strike.
    Ensemble,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 18] = [
        Self::Lock,
        Self::RwLock,
        Self::ReentrantLock,
        Self::ReentrantRwLock,
        Self::KeyedLocks,
        Self::Ticket,
        Self::Requeue,
        Self::MultiLock,
        Self::Semaphore,
        Self::Counter,
        Self::Election,
        Self::Partitioner,
        Self::Barrier,
        Self::DoubleBarrier,
        Self::Group,
        Self::TreeCache,
        Self::Cached,
        Self::Ensemble,
    ];

    /// The same locks with only one level.
    pub(super) fn flat(self) -> Self {
        match self {
            Self::ReentrantLock | Self::KeyedLocks => Self::Lock,
            Self::ReentrantRwLock => Self::RwLock,
            _ => self,
        }
    }

    /// True if processes keep nodes in memory, in one session after another.
    pub(super) fn follows(self) -> bool {
        matches!(self, Self::TreeCache | Self::Cached)
    }

    /// True if the family can be struck by chosen faults, and such servers have all that it needs.
    pub fn works_on(self, servers: Servers) -> bool {
        match self {
            Self::Ensemble => false,
            Self::TreeCache | Self::Ticket => servers == Servers::Apache,
            _ => true,
        }
    }

    pub(super) fn has_levels(self) -> bool {
        self != self.flat()
    }

    /// True if each process has one task alone: clients wake tasks that look at their state in any
    /// order.
    pub(super) fn is_single(self) -> bool {
        matches!(self, Self::Requeue | Self::Partitioner | Self::Group) || self.follows()
    }

    /// The requests that tasks send most, the first one most of all.
    pub(super) fn ops(self) -> [OpCode; 4] {
        match self {
            Self::Requeue => {
                [OpCode::MULTI, OpCode::SET_WATCHES, OpCode::CREATE2, OpCode::GET_CHILDREN2]
            }
            Self::MultiLock | Self::Semaphore => {
                [OpCode::MULTI, OpCode::CREATE2, OpCode::GET_CHILDREN2, OpCode::DELETE]
            }
            Self::Counter => [OpCode::MULTI, OpCode::CREATE2, OpCode::GET_DATA, OpCode::SYNC],
            Self::Barrier => [OpCode::CREATE2, OpCode::DELETE, OpCode::EXISTS, OpCode::GET_DATA],
            Self::DoubleBarrier | Self::Group => {
                [OpCode::MULTI, OpCode::CREATE2, OpCode::GET_CHILDREN2, OpCode::GET_DATA]
            }
            Self::Ticket => [OpCode::SET_ACL, OpCode::GET_ACL, OpCode::CREATE2, OpCode::DELETE],
            Self::TreeCache => {
                [OpCode::ADD_WATCH, OpCode::GET_DATA, OpCode::GET_CHILDREN2, OpCode::SYNC]
            }
            Self::Cached => {
                [OpCode::GET_DATA, OpCode::EXISTS, OpCode::SET_WATCHES, OpCode::SET_DATA]
            }
            _ => [OpCode::CREATE2, OpCode::DELETE, OpCode::GET_CHILDREN2, OpCode::GET_DATA],
        }
    }
}
