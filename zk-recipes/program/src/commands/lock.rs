//! `zk lock`: runs a command while a lock is held.

use std::future::Future;
use std::time::Duration;

use zk_client::Client;
use zk_recipes::{Error, Guard, Lock, LockFolder, Options, RwLock};

use crate::arguments::Lock as Arguments;
use crate::commands::holding::{Job, in_sessions, limit, once, out_of_time};
use crate::failure::Failure;
use crate::run::signals::Signals;

pub(crate) async fn run(arguments: Arguments) -> Result<u8, Failure> {
    let Arguments { path, wait, connection, .. } = &arguments;
    let status = in_sessions(connection, limit(wait, connection), async |client, signals, left| {
        with_client(&arguments, client, signals, left).await
    });
    status.await?.ok_or_else(|| out_of_time(path, wait))
}

async fn with_client(
    arguments: &Arguments,
    client: &Client,
    signals: &mut Signals,
    left: Option<Duration>,
) -> Result<Option<u8>, Failure> {
    let path = &arguments.path;
    let job = Job { path, run: &arguments.run, client, signals, is_semaphore: false };
    let options = Options::new().data(arguments.run.data()).strict_foreign(true);
    let failed = |error| Failure::of(path, error);
    if arguments.shared || arguments.write {
        let lock = RwLock::with_options(client, path, options).map_err(failed)?;
        if arguments.shared {
            let acquire = acquire(arguments, left, &lock, lock.read(), lock.try_read());
            once(job, &arguments.wait, acquire).await
        } else {
            let acquire = acquire(arguments, left, &lock, lock.write(), lock.try_write());
            once(job, &arguments.wait, acquire).await
        }
    } else {
        let lock = Lock::with_options(client, path, options).map_err(failed)?;
        let acquire = acquire(arguments, left, &lock, lock.acquire(), lock.try_acquire());
        once(job, &arguments.wait, acquire).await
    }
}

/// Acquires the lock in one of three ways. `None` if others hold it.
async fn acquire<K>(
    arguments: &Arguments,
    left: Option<Duration>,
    lock: &LockFolder,
    acquire: impl Future<Output = Result<Guard<K>, Error>>,
    try_acquire: impl Future<Output = Result<Option<Guard<K>>, Error>>,
) -> Result<Option<Guard<K>>, Error> {
    match (arguments.wait.once, left) {
        (true, _) => lock.within(arguments.connection.timeout(), try_acquire).await,
        (false, Some(time)) => lock.within(time, acquire).await.map(Some),
        (false, None) => acquire.await.map(Some),
    }
}
