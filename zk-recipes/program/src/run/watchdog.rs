//! The watchdog: a process that kills a command when `zk` is gone, or when `zk` is late.
//!
//! It leads the process group of the command, so it needs to know nothing but a time: the end of
//! its input, or that time without a later one, is when it kills the group, with itself. It catches
//! every other signal, since signals for the command go to the whole group.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Failure, status};
use crate::run::uptime;

/// The size of a message to the watchdog: the time to kill at, in nanoseconds of [`uptime`].
pub(crate) const MESSAGE: usize = size_of::<u64>();

/// How often the watchdog looks at the clock at least. Its sleep does not count the time in which
/// the machine is suspended.
const LOOK: Duration = Duration::from_millis(100);

/// Its name, by which this program knows what it is meant to be. It does not contain the name of
/// this program, so that `pkill zk` does not end both at once.
const NAME: &str = "lock-watchdog";

/// The command that starts a watchdog, as the leader of a new process group.
pub(crate) fn command() -> std::io::Result<Command> {
    use std::os::unix::process::CommandExt;

    // The file of this program may have been replaced or deleted since it was started.
    let program = if cfg!(any(target_os = "linux", target_os = "android")) {
        "/proc/self/exe".into()
    } else {
        std::env::current_exe()?
    };
    let mut command = Command::new(program);
    command.arg0(NAME).env_clear().process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    Ok(command)
}

/// True if this process was started as a watchdog.
pub(crate) fn is_meant() -> bool {
    std::env::args_os().next().is_some_and(|name| name == NAME)
}

/// The body of the watchdog. It returns only if it is not one.
pub(crate) fn run() -> ExitCode {
    if getpgrp() != getpid() {
        return Failure::new(status::FAILED, "the watchdog is started by zk alone").report();
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Ok(name) = std::ffi::CString::new(NAME) {
        // A name that cannot be set is only one that is not shown.
        rustix::thread::set_name(&name).unwrap_or_default();
    }
    if let Err(error) = watch() {
        return Failure::of("the watchdog", error).report();
    }
    // Nobody is left to report to if this fails.
    kill_current_process_group(Signal::KILL).unwrap_or_default();
    ExitCode::from(status::FAILED)
}

/// Returns when the group has to be killed. An error before that means that it never watched.
fn watch() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let context = runtime.enter();
    // Once caught, a signal stays caught. Those that cannot be caught are refused.
    let caught = (1..32)
        .filter(|number| {
            ![Signal::KILL, Signal::STOP, Signal::ILL, Signal::FPE, Signal::SEGV]
                .map(Signal::as_raw)
                .contains(number)
        })
        .map(|number| signal(SignalKind::from_raw(number)))
        .collect::<std::io::Result<Vec<_>>>()?;

    let mut output = std::io::stdout();
    output.write_all(b"\n")?;
    output.flush()?;
    // A file has no buffer, in which a message could wait unseen.
    wait_for_the_end(File::from(std::io::stdin().as_fd().try_clone_to_owned()?));
    drop((caught, context));
    Ok(())
}

/// Waits until the input ends, or until the last time that it told.
fn wait_for_the_end(mut input: File) {
    let mut kill_at = Duration::MAX;
    let mut message = [0; MESSAGE];
    while uptime::now() < kill_at {
        let time = LOOK.min(kill_at.saturating_sub(uptime::now()));
        let time = Timespec::try_from(time).ok();
        let mut inputs = [PollFd::new(&input, PollFlags::IN)];
        match poll(&mut inputs, time.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return,
        }
        // Messages are whole: a pipe does not part writes as short as these.
        if input.read_exact(&mut message).is_err() {
            return;
        }
        kill_at = Duration::from_nanos(u64::from_ne_bytes(message));
    }
}
