//! What tests put in: [random numbers](Random) that a seed decides, and the committed
//! [corpora](corpus) of the fuzz targets.
//!
//! Both are the same in every run and on every machine. Depends on nothing, since the tests of all
//! crates use it.

pub mod corpus;
mod random;

pub use random::Random;
