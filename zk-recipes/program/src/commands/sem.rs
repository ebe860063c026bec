//! `zk sem`: runs a command while permits of a semaphore are held.

use std::time::Duration;

use zk_client::Client;
use zk_recipes::{Error, Options, Permit, Semaphore};

use crate::arguments::Sem as Arguments;
use crate::commands::holding::{Job, in_sessions, limit, once, out_of_time};
use crate::failure::Failure;

pub(crate) async fn run(arguments: Arguments) -> Result<u8, Failure> {
    let Arguments { path, wait, run, connection, .. } = &arguments;
    let status = in_sessions(connection, limit(wait, connection), async |client, signals, left| {
        let acquire = acquire(&arguments, client, left);
        once(Job { path, run, client, signals, is_semaphore: true }, wait, acquire).await
    });
    status.await?.ok_or_else(|| out_of_time(path, wait))
}

/// Acquires permits in one of three ways. `None` if others hold too many of them.
async fn acquire(
    arguments: &Arguments,
    client: &Client,
    left: Option<Duration>,
) -> Result<Option<Permit>, Error> {
    let options = Options::new().data(arguments.run.data());
    let Arguments { path, permits, .. } = arguments;
    let semaphore = Semaphore::with_options(client, path, *permits, options)?;
    let take = arguments.take;
    match (arguments.wait.once, left) {
        (true, _) => semaphore.try_acquire_many(take).await,
        (false, Some(time)) => semaphore.acquire_many_within(take, time).await.map(Some),
        (false, None) => semaphore.acquire_many(take).await.map(Some),
    }
}
