//! The page of the playground in a real browser: a headless Chromium, driven by its protocol.
//!
//! It takes Chromium, so it is built and run only where it is named; `tests/run` installs one. Each
//! test has a server and a page of its own, and ends by looking at what the browser has logged.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod access;
mod beliefs;
mod chromium;
mod errors;
mod file;
mod guess;
mod keyboard;
mod partition;
mod recording;
mod scenes;
mod server;
mod stage;
mod try_out;
mod walk;
mod windows;
mod work;
