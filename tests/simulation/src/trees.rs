//! Random histories of a tree that is kept in memory, against what the server has committed.
//!
//! One client writes, and another one follows, through lost connections, sessions and messages. The
//! view is compared after every step with all states that it may show, and at rest with the server.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_client::Zxid;
use zk_recipes::{Freshness, TreeCache, TreeLimits, TreeStatus};

use crate::Outcome;
use crate::history::{self, History, ROOT, TIMEOUT, is_refusal};

/// Runs one history.
pub fn run(seed: u64, traced: bool) -> Outcome {
    history::in_virtual_time(async {
        let mut tree = Tree::new(History::new(seed, traced, 4).await);
        let result = tree.run().await;
        tree.history.into_outcome(result)
    })
}

struct Tree {
    history: History,
    tree: TreeCache,
    /// The status and the nodes that were seen last.
    last: (TreeStatus, BTreeMap<String, (Zxid, Zxid)>),
}

impl Tree {
    fn new(history: History) -> Self {
        let limits = TreeLimits::default();
        let (tree, following) = TreeCache::follow(&history.keeper, ROOT, limits).expect("a path");
        tokio::spawn(following);
        Self { history, tree, last: (TreeStatus::default(), BTreeMap::new()) }
    }

    async fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.history.random.within(20..80) {
            if !self.history.step().await {
                self.reaches_what_was_written().await?;
            }
            self.check()?;
        }
        self.history.mend();
        self.reaches_what_was_written().await?;
        self.check()?;
        self.history.misses_much().await;
        self.reaches_what_was_written().await?;
        self.check()?;
        self.equals_the_server().await?;
        self.history.keeper.close().await;
        sleep(Duration::from_millis(1)).await;
        match self.history.server.watch_count() {
            0 => Ok(()),
            watches => Err(format!("{watches} watches are left")),
        }
    }

    /// Waits until the view has what was written last.
    async fn reaches_what_was_written(&mut self) -> Result<(), String> {
        // Its reply comes after all others.
        drop(self.history.writer.exists(ROOT).await);
        let zxid = self.history.writer.last_zxid();
        let reached = async {
            loop {
                match self.tree.wait_for_zxid(zxid).await {
                    // After some refusals in a row, the tree is read once in a session timeout.
                    Err(error) if is_refusal(&error) => sleep(TIMEOUT).await,
                    reached => return reached,
                }
            }
        };
        let reached = timeout(20 * TIMEOUT, reached).await;
        let reached = reached.map_err(|_| format!("{:?} never reaches {zxid}", self.tree))?;
        self.history.note("waited", "");
        match reached {
            Err(error) => Err(error.to_string()),
            Ok(()) if self.tree.status().borrow().zxid < zxid => Err(format!("{:?}", self.tree)),
            Ok(()) => Ok(()),
        }
    }

    /// Compares the view with all states that it may show.
    fn check(&mut self) -> Result<(), String> {
        let status = self.tree.status().borrow().clone();
        let view = view(&self.tree);
        if let Some(error) = &status.error {
            if !is_refusal(error) {
                return Err(format!("an error: {error}"));
            }
            self.history.note("told of refusals", "");
        }
        let (before, _) = &self.last;
        if status.zxid < before.zxid || status.epoch < before.epoch {
            return Err(format!("{status:?} after {before:?}"));
        }
        if status.freshness == Freshness::Unknown {
            return if view.is_empty() { Ok(()) } else { Err(format!("unread: {view:?}")) };
        }
        let mut paths = self.history.timelines();
        for path in view.keys() {
            paths.entry(path.clone()).or_default();
        }
        for (path, timeline) in paths {
            let shown = view.get(&path).copied();
            // What it was at that zxid, and what it became since.
            let since = timeline.partition_point(|(zxid, _)| *zxid <= status.zxid);
            let then = since.checked_sub(1).and_then(|at| timeline[at].1);
            let later = timeline[since..].iter().map(|(_, known)| *known);
            if !std::iter::once(then).chain(later).any(|known| known == shown) {
                return Err(format!("{path} is {shown:?} at {}: {timeline:?}", status.zxid));
            }
        }
        for (path, (_, mzxid)) in &self.last.1 {
            if let Some((_, now)) = view.get(path)
                && now < mzxid
            {
                return Err(format!("{path} has gone back from {mzxid} to {now}"));
            }
        }
        self.last = (status, view);
        Ok(())
    }

    /// Compares the view at rest with the server, with all data.
    async fn equals_the_server(&mut self) -> Result<(), String> {
        let mut to_read = vec![ROOT.to_owned()];
        let (mut nodes, mut bytes) = (0, 0);
        while let Some(path) = to_read.pop() {
            let shown = self.tree.get(&path);
            let Ok(node) = self.history.writer.get_data(&path).await else {
                return match shown {
                    None => Ok(()),
                    Some(shown) => Err(format!("{path} is {shown:?}, and not there")),
                };
            };
            nodes += 1;
            bytes += path.len() + node.data.len();
            let stat = node.stat;
            let is_same = shown.as_ref().is_some_and(|shown| {
                shown.data[..] == node.data[..]
                    && (shown.czxid, shown.mzxid, shown.version)
                        == (stat.czxid, stat.mzxid, stat.version)
            });
            let mut names = self.history.server.children(&path);
            names.sort_unstable();
            if !is_same || self.tree.children(&path).as_ref() != Some(&names) {
                return Err(format!("{path} is {shown:?}, and not {node:?} with {names:?}"));
            }
            to_read.extend(names.iter().map(|name| format!("{path}/{name}")));
        }
        let status = self.tree.status().borrow().clone();
        match (status.nodes, status.bytes) == (nodes, bytes + 150 * nodes) {
            true => Ok(()),
            false => Err(format!("{status:?} counts {nodes} nodes and {bytes} bytes")),
        }
    }
}

/// All nodes that the tree shows.
fn view(tree: &TreeCache) -> BTreeMap<String, (Zxid, Zxid)> {
    tree.read(|tree| {
        let mut nodes = BTreeMap::new();
        let mut to_read = vec![ROOT.to_owned()];
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
