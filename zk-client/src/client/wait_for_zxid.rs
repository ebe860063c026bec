//! The zxid as a token of what was seen: carried from one client to another, it says how far that
//! one must have come before it reads.
//!
//! A server never answers from an older state than it did before, and none takes a session that has
//! seen more than itself; so to have seen a zxid once is enough for good. Knows nothing of
//! connections: a sync is sent like any request.

use std::future::Future;
use std::time::Duration;

use zk_proto::{ErrorCode, Zxid};

use crate::client::handle::Client;
use crate::error::{Error, Fault};
use crate::handles::reply::Reply;

/// Between two questions to a server that is behind: at first about what it takes a follower to
/// hear of a commit, and in the end no burden to a server that is in trouble.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

impl Client {
    /// The highest zxid that an answer has told this session of: it sees everything up to there
    /// from now on, on whichever server. 0 before the first answer.
    ///
    /// It is a token for others: a client that is [`at_least`](Self::at_least) there sees what this
    /// one has seen and written.
    pub fn last_zxid(&self) -> Zxid {
        self.shared().look(|core| core.last_zxid())
    }

    /// Waits until this client sees everything up to `zxid`: reads that are called then tell of it,
    /// or of something later. With the zxid of somebody's write, from
    /// [`with_zxid`](Reply::with_zxid) or a [`Stat`](crate::Stat), that write can be read here.
    ///
    /// ```
    /// # use zk_client::{Client, Error};
    /// # async fn f(writer: &Client, reader: &Client) -> Result<(), Error> {
    /// let (_, zxid) = writer.set_data("/config", b"2", None).with_zxid().await?;
    /// // Sent along with a message to another process, say.
    /// reader.at_least(zxid).await?;
    /// assert_eq!(reader.get_data("/config").await?.data, "2");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// None if this session has seen so much already, else a [`sync`](Self::sync), and that again
    /// in growing pauses while the server remains behind, on the next connection if need be.
    ///
    /// # What it promises, and what not
    ///
    /// The server's answer to the sync tells how far it has come, so nothing depends on whether the
    /// sync was worth something: the answer of a leader that was deposed (ZOOKEEPER-1675) has too
    /// low a zxid, and is asked for again. Once the zxid is reached, it stays so: a reconnect tells
    /// the highest zxid that was seen, and servers that have not come so far refuse the session.
    ///
    /// It does not promise the latest state: others may have written since. It says nothing of
    /// watch events that are still to come. And the zxid must be of the same ensemble: those of
    /// another one, or of one that was set up anew, mean nothing here.
    ///
    /// # Errors
    ///
    /// [`Behind`](crate::ErrorKind::Behind) if no server that was reached has come so far within
    /// one session timeout; the end of the session; a sync that the client's
    /// [limits](crate::Limits) refuse. It never fails for the loss of a connection alone.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future. The first sync is sent in any case, in call order.
    pub fn at_least(&self, zxid: Zxid) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let sync = (self.last_zxid() < zxid).then(|| self.sync("/"));
        let client = self.clone();
        async move {
            let Some(sync) = sync else {
                return Ok(());
            };
            let timeout = client.session_timeout();
            let reached = tokio::time::timeout(timeout, client.catch_up(zxid, sync)).await;
            reached.unwrap_or_else(|_| {
                Err(Fault::Behind { wanted: zxid, seen: client.last_zxid(), timeout }.into())
            })
        }
    }

    async fn catch_up(&self, zxid: Zxid, mut sync: Reply<()>) -> Result<(), Error> {
        let (mut pause, longest) = PAUSES;
        loop {
            let said = sync.await;
            if self.last_zxid() >= zxid {
                return Ok(());
            }
            if let Err(error) = said
                && !passes(&error)
            {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = longest.min(pause * 2);
            sync = self.sync("/");
        }
    }
}

/// Whether a sync that failed like this may succeed later, or on the next server.
fn passes(error: &Error) -> bool {
    let later = [ErrorCode::THROTTLED_OP, ErrorCode::NOT_READ_ONLY];
    error.is_connection_loss() || error.code().is_some_and(|code| later.contains(&code))
}
