//! Whole clients with their connections, to servers that a test plays or that are embedded.

mod addresses;
mod causal;
mod client;
mod connect;
mod lease;
mod resolve;
mod streams;
mod tls;
mod tree;
mod words;
