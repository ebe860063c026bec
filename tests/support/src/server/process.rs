//! A child process that never outlives its handle.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::process::{Child, Command};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use super::{POLL_INTERVAL, until};

/// How many lines of a process's log an error shows.
const LOG_TAIL: usize = 40;

/// What stands before a program: a command by which Linux kills the program when the thread that
/// started it ends or, where that does not work, one that changes nothing.
static LEASH: LazyLock<&[&str]> = LazyLock::new(|| {
    let leash = &["setpriv", "--pdeathsig", "KILL", "--"];
    let mut trial = std::process::Command::new(leash[0]);
    trial.args(&leash[1..]).arg("true").stdin(Stdio::null()).stderr(Stdio::null());
    if trial.status().is_ok_and(|status| status.success()) { leash } else { &["env"] }
});

/// The runtime whose only thread starts all processes. It lives as long as the test process, and so
/// do leashed children, whichever test's thread has started them.
static SPAWNER: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
});

/// A command for `program` that, where the system supports it, ends with this process even if this
/// process is killed.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(LEASH[0]);
    command.args(&LEASH[1..]).arg(program).stdin(Stdio::null());
    command
}

/// A running child process, or one that has ended but is not reaped yet. Dropping it kills and
/// reaps it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
    /// The file with all that the process has printed.
    log: PathBuf,
}

impl Process {
    /// Starts `command`, whose output goes to a new file `log`.
    pub(crate) async fn start(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let output = File::create(log)?;
        // A start that is given up leaves no process either.
        command.stdout(output.try_clone()?).stderr(output).kill_on_drop(true);
        let child = SPAWNER.spawn(async move { command.spawn() }).await??;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Waits until the process serves. Fails at once if it has ended or cannot have its ports; the
    /// error shows the end of its log.
    pub(crate) async fn wait_until(
        &mut self,
        serves: impl AsyncFn() -> bool,
    ) -> anyhow::Result<()> {
        let started = until(async || {
            if serves().await {
                return Some(Ok(()));
            }
            if let Some(status) = self.child.try_wait().ok()? {
                return Some(Err(anyhow!("it ended with {status}")));
            }
            self.lost_a_port().then(|| Err(anyhow!("another process has one of its ports")))
        });
        started.await.and_then(|started| started).map_err(|problem| {
            anyhow!(
                "it did not start: {problem}; `tests/run --install` installs what it needs; the \
                 end of its log:\n{}",
                self.log_tail()
            )
        })
    }

    /// True if the log says that a port was taken.
    pub(crate) fn lost_a_port(&self) -> bool {
        self.log().contains("java.net.BindException")
    }

    /// The last lines of the log, for an error.
    pub(crate) fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n")
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Neither fails for a child: one that has ended already needs no kill, and is reaped.
        self.child.start_kill().ok();
        while let Ok(None) = self.child.try_wait() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The process id of a child, unless it has been reaped: until then, no other process has it.
pub(crate) fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id()?.cast_signed())
}

/// Stops all threads of a child process (SIGSTOP) and returns when they have stopped. Fails if it
/// has ended.
pub(crate) async fn pause(child: &mut Child) -> anyhow::Result<()> {
    let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    while waitid(WaitId::Pid(signal(child, Signal::STOP)?), stopped)?.is_none() {
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Lets a child process continue (SIGCONT). Fails if it has ended.
pub(crate) fn resume(child: &mut Child) -> anyhow::Result<()> {
    signal(child, Signal::CONT).map(drop)
}

fn signal(child: &mut Child, signal: Signal) -> anyhow::Result<Pid> {
    child.try_wait()?;
    let pid = pid(child).context("the process has ended")?;
    kill_process(pid, signal)?;
    Ok(pid)
}
