//! Whole clients with their connections, to servers that are embedded or played by the test.

mod addresses;
mod causal;
mod client;
mod connect;
mod lease;
mod marker;
mod resolve;
mod sasl;
mod streams;
mod tls;
mod tree;
mod words;
