//! Other clients against the embedded server and a real one, and their locks and elections beside
//! ours.

mod clients;
mod elections;
mod kazoo_suite;
mod locks;
