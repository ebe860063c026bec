//! The kit itself: it finds what is planted, makes it small, and does the same for the same seed.

mod client;
mod conformance;
mod fragile;
mod program;
mod seeds;
mod server;
