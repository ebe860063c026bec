//! The course on locks that `cargo run --example tour` is: its claims, and how it runs.

mod broken;
mod tour;

/// The broken locks of the course, as they are.
#[path = "../../../zk-recipes/examples/tour/naive/mod.rs"]
mod naive;
