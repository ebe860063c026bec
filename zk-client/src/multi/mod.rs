//! Many operations in one request: transactions, and reads of many nodes.
//!
//! Callers write a list of operations in any shape, and the results come back in the same shape.
//! This module knows nothing of how a request is sent.

pub(crate) mod shapes;

pub(crate) mod op;

pub(crate) mod write;

pub(crate) mod read;
