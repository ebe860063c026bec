//! Other clients against the embedded server and a real one, and their locks, elections,
//! semaphores and counters beside ours.

mod clients;
mod counters;
mod elections;
mod kazoo_suite;
mod locks;
mod semaphores;
