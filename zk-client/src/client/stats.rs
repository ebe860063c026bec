//! The numbers of a client that a service exports as metrics.

use crate::handles::client::Client;
use crate::stats::Stats;

impl Client {
    /// The current numbers of the client, for a service to export as metrics.
    ///
    /// The call is cheap enough for every scrape, or every second: it takes the session's lock for
    /// a moment, and copies. Clones and views share a session, and so return the same numbers.
    ///
    /// ```
    /// # fn f(client: &zk_client::Client) {
    /// let stats = client.stats();
    /// println!("zk_in_flight {}", stats.in_flight);
    /// println!("zk_queued_bytes {}", stats.queued_bytes);
    /// println!("zk_reconnects_total {}", stats.reconnects());
    /// println!("zk_round_trip_seconds {:?}", stats.last_round_trip.map(|it| it.as_secs_f64()));
    /// # }
    /// ```
    pub fn stats(&self) -> Stats {
        self.shared().stats()
    }
}
