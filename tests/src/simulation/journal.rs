//! What is written down of a run: grants for the invariants, counts for the suite, and, if asked
//! for, every happening for the reader.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use zk_embedded::{Change, Commit, SessionId, Zxid};

use super::network::now;

/// The folder of the lock.
pub(super) const FOLDER: &str = "/locks/simulated";

/// A lock that somebody got.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) who: String,
    pub(super) process: usize,
    pub(super) session: SessionId,
    pub(super) node: String,
    pub(super) czxid: i64,
    /// The server's last transaction when it was got.
    pub(super) zxid: Zxid,
    /// Whether the node was there then. If not, the holder is told of its loss too late.
    pub(super) is_there: bool,
    /// Until it is released or known to be lost.
    pub(super) is_believed: bool,
}

#[derive(Debug)]
pub(super) struct Journal {
    start: Instant,
    trace: Option<String>,
    /// Changes of the tree that have been seen.
    seen: usize,
    /// The nodes that are there, with the transactions that created them.
    alive: BTreeMap<String, i64>,
    /// When the others went, by the transactions that created them.
    gone: BTreeMap<i64, Zxid>,
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
            alive: BTreeMap::new(),
            gone: BTreeMap::new(),
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
        for commit in history.iter().skip(std::mem::replace(&mut self.seen, history.len())) {
            let Commit { zxid, session, change, path, .. } = commit;
            match change {
                Change::Created => drop(self.alive.insert(path.clone(), zxid.0)),
                Change::Deleted => {
                    let gone = self.alive.remove(path).map(|created| (created, *zxid));
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

    /// Whether a node is there, and not another one under its name.
    pub(super) fn is_alive(&self, path: &str, czxid: i64) -> bool {
        self.alive.get(path) == Some(&czxid)
    }

    /// The transaction that deleted a node.
    pub(super) fn end(&self, czxid: i64) -> Option<Zxid> {
        self.gone.get(&czxid).copied()
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
