//! Watches: the events that servers send, and the lists that arm watches again.

use crate::codes::{EventType, KeeperState};
use crate::header::Zxid;
use crate::jute::{List, record};
use crate::operations::OpCode;
use crate::ops::{Operation, operation};

record! {
    /// A watch event; its frame has the xid -1.
    WatcherEvent<'a> {
        /// The kind of change.
        kind: EventType,
        /// Always `SyncConnected` on the wire.
        state: KeeperState,
        /// The node, or the parent whose children changed.
        path: &'a str,
    }
}

record! {
    /// setWatches: the server sends changes since `relative_zxid` as events before the reply, and
    /// sets the remaining watches.
    SetWatches<'a> {
        /// The last zxid that the client saw.
        relative_zxid: Zxid,
        /// Watches set by getData, or by exists on a node that existed.
        data: List<'a, &'a str>,
        /// Watches set by exists on an absent node.
        exist: List<'a, &'a str>,
        /// Watches set by getChildren.
        child: List<'a, &'a str>,
    }
}
operation!(SetWatches<'_> => SET_WATCHES, Empty);

record! {
    /// setWatches2: the same with persistent watches, which are set without events for missed
    /// changes. Since 3.6.0.
    SetWatches2<'a> {
        /// The last zxid that the client saw.
        relative_zxid: Zxid,
        /// Watches set by getData, or by exists on a node that existed.
        data: List<'a, &'a str>,
        /// Watches set by exists on an absent node.
        exist: List<'a, &'a str>,
        /// Watches set by getChildren.
        child: List<'a, &'a str>,
        /// Persistent watches.
        persistent: List<'a, &'a str>,
        /// Persistent recursive watches.
        persistent_recursive: List<'a, &'a str>,
    }
}
operation!(SetWatches2<'_> => SET_WATCHES2, Empty);
