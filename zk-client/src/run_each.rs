//! Work that is done anew in each session of a keeper.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::error::Error;
use crate::handles::client::Client;
use crate::keeper::{KeptSession, SessionKeeper};

impl SessionKeeper {
    /// Runs `work` in each session, until it is done or fails while its session lives.
    ///
    /// The closure is called with the client of the current session. When that session ends, the
    /// future that the closure returned is dropped where it stands, and the closure is called again
    /// in the next session. So locks and ephemeral nodes are made inside the closure, and what must
    /// outlive a session is kept outside.
    ///
    /// ```
    /// # async fn f(keeper: zk_client::SessionKeeper) -> Result<(), zk_client::Error> {
    /// use zk_client::CreateOptions;
    ///
    /// let registered = keeper.run_each(|client| async move {
    ///     let options = CreateOptions::ephemeral();
    ///     // If a reply is lost, `resolving` looks for the node. A session survives such a loss.
    ///     while let Err(error) = client.resolving().create("/members/me", b"me", &options).await {
    ///         if !error.is_transient() {
    ///             return Err(error);
    ///         }
    ///     }
    ///     serve().await; // dropped when the session ends
    ///     Ok(())
    /// });
    /// tokio::select! {
    ///     done = registered => done?,
    ///     _ = stopped() => {} // dropping the future drops the work
    /// }
    /// keeper.close().await; // releases what the session had
    /// # Ok(())
    /// # }
    /// # async fn serve() {}
    /// # async fn stopped() {}
    /// ```
    ///
    /// A task of its own needs a clone of the keeper, and an async closure borrows what it uses:
    ///
    /// ```
    /// # use zk_client::Client;
    /// # async fn register(client: &Client, name: &str) -> Result<(), zk_client::Error> { Ok(()) }
    /// # fn f(keeper: &zk_client::SessionKeeper, name: String) {
    /// let keeper = keeper.clone();
    /// tokio::spawn(async move {
    ///     keeper.run_each(async |client| register(&client, &name).await).await
    /// });
    /// # }
    /// ```
    ///
    /// Between sessions that end soon after one another the keeper [waits](SessionKeeper), so work
    /// that fails at once with each session is not repeated in a tight loop.
    ///
    /// # Errors
    ///
    /// The error of `work`, if its session lives. If the client is cut off when the work fails,
    /// this waits until it is known whether the session is over: a connection that is lost may be
    /// the first sign of that. If the session lives, a lost connection is an error like any other.
    ///
    /// [`NeverAnswered`](crate::ErrorKind::NeverAnswered): the third session in a row has ended
    /// with a connection on which the server left the same operation without a reply.
    ///
    /// The error that the keeper is over, [`AuthFailed`](crate::ErrorKind::AuthFailed) or
    /// [`Closed`](crate::ErrorKind::Closed), converted into the error of `work`. The work may be
    /// told first, with an error of its own call: [`is_session_over`](Error::is_session_over) is
    /// true of both.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, and leaves the keeper and its session as they are.
    pub async fn run_each<T, E, W>(&self, mut work: impl FnMut(Client) -> W) -> Result<T, E>
    where
        W: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        let mut sessions = self.sessions();
        loop {
            let KeptSession { client, .. } = sessions.next().await?;
            let mut states = client.states();
            let working = work(client.clone());
            let done = {
                let mut working = pin!(working);
                // An error means that the client is gone, and its session with it.
                let mut ended = pin!(states.wait_for(|state| state.ended().is_some()));
                poll_fn(|cx| match working.as_mut().poll(cx) {
                    Poll::Ready(done) => Poll::Ready(Some(done)),
                    Poll::Pending => ended.as_mut().poll(cx).map(|_| None),
                })
                .await
            };
            match done {
                Some(Err(error)) if !is_over(&client).await => return Err(error),
                Some(Ok(done)) => return Ok(done),
                _ => {}
            }
            // The next session would end on this request, too.
            if let Some((op, failure)) = client.shared().read(|core| core.given_up()) {
                return Err(Error::failed(op, "a node", failure).into());
            }
        }
    }
}

/// True if the client's session is over. While it is cut off, waits until that is known.
///
/// This asks the session itself: what [`Client::states`] says comes behind the errors of all
/// requests that the end has failed.
async fn is_over(client: &Client) -> bool {
    let mut states = client.states();
    loop {
        states.mark_unchanged();
        let (state, ended) = client.shared().read(|core| (core.state(), core.ended()));
        if ended.is_some() || state.is_connected() {
            return ended.is_some();
        }
        // An error means that the client is gone, and its session with it.
        if states.changed().await.is_err() {
            return true;
        }
    }
}
