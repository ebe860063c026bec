//! The servers of an ensemble that grows, shrinks or moves while clients are connected to it.

use crate::config::ConnectString;
use crate::error::{Cause, Error};
use crate::handles::client::Client;

impl Client {
    /// Replaces the list of servers that this client and all that share its session connect to.
    ///
    /// `servers` is a connect string without a chroot.
    ///
    /// The call may move the client to another server, so that the load spreads evenly if all
    /// clients get the same list (as in ZOOKEEPER-1355). A client whose server is gone always
    /// moves. A client whose server stays moves only if servers were added, and then with the
    /// probability that leaves each server its share: from 3 servers to 5, two of five clients
    /// move. Servers are compared as they are written, by name and port. The same list again
    /// changes nothing.
    ///
    /// A move costs no request its reply. The client stops sending, waits for the replies in
    /// flight, and then connects to another server; calls made meanwhile wait for that connection.
    /// For these few round trips the session is
    /// [`Disconnected`](crate::SessionState::Disconnected). The client waits for a third of the
    /// session timeout at most; a request that has no reply by then is
    /// [lost](crate::ErrorKind::ConnectionLoss). A client that is being closed stays where it is.
    ///
    /// Later sessions of a [`SessionKeeper`](crate::SessionKeeper) use these servers, too.
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
            return Err(Cause::ConnectString { string, rule }.into());
        }
        self.shared().set_servers(hosts);
        Ok(())
    }
}
