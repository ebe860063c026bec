//! The codec against the bytes of real servers and clients, against values made by hand, and
//! against lies.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod any;
mod broken;
mod captured;
mod catalogue;
mod dissect;
mod frames;
mod lies;
