//! A child process that never outlives its handle.

use std::ffi::OsStr;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;

use anyhow::ensure;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::POLL_INTERVAL;

/// The command prefix by which Linux kills a program when the thread that started it ends.
const LEASH: [&str; 4] = ["setpriv", "--pdeathsig", "KILL", "--"];

/// True if the leash works on this machine.
static HAS_LEASH: LazyLock<bool> = LazyLock::new(|| {
    let mut trial = Command::new(LEASH[0]);
    trial.args(&LEASH[1..]).arg("true").stdin(Stdio::null()).stderr(Stdio::null());
    trial.status().is_ok_and(|status| status.success())
});

/// A command to start, and a channel for its result.
type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// The thread that starts all processes. It lives as long as the test process, and so do leashed
/// children, whichever test's thread has started them.
static SPAWNER: LazyLock<mpsc::Sender<Order>> = LazyLock::new(|| {
    let (sender, orders) = mpsc::channel::<Order>();
    thread::spawn(move || {
        for (mut command, reply) in orders {
            // The caller waits for the reply, so it is there to receive it.
            reply.send(command.spawn()).ok();
        }
    });
    sender
});

/// A command for `program` that, where the system supports it, ends with this process even if this
/// process is killed.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = if *HAS_LEASH {
        let mut leash = Command::new(LEASH[0]);
        leash.args(&LEASH[1..]).arg(program);
        leash
    } else {
        Command::new(program)
    };
    command.stdin(Stdio::null());
    command
}

/// A running child process, or one that has ended but is not reaped yet. Dropping it kills and
/// reaps it.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    /// Starts `command`.
    pub(crate) fn spawn(command: Command) -> io::Result<Self> {
        let (reply, started) = mpsc::channel();
        SPAWNER.send((command, reply)).map_err(io::Error::other)?;
        started.recv().map_err(io::Error::other)?.map(Self)
    }

    /// The process id, which stays taken until the process is reaped.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// How the process ended, or `None` while it runs.
    pub(crate) fn exit_status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    /// Kills and reaps the process. Waiting for its end blocks no thread of the runtime.
    pub(crate) async fn end(self) {
        // The task fails only if dropping panics, and dropping does not.
        spawn_blocking(|| drop(self)).await.ok();
    }

    /// Stops all threads of the process and returns when they have stopped.
    pub(crate) async fn pause(&mut self) -> anyhow::Result<()> {
        pause(Pid::from_child(&self.0), || self.0.try_wait()).await
    }

    /// Undoes [`pause`](Self::pause).
    pub(crate) fn resume(&mut self) -> anyhow::Result<()> {
        signal(Pid::from_child(&self.0), Signal::CONT, self.0.try_wait()?)
    }
}

/// Stops all threads of the child process `pid` (SIGSTOP) and returns when they have stopped.
/// `ended` returns how the process ended, if it has. Fails if it has.
pub(crate) async fn pause(
    pid: Pid,
    mut ended: impl FnMut() -> io::Result<Option<ExitStatus>>,
) -> anyhow::Result<()> {
    signal(pid, Signal::STOP, ended()?)?;
    let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    while waitid(WaitId::Pid(pid), stopped)?.is_none() {
        ensure!(ended()?.is_none(), "the process has ended");
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Sends a signal to a child process. Fails if it has ended, since it may have been reaped.
pub(crate) fn signal(pid: Pid, signal: Signal, ended: Option<ExitStatus>) -> anyhow::Result<()> {
    ensure!(ended.is_none(), "the process has ended");
    Ok(kill_process(pid, signal)?)
}

impl Drop for Process {
    fn drop(&mut self) {
        // Neither fails for a child: one that has ended already needs no kill, and is reaped.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
