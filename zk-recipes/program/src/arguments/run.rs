//! The arguments of the subcommands that run a command.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use rustix::process::Signal;

use crate::connection::{Connection, seconds};
use crate::failure::status;
use crate::identity;
use crate::run::signals;

/// Run a command while holding a lock
///
/// Waits for the lock, runs the command, and releases the lock when the command has ended. The
/// command is stopped before the lock can be lost: when the servers cannot be reached for too long,
/// and also if zk itself is stopped or killed. Nothing that the command has started is left, unless
/// it has moved to a process group of its own.
///
/// The command has a process group of its own, so it cannot read from a terminal: redirect its
/// input.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    include_str!("lock.txt"),
    include_str!("status.txt"),
    include_str!("run.txt"),
))]
pub(crate) struct Lock {
    /// The node below which contenders queue up. It is created if it is missing
    pub(crate) path: String,

    #[command(flatten)]
    pub(crate) wait: Wait,

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

/// Run a command while leading, or show who leads
///
/// Waits until this candidate leads, and runs the command. When the leadership is lost, or about to
/// be, the command is stopped, and started again in the next term. When the command ends by itself,
/// zk resigns and ends with its exit status.
///
/// With --watch it runs nothing, and prints each leader: its node, a tab, and its data, in which
/// control characters are escaped.
#[derive(Debug, Args)]
#[command(
    after_long_help = concat!(include_str!("elect.txt"), include_str!("run.txt")),
    mut_arg("command", |command| command.required(false).required_unless_present("watch"))
)]
pub(crate) struct Elect {
    /// The node below which candidates queue up. It is created if it is missing
    pub(crate) path: String,

    /// Print who leads, at first and whenever that changes
    #[arg(long, conflicts_with_all = ["command", "data", "revocable"])]
    pub(crate) watch: bool,

    /// With --watch: print each leader as a line of JSON
    #[arg(long, requires = "watch")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) run: Run,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// Run a command while holding one or some of several permits
///
/// As zk lock, but as many commands run at once as there are permits. All users of a semaphore have
/// to give the same number. A path is that of a semaphore or of a lock: zk refuses to hold the one
/// where the other is held.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    include_str!("sem.txt"),
    include_str!("status.txt"),
    include_str!("run.txt"),
))]
pub(crate) struct Sem {
    /// The node of the semaphore. It is created if it is missing
    pub(crate) path: String,

    /// How many permits there are
    #[arg(short, long)]
    pub(crate) permits: u32,

    /// How many of them the command takes, all at once
    #[arg(
        short,
        long,
        default_value_t = 1,
        value_name = "PERMITS",
        value_parser = clap::value_parser!(u32).range(1..=1000),
    )]
    pub(crate) take: u32,

    #[command(flatten)]
    pub(crate) wait: Wait,

    #[command(flatten)]
    pub(crate) run: Run,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// For how long to wait for what others hold.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Do not wait for others
    #[arg(short = 'n', long = "try", conflicts_with = "wait")]
    pub(crate) once: bool,

    /// Wait for others for no longer than this
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,

    /// The exit status if others held it for too long
    #[arg(short = 'E', long, value_name = "STATUS", default_value_t = status::CONFLICT)]
    pub(crate) conflict_exit_code: u8,
}

/// What is run, and how it is stopped.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    /// What others see of this contender, such as an address
    ///
    /// By default this is an object of JSON that tells host, process, user, the name of the command
    /// without its arguments, and since when. An empty text is no data.
    #[arg(short, long, value_name = "TEXT")]
    data: Option<String>,

    /// Let go when somebody asks, as zk who --revoke does: the command is stopped as at a loss
    ///
    /// That it can be asked stands in the data that zk writes by default, so --data excludes this.
    #[arg(long, conflicts_with = "data")]
    pub(crate) revocable: bool,

    /// The signal that asks the command to stop in time
    #[arg(long, default_value = "TERM", value_parser = signals::parse)]
    pub(crate) signal: Signal,

    /// Kill the command this long after the signal
    ///
    /// The signal is sent this much earlier, so that the kill is in time. At most a fifth of the
    /// session timeout, and a tenth by default.
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) kill_after: Option<Duration>,
}

impl Run {
    /// The command, to be started.
    pub(crate) fn command(&self) -> Command {
        let mut words = self.command.iter();
        // There is at least one word.
        let mut command = Command::new(words.next().cloned().unwrap_or_default());
        command.args(words);
        command
    }

    /// What others see of this contender, which begins to queue up now.
    pub(crate) fn data(&self) -> String {
        let command = self.command.first().map(OsString::as_os_str).unwrap_or_default();
        self.data.clone().unwrap_or_else(|| identity::describe(command, self.revocable))
    }
}
