//! Checks of the sources, the README and the examples.

mod book;
mod catalogue;
mod examples;
mod layers;
mod links;
mod readme;
mod suites;
mod values;
mod wall_clock;
mod width;
