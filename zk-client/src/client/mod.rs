//! The handle that users hold: one method per operation.
//!
//! A call checks its path, encodes its request into the session and returns; whatever is awaited
//! is only the answer. Knows nothing of sockets, servers or time.
//!
//! The modules below are in reading order: the handle and how its calls are sent, and then its
//! methods by what they are for.

mod handle;

mod chroot;

mod reads;

mod writes;

mod owned_nodes;

mod access;

mod multi_read;

mod ensemble;

mod watches;

mod auth;

mod lifecycle;

mod wait_for_zxid;

mod stats;

mod servers;

mod states;

mod tree;

mod quotas;

mod walk;

mod delete_tree;

mod resolve;

pub use self::handle::Client;
pub use self::owned_nodes::OwnedNode;
pub use self::resolve::Resolving;
pub use self::states::StateStream;
pub use self::walk::{Visited, Walk};
