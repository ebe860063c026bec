//! The methods of the handle that users hold.
//!
//! Most are one operation: the call checks its path, encodes its request into the session and
//! returns a future of the reply. Those of `tree`, `quotas`, `walk`, `delete_tree`, `resolve` and
//! `marker` are several operations, which the returned future makes one after the other.
//! This module knows nothing of sockets.
//!
//! How a call is sent is in `handles/client`. The modules below are in reading order, grouped by
//! purpose.

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

mod dialect;

mod states;

mod tree;

mod quotas;

mod walk;

mod delete_tree;

mod resolve;

mod marker;

pub use self::marker::{Committed, Marker};
pub use self::owned_nodes::OwnedNode;
pub use self::resolve::Resolving;
pub use self::states::StateStream;
pub use self::walk::{Visited, Walk};
