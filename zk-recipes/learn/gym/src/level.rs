//! The levels: what each asks for, which faults it has, and who contends in its runs.
//!
//! A level has only its own kinds of faults, at every frame at which they can strike.

use crate::fault::{Fault, Frame};
use crate::plan::{Contender, Mode, Plan};

/// What a level wants to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wants {
    /// A [`Lock`](crate::Lock).
    Lock,
    /// A [`RwLock`](crate::RwLock).
    RwLock,
    /// A [`Withdraw`](crate::Withdraw).
    Withdraw,
}

/// A level.
#[derive(Debug)]
#[non_exhaustive]
pub struct Level {
    /// Its number, from 1.
    pub number: usize,
    /// Its title.
    pub title: &'static str,
    /// What is asked for.
    pub task: &'static str,
    /// Where the book explains it.
    pub reading: &'static str,
    /// Where it is shown, with its repair.
    pub watch: &'static [Shown],
    /// What is to be written.
    pub wants: Wants,
    /// What goes wrong in its runs.
    pub faults: &'static [Fault],
    casts: &'static [&'static [Cast]],
}

/// A chapter of the tour, and its scene in the playground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shown {
    /// The number of the chapter.
    pub chapter: usize,
    /// The name of the scene.
    pub scene: &'static str,
}

const fn shown(chapter: usize, scene: &'static str) -> Shown {
    Shown { chapter, scene }
}

/// Who contends in the runs of a sweep.
#[derive(Debug)]
struct Cast {
    modes: &'static [Mode],
    /// How much later each starts than the one before, in milliseconds.
    gap: u64,
    hold: u64,
    turns: u32,
}

const fn cast(modes: &'static [Mode], gap: u64, hold: u64, turns: u32) -> Cast {
    Cast { modes, gap, hold, turns }
}

const ONE: &[Mode] = &[Mode::Write];
const TWO: &[Mode] = &[Mode::Write; 2];
const THREE: &[Mode] = &[Mode::Write; 3];
const FIVE: &[Mode] = &[Mode::Write; 5];

/// Longer than a session of a process that is gone.
const LONG: u64 = 15_000;

/// Everybody comes at once, or one after the other.
const CROWDS: &[Cast] = &[
    cast(ONE, 0, 100, 2),
    cast(TWO, 0, 100, 1),
    cast(TWO, 300, 1000, 2),
    cast(THREE, 0, 100, 1),
    cast(THREE, 300, 1000, 2),
    cast(FIVE, 0, 100, 1),
    cast(FIVE, 2, 1000, 1),
];

/// A wait that is long enough for those who ask again and again, however seldom.
const LONG_WAIT: Cast = cast(TWO, 300, 120_000, 1);

/// The same with long holds, in which sessions of others end.
const LONG_HOLDS: &[Cast] = &[
    cast(ONE, 0, 100, 1),
    cast(TWO, 0, 100, 1),
    cast(TWO, 300, LONG, 1),
    cast(TWO, 500, 5000, 2),
    cast(THREE, 0, 100, 1),
    cast(THREE, 300, LONG, 1),
];

const READ_WRITE: &[Cast] = &[
    cast(TWO, 0, 100, 1),
    cast(&[Mode::Read, Mode::Write], 0, 100, 1),
    cast(&[Mode::Write, Mode::Read], 300, 1000, 1),
    cast(&[Mode::Write, Mode::Read, Mode::Write], 300, 1000, 1),
    cast(&[Mode::Read, Mode::Read, Mode::Write], 300, LONG, 1),
    cast(&[Mode::Read, Mode::Write, Mode::Read], 300, LONG, 1),
];

