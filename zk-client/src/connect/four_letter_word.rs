//! The call that asks one server with a four-letter word.
//!
//! It needs the builder's connector and connect timeout, and no session. `net/four_letter` does the
//! exchange.

use crate::config::ConnectString;
use crate::connect::builder::ClientBuilder;
use crate::error::{Attempt, Cause, Error, Hangup};
use crate::net::four_letter;

impl ClientBuilder {
    /// Asks a server with a four-letter word: `srvr`, `mntr`, `ruok`, `conf` and so on.
    ///
    /// No session is opened. The connection is made by the builder's connector, and the server
    /// counts it as one that it has received.
    ///
    /// Servers answer the words that `4lw.commands.whitelist` allows, by default only `srvr` since
    /// ZooKeeper 3.5.3. To all others they answer that the word is not allowed. Bytes that are not
    /// UTF-8 become replacement characters. If the connection is reset behind a part of the answer,
    /// that part is returned.
    ///
    /// ```
    /// # async fn f() -> Result<(), zk_client::Error> {
    /// use zk_client::Client;
    ///
    /// let report = Client::builder().four_letter_word("zk1:2181", "srvr").await?;
    /// println!("{:?}", report.lines().find(|line| line.starts_with("Mode:")));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`](crate::ErrorKind::InvalidSetting) for a word that is not four ASCII
    /// characters, [`InvalidConnectString`](crate::ErrorKind::InvalidConnectString) for anything
    /// but one server, and [`NoServer`](crate::ErrorKind::NoServer) if the connection failed, the
    /// server did not answer within the connect timeout, or it answered with more than 16 MiB.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the connection.
    pub async fn four_letter_word(&self, server: &str, word: &str) -> Result<String, Error> {
        let letters = word.as_bytes().try_into();
        let Some(letters) = letters.ok().filter(|letters: &[u8; 4]| letters.is_ascii()) else {
            return Err(Cause::Setting(format!("{word:?} is no four-letter word")).into());
        };
        let ConnectString { hosts, chroot } = server.parse()?;
        let ([host], None) = (hosts.as_slice(), chroot.as_str()) else {
            let (string, rule) = (server.to_owned(), "a word is for one server".to_owned());
            return Err(Cause::ConnectString { string, rule }.into());
        };
        let mut is_asked = false;
        let asking = four_letter::answer(&*self.connector, host, letters, &mut is_asked);
        let why = match tokio::time::timeout(self.connect_timeout, asking).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error.to_string(),
            Err(_) if is_asked => Hangup::Unanswered(self.connect_timeout).to_string(),
            Err(_) => format!("no connection within {:?}", self.connect_timeout),
        };
        let attempt = Attempt::new(host.to_string(), why);
        Err(Cause::Word { word: word.to_owned(), attempt }.into())
    }
}
