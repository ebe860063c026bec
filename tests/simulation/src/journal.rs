//! What is written down of a run: grants for the invariants, counts for the suite, and, if asked
//! for, every happening for the reader.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use zk_embedded::{Change, Commit, SessionId, Zxid};
use zk_recipes::FencingToken;

use super::network::now;

/// The folder of the lock.
pub(super) const FOLDER: &str = "/locks/simulated";

/// A node that is written under the lock alone.
pub(super) const COUNTER: &str = "/counter";

/// What a contender is in the queue for. Writers come first among nodes of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Exclusive,
    Shared,
}

impl Role {
    /// Whether who has this role must wait for who has the other, or the other way round.
    pub(super) fn excludes(self, other: Self) -> bool {
        (self, other) != (Self::Shared, Self::Shared)
    }
}

/// A contender's number and role, by the path of its node.
pub(super) fn contender(path: &str) -> Option<(i64, Role)> {
    let name = path.strip_prefix(FOLDER)?;
    let markers =
        [("-lock-", Role::Exclusive), ("-__WRIT__", Role::Exclusive), ("-__READ__", Role::Shared)];
    markers
        .into_iter()
        .find_map(|(marker, role)| Some((name.rsplit_once(marker)?.1.parse().ok()?, role)))
}

/// The local level of a two-level lock: the process and which of its lives.
pub(super) type Level = (usize, u32);

/// A lock that somebody got.
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
    /// Whoever got it on the same level may be the reason that it has the node.
    pub(super) level: Option<Level>,
    /// What the process had been told of when it was got.
    pub(super) heard: Zxid,
    /// The server's last transaction when it was got.
    pub(super) zxid: Zxid,
    /// Whether the node was there then. If not, the holder is told of its loss too late.
    pub(super) is_there: bool,
    /// Whether the process was not told of the node's end.
    pub(super) is_untold: bool,
    /// Whether the process had been told of the node's end when it was let go.
    pub(super) was_told: bool,
    /// Until it is released or known to be lost.
    pub(super) is_believed: bool,
    /// Whether its guard has said that it is lost.
    pub(super) is_lost: bool,
}

#[derive(Debug)]
pub(super) struct Journal {
    start: Instant,
    trace: Option<String>,
    /// Changes of the tree that have been seen.
    seen: usize,
    /// The transactions that created nodes, the last of each name.
    created: BTreeMap<String, i64>,
    /// The nodes that are there, with the transactions that created them.
    alive: BTreeMap<String, i64>,
    /// When the others went and by whom, by the transactions that created them.
    gone: BTreeMap<i64, (Zxid, Option<SessionId>)>,
    /// Readers that were put where a writer had been.
    recast: BTreeSet<String>,
    /// Sessions that were ended before their time.
    pub(super) ended_early: Vec<SessionId>,
    /// When each transaction came.
    pub(super) times: BTreeMap<Zxid, Instant>,
    /// Since when it may be that somebody hears of something late, or not at all.
    pub(super) faulty_since: Option<Instant>,
    /// The nodes whose end a process was told of, since it began, and when.
    pub(super) told: BTreeMap<usize, Vec<(String, Instant)>>,
    /// Of what a process was not told, since it began.
    pub(super) untold: BTreeMap<usize, BTreeSet<String>>,
    pub(super) grants: Vec<Grant>,
    /// How often each fault struck, and other things worth a count.
    pub(super) counts: BTreeMap<&'static str, u64>,
    pub(super) violation: Option<String>,
}

impl Journal {
    pub(super) fn new(traced: bool) -> Self {
        Self {
            start: now(),
            trace: traced.then(String::new),
            seen: 0,
            created: BTreeMap::new(),
            alive: BTreeMap::new(),
            gone: BTreeMap::new(),
            recast: BTreeSet::new(),
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
        let millis = self.elapsed().as_millis();
        if let Some(trace) = &mut self.trace {
            writeln!(trace, "{millis:>6} {}", line()).unwrap();
        }
    }

    /// Follows the changes of the tree.
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
                    self.created.insert(path.clone(), zxid.0);
                    self.alive.insert(path.clone(), zxid.0);
                }
                Change::Deleted => {
                    let gone = self.alive.remove(path).map(|created| (created, (*zxid, *session)));
                    self.gone.extend(gone);
                }
                _ => {}
            }
            self.note(|| {
                let by = session.map_or("the server".to_owned(), |session| session.to_string());
                format!("    {zxid} {change:?} {path} by {by}")
            });
        }
    }

    /// The transaction that created a node, or the last one of its name.
    pub(super) fn created(&self, path: &str) -> Option<i64> {
        self.created.get(path).copied()
    }

    /// Whether a node is there, and not another one under its name.
    pub(super) fn is_alive(&self, path: &str, czxid: i64) -> bool {
        self.alive.get(path) == Some(&czxid)
    }

    /// The transaction that deleted a node, and whose it was.
    pub(super) fn end(&self, czxid: i64) -> Option<(Zxid, Option<SessionId>)> {
        self.gone.get(&czxid).copied()
    }

    /// A process is told that these nodes are gone. Of names that have come again it is not known
    /// which node was meant.
    pub(super) fn tell(&mut self, process: usize, gone: Vec<String>) {
        let gone = gone.into_iter().filter(|path| !self.alive.contains_key(path));
        self.told.entry(process).or_default().extend(gone.map(|path| (path, now())));
    }

    /// When a process was told that this node is gone, if it was.
    pub(super) fn told_at(&self, process: usize, path: &str) -> Option<Instant> {
        let told = self.told.get(&process)?.iter().find(|(one, _)| one == path);
        told.map(|(_, at)| *at)
    }

    /// Whether something of this node did not reach a process.
    pub(super) fn is_untold(&self, process: usize, path: &str) -> bool {
        self.untold.get(&process).is_some_and(|untold| untold.contains(path))
    }

    /// Whether a node was put at an old place in the queue.
    pub(super) fn is_recast(&self, path: &str) -> bool {
        self.recast.contains(path)
    }

    /// The contenders that are there, with the transactions that created them.
    pub(super) fn queue(&self) -> impl Iterator<Item = (i64, Role, i64)> {
        let place = |(path, czxid): (&String, &i64)| {
            contender(path).map(|(number, role)| (number, role, *czxid))
        };
        self.alive.iter().filter_map(place)
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// A fault happens.
    pub(super) fn strike(&mut self, fault: &'static str) {
        self.count(fault);
        self.note(|| format!("!!! {fault}"));
    }

    /// An invariant is broken; the first one counts.
    pub(super) fn violate(&mut self, what: String) {
        self.note(|| format!("VIOLATION: {what}"));
        self.violation.get_or_insert(what);
    }

    pub(super) fn into_trace(self) -> String {
        self.trace.unwrap_or_default()
    }
}
