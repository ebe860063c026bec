//! What the suites share.

mod claims;
mod cuts;
mod explore;
mod history;
mod relay;
mod store;
