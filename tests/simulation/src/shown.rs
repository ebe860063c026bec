//! What is kept in memory of the server's nodes, and what of it may be shown: what was once, and
//! then only what came later.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch::Receiver;
use tokio::time::sleep;
use zk_client::Zxid;
use zk_embedded::{Change, Commit, Core};
use zk_recipes::{Cached, Error, Freshness, TreeCache, TreeStatus};

use super::journal::FOLDER;
use super::judge;
use super::process::{Trial, Who};

/// The node of which a value is kept.
pub(super) const VALUE: &str = "/locks/simulated/0";

/// How soon a condition is looked at again.
const AGAIN: Duration = Duration::from_millis(20);

/// A node: by which transactions it was created and last changed.
type Known = Option<(Zxid, Zxid)>;

/// The nodes of a tree, each with the transactions that created it and last changed it.
type Nodes = BTreeMap<String, (Zxid, Zxid)>;

/// What each node was, from which transaction on.
#[derive(Debug, Default)]
pub(super) struct Timelines {
    read: usize,
    of: BTreeMap<String, Vec<(Zxid, Known)>>,
}

impl Timelines {
    /// Takes in what was committed since.
    fn read(&mut self, history: &[Commit]) {
        for commit in &history[self.read..] {
            if !commit.path.starts_with(FOLDER) {
                continue;
            }
            let timeline = self.of.entry(commit.path.clone()).or_default();
            let before = timeline.last().and_then(|(_, known)| *known);
            let known = match commit.change {
                Change::Created => Some((commit.zxid, commit.zxid)),
                Change::DataSet => before.map(|(czxid, _)| (czxid, commit.zxid)),
                Change::Deleted => None,
                _ => before,
            };
            // What happens within one transaction is seen by nobody.
            timeline.retain(|(zxid, _)| *zxid != commit.zxid);
            timeline.push((commit.zxid, known));
        }
        self.read = history.len();
    }

    /// What a node was at a transaction, and what it became later.
    fn since(&self, path: &str, zxid: Zxid) -> impl Iterator<Item = (Zxid, Known)> + use<'_> {
        let timeline = self.of.get(path).map(Vec::as_slice).unwrap_or_default();
        let later = timeline.partition_point(|(at, _)| *at <= zxid);
        let then = later.checked_sub(1).and_then(|at| timeline[at].1);
        std::iter::once((zxid, then)).chain(timeline[later..].iter().copied())
    }
}

/// What is kept, and what was seen of it last.
pub(super) enum Followed {
    Tree { tree: TreeCache, last: Mutex<(TreeStatus, Nodes)> },
    Value { values: Receiver<Cached>, since: Mutex<Zxid> },
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree { tree, .. } => tree.fmt(f),
            Self::Value { values, .. } => values.borrow().fmt(f),
        }
    }
}

impl Followed {
    /// Looks at it, and again after each change, for ever.
    pub(super) async fn at_each_change(&self, look: impl FnMut()) {
        match self {
            Self::Tree { tree, .. } => at_each_change(tree.status(), look).await,
            Self::Value { values, .. } => at_each_change(values.clone(), look).await,
        }
    }

    /// How fresh it is, and why it could not be read, if it was tried last in vain.
    fn status(&self) -> (Freshness, Option<Error>) {
        match self {
            Self::Tree { tree, .. } => {
                let status = tree.status().borrow().clone();
                (status.freshness, status.error)
            }
            Self::Value { values, .. } => {
                let value = values.borrow();
                (value.freshness, value.error.clone())
            }
        }
    }

    pub(super) fn is_current(&self) -> bool {
        self.status().0 == Freshness::Current
    }

    /// Compares what is shown with all that may be.
    pub(super) fn check(&self, trial: &Trial, who: Who) -> Result<(), String> {
        let progress = &mut *trial.progress.lock().unwrap();
        let world = &mut *trial.world.lock().unwrap();
        let timelines = &mut progress.timelines;
        timelines.read(world.net.core.history());
        let (freshness, error) = self.status();
        // Faults cause some errors.
        let is_expected = |error: &Error| judge::passes(error) || error.is_session_over();
        if let Some(error) = error.filter(|error| !is_expected(error)) {
            return Err(format!("an error: {error}"));
        }
        world.journal.note(|| format!("{who} shows {self:?}"));
        world.journal.count(match freshness {
            Freshness::Unknown => "unknown",
            Freshness::Current => "current",
            _ => "stale",
        });
        match self {
            Self::Tree { tree, last } => check_tree(tree, &mut last.lock().unwrap(), timelines),
            Self::Value { values, since } => {
                check_value(&values.borrow(), &mut since.lock().unwrap(), timelines)
            }
        }
    }

    /// True if the value is current, and what the node was at a transaction or later.
    pub(super) fn shows_value(&self, trial: &Trial, zxid: Zxid) -> bool {
        let Self::Value { values, .. } = self else {
            return false;
        };
        let progress = &mut *trial.progress.lock().unwrap();
        progress.timelines.read(trial.world.lock().unwrap().net.core.history());
        let value = values.borrow();
        let mut since = progress.timelines.since(VALUE, zxid);
        value.freshness == Freshness::Current && since.any(|(_, known)| known == known_of(&value))
    }

