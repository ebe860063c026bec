//! The values that calls take and return: paths, access lists, nodes, events, ensembles.
//!
//! Plain data, most of it made from records of `zk_proto`. Nothing in this module sends or waits,
//! and nothing knows how a session or a connection works.

pub(crate) mod path;

pub(crate) mod event;

pub(crate) mod acl;
pub(crate) mod child_names;
pub(crate) mod node;
pub(crate) mod quota;

pub(crate) mod ensemble;
