//! The record of a run: grants for the invariants, counts for the suite, and, if asked for, every
//! event for the trace.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use zk_embedded::{Change, Commit, ConnectionId, Core, SessionId, Zxid};
use zk_recipes::FencingToken;

use super::clock::now;
use super::trace::{Told, Trace};

/// The folder of the lock.
pub(super) const FOLDER: &str = "/locks/simulated";

/// Where the locks of keys are, and the key of the one that is contended for.
pub(super) const FOLDER_OF_KEYS: &str = "/locks";
pub(super) const KEY: &str = "simulated";

/// The queue of a semaphore in kazoo's layout.
const KAZOO_QUEUE: &str = "/locks/simulated-__lock__";

/// The folders that semaphores and partitioners have in their own. The last one has a folder for
/// each shard.
const SUBFOLDERS: [&str; 4] = ["locks", "leases", "members", "shards"];

/// The folders of locks that are taken together.
pub(super) const SEVERAL: [&str; 3] = ["one", "two", "three"];

/// The paths of all nodes that stand for a contender, a permit or a member.
pub(super) fn nodes(core: &Core) -> Vec<String> {
    let children = |folder: &str| {
        let children = core.children(folder).into_iter();
        children.map(|child| format!("{folder}/{child}")).collect::<Vec<_>>()
    };
    let mut nodes = children(KAZOO_QUEUE);
    for path in children(FOLDER) {
        match path.rsplit_once('/') {
            Some((_, "shards")) => nodes.extend(children(&path).iter().flat_map(|it| children(it))),
            Some((_, name)) if SUBFOLDERS.contains(&name) || SEVERAL.contains(&name) => {
                nodes.extend(children(&path))
            }
            _ => nodes.push(path),
        }
    }
    nodes
}

/// The paths of all folders in which contenders, permits and members have their nodes.
pub(super) fn folders(core: &Core) -> BTreeSet<String> {
    let of = |node: &String| node.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let folders = nodes(core).iter().filter_map(of).collect::<BTreeSet<_>>();
    folders.into_iter().chain([FOLDER.to_owned()]).collect()
}

/// A node that is written only under the lock.
pub(super) const COUNTER: &str = "/counter";

/// The role of a contender. Writers come first among nodes of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Exclusive,
    Shared,
}

impl Role {
    /// True if contenders of these roles cannot hold the lock at the same time.
    pub(super) fn excludes(self, other: Self) -> bool {
        (self, other) != (Self::Shared, Self::Shared)
    }
}

/// A contender's sequence number and role, by the path of its node.
pub(super) fn contender(path: &str) -> Option<(i64, Role)> {
    let name = path.strip_prefix(FOLDER)?;
    let markers =
        [("-lock-", Role::Exclusive), ("-__WRIT__", Role::Exclusive), ("-__READ__", Role::Shared)];
    markers
        .into_iter()
        .find_map(|(marker, role)| Some((name.rsplit_once(marker)?.1.parse().ok()?, role)))
}

/// The local level of a two-level lock: the process, and which of its lives.
pub(super) type Level = (usize, u32);

/// One grant of the lock.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) who: String,
    pub(super) process: usize,
    pub(super) session: SessionId,
    pub(super) node: String,
    pub(super) role: Role,
    pub(super) czxid: i64,
    pub(super) token: FencingToken,
    pub(super) at: Instant,
    /// The local level. Another holder of the same level may be the reason that it has the node.
    pub(super) level: Option<Level>,
    /// What the process had received when the lock was granted.
    pub(super) heard: Zxid,
    /// The server's last transaction at the grant.
    pub(super) zxid: Zxid,
    /// Whether the node existed at the grant. If not, the holder is notified of its loss too late.
    pub(super) is_there: bool,
    /// Whether the process missed the notification of the node's deletion.
    pub(super) is_untold: bool,
    /// Whether the process had been notified of the node's deletion before the release.
    pub(super) was_told: bool,
    /// True until it is released or known to be lost.
    pub(super) is_believed: bool,
    /// Whether its guard has reported the loss.
    pub(super) is_lost: bool,
}