    /// True if everything that the server has is shown, and nothing else.
    pub(super) fn equals_the_server(&self, trial: &Trial) -> bool {
        let core = &trial.world.lock().unwrap().net.core;
        matches!(self.status(), (Freshness::Current, None))
            && match self {
                Self::Tree { tree, .. } => is_whole(tree, core),
                Self::Value { values, .. } => {
                    let value = values.borrow();
                    let there = core.stat(VALUE).map(|stat| (stat.czxid, stat.mzxid));
                    let data = value.node.as_ref().map(|node| node.data.clone());
                    known_of(&value) == there && data == core.data(VALUE)
                }
            }
    }
}

/// Waits until this holds. What the server commits may change it, too, so it is looked at again
/// whether or not something else is shown.
pub(super) async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        sleep(AGAIN).await;
    }
}

async fn at_each_change<T>(mut receiver: Receiver<T>, mut look: impl FnMut()) {
    receiver.mark_changed();
    while receiver.changed().await.is_ok() {
        look();
    }
    // Nothing changes any more.
    std::future::pending().await
}

fn known_of(value: &Cached) -> Known {
    value.node.as_ref().map(|node| (node.stat.czxid, node.stat.mzxid))
}

/// What is told must be what the node was, and not before what was told last.
fn check_value(value: &Cached, since: &mut Zxid, timelines: &Timelines) -> Result<(), String> {
    let (node, known) = (&value.node, known_of(value));
    if value.freshness == Freshness::Unknown {
        return node.as_ref().map_or(Ok(()), |node| Err(format!("unread: {node:?}")));
    }
    match timelines.since(VALUE, *since).find(|(_, then)| *then == known) {
        Some((zxid, _)) => *since = zxid,
        None => return Err(format!("{node:?} after {since}: {:?}", timelines.of.get(VALUE))),
    }
    Ok(())
}

/// Each node is what it was at the tree's transaction, or what it became later. Nothing goes back.
fn check_tree(
    tree: &TreeCache,
    last: &mut (TreeStatus, Nodes),
    timelines: &Timelines,
) -> Result<(), String> {
    let (status, nodes) = (tree.status().borrow().clone(), nodes_of(tree));
    let (before, nodes_before) = last;
    if status.zxid < before.zxid || status.epoch < before.epoch {
        return Err(format!("{status:?} after {before:?}"));
    }
    if status.freshness == Freshness::Unknown {
        return if nodes.is_empty() { Ok(()) } else { Err(format!("unread: {nodes:?}")) };
    }
    for path in nodes.keys().chain(timelines.of.keys()) {
        let shown = nodes.get(path).copied();
        if !timelines.since(path, status.zxid).any(|(_, known)| known == shown) {
            let was = timelines.of.get(path);
            return Err(format!("{path} is {shown:?} at {}: {was:?}", status.zxid));
        }
    }
    for (path, (_, mzxid)) in nodes_before {
        if let Some((_, now)) = nodes.get(path).filter(|(_, now)| now < mzxid) {
            return Err(format!("{path} has gone back from {mzxid} to {now}"));
        }
    }
    *last = (status, nodes);
    Ok(())
}

/// All nodes that the tree shows.
fn nodes_of(tree: &TreeCache) -> Nodes {
    tree.read(|tree| {
        let mut nodes = BTreeMap::new();
        let mut to_read = vec![FOLDER.to_owned()];
        while let Some(path) = to_read.pop() {
            if let Some(node) = tree.get(&path) {
                nodes.insert(path.clone(), (node.czxid, node.mzxid));
            }
            let names = tree.children(&path).into_iter().flatten();
            to_read.extend(names.map(|name| format!("{path}/{name}")));
        }
        nodes
    })
}

/// Compares the tree with the server, with all data.
fn is_whole(tree: &TreeCache, core: &Core) -> bool {
    let mut to_read = Vec::from_iter(core.has_node(FOLDER).then(|| FOLDER.to_owned()));
    let (mut nodes, mut bytes) = (0, 0);
    while let Some(path) = to_read.pop() {
        let (Some(stat), Some(data)) = (core.stat(&path), core.data(&path)) else {
            return false;
        };
        nodes += 1;
        bytes += path.len() + data.len();
        let is_same = tree.get(&path).is_some_and(|shown| {
            shown.data[..] == data[..]
                && (shown.czxid, shown.mzxid, shown.version)
                    == (stat.czxid, stat.mzxid, stat.version)
        });
        let mut names = core.children(&path);
        names.sort_unstable();
        if !is_same || tree.children(&path).as_ref() != Some(&names) {
            return false;
        }
        to_read.extend(names.iter().map(|name| format!("{path}/{name}")));
    }
    let status = tree.status().borrow().clone();
    (status.nodes, status.bytes) == (nodes, bytes + 150 * nodes)
}
