//! What must have gone wrong, and been done, in any hundred seeds of each model: otherwise it tests
//! less than it should.

/// The events that must have happened in any hundred seeds of any family.
pub const ANY_FAMILY: &[&str] = &[
    "acquires cancelled",
    "acquires ended with the session",
    "acquires that connections broke",
    "acquires whose node vanished",
    "all hung up",
    "born with the names of the last life",
    "carried out and disowned",
    "cut",
    "cut in the middle",
    "delete withheld",
    "deleted by the operator",
    "deleted by the operator, with others",
    "event lost",
    "expired",
    "expired by a reply",
    "folder reaped",
    "grants told too late",
    "half-open",
    "hung up",
    "latency changed",
    "machine died",
    "one way silent",
    "partitioned",
    "paused",
    "process died",
    "releases of what was lost",
    "releases unconfirmed",
    "reply cut",
    "reply delayed",
    "reply in pieces",
    "reply lost",
    "request lost",
    "request refused",
    "server restarted",
    "session swapped",
    "silent from a reply on",
    "unreachable",
    "written by the operator",
];

/// Further events with one-level locks.
pub const ONE_LEVEL: &[&str] = &["holds that began with enough", "released with a write"];

/// Further events with readers.
pub const SHARED: &[&str] = &["grants to readers"];

/// Further events with two-level locks.
pub const TWO_LEVELS: &[&str] = &["grants within a process", "nested"];

/// The events that must have happened in any hundred seeds where contenders requeue.
pub const REQUEUE: &[&str] = &[
    "acquires cancelled",
    "acquires ended with the session",
    "acquires whose node vanished",
    "all hung up",
    "born with the names of the last life",
    "cut",
    "cut in the middle",
    "deleted by the operator",
    "expired",
    "grants told too late",
    "guards that saw their node go",
    "held back",
    "machine died",
    "other children",
    "paused",
    "places beside the own",
    "process died",
    "strangers",
    "torn",
    "turns left out",
    "two deleted at once",
    "written by the operator",
    "written under the lock",
];

/// The events that must have happened in any hundred seeds of each relative of locks.
pub const RELATIVES: &[&str] = &[
    "acquires cancelled",
    "acquires ended with the session",
    "born with the names of the last life",
    "carried out and disowned",
    "cut",
    "delete withheld",
    "deleted by the operator",
    "expired",
    "half-open",
    "machine died",
    "partitioned",
    "paused",
    "process died",
    "reply in pieces",
    "reply lost",
    "request lost",
    "server restarted",
];

/// Further events with what is held by several nodes.
pub const SEVERAL_NODES: &[&str] = &[
    "acquires that connections broke",
    "acquires whose node vanished",
    "deleted by the operator, with others",
    "folder reaped",
    "holds that began with enough",
    "losses told",
];

/// Further events with the semaphore.
pub const SEMAPHORE: &[&str] =
    &["permits in kazoo's layout", "permits of many", "permits tried for"];

/// Further events with the counter.
pub const COUNTER: &[&str] = &["adds in doubt", "written by the operator"];

/// Further events with the election.
pub const ELECTION: &[&str] = &[
    "acquires that connections broke",
    "acquires whose node vanished",
    "event lost",
    "holds that began with enough",
    "terms after another",
    "terms to the end",
];

/// Further events with the partitioner.
pub const PARTITIONER: &[&str] = &[
    "deleted by the operator, with others",
    "event lost",
    "members that left",
    "work beside that of a loser",
];

/// The events that must have happened in any hundred seeds of the ensemble.
pub const ENSEMBLE: &[&str] = &[
    "client cut",
    "client silent",
    "client stalled",
    "follower cut",
    "follower delayed",
    "follower gave up",
    "follower isolated",
    "follower stalled",
    "guards held to the end",
    "guards past their deadline",
    "guards past their term",
    "latency changed",
    "process killed",
    "process paused",
    "sessions expired",
    "tickets",
    "tickets resumed",
    "writes refused because the session had moved",
];

/// The events that must have happened in any hundred seeds of what is kept in memory.
pub const FOLLOWED: &[&str] = &[
    "born with the names of the last life",
    "carried out and disowned",
    "created",
    "created for a session",
    "current",
    "cut",
    "cut off",
    "deleted",
    "deleted by the operator",
    "deleted by the operator, with others",
    "deleted with all below",
    "expired",
    "expired by a reply",
    "folder reaped",
    "half-open",
    "machine died",
    "made anew",
    "missed much",
    "partitioned",
    "paused",
    "process died",
    "reply delayed",
    "reply in pieces",
    "reply lost",
    "request lost",
    "request refused",
    "server restarted",
    "set",
    "set without waiting",
    "stale",
    "stopped",
    "unknown",
    "written by the operator",
];

/// Further events with the barrier.
pub const BARRIER: &[&str] = &[
    "closed",
    "event lost",
    "expired by a reply",
    "found closed",
    "found open",
    "opened",
    "reply delayed",
    "request refused",
    "waits that were worth it",
    "written by the operator",
];

/// Further events with the double barrier.
pub const DOUBLE_BARRIER: &[&str] = &[
    "acquires lost when they were due",
    "acquires that connections broke",
    "acquires whose node vanished",
    "event lost",
    "expired by a reply",
    "folder reaped",
    "holds that began with enough",
    "leaves begun anew",
    "losses told",
    "reply delayed",
    "request refused",
    "rounds dropped",
    "rounds to the end",
    "written by the operator",
];

/// Further events with the group.
pub const GROUP: &[&str] = &[
    "acquires that connections broke",
    "acquires whose node vanished",
    "data changed",
    "event lost",
    "expired by a reply",
    "folder reaped",
    "holds that began with enough",
    "losses told",
    "releases of what was lost",
    "reply delayed",
    "request refused",
    "takeovers",
    "tries in vain",
    "views",
    "written by the operator",
];
