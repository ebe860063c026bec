//! Other clients against the embedded server and a real one, and their locks, elections and
//! semaphores beside ours.

mod clients;
mod elections;
mod kazoo_suite;
mod locks;
mod semaphores;
