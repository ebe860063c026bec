//! What `zk lock`, `zk elect` and `zk sem` share: a session, and a command that runs while
//! something is held in it.

use std::future::Future;
use std::ops::Deref;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use zk_client::Client;
use zk_recipes::{Error, Guard, Hold, Permit, Release, Timeout};

use crate::arguments::{Run, Wait};
use crate::connection::Connection;
use crate::failure::{Failure, by_signal, status, warn};
use crate::run::group::Group;
use crate::run::signals::Signals;
use crate::run::supervise::{Held, Outcome, Rule, run as supervise};
use crate::run::uptime;

/// Something that is held until it is released.
pub(crate) trait Holding: Held {
    /// The node that stands for it, and its token.
    fn hold(&self) -> Option<&Hold>;

    fn release(&self) -> impl Future<Output = Result<Release, Error>>;
}

impl<K> Holding for Guard<K> {
    fn hold(&self) -> Option<&Hold> {
        Some(self.deref())
    }

    async fn release(&self) -> Result<Release, Error> {
        self.release().await
    }
}

impl Holding for Permit {
    fn hold(&self) -> Option<&Hold> {
        self.leases().first()
    }

    async fn release(&self) -> Result<Release, Error> {
        self.release().await
    }
}

/// A command that is to run while something at a path is held.
pub(crate) struct Job<'a> {
    pub(crate) path: &'a str,
    pub(crate) run: &'a Run,
    pub(crate) client: &'a Client,
    pub(crate) signals: &'a mut Signals,
}

impl Job<'_> {
    /// When the command is stopped.
    pub(crate) fn rule(&self) -> Result<Rule, Failure> {
        let Run { signal, kill_after, revocable, .. } = self.run;
        Rule::new(self.client, *signal, *kill_after, *revocable)
    }

    /// Runs the command while `held` is held, and releases that if it is not lost.
    pub(crate) async fn run(
        &mut self,
        held: &impl Holding,
        group: Group,
        rule: &Rule,
    ) -> Result<Outcome, Failure> {
        let mut command = self.run.command();
        if let Some(hold) = held.hold() {
            describe(&mut command, self.path, hold);
        }
        let outcome = supervise(held, group, &mut command, rule, self.signals).await?;
        if outcome == Outcome::Lost {
            return Ok(outcome);
        }
        // While no server is reached, this takes until the session is over.
        let time = self.client.session_timeout();
        match tokio::time::timeout(time, held.release()).await {
            // The command had ended by itself while it was surely held.
            Ok(Ok(Release::AlreadyLost)) => warn(&format!("{} was lost afterwards", self.path)),
            Ok(Ok(_)) => {}
            _ => warn(&format!("the release of {} is not confirmed", self.path)),
        }
        Ok(outcome)
    }

    /// Waits for something, unless a signal ends that.
    pub(crate) async fn wait_for<T>(&mut self, wanted: impl Future<Output = T>) -> Result<T, u8> {
        or_signal(self.signals, wanted).await
    }
}

/// Waits for something, unless a signal ends that: then the exit status.
pub(crate) async fn or_signal<T>(
    signals: &mut Signals,
    wanted: impl Future<Output = T>,
) -> Result<T, u8> {
    tokio::select! {
        result = wanted => Ok(result),
        signal = signals.end() => Err(by_signal(Signal::as_raw(signal))),
    }
}

/// Acquires what a command needs, runs the command once, and returns the exit status. `None` if the
/// session has ended before the command was started.
pub(crate) async fn once<H: Holding>(
    mut job: Job<'_>,
    wait: &Wait,
    acquire: impl Future<Output = Result<Option<H>, Error>>,
) -> Result<Option<u8>, Failure> {
    let rule = job.rule()?;
    let mut group = watched().await?;
    let held = match job.wait_for(group.reaping(acquire)).await {
        Ok(held) => held,
        Err(status) => return Ok(Some(status)),
    };
    let path = job.path;
    let held = match held {
        Ok(held) => held.ok_or_else(|| conflict(path, wait))?,
        Err(error) if error.timeout() == Some(Timeout::Contended) => {
            return Err(conflict(path, wait));
        }
        Err(error) if error.is_session_over() && !wait.once => {
            group.kill().await;
            return Ok(None);
        }
        Err(error) => return Err(Failure::of(path, error)),
    };
    match job.run(&held, group, &rule).await? {
        Outcome::Ended(status) => Ok(Some(status)),
        Outcome::Lost => Err(Failure::new(status::LOST, format!("{path} was lost"))),
        Outcome::AskedBack => Err(Failure::new(status::LOST, format!("{path} was asked back"))),
    }
}

pub(crate) fn conflict(path: &str, wait: &Wait) -> Failure {
    Failure::new(wait.conflict_exit_code, format!("{path} is held by others"))
}

/// The exit status, or `None` if the session has ended before there was one.
pub(crate) type MaybeStatus = Result<Option<u8>, Failure>;

/// Runs `work` in one session after the other, until one has a result. What is left of `limit` is
/// passed to `work`. `None` once that is over.
pub(crate) async fn in_sessions(
    connection: &Connection,
    limit: Option<Duration>,
    mut work: impl AsyncFnMut(&Client, &mut Signals, Option<Duration>) -> MaybeStatus,
) -> MaybeStatus {
    let mut signals = signals()?;
    let builder = connection.builder()?;
    let mut client = match or_signal(&mut signals, connection.open_with(&builder)).await {
        Ok(client) => client?,
        Err(status) => return Ok(Some(status)),
    };
    let end = limit.map(|limit| uptime::now() + limit);
    loop {
        let left = || end.map(|end| end.saturating_sub(uptime::now()));
        let result = work(&client, &mut signals, left()).await;
        client.close().await;
        if !matches!(result, Ok(None)) {
            return result;
        }
        warn("the session has ended, and the next one is opened");
        let opening = async {
            let opening = connection.open_again(&builder);
            match left() {
                Some(left) => tokio::time::timeout(left, opening).await.ok(),
                None => Some(opening.await),
            }
        };
        client = match or_signal(&mut signals, opening).await {
            Ok(Some(client)) => client?,
            Ok(None) => return Ok(None),
            Err(status) => return Ok(Some(status)),
        };
    }
}

/// A group for a command.
pub(crate) async fn watched() -> Result<Group, Failure> {
    Group::open().await.map_err(|error| Failure::of("cannot watch the command", error))
}

/// The signals that are passed on.
fn signals() -> Result<Signals, Failure> {
    Signals::new().map_err(|error| Failure::of("cannot catch signals", error))
}

/// Sets the environment by which a command knows what it holds.
fn describe(command: &mut Command, path: &str, hold: &Hold) {
    let now = uptime::now();
    let deadline = now + hold.remaining();
    command
        .env("ZK_LOCK_PATH", path)
        .env("ZK_LOCK_NODE", hold.node())
        .env("ZK_LOCK_TOKEN", hold.token().to_string())
        .env("ZK_LOCK_DEADLINE", format!("{:.3}", deadline.as_secs_f64()));
}
