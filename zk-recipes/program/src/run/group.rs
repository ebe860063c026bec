//! A process group: a watchdog, which leads it, and the command with what that starts.
//!
//! The command joins the group of a watchdog that is there already, so there is no moment at which
//! it runs unwatched, whenever `zk` is killed. A member that outlives its parent becomes a child of
//! `zk` on Linux, so that the end of the group is the end of all its members. A command may leave
//! the group, as `timeout` and `setsid` do: then it is followed by its own number, and by that of
//! the group that it leads, but not by the watchdog.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::pin::pin;
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgid, kill_process, kill_process_group, wait,
    waitpgid, waitpid,
};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use crate::failure::by_signal;
use crate::run::watchdog;

/// How often to look for children that have ended, if no signal tells of one: signals may be lost.
const LOOK: Duration = Duration::from_millis(250);

/// A process group with its watchdog.
///
/// Dropping it kills the group, and does not wait.
#[derive(Debug)]
pub(crate) struct Group {
    /// The number of the group, and of the watchdog.
    id: Pid,
    /// The input of the watchdog. Its end kills the group.
    input: pipe::Sender,
    /// Tells of each child that has ended.
    children: Stream,
    /// The command, once it was started.
    command: Option<Pid>,
    /// The exit status of the command, once it has ended.
    status: Option<u8>,
    is_watched: bool,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With this exit status; one that a signal ended has that of a shell.
    Status(u8),
    /// The watchdog has ended first, and the command was not seen to end.
    Unwatched,
}

impl Group {
    /// Starts a watchdog, and waits until it watches.
    pub(crate) async fn open() -> io::Result<Self> {
        // Before the first child, so that the end of none is missed.
        let children = signal(SignalKind::child())?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let mut child = watchdog::command()?.spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the watchdog has no pipes"));
        };
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::other("the watchdog has no number"))?;
        let input = pipe::Sender::from_owned_fd(OwnedFd::from(input))?;
        let mut output = pipe::Receiver::from_owned_fd(OwnedFd::from(output))?;
        let group = Self { id, input, children, command: None, status: None, is_watched: true };
        output.read_u8().await?;
        Ok(group)
    }

    /// Tells the watchdog to kill the group at this [time](crate::run::uptime::now), and not at the
    /// one it was told before.
    pub(crate) fn kill_at(&self, time: Duration) -> io::Result<()> {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // A watchdog that does not read will have its pipe full, which is an error as well.
        let written = self.input.try_write(&time.to_ne_bytes())?;
        if written == watchdog::MESSAGE { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Starts the command. It returns once the program runs, or could not be run.
    pub(crate) fn start(&mut self, command: &mut Command) -> io::Result<()> {
        let child = command.process_group(self.id.as_raw_pid()).spawn()?;
        self.command = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Ok(())
    }

    /// Sends a signal to all members. The watchdog takes no notice, but of `KILL`.
    pub(crate) fn signal(&mut self, signal: Signal) {
        // A member may have another user, whom this one may not send signals.
        for group in self.groups() {
            kill_process_group(group, signal).unwrap_or_default();
        }
        let Some(command) = self.command.filter(|_| self.status.is_none()) else { return };
        // It may have joined a group that is neither ours nor its own.
        if getpgid(Some(command)).is_ok_and(|group| group != self.id && group != command) {
            kill_process(command, signal).unwrap_or_default();
        }
    }

    /// Waits until the command has ended.
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn ended(&mut self) -> End {
        loop {
            self.has_members();
            match self.status {
                Some(status) => return End::Status(status),
                None if !self.is_watched => return End::Unwatched,
                None => self.next_end().await,
            };
        }
    }

    /// Waits for something else before the command is started, and takes note of the ends of all
    /// processes that are handed over meanwhile.
    pub(crate) async fn reaping<T>(&mut self, wanted: impl Future<Output = T>) -> T {
        let mut wanted = pin!(wanted);
        loop {
            self.has_members();
            tokio::select! {
                done = &mut wanted => return done,
                () = self.next_end() => {}
            }
        }
    }

    /// Waits until a child may have ended.
    async fn next_end(&mut self) {
        // Without a signal it is time to look all the same.
        drop(tokio::time::timeout(LOOK, self.children.recv()).await);
    }

    /// Kills all members, and waits until none is left.
    pub(crate) async fn kill(mut self) {
        self.signal(Signal::KILL);
        while self.has_members() {
            self.next_end().await;
        }
    }

    /// Notes which members have ended. False if none is left.
    ///
    /// Every other child that has ended is waited for as well, as the first process of a container
    /// has to: those that have left the group, and those that were handed over.
    fn has_members(&mut self) -> bool {
        self.note_ends(|| wait(WaitOptions::NOHANG));
        let has_groups = !self.groups().is_empty();
        let command = self.command.filter(|_| self.status.is_none());
        has_groups
            || command.is_some_and(|one| self.note_ends(|| waitpid(Some(one), WaitOptions::NOHANG)))
    }

    /// The groups that have members: ours, and one that the command leads since it has left ours.
    /// Without members, the number of a group may be that of another one.
    fn groups(&mut self) -> Vec<Pid> {
        let groups = [Some(self.id), self.command].into_iter().flatten();
        groups.filter(|group| self.note_ends(|| waitpgid(*group, WaitOptions::NOHANG))).collect()
    }

    /// Notes which of some children have ended. False if none is left.
    fn note_ends(
        &mut self,
        next: impl Fn() -> rustix::io::Result<Option<(Pid, WaitStatus)>>,
    ) -> bool {
        loop {
            match next() {
                Ok(Some((member, status))) => {
                    if member == self.id {
                        self.is_watched = false;
                    } else if Some(member) == self.command {
                        let code = status.exit_status().and_then(|code| u8::try_from(code).ok());
                        let signal = || status.terminating_signal().map(by_signal);
                        self.status = code.or_else(signal).or(Some(u8::MAX));
                    }
                }
                Ok(None) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}
