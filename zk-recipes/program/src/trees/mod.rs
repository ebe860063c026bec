//! Trees of nodes, on servers and in files: one node at a time, in one order.
//!
//! A node comes before what is below it, and siblings are in the order of their names. So two trees
//! are compared as two sorted lists are merged, in bounded memory. Paths are those below the root
//! of the tree, which is `/` itself, so that a tree can be loaded elsewhere.

pub(crate) mod compare;
pub(crate) mod entry;
pub(crate) mod file;
pub(crate) mod progress;
pub(crate) mod reader;
pub(crate) mod source;
pub(crate) mod writer;
