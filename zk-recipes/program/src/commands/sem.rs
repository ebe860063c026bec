//! `zk sem`: runs a command while permits of a semaphore are held.

use zk_client::Client;
use zk_recipes::{Error, Permit, Semaphore};

use crate::arguments::Sem as Arguments;
use crate::commands::holding::{Job, once, or_signal, signals};
use crate::failure::Failure;

pub(crate) async fn run(arguments: Arguments) -> Result<u8, Failure> {
    let mut signals = signals()?;
    let client = match or_signal(&mut signals, arguments.connection.open()).await {
        Ok(client) => client?,
        Err(status) => return Ok(status),
    };
    let path = &arguments.path;
    let acquire = acquire(&arguments, &client);
    let job = Job { path, run: &arguments.run, client: &client, signals: &mut signals };
    let result = once(job, &arguments.wait, acquire).await;
    client.close().await;
    result
}

/// Acquires permits in one of three ways. `None` if others hold too many of them.
async fn acquire(arguments: &Arguments, client: &Client) -> Result<Option<Permit>, Error> {
    let semaphore = Semaphore::new(client, &arguments.path, arguments.permits)?;
    let take = arguments.take;
    match (arguments.wait.once, arguments.wait.wait) {
        (true, _) => semaphore.try_acquire_many(take).await,
        (false, Some(time)) => semaphore.acquire_many_within(take, time).await.map(Some),
        (false, None) => semaphore.acquire_many(take).await.map(Some),
    }
}
