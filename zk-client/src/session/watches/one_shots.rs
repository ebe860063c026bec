//! What a one-shot watch is, and which events end it.

use zk_proto::EventType;

/// Identifies one watch of one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub(crate) u64);

impl WatchId {
    pub(crate) const FIRST: Self = Self(0);
    pub(crate) const LAST: Self = Self(u64::MAX);
}

/// What a one-shot watch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WatchKind {
    /// The node's data, or its deletion: getData, or exists on a node that is there.
    Data,
    /// The node's creation: exists on an absent node.
    Exist,
    /// The node's children, or its deletion: getChildren.
    Child,
}

impl WatchKind {
    pub(crate) const ALL: [Self; 3] = [Self::Data, Self::Exist, Self::Child];

    /// True if an event ends watches of this kind.
    ///
    /// A node whose data is watched exists: an event about its creation is meant for another watch,
    /// and the creation was earlier. A node whose creation is awaited does not exist: an event
    /// about its deletion answers a request that assumed that it did.
    pub(crate) fn sees(self, event: EventType) -> bool {
        match event {
            EventType::NODE_CREATED => self == Self::Exist,
            EventType::NODE_DATA_CHANGED => self != Self::Child,
            EventType::NODE_CHILDREN_CHANGED => self == Self::Child,
            EventType::NODE_DELETED => self != Self::Exist,
            _ => true,
        }
    }
}
