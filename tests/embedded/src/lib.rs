//! A ZooKeeper server inside your test.

mod config;
mod history;

mod access;
mod tree;

mod connection;
mod fault;

mod sessions;
mod watches;

mod create;
mod multi;
mod store;

mod handshake;
mod requests;
mod state;
mod words;

mod core;
mod server;

pub use crate::config::{Config, Release};
pub use crate::connection::ConnectionId;
pub use crate::core::Core;
pub use crate::fault::Fault;
pub use crate::history::{Change, Commit};
pub use crate::server::Server;

pub use zk_proto::{ErrorCode, OpCode, SessionId, Zxid};
