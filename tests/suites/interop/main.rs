//! Other clients against the embedded server and a real one, and their locks, elections,
//! semaphores, barriers, counters and groups beside ours.

mod barriers;
mod clients;
mod counters;
mod elections;
mod groups;
mod kazoo_suite;
mod locks;
mod peer;
mod program;
mod semaphores;
