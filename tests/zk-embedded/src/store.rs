//! The tree with its rules: who may do what, and what a server answers.
//!
//! Each operation checks in the order in which a real server does, since the client gets the error
//! of the first check that fails. A transaction is a zxid and a time. Its commit returns its
//! changes, for watches and for the history. The store knows connections and sessions only by their
//! ids.

use std::sync::Arc;
use std::time::Duration;

use zk_proto::{
    Acl, CheckVersionRequest, DeleteRequest, ErrorCode, EventType, Id, SessionId, SetAclRequest,
    SetDataRequest, Stat, Zxid, check_path,
};

use crate::access::{AccessList, Grant, Identities, Identity};
use crate::config::{Config, ServerVersion};
use crate::history::{Change, Commit};
use crate::manner::{Deviation, Manner};
use crate::node::{Kind, Node, Stamp};
use crate::tree::{SYSTEM, Tree, parent_of};

/// The stand-in for a null path in a write: Java reads a null path, and some operations fail on it.
pub(crate) const NULL_PATH: &str = "\0null";

/// The caller of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) session: SessionId,
    pub(crate) identities: &'a Identities,
}

/// A change, with the access lists that decide who is notified of it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) change: Change,
    pub(crate) path: Arc<str>,
    /// The node's own access list, and its parent's.
    pub(crate) acl: AccessList,
    pub(crate) parent_acl: AccessList,
    /// The node's new data and its kind, with which the other servers of an ensemble make the same
    /// change. There is no data if there are no other servers.
    data: Option<Box<[u8]>>,
    kind: Kind,
}

/// A transaction as every server of an ensemble applies it. One that failed has no changes: it only
/// uses up its zxid.
#[derive(Debug)]
pub(crate) struct Txn {
    pub(crate) stamp: Stamp,
    by: Option<SessionId>,
    changes: Vec<Told>,
    pub(crate) session: Option<SessionChange>,
}

/// What a transaction does to a session.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SessionChange {
    /// It begins, with this timeout.
    Opened(SessionId, Duration),
    Closed(SessionId),
}

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) server_version: ServerVersion,
    pub(crate) extended_types: bool,
    pub(crate) tree: Tree,
    /// The last transaction.
    zxid: Zxid,
    /// How many zxids behind it are used up without a transaction.
    skipped: i64,
    /// Changes since the last commit.
    changes: Vec<Told>,
    history: Option<Vec<Commit>>,
    /// The transactions that the other servers of an ensemble have not been sent yet. Only a leader
    /// has it.
    log: Option<Vec<Txn>>,
}

