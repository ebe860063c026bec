//! Work that goes on after what a lost connection has ended.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;
use tracing::debug;
use zk_client::Transient;

use crate::trace::COORDINATION;

/// How long a server is left alone that had too many requests.
const PAUSE: Duration = Duration::from_secs(1);

/// Repeats `work` while it fails for a reason that may have passed at the next attempt.
///
/// These are the [transient](crate::Error::is_transient) errors: the connection broke, the server
/// had too many requests, or a lock was lost while the session lives. The end of the session is not
/// one of them, so this belongs inside of [`SessionKeeper::run_each`]:
///
/// ```
/// # async fn f(keeper: zk_client::SessionKeeper) -> Result<(), zk_recipes::Error> {
/// use zk_client::Client;
/// use zk_recipes::{Lock, retry};
///
/// async fn work(client: &Client) -> Result<(), zk_recipes::Error> {
///     let guard = Lock::new(client, "/locks/invoices")?.acquire().await?;
///     guard.run(async { /* ... */ }).await?;
///     guard.release().await?;
///     Ok(())
/// }
///
/// keeper.run_each(|client| async move { retry(|| work(&client)).await }).await
/// # }
/// ```
///
/// The error may be a type of your own: [`Transient::of`] finds out whether it comes from
/// ZooKeeper and may pass. Any other error ends the work. A type that has no source, or is none of
/// `std::error::Error`, such as `anyhow::Error`, needs [`retry_if`].
///
/// Whatever `work` did before it failed, it does again: a write may have been
/// [carried out](crate::Error::outcome) although its reply was lost. So let the work look at what
/// is there before it writes, or check a version. There is no pause between attempts, because the
/// requests of the next one wait for the connection; except one of a second for a server that had
/// too many requests.
///
/// [`SessionKeeper::run_each`]: zk_client::SessionKeeper::run_each
///
/// # Errors
///
/// The first error of `work` that is not transient.
///
/// # Cancel safety
///
/// Dropping the future drops the attempt.
pub async fn retry<T, E, W>(work: impl FnMut() -> W) -> Result<T, E>
where
    W: Future<Output = Result<T, E>>,
    E: Error + 'static,
{
    retry_if(|error: &E| Transient::of(error), work).await
}

/// Repeats `work` as [`retry`] does, while `transient` says that its error may pass.
///
/// For errors that are not of `std::error::Error`, and for what else may pass in an application:
///
/// ```
/// use zk_client::Transient;
/// use zk_recipes::{Barrier, retry_if};
///
/// type AnyError = Box<dyn std::error::Error + Send + Sync>; // or `anyhow::Error`
///
/// # async fn f(client: zk_client::Client) -> Result<(), AnyError> {
///
/// let barrier = Barrier::new(&client, "/barriers/migration")?;
/// let work = || async {
///     barrier.wait().await?;
///     Ok(std::fs::read_to_string("schema.sql")?)
/// };
/// let schema = retry_if(|error: &AnyError| Transient::of(error.as_ref()), work).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The first error of `work` for which `transient` returns `None`.
///
/// # Cancel safety
///
/// Dropping the future drops the attempt.
pub async fn retry_if<T, E, W>(
    mut transient: impl FnMut(&E) -> Option<Transient>,
    mut work: impl FnMut() -> W,
) -> Result<T, E>
where
    W: Future<Output = Result<T, E>>,
    E: fmt::Display,
{
    loop {
        let error = match work().await {
            Err(error) => error,
            done => return done,
        };
        let Some(mark) = transient(&error) else { return Err(error) };
        debug!(target: COORDINATION, %error, "trying again");
        drop(error);
        if mark == Transient::Overload && Handle::try_current().is_ok() {
            sleep(PAUSE).await;
        }
    }
}
