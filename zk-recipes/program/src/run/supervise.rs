//! Runs a command while something is held, and stops it before that may be over.
//!
//! What is held is surely held for some time that each proof of the servers extends. When that is
//! nearly over, the command is asked to stop, and a little later it is killed, so that it has ended
//! when another contender can hold the same.

use std::future::Future;
use std::io;
use std::ops::Deref;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use zk_client::Client;
use zk_recipes::{Guard, Permit};

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
}

impl<K> Held for Guard<K> {
    fn remaining(&self) -> Duration {
        self.deref().remaining()
    }

    async fn running_out(&self, margin: Duration) {
        self.deref().running_out(margin).await;
    }
}

impl Held for Permit {
    fn remaining(&self) -> Duration {
        self.deref().remaining()
    }

    async fn running_out(&self, margin: Duration) {
        self.deref().running_out(margin).await;
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
        Ok(Self { signal, kill_after, grace: timeout / 25, interval: timeout / 20 })
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
        Some(End::Status(status)) => Ok(Outcome::Ended(status)),
        Some(End::Unwatched) => {
            Err(Failure::new(status::FAILED, "the watchdog was killed, and the command with it"))
        }
        None => Ok(Outcome::Lost),
    }
}

/// Returns how the command ended, or `None` if it was stopped for its time was over. It may still
/// run then.
async fn supervise(
    held: &impl Held,
    group: &mut Group,
    rule: &Rule,
    signals: &mut Signals,
) -> Option<End> {
    loop {
        if tell(group, held, rule).is_err() {
            return Some(End::Unwatched);
        }
        tokio::select! {
            end = group.ended() => return Some(end),
            signal = signals.next() => group.signal(signal),
            () = held.running_out(rule.time_to_stop()) => break,
            () = tokio::time::sleep(rule.interval) => {}
        }
    }
    let kill_at = kill_at(held, rule);
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
    None
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
