//! Work that goes on after what a lost connection has ended.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;
use tracing::debug;

use crate::error::{Error, is_shed};
use crate::trace::COORDINATION;

/// How long a server is left alone that had too many requests.
const PAUSE: Duration = Duration::from_secs(1);

/// Repeats `work` while it fails for a reason that may have passed at the next attempt.
///
/// These are the [transient](Error::is_transient) errors: the connection broke, the server had too
/// many requests, or a lock was lost while the session lives. The end of the session is not one of
/// them, so this belongs inside of [`SessionKeeper::run_each`]:
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
/// Whatever `work` did before it failed, it does again: a write may have been
/// [carried out](Error::outcome) although its reply was lost. So let the work look at what is there
/// before it writes, or check a version. There is no pause between attempts, because the requests
/// of the next one wait for the connection; except one of a second for a server that had too many
/// requests.
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
pub async fn retry<T, W>(mut work: impl FnMut() -> W) -> Result<T, Error>
where
    W: Future<Output = Result<T, Error>>,
{
    loop {
        match work().await {
            Err(error) if error.is_transient() => {
                debug!(target: COORDINATION, %error, "trying again");
                if error.client().is_some_and(is_shed) && Handle::try_current().is_ok() {
                    sleep(PAUSE).await;
                }
            }
            done => return done,
        }
    }
}
