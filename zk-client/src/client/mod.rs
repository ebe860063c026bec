//! The handle that users hold, with its methods.
//!
//! Most are one operation: the call checks its path, encodes its request into the session and
//! returns a future of the reply. Those of `tree`, `quotas`, `walk`, `delete_tree`, `resolve` and
//! `marker` are several operations, which the returned future makes one after the other.
//! This module knows nothing of sockets.
//!
//! The modules below are in reading order: first the handle and how its calls are sent, and then
//! its methods, grouped by purpose.

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

mod marker;

pub use self::handle::Client;
pub use self::marker::{Committed, Marker};
pub use self::owned_nodes::OwnedNode;
pub use self::resolve::Resolving;
pub use self::states::StateStream;
pub use self::walk::{Visited, Walk};