/// All levels, in order.
pub const LEVELS: &[Level] = &[
    Level {
        number: 1,
        title: "One holder at a time",
        task: "Acquire a lock that one process holds at a time, and release it. Nothing goes \
               wrong.",
        reading: "chapter 1 (How ZooKeeper answers)",
        watch: &[shown(3, "check_then_create"), shown(7, "whole_names")],
        wants: Wants::Lock,
        faults: &[],
        casts: &[CROWDS],
    },
    Level {
        number: 2,
        title: "The herd",
        task: "The same, and whatever happens to the lock wakes at most one of those who wait. \
               They do not ask again while nothing changes.",
        reading: "chapter 3 (Watches)",
        watch: &[shown(4, "herd")],
        wants: Wants::Lock,
        faults: &[],
        casts: &[CROWDS, &[LONG_WAIT]],
    },
    Level {
        number: 3,
        title: "A crash",
        task: "Processes die or close their sessions, while they hold the lock and while they \
               wait. The lock becomes free, and still one process holds it at a time.",
        reading: "chapter 2 (Sessions and time), and in chapter 5 hazard H22, the wrong wake-up; \
                  afterwards chapter 4 (The textbook lock), to compare",
        watch: &[shown(5, "wrong_wake_up"), shown(2, "textbook")],
        wants: Wants::Lock,
        faults: &[Fault::Close, Fault::Crash],
        casts: &[LONG_HOLDS],
    },
    Level {
        number: 4,
        title: "A lost reply",
        task: "The connection breaks in front of the reply to a create. The node is there. The \
               session lives on, on the next connection.",
        reading: "chapter 5 (The hazards), H01, the lost reply",
        watch: &[shown(6, "lost_reply")],
        wants: Wants::Lock,
        faults: &[Fault::Cut],
        casts: &[LONG_HOLDS],
    },
    Level {
        number: 5,
        title: "A cut",
        task: "The connection breaks in front of any frame, or behind it, also of a release. The \
               session lives on, on the next connection.",
        reading: "chapters 2 (Sessions and time) and 5 (The hazards)",
        watch: &[shown(13, "lost_reply_found")],
        wants: Wants::Lock,
        faults: &[Fault::Cut, Fault::CutBehind],
        casts: &[LONG_HOLDS],
    },
    Level {
        number: 6,
        title: "An expired session",
        task: "Sessions end while the lock is held: the server ends them, or a server that is cut \
               off from the others goes on to answer. Say when the lock is not surely held any \
               more: `lost`. A process whose session is over releases with a new one. The folder \
               is a container, which may be removed while it is empty.",
        reading: "chapters 2 (Sessions and time) and 6 (Losing a lock)",
        watch: &[shown(8, "release_by_name"), shown(9, "no_deadline")],
        wants: Wants::Lock,
        faults: &[Fault::Expire, Fault::Isolate, Fault::Reap],
        casts: &[LONG_HOLDS],
    },
    Level {
        number: 7,
        title: "A reader and a writer",
        task: "Many readers or one writer hold the lock, in the order in which they came. \
               Processes die or close their sessions.",
        reading: "chapter 7 (Sharing a lock)",
        watch: &[shown(11, "younger_writer"), shown(16, "read_write")],
        wants: Wants::RwLock,
        faults: &[Fault::Close, Fault::Crash],
        casts: &[READ_WRITE],
    },
    Level {
        number: 8,
        title: "A stopped holder",
        task: "Take money from a store under a lock. Processes stand still for longer than their \
               sessions live, and go on where they were. The store takes tokens.",
        reading: "chapter 6 (Losing a lock), fencing tokens",
        watch: &[shown(10, "no_fence"), shown(14, "stopped_holder")],
        wants: Wants::Withdraw,
        faults: &[Fault::Stop],
        casts: &[LONG_HOLDS],
    },
    Level {
        number: 9,
        title: "Everything",
        task: "A lock that holds whatever goes wrong.",
        reading: "chapters 5 (The hazards), 6 (Losing a lock) and 9 (How it is tested)",
        watch: &[shown(12, "queue")],
        wants: Wants::Lock,
        faults: &[
            Fault::Cut,
            Fault::CutBehind,
            Fault::Silence,
            Fault::Late,
            Fault::Refuse,
            Fault::Disown,
            Fault::ServeLate,
            Fault::Expire,
            Fault::GiveUp,
            Fault::Pause,
            Fault::Stop,
            Fault::Crash,
            Fault::Close,
            Fault::Delete,
            Fault::Purge,
            Fault::Write,
            Fault::Reap,
            Fault::Restart,
            Fault::Isolate,
        ],
        casts: &[LONG_HOLDS],
    },
];

impl Level {
    /// True if a fault of this level can strike at such a frame.
    pub(crate) fn suits(&self, fault: Fault, frame: &Frame) -> bool {
        fault.suits(frame) && (self.number != 4 || frame.is_created())
    }

    /// True if a holder has to know that it has lost the lock.
    pub(crate) fn asks_for_lost(&self) -> bool {
        matches!(self.number, 6 | 9)
    }

    /// The runs of the sweep without faults, those with few contenders first.
    pub(crate) fn plans(&self) -> Vec<Plan> {
        let plan = |cast: &Cast| {
            let contenders = cast.modes.iter().enumerate().map(|(index, mode)| Contender {
                mode: *mode,
                start: cast.gap * index as u64,
                hold: cast.hold,
            });
            Plan { turns: cast.turns, ..self.plan(contenders.collect()) }
        };
        self.casts.iter().copied().flatten().map(plan).collect()
    }

    /// A run of this level, in which everybody takes one turn.
    pub(crate) fn plan(&self, contenders: Vec<Contender>) -> Plan {
        Plan {
            seed: 1,
            latency: 5,
            jitter: 0,
            contenders,
            turns: 1,
            strikes: Vec::new(),
            has_container: matches!(self.number, 6 | 9),
            forbids_waste: self.number == 2,
            strikes_creates: self.number == 4,
            strikes_later: matches!(self.number, 6 | 8),
            strikes_holders: self.number == 6,
        }
    }
}
