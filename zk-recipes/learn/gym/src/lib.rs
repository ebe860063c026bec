//! A gym for locks: write one yourself, and see it broken by the real client and server.
//!
//! A student fills in one file for each [level](LEVELS). [`examine`] searches for a run that breaks
//! it: with every fault of the level at every frame, with pairs of faults, and with runs that seeds
//! draw. It tells the shortest one in words and frames, and why. See the README of the gym.
//!
//! The client is `zk-client`, the server is `zk-embedded`, and a run takes one thread and virtual
//! time, as in `zk-simulation`, of which it has the faults.
//!
//! # Layout
//!
//! ```text
//! fault record store      what can go wrong, what a run leaves, and the store of a level
//! contender               what a student writes
//! plan level              what is to happen in a run, and the levels
//! world waste             the server and the links, and what those who wait may ask of them
//! strike network          how faults strike, and how frames pass
//! process solution        a process, and the program in it
//! reason run              a run, and why it is broken
//! search                  all runs of a level
//! textbook_lock cost      what a lock costs, beside others
//! trace verdict           a run to look at, and what came of a level
//! words report            the same for people and for programs
//! ```

mod fault;

mod record;

mod store;

mod contender;

mod plan;

mod level;

mod world;

mod waste;

mod strike;

mod network;

mod process;

mod solution;

mod reason;

mod run;

mod search;

#[path = "../../../examples/textbook_lock.rs"]
#[expect(dead_code, reason = "the example has its own scene for the lock")]
mod textbook_lock;

mod cost;

mod trace;

mod verdict;

mod words;

mod report;

pub use contender::{FOLDER, Lock, Result, RwLock, Unwritten, Withdraw, unwritten};
pub use cost::{Cost, Costs};
pub use fault::{Fault, Strike};
pub use level::{LEVELS, Level, Shown, Wants};
pub use record::Break;
pub use report::report;
pub use search::{Counts, Effort};
pub use solution::Solution;
pub use store::Store;
pub use verdict::{Broken, Finding, Verdict, examine};