impl Store {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            server_version: config.server_version,
            extended_types: config.extended_types,
            tree: new_tree_like(config.manner),
            zxid: Zxid(0),
            skipped: 0,
            changes: Vec::new(),
            history: config.keep_history.then(Vec::new),
            log: None,
        }
    }

    /// Replaces the tree by one whose last transaction was `zxid`.
    pub(crate) fn replace(&mut self, tree: Tree, zxid: Zxid) {
        let manner = self.tree.manner;
        self.tree = tree;
        self.tree.manner = manner;
        self.zxid = self.zxid.max(zxid);
        self.changes.clear();
        self.history.iter_mut().for_each(Vec::clear);
    }

    /// The last transaction that was applied.
    pub(crate) fn last_zxid(&self) -> Zxid {
        self.zxid
    }

    pub(crate) fn history(&self) -> &[Commit] {
        self.history.as_deref().unwrap_or_default()
    }

    /// Begins the next transaction. Its zxid is used up even if the transaction fails.
    pub(crate) fn begin(&mut self, millis: i64) -> Stamp {
        let skipped = std::mem::take(&mut self.skipped);
        self.zxid = Zxid(self.zxid.0.wrapping_add(1).wrapping_add(skipped));
        let stamp = Stamp { zxid: self.zxid, millis };
        if let Some(log) = &mut self.log {
            log.push(Txn { stamp, by: None, changes: Vec::new(), session: None });
        }
        stamp
    }

    /// Uses up a zxid without a transaction: the last one stays the last one.
    pub(crate) fn skip_zxid(&mut self) {
        self.skipped = self.skipped.wrapping_add(1);
    }

    /// Makes the changes since the last commit permanent, and returns them.
    pub(crate) fn commit(&mut self, now: Stamp, by: Option<SessionId>) -> Vec<Told> {
        self.tree.commit();
        if let Some(txn) = self.log.as_mut().and_then(|log| log.last_mut()) {
            (txn.by, txn.changes) = (by, self.changes.clone());
        }
        if let Some(history) = &mut self.history {
            history.extend(self.changes.iter().map(|told| Commit {
                zxid: now.zxid,
                time: Duration::from_millis(now.millis.unsigned_abs()),
                session: by,
                change: told.change,
                path: told.path.to_string(),
            }));
        }
        std::mem::take(&mut self.changes)
    }

    /// Undoes the changes since the last commit.
    pub(crate) fn roll_back(&mut self) {
        self.tree.roll_back();
        self.changes.clear();
    }

    /// Starts or stops to keep the transactions for other servers.
    pub(crate) fn keep_log(&mut self, keep: bool) {
        self.log = keep.then(Vec::new);
    }

    /// Takes the transactions that the other servers have not been sent yet.
    pub(crate) fn take_log(&mut self) -> Vec<Txn> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Records what the current transaction does to a session.
    pub(crate) fn note_session(&mut self, change: SessionChange) {
        if let Some(txn) = self.log.as_mut().and_then(|log| log.last_mut()) {
            txn.session = Some(change);
        }
    }

    /// Applies a transaction of another server, and returns its changes.
    pub(crate) fn apply(&mut self, txn: &Txn) -> Vec<Told> {
        let Txn { stamp, by, changes, session: _ } = txn;
        self.set_zxid(stamp.zxid);
        for Told { change, path, acl, parent_acl: _, data, kind } in changes {
            match change {
                Change::Created => {
                    self.tree.create(path, data.clone(), Arc::clone(acl), *kind, *stamp);
                }
                Change::Deleted => self.tree.delete(path, *stamp),
                Change::DataSet => {
                    self.tree.set_data(path, data.clone(), *stamp);
                }
                Change::AclSet => {
                    if let Some(node) = self.tree.get_mut(path) {
                        node.acl = Arc::clone(acl);
                        node.aversion = node.aversion.wrapping_add(1);
                    }
                }
            }
        }
        self.changes.clone_from(changes);
        self.commit(*stamp, *by)
    }

    /// Goes on from this zxid, the first of a leader's time.
    pub(crate) fn set_zxid(&mut self, zxid: Zxid) {
        (self.zxid, self.skipped) = (zxid, 0);
    }

    /// Checks what must hold between transactions.
    pub(crate) fn audit(&self) {
        assert!(self.changes.is_empty(), "changes that nobody is told of");
        self.tree.audit(self.zxid);
    }

    /// Records a change: a deletion before it happens, other changes after it.
    pub(crate) fn tell(&mut self, change: Change, path: &Arc<str>) {
        let list =
            |node: Option<&Node>| node.map_or_else(AccessList::default, |it| Arc::clone(&it.acl));
        let node = self.tree.get(path);
        let (acl, parent_acl) = (list(node), list(self.tree.get(parent_of(path))));
        let data = match self.log {
            Some(_) if change != Change::Deleted => node.and_then(|node| node.data.clone()),
            _ => None,
        };
        let kind = node.map_or(Kind::Persistent, |node| node.kind);
        self.changes.push(Told { change, path: Arc::clone(path), acl, parent_acl, data, kind });
    }

    /// The node, if the caller has one of `perms` on it.
    pub(crate) fn readable(
        &self,
        path: &str,
        perms: i32,
        identities: &Identities,
    ) -> Result<&Node, ErrorCode> {
        let node = self.tree.node(path)?;
        identities.require(perms, &node.acl)?;
        Ok(node)
    }

    pub(crate) fn delete(
        &mut self,
        caller: Caller<'_>,
        request: DeleteRequest<'_>,
        now: Stamp,
    ) -> Result<(), ErrorCode> {
        let DeleteRequest { path, version } = request;
        if path == NULL_PATH {
            return Err(ErrorCode::MARSHALLING_ERROR);
        }
        if !path.contains('/') || path.contains('\0') || path == "/" || SYSTEM.contains(&path) {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        self.readable(parent_of(path), Acl::DELETE, caller.identities)?;
        let node = self.tree.node(path)?;
        require_version(node.version, version)?;
        if node.children > 0 {
            return Err(ErrorCode::NOT_EMPTY);
        }
        self.remove(&path.into(), now);
        Ok(())
    }

    /// Removes a node without a check of permissions.
    pub(crate) fn remove(&mut self, path: &Arc<str>, now: Stamp) {
        self.tell(Change::Deleted, path);
        self.tree.delete(path, now);
    }

    pub(crate) fn set_data(
        &mut self,
        caller: Caller<'_>,
        request: SetDataRequest<'_>,
        now: Stamp,
    ) -> Result<Stat, ErrorCode> {
        let SetDataRequest { path, data, version } = request;
        valid(path)?;
        let node = self.readable(path, Acl::WRITE, caller.identities)?;
        require_version(node.version, version)?;
        let path = path.into();
        let stat = self.tree.set_data(&path, data.map(Box::from), now).ok_or(ErrorCode::NO_NODE)?;
        self.tell(Change::DataSet, &path);
        Ok(stat)
    }

    pub(crate) fn set_acl(
        &mut self,
        caller: Caller<'_>,
        request: SetAclRequest<'_>,
    ) -> Result<Stat, ErrorCode> {
        let SetAclRequest { path, acl, version } = request;
        valid(path)?;
        let acl = caller.identities.access_list(acl)?;
        let node = self.readable(path, Acl::ADMIN, caller.identities)?;
        require_version(node.aversion, version)?;
        let node = self.tree.get_mut(path).ok_or(ErrorCode::NO_NODE)?;
        node.acl = acl;
        node.aversion = node.aversion.wrapping_add(1);
        let stat = node.stat();
        self.tell(Change::AclSet, &path.into());
        Ok(stat)
    }

    pub(crate) fn check(
        &self,
        caller: Caller<'_>,
        request: CheckVersionRequest<'_>,
    ) -> Result<(), ErrorCode> {
        valid(request.path)?;
        let node = self.readable(request.path, Acl::READ, caller.identities)?;
        require_version(node.version, request.version)
    }

    /// The access list and state of a node. A caller that may not change the list sees no hashes.
    pub(crate) fn acl(
        &self,
        path: &str,
        identities: &Identities,
    ) -> Result<(Vec<Grant>, Stat), ErrorCode> {
        let node = self.readable(path, Acl::READ | Acl::ADMIN, identities)?;
        let mut grants = node.acl.to_vec();
        if !identities.may(Acl::ADMIN, &node.acl) {
            for grant in &mut grants {
                grant.identity = grant.identity.masked();
            }
        }
        Ok((grants, node.stat()))
    }

    /// How many nodes are below `path`.
    pub(crate) fn descendants(&self, path: &str) -> usize {
        match path {
            "/" => self.tree.len() - 1,
            // The root has two names, and is below the empty one.
            "" => self.tree.len(),
            _ => self.tree.below(path).count(),
        }
    }

    /// The event that a watch of setWatches has missed since a transaction, if any. Persistent
    /// watches never miss one.
    pub(crate) fn missed(&self, kind: Rearmed, path: &str, since: Zxid) -> Option<EventType> {
        match (kind, self.tree.get(path)) {
            (Rearmed::Data | Rearmed::Child, None) => Some(EventType::NODE_DELETED),
            (Rearmed::Data, Some(node)) => {
                (node.mzxid > since).then_some(EventType::NODE_DATA_CHANGED)
            }
            (Rearmed::Child, Some(node)) => {
                (node.pzxid > since).then_some(EventType::NODE_CHILDREN_CHANGED)
            }
            (Rearmed::Exist, node) => node.map(|_| EventType::NODE_CREATED),
            (Rearmed::Persistent | Rearmed::Recursive, _) => None,
        }
    }
}

