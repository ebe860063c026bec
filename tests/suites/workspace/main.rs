//! Checks of the sources, the README and the examples.

mod book;
mod catalogue;
mod examples;
mod layers;
mod readme;
mod suites;
mod wall_clock;
mod width;
