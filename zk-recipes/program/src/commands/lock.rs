//! `zk lock`: runs a command while a lock is held.

use std::future::Future;
use std::ops::Deref;
use std::process::Command;
use std::time::Duration;

use zk_client::Client;
use zk_recipes::{Error, Guard, Hold, Lock, LockFolder, Options, Release, RwLock, Timeout};

use crate::arguments::Lock as Arguments;
use crate::failure::{Failure, by_signal, status, warn};
use crate::run::group::Group;
use crate::run::signals::Signals;
use crate::run::supervise::{Outcome, Rule, run as supervise};
use crate::run::uptime;

pub(crate) async fn run(arguments: Arguments) -> Result<u8, Failure> {
    let failed = |error| Failure::of("cannot watch the command", error);
    let mut signals = Signals::new().map_err(failed)?;
    let group = Group::open().await.map_err(failed)?;
    let client = tokio::select! {
        client = arguments.connection.open() => client?,
        signal = signals.end() => return Ok(by_signal(signal.as_raw())),
    };
    let result = with_client(&arguments, &client, group, &mut signals).await;
    client.close().await;
    result
}

async fn with_client(
    arguments: &Arguments,
    client: &Client,
    group: Group,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let path = &arguments.path;
    let options = Options::new().strict_foreign(true);
    let failed = |error| Failure::of(path, error);
    if arguments.shared || arguments.write {
        let lock = RwLock::with_options(client, path, options).map_err(failed)?;
        if arguments.shared {
            let tried = async { lock.try_read().await };
            hold(arguments, client, group, signals, &lock, lock.read(), tried).await
        } else {
            let tried = async { lock.try_write().await };
            hold(arguments, client, group, signals, &lock, lock.write(), tried).await
        }
    } else {
        let lock = Lock::with_options(client, path, options).map_err(failed)?;
        hold(arguments, client, group, signals, &lock, lock.acquire(), lock.try_acquire()).await
    }
}

/// Acquires the lock, runs the command, and releases the lock.
async fn hold<K>(
    arguments: &Arguments,
    client: &Client,
    group: Group,
    signals: &mut Signals,
    folder: &LockFolder,
    acquire: impl Future<Output = Result<Guard<K>, Error>>,
    tried: impl Future<Output = Result<Option<Guard<K>>, Error>>,
) -> Result<u8, Failure> {
    let rule = Rule::new(client, arguments.run.signal, arguments.run.kill_after)?;
    let acquired = async {
        match (arguments.once, arguments.wait) {
            (true, _) => folder.within(arguments.connection.timeout(), tried).await,
            (false, Some(time)) => folder.within(time, acquire).await.map(Some),
            (false, None) => acquire.await.map(Some),
        }
    };
    let guard = tokio::select! {
        guard = acquired => guard,
        signal = signals.end() => {
            group.kill().await;
            return Ok(by_signal(signal.as_raw()));
        }
    };
    let guard = match guard {
        Ok(Some(guard)) => guard,
        Ok(None) => return Err(conflict(arguments)),
        Err(error) if error.timeout() == Some(Timeout::Contended) => {
            return Err(conflict(arguments));
        }
        Err(error) => return Err(Failure::of(&arguments.path, error)),
    };
    let mut command = arguments.run.command();
    describe(&mut command, &arguments.path, &guard);
    let outcome = supervise(guard.deref(), group, &mut command, &rule, signals).await;
    let release = tokio::time::timeout(client.session_timeout(), guard.release()).await;
    match (outcome?, release) {
        (Outcome::Lost, _) | (_, Ok(Ok(Release::AlreadyLost))) => {
            Err(Failure::new(status::LOST, format!("the lock {} was lost", arguments.path)))
        }
        (Outcome::Ended(status), Ok(Ok(_))) => Ok(status),
        (Outcome::Ended(status), _) => {
            warn("the release of the lock is not confirmed; it ends with the session");
            Ok(status)
        }
    }
}

fn conflict(arguments: &Arguments) -> Failure {
    let message = format!("others hold the lock {}", arguments.path);
    Failure::new(arguments.run.conflict_exit_code, message)
}

/// Sets the environment by which a command knows what it holds.
fn describe(command: &mut Command, path: &str, hold: &Hold) {
    let now = uptime::now();
    let deadline: Duration = now + hold.remaining();
    command
        .env("ZK_LOCK_PATH", path)
        .env("ZK_LOCK_NODE", hold.node())
        .env("ZK_LOCK_TOKEN", hold.token().to_string())
        .env("ZK_LOCK_DEADLINE", format!("{:.3}", deadline.as_secs_f64()));
}
