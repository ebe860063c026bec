//! What the suites share.

mod cuts;
mod explore;
mod history;
mod relay;
mod store;
