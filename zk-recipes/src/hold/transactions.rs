//! Transactions that are carried out only while the lock is held, whatever the holder believes.
//!
//! The first operation, or the last one of a release, fails if the node of the holder is gone.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use zk_client::{Committed, Error as ClientError, Marker, Op, Operations, Outcome, Reply};

use crate::error::{Cause, Error};
use crate::hold::Hold;
use crate::hold::status::HoldStatus;
use crate::steady::retries::was_created_unseen;

impl Hold {
    /// Asks the ensemble whether the lock is ours.
    ///
    /// This costs one round trip and a write. `Ok` means that the lock was ours at a moment between
    /// call and return.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if it is not ours. Other errors leave that open.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn verify(&self) -> Result<(), Error> {
        // It changes nothing, so nothing is open about it.
        self.fenced(()).await.map_err(|error| self.ensure_held().err().unwrap_or(error))
    }

    /// Carries out `ops` in one transaction, only if the lock is still ours at that moment.
    ///
    /// The check is exact, whatever clocks and networks do. It needs the permission to read our
    /// node. If another task that shares the guard releases it at the same time, the transaction is
    /// sent before the release, or not at all.
    ///
    /// ```
    /// # async fn f(guard: &zk_recipes::Guard) -> Result<(), zk_recipes::Error> {
    /// use zk_client::Op;
    ///
    /// let last = guard.fenced(Op::set_data("/invoices/last", b"42", None)).await?;
    /// println!("written for the {}th time", last.version);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost): the lock was lost, so nothing was carried out. If that was
    /// known before, nothing was sent either. A client's error tells which operation was refused
    /// ([`failed_op`](zk_client::Error::failed_op): 0 is the check of the lock, and the first of
    /// `ops` is 1), or that the outcome is unknown.
    ///
    /// # Cancel safety
    ///
    /// The transaction is on its way when this returns, whether or not the future is awaited.
    pub fn fenced<O: Operations>(&self, ops: O) -> Fenced<O::Results> {
        let status = Arc::clone(&self.status);
        let ops = (Op::check(&status.path, None), ops);
        Fenced { reply: self.send_if_held(|| status.queue.client().multi(ops)), status }
    }

    /// As [`fenced`](Self::fenced), but finds out whether the transaction was carried out if the
    /// connection breaks before the reply.
    ///
    /// ```
    /// # use zk_client::Client;
    /// # async fn f(client: &Client, guard: &zk_recipes::Guard) -> Result<(), zk_recipes::Error> {
    /// use zk_client::{CreateOptions, Op};
    ///
    /// let path = format!("/invoices/markers/{:032x}-", client.unique());
    /// let options = CreateOptions::ephemeral().sequential();
    /// let node = client.create_owned(&path, b"", &options).await?;
    /// let mut marker = client.resolving().marker(node);
    ///
    /// let options = CreateOptions::persistent().sequential();
    /// guard.fenced_resolving(&mut marker, Op::create("/invoices/paid-", b"42", &options)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The [`Marker`] must be one of the client that holds the lock, so that the session that ends
    /// the one ends the other.
    ///
    /// Tasks that share a guard of a two-level lock release it only after this has returned: a
    /// transaction that was lost is sent again, and the next owner of the process has the same
    /// node.
    ///
    /// # Errors
    ///
    /// Those of [`fenced`](Self::fenced). The outcome is unknown only if the session ends, or if
    /// the marker shows nothing for a session timeout: see [`Marker::multi`].
    ///
    /// # Cancel safety
    ///
    /// That of [`Marker::multi`].
    pub async fn fenced_resolving<O>(
        &self,
        marker: &mut Marker,
        ops: O,
    ) -> Result<Committed<O::Results>, Error>
    where
        O: Operations + Send + Sync,
        O::Results: Send,
    {
        let status = &self.status;
        let mut done = pin!(marker.multi((Op::check(&status.path, None), ops)));
        // The first poll sends the transaction.
        let sent = poll_fn(|cx| Poll::Ready(self.send_if_held(|| done.as_mut().poll(cx)))).await;
        let done = match sent? {
            Poll::Ready(done) => done,
            Poll::Pending => done.await,
        };
        done.map(|done| done.map(|((), results)| results))
            .map_err(|error| status.transaction_error(0, error))
    }

    /// Carries out `ops` and releases the node, in one transaction. If the server refuses, nothing
    /// has happened, and the lock is held as before.
    pub(crate) async fn let_go_with<O: Operations>(&self, ops: O) -> Result<O::Results, Error> {
        self.ensure_held()?;
        let fence = ops.count();
        let ops = (ops, Op::delete(&self.status.path, None));
        let (results, ()) = self.ends_by(fence, self.status.queue.client().multi(ops)).await?;
        Ok(results)
    }

    /// Waits for a transaction that deletes our node, and whose operation `fence` fails if that is
    /// gone. Only if the server refuses the transaction is the node still ours.
    pub(crate) async fn ends_by<T>(
        &self,
        fence: usize,
        reply: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, Error> {
        match reply.await {
            Ok(done) => {
                // The lease may have heard of this delete.
                self.status.note_end(|| None);
                if let Some(node) = self.take_node() {
                    node.disown();
                }
                Ok(done)
            }
            Err(error) if error.outcome() == Outcome::Unknown => {
                // The node may be gone. If it is not, dropping it here deletes it.
                drop(self.take_node());
                Err(Cause::Unconfirmed(error).into())
            }
            Err(error) if was_created_unseen(&error) => {
                drop(self.take_node());
                Err(self.status.mark_deleted())
            }
            Err(error) => Err(self.status.transaction_error(fence, error)),
        }
    }
}

/// The reply to a transaction under a lock, as a future: see [`Hold::fenced`].
#[must_use = "the transaction happens in any case, but only awaiting it tells how it went"]
pub struct Fenced<R> {
    /// An error if the lock was known to be lost. Nothing was sent then.
    reply: Result<Reply<((), R)>, Error>,
    status: Arc<HoldStatus>,
}

impl<R> Future for Fenced<R> {
    type Output = Result<R, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { reply, status } = self.get_mut();
        let reply = reply.as_mut().map_err(|lost| lost.clone())?;
        let done = ready!(Pin::new(reply).poll(cx)).map(|((), results)| results);
        Poll::Ready(done.map_err(|error| status.transaction_error(0, error)))
    }
}

impl<R> fmt::Debug for Fenced<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fenced").field(&self.reply).finish()
    }
}

/// The error of a transaction with a release in it that was not carried out.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotReleased<G> {
    /// The guard, if the lock is still held: nothing has happened then.
    ///
    /// Without it the lock is lost, or the outcome is unknown and the client goes on releasing the
    /// lock.
    pub guard: Option<G>,
    /// Why the transaction was not carried out.
    pub error: Error,
}

impl<G> fmt::Display for NotReleased<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<G: fmt::Debug> std::error::Error for NotReleased<G> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl<G> From<NotReleased<G>> for Error {
    fn from(refused: NotReleased<G>) -> Self {
        refused.error
    }
}
