//! A second tree, built from the history and compared with the tree itself.
//!
//! This checks two claims: every change in the history has happened to the node that it names and
//! to the node's parent, and nothing has happened to any other node. So a multi that failed, which
//! has no entry in the history, has changed nothing.

use std::collections::{BTreeMap, BTreeSet};

use zk_proto::{SessionId, Stat, Zxid};

use crate::core::Core;
use crate::history::{Change, Commit};
use crate::node::{Kind, Node};
use crate::tree::parent_of;

pub(crate) struct Shadow {
    known: BTreeMap<Box<str>, Known>,
    /// How many commits were read.
    heard: usize,
    zxid: Zxid,
}

struct Known {
    /// The node as it was found last.
    node: Option<Node>,
    stat: Stat,
    /// How many children were ever created.
    created: i32,
    creator: Option<SessionId>,
}

impl Known {
    fn new(commit: &Commit) -> Self {
        let (zxid, millis) = (commit.zxid, commit.time.as_millis() as i64);
        let stat = Stat {
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: millis,
            mtime: millis,
            version: 0,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: SessionId(0),
            data_length: 0,
            num_children: 0,
        };
        Self { node: None, stat, created: 0, creator: commit.session }
    }
}

impl Shadow {
    pub(crate) fn new(core: &Core) -> Self {
        let known = core.state.store.tree.iter().map(|(path, node)| {
            let (stat, created) = (node.stat(), node.created);
            let known = Known { node: Some(node.clone()), stat, created, creator: None };
            (path.into(), known)
        });
        Self { known: known.collect(), heard: 0, zxid: core.last_zxid() }
    }

    /// Records a command that has changed a node without an entry in the history.
    pub(crate) fn preset_sequence(&mut self, path: &str, next: i32) {
        if let Some(known) = self.known.get_mut(key(path)) {
            known.created = next;
            known.node.iter_mut().for_each(|node| node.created = next);
        }
    }

    pub(crate) fn preset_version(&mut self, path: &str, version: i32) {
        if let Some(known) = self.known.get_mut(key(path)) {
            known.stat.version = version;
            known.node.iter_mut().for_each(|node| node.version = version);
        }
    }

    /// Reads what is new in the history, and compares.
    pub(crate) fn follow(&mut self, core: &Core) {
        let news = core.history().get(self.heard..).unwrap_or_default();
        self.heard += news.len();
        let mut touched = BTreeSet::new();
        let mut zxid = Zxid(self.zxid.0 + 1);
        for commit in news {
            assert!(commit.zxid >= zxid, "{commit:?} behind {zxid}");
            zxid = commit.zxid;
            touched.insert(commit.path.as_str());
            touched.insert(key(parent_of(&commit.path)));
            self.apply(commit);
        }
        assert!(core.last_zxid() >= zxid || news.is_empty(), "{zxid} is not the last");
        assert!(core.last_zxid() >= self.zxid, "zxids never go back");
        self.zxid = core.last_zxid();

        assert_eq!(core.state.store.tree.len(), self.known.len(), "nodes");
        for (path, node) in core.state.store.tree.iter() {
            let known = self.known.get_mut(path);
            assert!(known.is_some(), "{path} came from nowhere");
            let Some(known) = known else {
                return;
            };
            let found = node.stat();
            // The history does not record these.
            let (data_length, ephemeral_owner) = (found.data_length, found.ephemeral_owner);
            let cversion = known.created.wrapping_mul(2).wrapping_sub(known.stat.num_children);
            known.stat = Stat { cversion, data_length, ephemeral_owner, ..known.stat };
            assert_eq!(found, known.stat, "{path}");
            let owned = ephemeral_owner != SessionId(0);
            assert!(!owned || known.creator == Some(ephemeral_owner), "{path} is another's");
            if !touched.contains(path) {
                assert_eq!(Some(node), known.node.as_ref(), "{path} changed by itself");
            } else {
                known.node = Some(node.clone());
            }
        }
    }

    fn apply(&mut self, commit: &Commit) {
        let Commit { zxid, change, ref path, .. } = *commit;
        let parent = self.known.get_mut(key(parent_of(path)));
        match (change, parent) {
            (Change::Created, Some(parent)) => {
                parent.stat.num_children += 1;
                if parent.created < i32::MAX {
                    parent.created += 1;
                    parent.stat.pzxid = zxid;
                }
                let before = self.known.insert(path.as_str().into(), Known::new(commit));
                assert!(before.is_none(), "{path} is created twice");
            }
            (Change::Deleted, Some(parent)) => {
                parent.stat.num_children -= 1;
                parent.stat.pzxid = zxid;
                let before = self.known.remove(path.as_str());
                let fits = before.is_some_and(|it| {
                    // The server removes only containers and nodes with a time to live.
                    let kind = it.node.map(|node| node.kind);
                    let mortal = matches!(kind, None | Some(Kind::Container | Kind::Ttl(_)));
                    it.stat.num_children == 0 && (commit.session.is_some() || mortal)
                });
                assert!(fits, "{path} is deleted");
            }
            (change, _) => {
                let known = self.known.get_mut(key(path));
                assert!(known.is_some(), "{change:?} of {path}, which is absent");
                let Some(Known { stat, .. }) = known else {
                    return;
                };
                if change == Change::AclSet {
                    stat.aversion = stat.aversion.wrapping_add(1);
                } else {
                    stat.version = stat.version.wrapping_add(1);
                    stat.mzxid = zxid;
                    stat.mtime = commit.time.as_millis() as i64;
                }
            }
        }
    }
}

/// The root has two names.
fn key(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}