/// A tree of the nodes that every server has.
pub(crate) fn new_tree() -> Tree {
    let anyone = Identity::new("world", "anyone");
    let grant = |perms| AccessList::from([Grant { perms, identity: anyone.clone() }]);
    Tree::new(&grant(Acl::ALL), &grant(Acl::READ))
}

/// The tree of a new server, with the nodes in which one of this manner tells what it knows.
fn new_tree_like(manner: Manner) -> Tree {
    let mut tree = new_tree();
    tree.manner = manner;
    if manner.has(Deviation::TellsItsFlags) {
        let acl = tree.get("/").map(|root| Arc::clone(&root.acl)).unwrap_or_default();
        let now = Stamp { zxid: Zxid(0), millis: 0 };
        let flags = manner.keeper_flags();
        let nodes: [(&str, &[u8]); 3] =
            [("", b""), ("/api_version", b"0"), ("/feature_flags", &flags)];
        for (name, data) in nodes {
            let path = format!("/keeper{name}").into();
            tree.create(&path, Some(data.into()), Arc::clone(&acl), Kind::Persistent, now);
        }
        tree.commit();
    }
    tree
}

/// The lists of setWatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rearmed {
    Data,
    Exist,
    Child,
    Persistent,
    Recursive,
}

/// An access list as it goes over the wire.
pub(crate) fn wire_acl<'a>(grants: &'a [Grant]) -> Vec<Acl<'a>> {
    let entry = |grant: &'a Grant| {
        let id = Id { scheme: grant.identity.scheme(), id: grant.identity.id() };
        Acl { perms: grant.perms, id }
    };
    grants.iter().map(entry).collect()
}

fn require_version(actual: i32, expected: i32) -> Result<(), ErrorCode> {
    if expected == Stat::ANY_VERSION || expected == actual {
        Ok(())
    } else {
        Err(ErrorCode::BAD_VERSION)
    }
}

/// Checks a path as real servers do for writes.
pub(crate) fn valid(path: &str) -> Result<(), ErrorCode> {
    check_path(path).map_err(|_| ErrorCode::BAD_ARGUMENTS)
}
