//! Other clients against the embedded server and a real one, and their locks, elections,
//! semaphores, barriers, counters and groups beside ours.

mod barriers;
mod client_suites;
mod clients;
mod counters;
mod elections;
mod groups;
mod locks;
mod peer;
mod program;
mod semaphores;
