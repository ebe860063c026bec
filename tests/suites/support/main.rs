//! What the suites share.

mod explore;
mod history;
mod relay;
mod store;