#[derive(Debug)]
pub(super) struct Journal {
    start: Instant,
    trace: Option<Trace>,
    /// How many changes of the tree have been processed.
    seen: usize,
    /// For each name, the transaction that created its last node.
    created: BTreeMap<String, i64>,
    /// The nodes that exist, with the transactions that created them.
    alive: BTreeMap<String, i64>,
    /// The deletions of the other nodes, by path and the transaction that created them: that,
    /// and the session that deleted.
    gone: BTreeMap<(String, i64), (Zxid, Option<SessionId>)>,
    /// Readers in the places of former writers.
    recast: BTreeSet<String>,
    /// The numbers of the contenders that have left the queue, and when.
    left: Vec<(i64, Instant)>,
    /// How often the folder's own data was written, since it was created.
    writes: i64,
    /// For each session, the numbers of its writes to the folder's own data that no task has been
    /// told of.
    pub(super) written: BTreeMap<i64, Vec<i64>>,
    /// Sessions that were ended before their timeout.
    pub(super) ended_early: Vec<SessionId>,
    /// When each transaction happened.
    pub(super) times: BTreeMap<Zxid, Instant>,
    /// The time since when a process may be notified late, or not at all.
    pub(super) faulty_since: Option<Instant>,
    /// For each process, the nodes whose deletion it was notified of in its current life, and when.
    pub(super) told: BTreeMap<usize, Vec<(String, Instant)>>,
    /// For each process, the nodes of which it missed an event in its current life.
    pub(super) untold: BTreeMap<usize, BTreeSet<String>>,
    pub(super) grants: Vec<Grant>,
    /// How often each fault struck, and other counts.
    pub(super) counts: BTreeMap<&'static str, u64>,
    pub(super) violation: Option<String>,
}

impl Journal {
    pub(super) fn new(traced: bool) -> Self {
        Self {
            start: now(),
            trace: traced.then(Trace::default),
            seen: 0,
            created: BTreeMap::new(),
            alive: BTreeMap::new(),
            gone: BTreeMap::new(),
            recast: BTreeSet::new(),
            left: Vec::new(),
            writes: 0,
            written: BTreeMap::new(),
            ended_early: Vec::new(),
            times: BTreeMap::new(),
            faulty_since: None,
            told: BTreeMap::new(),
            untold: BTreeMap::new(),
            grants: Vec::new(),
            counts: BTreeMap::new(),
            violation: None,
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        now() - self.start
    }

    /// Adds a line to the trace.
    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        let at = self.elapsed();
        if let Some(trace) = &mut self.trace {
            trace.0.push((at, Told::Line(line())));
        }
    }

    /// Adds a frame to the trace.
    pub(super) fn frame(&mut self, connection: ConnectionId, is_request: bool, bytes: &[u8]) {
        let at = self.elapsed();
        if let (Some(trace), Some((_, payload))) = (&mut self.trace, bytes.split_first_chunk::<4>())
        {
            let payload = payload.to_vec();
            trace.0.push((at, Told::Frame { connection, is_request, payload }));
        }
    }

