//! The requests that watches cause later: to remove one, to set one again, to arm all of them.
//!
//! The content of a request decides in which of two versions it is sent, since old servers know
//! only one. Knows nothing about the watches that are set.

use std::sync::Arc;

use zk_proto::{
    AddWatchRequest, Encode, OpCode, RemoveWatchesRequest, SetWatches, SetWatches2, WatcherType,
    Writer,
};

use crate::model::event::WatchMode;

/// A request of the session's own about the watches of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// Remove the watches of this path, where no caller waits.
    Remove(Arc<str>),
    /// Set this watch again, which another at its path may have replaced.
    Restore(WatchMode, Arc<str>),
}

impl FollowUp {
    pub(crate) fn op(&self) -> OpCode {
        match self {
            Self::Remove(_) => OpCode::REMOVE_WATCHES,
            Self::Restore(..) => OpCode::ADD_WATCH,
        }
    }
}

impl Encode for FollowUp {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Remove(path) => {
                RemoveWatchesRequest { path, kind: WatcherType::ANY }.encode(writer);
            }
            Self::Restore(mode, path) => {
                AddWatchRequest { path, mode: (*mode).into() }.encode(writer);
            }
        }
    }
}

/// A request that arms watches again.
pub(crate) struct Rearm<'a>(pub(crate) SetWatches2<'a>);

impl Rearm<'_> {
    /// Servers before 3.6 must not receive the newer version.
    pub(crate) fn op(&self) -> OpCode {
        match self.0.persistent.is_empty() && self.0.persistent_recursive.is_empty() {
            true => OpCode::SET_WATCHES,
            false => OpCode::SET_WATCHES2,
        }
    }
}

impl Encode for Rearm<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        if self.op() == OpCode::SET_WATCHES2 {
            return self.0.encode(writer);
        }
        let SetWatches2 { relative_zxid, data, exist, child, .. } = self.0;
        SetWatches { relative_zxid, data, exist, child }.encode(writer);
    }
}
