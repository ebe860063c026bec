//! What must have gone wrong, and been done, in any hundred seeds of each model: otherwise it tests
//! less than it should.

/// Lists of events.
pub type Events = &'static [&'static [&'static str]];

/// What happens in any storm around one server.
const STORM: &[&str] = &[
    "born with the names of the last life",
    "carried out and disowned",
    "cut",
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

/// What happens to whoever wants to have something.
const TAKEN: &[&str] =
    &["acquires cancelled", "acquires ended with the session", "delete withheld"];

/// More that happens to requests and to nodes.
const REQUESTS: &[&str] =
    &["expired by a reply", "reply delayed", "request refused", "written by the operator"];

/// More that happens to those who queue up.
const QUEUES: &[&str] =
    &["acquires that connections broke", "acquires whose node vanished", "folder reaped"];

/// The events that must have happened in any hundred seeds of any family.
pub const ANY_FAMILY: Events = &[
    STORM,
    TAKEN,
    REQUESTS,
    QUEUES,
    &[
        "all hung up",
        "cut in the middle",
        "deleted by the operator, with others",
        "event lost",
        "grants told too late",
        "hung up",
        "latency changed",
        "one way silent",
        "releases of what was lost",
        "releases unconfirmed",
        "reply cut",
        "session swapped",
        "silent from a reply on",
        "unreachable",
    ],
];

/// Further events with one-level locks.
pub const ONE_LEVEL: Events = &[&["holds that began with enough", "released with a write"]];

/// Further events with readers.
pub const SHARED: Events = &[&["grants to readers"]];

/// Further events with two-level locks.
pub const TWO_LEVELS: Events = &[&["grants within a process", "nested"]];

/// The events that must have happened in any hundred seeds where contenders requeue.
pub const REQUEUE: Events = &[&[
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
]];

/// The events that must have happened in any hundred seeds of each relative of locks.
pub const RELATIVES: Events = &[STORM, TAKEN];

/// Further events with what is held by several nodes.
pub const SEVERAL_NODES: Events = &[
    QUEUES,
    &["deleted by the operator, with others", "holds that began with enough", "losses told"],
];

/// Further events with the semaphore.
pub const SEMAPHORE: Events =
    &[&["permits in kazoo's layout", "permits of many", "permits tried for"]];

/// Further events with the counter.
pub const COUNTER: Events = &[&["adds in doubt", "written by the operator"]];

/// Further events with the election.
pub const ELECTION: Events = &[&[
    "acquires that connections broke",
    "acquires whose node vanished",
    "event lost",
    "holds that began with enough",
    "terms after another",
    "terms to the end",
]];

/// Further events with the partitioner.
pub const PARTITIONER: Events = &[&[
    "deleted by the operator, with others",
    "event lost",
    "members that left",
    "work beside that of a loser",
]];

/// The events that must have happened in any hundred seeds of the ensemble.
pub const ENSEMBLE: Events = &[&[
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
]];

/// The events that must have happened in any hundred seeds of what is kept in memory.
pub const FOLLOWED: Events = &[
    STORM,
    REQUESTS,
    &[
        "created",
        "created for a session",
        "current",
        "cut off",
        "deleted",
        "deleted by the operator, with others",
        "deleted with all below",
        "folder reaped",
        "made anew",
        "missed much",
        "set",
        "set without waiting",
        "stale",
        "stopped",
        "unknown",
    ],
];

/// Further events with the barrier.
pub const BARRIER: Events = &[
    REQUESTS,
    &["closed", "event lost", "found closed", "found open", "opened", "waits that were worth it"],
];

/// Further events with the double barrier.
pub const DOUBLE_BARRIER: Events = &[
    QUEUES,
    REQUESTS,
    &[
        "acquires lost when they were due",
        "event lost",
        "holds that began with enough",
        "leaves begun anew",
        "losses told",
        "rounds dropped",
        "rounds to the end",
    ],
];

/// Further events with the group.
pub const GROUP: Events = &[
    QUEUES,
    REQUESTS,
    &[
        "data changed",
        "event lost",
        "holds that began with enough",
        "losses told",
        "releases of what was lost",
        "takeovers",
        "tries in vain",
        "views",
    ],
];
