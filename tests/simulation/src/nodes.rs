//! The nodes that members and parties have, as the history shows them.

use std::collections::BTreeMap;

use zk_embedded::{Change, Commit, SessionId, Zxid};

/// A node after a transaction.
#[derive(Debug)]
pub(super) struct Known<'h> {
    pub(super) path: &'h str,
    pub(super) number: i64,
    pub(super) session: Option<SessionId>,
    pub(super) czxid: Zxid,
    pub(super) mzxid: Zxid,
    /// How often it was written to.
    pub(super) writes: u32,
}

/// The nodes with this marker in front of their numbers after a transaction, by their numbers.
pub(super) fn nodes_at<'h>(history: &'h [Commit], at: Zxid, marker: &str) -> Vec<Known<'h>> {
    let mut nodes = BTreeMap::<&str, Known<'_>>::new();
    for commit in history.iter().take_while(|commit| commit.zxid <= at) {
        let Commit { zxid, session, change, path, .. } = commit;
        let Some((_, number)) = path.rsplit_once(marker) else {
            continue;
        };
        match change {
            Change::Created => {
                let number = number.parse().expect("a sequence number");
                let (session, zxid) = (*session, *zxid);
                let known = Known { path, number, session, czxid: zxid, mzxid: zxid, writes: 0 };
                nodes.insert(path, known);
            }
            Change::Deleted => drop(nodes.remove(path.as_str())),
            Change::DataSet => {
                let known = nodes.get_mut(path.as_str()).expect("a node that is there");
                known.mzxid = *zxid;
                known.writes += 1;
            }
            _ => {}
        }
    }
    let mut nodes = Vec::from_iter(nodes.into_values());
    nodes.sort_by_key(|known| known.number);
    nodes
}
