//! How far a cached tree has come, as its readers are told.
//!
//! A caller that waits for a zxid says so in one channel, and waits for the status in another. Here
//! is the one place that reads both, in the order in which neither side can miss the other.

use tokio::sync::watch;
use zk_client::Zxid;

use crate::coordination::follow::Freshness;
use crate::error::Error;

/// How far a [`TreeCache`](crate::TreeCache) has come: see
/// [`TreeCache::status`](crate::TreeCache::status).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TreeStatus {
    /// Whether the tree may be outdated. As long as it is [`Unknown`](Freshness::Unknown), the
    /// tree looks empty.
    pub freshness: Freshness,
    /// Every change up to this transaction is in the tree. It never goes back, unless the tree
    /// [begins anew](crate::TreeCache#what-it-promises).
    ///
    /// Some nodes may be newer: those whose [`mzxid`](crate::TreeNode::mzxid) is greater. Between
    /// two changes there is none, and the tree is exactly that of the server at this zxid.
    pub zxid: Zxid,
    /// Grows whenever a node was created, changed or deleted, by one or more.
    pub epoch: u64,
    /// The number of nodes.
    pub nodes: usize,
    /// The bytes that they take, as [limits](crate::TreeLimits::max_bytes) count them.
    pub bytes: usize,
    /// Why the tree could not be read, if the last attempt failed for another reason than a lost
    /// connection.
    pub error: Option<Error>,
}

/// Tells that the tree is current, at a status whose zxid it has reached.
///
/// `wanted` returns the highest zxid that somebody waits for.
pub(super) fn tell_current(
    tell: &watch::Sender<TreeStatus>,
    now: TreeStatus,
    wanted: impl FnOnce() -> Zxid,
) {
    tell.send_if_modified(|status| {
        let is_known = status.freshness == Freshness::Current && status.epoch == now.epoch;
        // A caller says what it wants, and then looks at the status. Under the lock of the status,
        // either this sees what is wanted, or the caller sees this status.
        let is_awaited = status.zxid < wanted();
        let zxid = status.zxid.max(now.zxid);
        *status = TreeStatus { freshness: Freshness::Current, zxid, ..now };
        !is_known || is_awaited
    });
}

/// Tells that the zxid begins anew, and with it what is wanted, which `reset` lets go.
///
/// A caller that waits looks at both under the lock of the status. It sees that what it wants was
/// let go, and says it again. Or it says so after this: then the zxid is of the new data, or no
/// server comes so far.
pub(super) fn begin_anew(tell: &watch::Sender<TreeStatus>, reset: impl FnOnce() -> Zxid) {
    tell.send_modify(|status| {
        reset();
        (status.zxid, status.error) = (Zxid::default(), None);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a caller that looks at the status now has to wait.
    fn is_locked(tell: &watch::Sender<TreeStatus>) -> bool {
        format!("{tell:?}").contains("<locked>")
    }

    #[test]
    fn what_is_wanted_is_read_while_no_caller_can_look_at_the_status() {
        let (tell, mut status) = watch::channel(TreeStatus::default());
        let now = |zxid| TreeStatus { zxid: Zxid(zxid), ..TreeStatus::default() };
        for (zxid, wanted, is_told) in [(1, 0, true), (2, 0, false), (3, 3, true), (4, 3, false)] {
            assert!(!is_locked(&tell));
            let mut was_locked = false;
            tell_current(&tell, now(zxid), || {
                was_locked = is_locked(&tell);
                Zxid(wanted)
            });
            assert!(was_locked, "a caller could look between the two");
            assert_eq!(status.has_changed().unwrap(), is_told, "at {zxid}");
            assert_eq!(status.borrow_and_update().zxid, Zxid(zxid));
        }
    }
}
