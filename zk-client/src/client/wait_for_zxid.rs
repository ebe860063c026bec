//! The zxid as a token of what was seen. One client passes it to another, which waits until it has
//! caught up to there before it reads.
//!
//! A server never answers from an older state than it did before, and no server accepts a session
//! that has seen more than the server itself. So a session that has seen a zxid once never reads an
//! older state. This module knows nothing of connections: a sync is sent like any request.

use std::future::Future;
use std::time::Duration;

use zk_proto::{ErrorCode, Zxid};

use crate::error::{Cause, Error};
use crate::handles::client::{Client, Reply};

/// The shortest and the longest pause between two syncs to a server that is behind. The first is
/// about the time in which a follower learns of a commit. The last is no burden to a server in
/// trouble.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

impl Client {
    /// The highest zxid in any reply to this session so far; 0 before the first reply.
    ///
    /// From now on the session sees everything up to this zxid, on every server. Another client
    /// that waits for it with [`wait_for_zxid`](Self::wait_for_zxid) sees everything that this one
    /// has seen and written.
    pub fn last_zxid(&self) -> Zxid {
        self.shared().read(|core| core.last_zxid())
    }

    /// Waits until this client sees everything up to `zxid`.
    ///
    /// Reads called afterwards return that state or a later one. With the zxid of another client's
    /// write, from [`with_zxid`](Reply::with_zxid) or a [`Stat`](crate::Stat), that write can be
    /// read here.
    ///
    /// ```
    /// # use zk_client::{Client, Error};
    /// # async fn f(writer: &Client, reader: &Client) -> Result<(), Error> {
    /// let (_, zxid) = writer.set_data("/config", b"2", None).with_zxid().await?;
    /// // Sent along with a message to another process, say.
    /// reader.wait_for_zxid(zxid).await?;
    /// assert_eq!(reader.get_data("/config").await?.data, "2");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// None if this session has seen that zxid already, else a [`sync`](Self::sync). The sync is
    /// repeated in growing pauses while the server is behind, on the next connection if need be.
    ///
    /// # What it promises, and what not
    ///
    /// The zxid in the reply to the sync shows how far the server has come, so the guarantee does
    /// not rest on the sync itself: a leader that was deposed (ZOOKEEPER-1675) replies with too low
    /// a zxid, and is asked again. Once the zxid is reached, the session stays there: it reports
    /// the highest zxid that it saw when it reconnects, and servers that are behind it refuse the
    /// session.
    ///
    /// The state need not be the latest: others may have written since. Watch events may still be
    /// to come. The zxid must be of the same ensemble: one of another ensemble, or from before this
    /// ensemble was set up anew, means nothing here.
    ///
    /// # Errors
    ///
    /// [`Behind`](crate::ErrorKind::Behind) if no server that was reached has come so far within
    /// one session timeout; the end of the session; a sync that the client's
    /// [limits](crate::Limits) refuse. It never fails only because a connection was lost.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future. The first sync is sent in any case, in call order.
    ///
    /// # Panics
    ///
    /// When it is awaited outside of a tokio runtime with time enabled, and has to wait.
    pub fn wait_for_zxid(
        &self,
        zxid: Zxid,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let sync = (self.last_zxid() < zxid).then(|| self.sync("/"));
        let client = self.clone();
        async move {
            let Some(sync) = sync else {
                return Ok(());
            };
            let timeout = client.session_timeout();
            let reached = tokio::time::timeout(timeout, client.catch_up(zxid, sync)).await;
            reached.unwrap_or_else(|_| match client.last_zxid() {
                // The reply to another request has shown it.
                seen if seen >= zxid => Ok(()),
                seen => Err(Cause::Behind { wanted: zxid, seen, timeout }.into()),
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

/// True if a sync that failed like this may succeed later, or on the next server.
fn passes(error: &Error) -> bool {
    let later = [ErrorCode::THROTTLED_OP, ErrorCode::NOT_READ_ONLY];
    error.is_connection_loss() || error.code().is_some_and(|code| later.contains(&code))
}
