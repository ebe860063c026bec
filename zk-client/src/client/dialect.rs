//! What the server of a client understands, where the server itself tells.
//!
//! Only a node is read for that: a request that a server does not know could end the session.

use crate::config::Dialect;
use crate::error::Error;
use crate::handles::client::Client;

/// Where ClickHouse Keeper lists its flags.
const KEEPER_FLAGS: &str = "/keeper/feature_flags";

impl Client {
    /// What this client takes its servers to understand: see
    /// [`ClientBuilder::dialect`](crate::ClientBuilder::dialect).
    pub fn dialect(&self) -> Dialect {
        self.shared().dialect()
    }

    /// The dialect of the ClickHouse Keeper that this client is connected to, for the next client.
    ///
    /// It reads the flags of that server from `/keeper/feature_flags`. The client must see the root
    /// of the server, so its connect string has no chroot.
    ///
    /// ```
    /// # async fn f() -> Result<(), zk_client::Error> {
    /// use zk_client::{Client, Dialect};
    ///
    /// let asking = Client::builder().dialect(Dialect::clickhouse_keeper());
    /// let dialect = asking.connect("keeper1:9181").await?.keeper_dialect().await?;
    /// let client = Client::builder().dialect(dialect).connect("keeper1:9181").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`is_no_node`](Error::is_no_node): the server is no Keeper, or older than its flags. The
    /// other errors of [`get_data`](Self::get_data).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn keeper_dialect(&self) -> Result<Dialect, Error> {
        let flags = self.get_data(KEEPER_FLAGS).await?.data;
        Ok(Dialect::with_keeper_flags(&flags))
    }
}
