//! What the program can be asked for.

use std::ffi::OsString;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser};
use rustix::process::Signal;

use crate::commands::tap::{ReplayArguments, TapArguments};
use crate::connection::{Connection, seconds};
use crate::failure::status;
use crate::run::signals;

/// Locks, elections and nodes of ZooKeeper, for the command line.
#[derive(Debug, Parser)]
#[command(name = "zk", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Lock(Lock),
    Tap(TapArguments),
    Replay(ReplayArguments),
    /// Kills a command when the process that started it is gone.
    #[command(hide = true)]
    Watchdog,
}

/// Run a command while holding a lock
///
/// Waits for the lock, runs the command, and releases the lock when the command has ended. The
/// command is stopped before the lock can be lost: when the servers cannot be reached for too long,
/// and also if zk itself is stopped or killed. Nothing that the command has started is left, unless
/// it has moved to a process group of its own.
#[derive(Debug, Args)]
#[command(after_long_help = LOCK_HELP)]
pub(crate) struct Lock {
    /// The node below which contenders queue up. It is created if it is missing
    pub(crate) path: String,

    /// Do not wait for the lock
    #[arg(short = 'n', long = "try", conflicts_with = "wait")]
    pub(crate) once: bool,

    /// Wait for the lock for no longer than this
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,

    /// Hold the lock together with others that use --shared, and exclude those that use --write
    #[arg(short, long, conflicts_with = "write")]
    pub(crate) shared: bool,

    /// Hold the lock alone where others use --shared
    #[arg(long)]
    pub(crate) write: bool,

    #[command(flatten)]
    pub(crate) run: Run,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// What is run, and how it is stopped.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    /// The signal that asks the command to stop when the lock may be lost
    #[arg(long, default_value = "TERM", value_parser = signals::parse)]
    pub(crate) signal: Signal,

    /// Kill the command this long after the signal
    ///
    /// The signal is sent this much earlier, so that the kill is in time. At most a fifth of the
    /// session timeout, and a tenth by default.
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) kill_after: Option<Duration>,

    /// The exit status if the lock was not free in time
    #[arg(short = 'E', long, value_name = "STATUS", default_value_t = status::CONFLICT)]
    pub(crate) conflict_exit_code: u8,
}

impl Run {
    /// The command, to be started.
    pub(crate) fn command(&self) -> std::process::Command {
        let mut words = self.command.iter();
        // There is at least one word.
        let mut command = std::process::Command::new(words.next().cloned().unwrap_or_default());
        command.args(words);
        command
    }
}

/// Prints what is wrong with the arguments, or the help that was asked for. Returns the exit
/// status.
pub(crate) fn report(error: &clap::Error) -> u8 {
    // If nobody reads the message, the status has to do.
    drop(error.print());
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let runs_a_command =
        std::env::args_os().nth(1).is_some_and(|word| RUNNING.iter().any(|name| word == *name));
    match (is_help, runs_a_command) {
        (true, _) => 0,
        (false, true) => status::FAILED,
        (false, false) => status::USAGE,
    }
}

/// The subcommands whose exit status is that of a command, which may be 2 as well.
const RUNNING: &[&str] = &["lock"];

const LOCK_HELP: &str = "\
Environment of the command:
  ZK_LOCK_PATH      the path of the lock
  ZK_LOCK_NODE      the node that stands for this holder
  ZK_LOCK_TOKEN     the fencing token: tokens of later holders are greater
  ZK_LOCK_DEADLINE  until when the lock was surely held as the command started, in seconds since
                    the machine was started, as in /proc/uptime. While zk reaches its servers, the
                    lock is held for longer; otherwise zk stops the command before the deadline

Exit status:
  that of the command, or 128 and the number of the signal that ended it; else
  123  the lock was lost, or nearly, while the command ran; the command was stopped
  124  the lock was not free in time (-E chooses another)
  125  zk itself failed: no server, no permission, wrong arguments
  126  the command cannot be run
  127  the command was not found
  128 and the number of a signal that ended zk before the command was started

Examples:
  zk lock /locks/backup -- backup-all
  zk lock --try /locks/nightly -- ./nightly.sh
  zk lock --wait 30 --kill-after 2 /locks/deploy -- make deploy
  zk lock /locks/report -- sh -c 'report --token \"$ZK_LOCK_TOKEN\"'

A lock without --shared and --write is shared with Curator's InterProcessMutex and go-zk's Lock,
and one with them with Curator's InterProcessReadWriteLock. The two kinds do not exclude each other:
zk refuses to hold the one where it sees the other.";
