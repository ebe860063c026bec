//! Runs a command while something is held, and stops it before that may be over.
//!
//! What is held is surely held for some time that each proof of the servers extends. When that is
//! nearly over, the command is asked to stop, and a little later it is killed, so that it has ended
//! when another contender can hold the same.

use std::future::{Future, poll_fn};
use std::io;
use std::ops::Deref;
use std::process::Command;
use std::task::Poll;
use std::time::Duration;

use rustix::process::Signal;
use zk_client::Client;
use zk_recipes::{Guard, Hold, Permit};

use crate::failure::{Failure, status};
use crate::run::group::{End, Group};
use crate::run::signals::Signals;
use crate::run::uptime;

/// What a command runs under.
pub(crate) trait Held {
    /// For how long it is surely held from now on.
    fn remaining(&self) -> Duration;

    /// Waits until it is surely held for no longer than `margin`.
    fn running_out(&self, margin: Duration) -> impl Future<Output = ()>;

    /// Waits until somebody asks the holder to let go, or it is lost.
    fn asked_back(&self) -> impl Future<Output = ()>;
}

impl<K> Held for Guard<K> {
    fn remaining(&self) -> Duration {
        self.deref().remaining()
    }

    async fn running_out(&self, margin: Duration) {
        self.deref().running_out(margin).await;
    }

    async fn asked_back(&self) {
        drop(self.revoke_requested().await);
    }
}

impl Held for Permit {
    fn remaining(&self) -> Duration {
        self.deref().remaining()
    }

    async fn running_out(&self, margin: Duration) {
        self.deref().running_out(margin).await;
    }

    async fn asked_back(&self) {
        let leases = self.leases().iter().map(Hold::revoke_requested);
        let mut leases = leases.map(Box::pin).collect::<Vec<_>>();
        poll_fn(|cx| match leases.iter_mut().any(|lease| lease.as_mut().poll(cx).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

/// When and how a command is stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// What asks it to stop.
    signal: Signal,
    /// The time between that and the kill.
    kill_after: Duration,
    /// The time between the kill and the end of what is held, for the command to be gone.
    grace: Duration,
    /// How often to look at least, and to tell the watchdog.
    interval: Duration,
    /// True if it is stopped when somebody asks for what is held.
    is_revocable: bool,
}

impl Rule {
    /// The rule of a session: all its times are parts of the session timeout T.
    ///
    /// While the connection works, at least 0.27 T remain at any time, so what is needed to stop a
    /// command has to be less.
    pub(crate) fn new(
        client: &Client,
        signal: Signal,
        kill_after: Option<Duration>,
        is_revocable: bool,
    ) -> Result<Self, Failure> {
        let timeout = client.session_timeout();
        let kill_after = kill_after.unwrap_or(timeout / 10);
        if kill_after > timeout / 5 {
            let message = format!(
                "--kill-after must be at most a fifth of the session timeout, {timeout:?}: a \
                 longer --session-timeout allows for more"
            );
            return Err(Failure::new(status::FAILED, message));
        }
        let (grace, interval) = (timeout / 25, timeout / 20);
        Ok(Self { signal, kill_after, grace, interval, is_revocable })
    }

    /// The command has to be asked to stop when no more than this remains.
    fn time_to_stop(&self) -> Duration {
        self.kill_after + self.grace
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The command ended by itself or by a signal that was passed on, with this exit status.
    Ended(u8),
    /// What was held may be over. The command has ended.
    Lost,
    /// Somebody asked for what is held. The command has ended.
    AskedBack,
}

/// Why the supervision has ended.
enum Stop {
    Ended(End),
    RunningOut,
    AskedBack,
}

/// Runs the command, and returns when no member of the group is left.
pub(crate) async fn run(
    held: &impl Held,
    mut group: Group,
    command: &mut Command,
    rule: &Rule,
    signals: &mut Signals,
) -> Result<Outcome, Failure> {
    if let Err(error) = tell(&group, held, rule) {
        group.kill().await;
        return Err(Failure::of("the watchdog", error));
    }
    if let Err(error) = group.start(command) {
        group.kill().await;
        return Err(not_started(command, &error));
    }
    let end = supervise(held, &mut group, rule, signals).await;
    let is_over = held.remaining() <= rule.grace;
    group.kill().await;
    match end {
        _ if is_over => Ok(Outcome::Lost),
        Stop::Ended(End::Status(status)) => Ok(Outcome::Ended(status)),
        Stop::Ended(End::Unwatched) => {
            Err(Failure::new(status::FAILED, "the watchdog was killed, and the command with it"))
        }
        Stop::RunningOut => Ok(Outcome::Lost),
        Stop::AskedBack => Ok(Outcome::AskedBack),
    }
}

/// Returns how the command ended, or why it was stopped. It may still run then.
async fn supervise(
    held: &impl Held,
    group: &mut Group,
    rule: &Rule,
    signals: &mut Signals,
) -> Stop {
    let stop = loop {
        if tell(group, held, rule).is_err() {
            return Stop::Ended(End::Unwatched);
        }
        tokio::select! {
            end = group.ended() => return Stop::Ended(end),
            signal = signals.next() => group.signal(signal),
            () = held.running_out(rule.time_to_stop()) => break Stop::RunningOut,
            () = held.asked_back(), if rule.is_revocable => break Stop::AskedBack,
            () = tokio::time::sleep(rule.interval) => {}
        }
    };
    let in_time = uptime::now() + rule.kill_after;
    let kill_at = kill_at(held, rule).min(in_time);
    if kill_at > uptime::now() {
        group.signal(rule.signal);
        // One that was stopped cannot follow.
        group.signal(Signal::CONT);
    }
    while let Some(wait) = kill_at.checked_sub(uptime::now()) {
        tokio::select! {
            _ = group.ended() => break,
            signal = signals.next() => group.signal(signal),
            () = tokio::time::sleep(wait) => {}
        }
    }
    stop
}

/// Tells the watchdog when to kill the command, unless it is told a later time before.
fn tell(group: &Group, held: &impl Held, rule: &Rule) -> io::Result<()> {
    group.kill_at(kill_at(held, rule))
}

/// When to kill the command, by what is known now.
fn kill_at(held: &impl Held, rule: &Rule) -> Duration {
    // The clock first: time that passes in between makes the result earlier.
    let now = uptime::now();
    now + held.remaining().saturating_sub(rule.grace)
}

fn not_started(command: &Command, error: &io::Error) -> Failure {
    let program = command.get_program().display();
    let status = match error.kind() {
        io::ErrorKind::NotFound => status::NOT_FOUND,
        io::ErrorKind::PermissionDenied => status::NOT_EXECUTABLE,
        _ => status::NOT_EXECUTABLE,
    };
    Failure::new(status, format!("cannot run {program}: {error}"))
}
