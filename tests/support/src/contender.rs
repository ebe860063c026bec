//! A client process that contends for a lock: a handle for the program `contender`.
//!
//! A test starts it, waits for its output and lets it continue; and kills, stops and resumes it.
//! Its own documentation is in `src/bin/contender.rs`.

use std::io;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal};
use tokio::process::Command;

use crate::foreign::Program;
use crate::server::{pause, signal};

/// How long a contender may run, which is longer than any test.
const DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

/// A running contender. Dropping it kills the process.
#[derive(Debug)]
pub struct Contender(Program);

impl Contender {
    /// Starts `program` with arguments of the form `name=value`.
    ///
    /// Tests know the program as `env!("CARGO_BIN_EXE_contender")`.
    pub fn start<S: AsRef<str>>(program: &str, arguments: &[S]) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments.iter().map(AsRef::as_ref));
        Ok(Self(Program::start(command)?.within(DEADLINE)))
    }

    /// Waits until the process prints this line.
    pub async fn says(&mut self, line: &str) -> Result<()> {
        while self.0.next_line().await? != line {}
        Ok(())
    }

    /// Sends it `go` or `stop`; a stopped process reads that when it is resumed.
    pub async fn tell(&mut self, line: &str) -> Result<()> {
        self.0.tell(line).await
    }

    /// Stops the process without ending it (SIGSTOP) and returns when it has stopped.
    pub async fn pause(&mut self) -> Result<()> {
        pause(self.pid()?, || self.0.process.try_wait()).await
    }

    /// Lets a paused process continue (SIGCONT).
    pub fn resume(&mut self) -> Result<()> {
        signal(self.pid()?, Signal::CONT, self.0.process.try_wait()?)
    }

    /// Kills the process (SIGKILL) and returns when it has ended.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.0.process.kill().await
    }

    /// Waits until it has had all its turns and has ended successfully.
    pub async fn done(mut self) -> Result<()> {
        self.says("done").await?;
        self.0.finish().await
    }

    fn pid(&self) -> Result<Pid> {
        self.0.pid().context("the contender has ended")
    }
}