    /// Processes the new changes of the tree.
    pub(super) fn commits(&mut self, history: &[Commit]) {
        let seen = std::mem::replace(&mut self.seen, history.len());
        for commit in history.iter().skip(seen) {
            let Commit { zxid, session, change, path, .. } = commit;
            self.times.insert(*zxid, now());
            match change {
                Change::Created => {
                    let number = contender(path).map(|(number, _)| number);
                    let same = |other: &String| contender(other).map(|it| it.0) == number;
                    if number.is_some() && self.alive.keys().any(same) {
                        self.recast.insert(path.clone());
                    }
                    self.told.values_mut().for_each(|told| told.retain(|(one, _)| one != path));
                    if path == FOLDER {
                        self.writes = 0;
                    }
                    self.created.insert(path.clone(), zxid.0);
                    self.alive.insert(path.clone(), zxid.0);
                }
                Change::Deleted => {
                    self.left.extend(contender(path).map(|(number, _)| (number, now())));
                    let created = self.alive.remove(path).map(|created| (path.clone(), created));
                    self.gone.extend(created.map(|node| (node, (*zxid, *session))));
                }
                Change::DataSet if path == FOLDER => {
                    self.writes += 1;
                    let written = self.written.entry(session.unwrap_or_default().0).or_default();
                    written.push(self.writes);
                }
                _ => {}
            }
            self.note(|| {
                let by = session.map_or("the server".to_owned(), |session| session.to_string());
                format!("    {zxid} {change:?} {path} by {by}")
            });
        }
    }

    /// Since when nobody is ahead of a contender, if that is so.
    pub(super) fn first_since(&self, path: &str, czxid: i64) -> Option<Instant> {
        let (number, _) = contender(path)?;
        let ahead = self.left.iter().filter(|(other, _)| *other < number).map(|(_, at)| *at);
        ahead.chain(self.times.get(&Zxid(czxid)).copied()).max()
    }

    /// The transaction that created the last node of this name.
    pub(super) fn created(&self, path: &str) -> Option<i64> {
        self.created.get(path).copied()
    }

    /// True if this node exists, and not another one with the same name.
    pub(super) fn is_alive(&self, path: &str, czxid: i64) -> bool {
        self.alive.get(path) == Some(&czxid)
    }

    /// The transaction that deleted a node, and the session that asked for it.
    pub(super) fn end(&self, path: &str, czxid: i64) -> Option<(Zxid, Option<SessionId>)> {
        self.gone.get(&(path.to_owned(), czxid)).copied()
    }

    /// A process is notified that these nodes are deleted. Names that exist again are left out,
    /// since it is not known which node was meant.
    pub(super) fn tell(&mut self, process: usize, gone: Vec<String>) {
        let gone = gone.into_iter().filter(|path| !self.alive.contains_key(path));
        self.told.entry(process).or_default().extend(gone.map(|path| (path, now())));
    }

    /// When a process was notified that this node is deleted, if it was.
    pub(super) fn told_at(&self, process: usize, path: &str) -> Option<Instant> {
        let told = self.told.get(&process)?.iter().find(|(one, _)| one == path);
        told.map(|(_, at)| *at)
    }

    /// True if an event of this node did not reach a process.
    pub(super) fn is_untold(&self, process: usize, path: &str) -> bool {
        self.untold.get(&process).is_some_and(|untold| untold.contains(path))
    }

    /// True if a node was put at an old place in the queue.
    pub(super) fn is_recast(&self, path: &str) -> bool {
        self.recast.contains(path)
    }

    /// The contenders that exist, with the transactions that created them.
    pub(super) fn queue(&self) -> impl Iterator<Item = (i64, Role, i64)> {
        let place = |(path, czxid): (&String, &i64)| {
            contender(path).map(|(number, role)| (number, role, *czxid))
        };
        self.alive.iter().filter_map(place)
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Records a fault.
    pub(super) fn strike(&mut self, fault: &'static str) {
        self.count(fault);
        self.note(|| format!("!!! {fault}"));
    }

    /// Records a broken invariant. Only the first one is kept.
    pub(super) fn violate(&mut self, what: String) {
        self.note(|| format!("VIOLATION: {what}"));
        self.violation.get_or_insert(what);
    }

    /// Returns the first broken invariant as an error.
    pub(super) fn sound(&self) -> Result<(), String> {
        self.violation.clone().map_or(Ok(()), Err)
    }

    pub(super) fn into_trace(self) -> Trace {
        self.trace.unwrap_or_default()
    }
}
