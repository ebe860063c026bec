//! Claims that must hold whatever callers, servers and clocks do: the body of the fuzz target.
//!
//! It is part of the library so that a stable test runs the same checks over the committed corpus.
//! A check that does not hold is a failed assertion.

mod input;

mod shadow;

mod world;

mod server;

mod callers;

mod steps;

pub use steps::{STEPS, session};
