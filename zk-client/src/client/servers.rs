//! The servers of an ensemble that grows, shrinks or moves while clients are connected to it.

use crate::client::handle::Client;
use crate::config::ConnectString;
use crate::error::{Error, Fault};

impl Client {
    /// Replaces the servers that this client and all who share its session know of, written as in
    /// a connect string without a chroot.
    ///
    /// It may move the client to another server, so that the load spreads evenly if all clients are
    /// told the same (as in ZOOKEEPER-1355): a client whose server is gone always moves, one whose
    /// server stays moves only if servers were added, and then with the probability that leaves
    /// each server its share. From 3 servers to 5, two of five clients move. Servers are compared
    /// as they are written, name and port; the same ones again change nothing.
    ///
    /// A move costs no request its answer. Nothing more is sent, what was sent is waited for, and
    /// then the client connects elsewhere; what is called meanwhile waits for that. For these few
    /// round trips the session is [`Disconnected`](crate::SessionState::Disconnected). Only an
    /// answer that is owed for a third of the session timeout is not waited for any longer, and is
    /// [lost](crate::ErrorKind::ConnectionLoss). A client that is being closed stays where it is.
    ///
    /// The sessions to come of a [`SessionKeeper`](crate::SessionKeeper) know of these servers,
    /// too.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// client.set_servers("zk1:2181,zk2:2181,zk3:2181,zk4:2181,zk5:2181")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidConnectString`](crate::ErrorKind::InvalidConnectString); nothing changes then.
    pub fn set_servers(&self, servers: &str) -> Result<(), Error> {
        let ConnectString { hosts, chroot } = servers.parse()?;
        if chroot.as_str().is_some() {
            let string = servers.to_owned();
            let rule = "a chroot stays as it is: only servers are named here".to_owned();
            return Err(Fault::ConnectString { string, rule }.into());
        }
        self.shared().set_servers(hosts);
        Ok(())
    }
}
