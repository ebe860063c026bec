//! Other clients: against the embedded server and a real one, and their locks beside ours.

mod clients;
mod kazoo_suite;
mod locks;
