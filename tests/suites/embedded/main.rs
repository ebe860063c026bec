//! The embedded server: its replies, its state, and the faults that a test can inject.

mod claims;
mod ensemble;
mod faults;
mod life;
mod limits;
mod multi;
mod mutations;
mod nodes;
mod other_servers;
mod outages;
mod sessions;
mod tcp;
mod watches;
mod words;
