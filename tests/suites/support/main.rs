//! What the suites share.

mod claims;
mod explore;
mod history;
mod relay;
mod store;
