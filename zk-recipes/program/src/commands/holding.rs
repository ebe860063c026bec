//! What `zk lock`, `zk elect` and `zk sem` share: a session, and a command that runs while
//! something is held in it.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::ops::Deref;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use zk_client::{Client, SessionState, StateEvent};
use zk_recipes::{Error, Guard, Hold, Permit, Release, Timeout, retry};

use crate::arguments::{Run, Wait};
use crate::commands::queues;
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
    pub(crate) is_semaphore: bool,
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

/// Acquires what is of one kind, and then looks for a contender of the other kind at its path: of a
/// semaphore where this is a lock or an election, or the reverse. They do not exclude each other.
/// The later one of two that come at the same moment sees the other, whose node is there by then.
pub(crate) async fn acquire_alone<T>(
    client: &Client,
    path: &str,
    is_semaphore: bool,
    acquire: impl Future<Output = Result<T, Error>>,
) -> Result<(T, Option<Failure>), Error> {
    let acquired = acquire.await?;
    // If this fails, what was acquired is lost, or this client may not see the others.
    let other = retry(|| queues::other_kind(client, path, is_semaphore)).await.ok().flatten();
    let refusal = other.map(|node| {
        let kinds = ["a lock or an election", "a semaphore"];
        let [own, other] = if is_semaphore { [kinds[1], kinds[0]] } else { kinds };
        let why = format!("{own} does not exclude {other}, which is in use here: {node}");
        Failure::of(path, why)
    });
    Ok((acquired, refusal))
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
    let acquire = acquire_alone(job.client, job.path, job.is_semaphore, acquire);
    let held = match job.wait_for(group.reaping(acquire)).await {
        Ok(held) => held,
        Err(status) => return Ok(Some(status)),
    };
    let path = job.path;
    let held = match held {
        Ok((None, _)) => return Err(conflict(path, wait)),
        Ok((Some(_), Some(refusal))) => return Err(refusal),
        Ok((Some(held), None)) => held,
        Err(error) if error.timeout() == Some(Timeout::Contended) => {
            return Err(conflict(path, wait));
        }
        Err(error) if error.is_session_over() => {
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

fn conflict(path: &str, wait: &Wait) -> Failure {
    Failure::new(wait.conflict_exit_code, format!("{path} is held by others"))
}

/// Does `work`, and tells meanwhile when no server is reached, and when one is again.
/// `is_cut_off` is what was told last, in the session before this one.
pub(crate) async fn telling_breaks<T>(
    client: &Client,
    is_cut_off: &mut bool,
    work: impl Future<Output = T>,
) -> T {
    let mut states = client.state_stream();
    let tell = async {
        while let Some(event) = states.next().await {
            match event {
                StateEvent::Entered(SessionState::Disconnected) if !*is_cut_off => {
                    warn("no server is reached: what was printed may be out of date");
                    *is_cut_off = true;
                }
                StateEvent::Entered(state) if state.is_connected() && *is_cut_off => {
                    warn("a server is reached again");
                    *is_cut_off = false;
                }
                _ => {}
            }
        }
        pending::<Infallible>().await
    };
    tokio::select! {
        done = work => done,
        never = tell => match never {},
    }
}

/// For how long sessions are opened one after the other.
pub(crate) fn limit(wait: &Wait, connection: &Connection) -> Option<Duration> {
    if wait.once { Some(connection.timeout()) } else { wait.wait }
}

/// Why it failed if that time is over.
pub(crate) fn out_of_time(path: &str, wait: &Wait) -> Failure {
    match wait.once {
        // It waits for no others, so they are not the reason.
        true => Failure::of(path, "the session has ended, and no server is reached"),
        false => conflict(path, wait),
    }
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
