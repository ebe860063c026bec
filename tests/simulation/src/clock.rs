//! Virtual time, as all that is simulated reads it.

use std::time::{Duration, Instant};

use zk_client::{Client, ClientBuilder};

/// The time now, by the runtime's clock.
#[expect(clippy::disallowed_methods, reason = "the runtime's clock is the simulation's")]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Builds a client that reads no clock but that one: no machine is suspended in virtual time.
pub fn client() -> ClientBuilder {
    Client::builder().suspend_time(|| Duration::ZERO)
}
