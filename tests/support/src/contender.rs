//! A client process that contends for a lock: a handle for the program `contender`.
//!
//! A test starts it, waits for its output and lets it continue; and kills, stops and resumes it.
//! Its own documentation is in `src/bin/contender.rs`.

use std::io;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::server::{pause, resume};

/// A running contender. Dropping it kills the process.
#[derive(Debug)]
pub struct Contender {
    process: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Contender {
    /// Starts `program` with arguments of the form `name=value`.
    ///
    /// Tests know the program as `env!("CARGO_BIN_EXE_contender")`.
    pub fn start<S: AsRef<str>>(program: &str, arguments: &[S]) -> Result<Self> {
        let mut process = Command::new(program)
            .args(arguments.iter().map(AsRef::as_ref))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = process.stdin.take().context("stdin")?;
        let stdout = process.stdout.take().context("stdout")?;
        Ok(Self { process, stdin, lines: BufReader::new(stdout).lines() })
    }

    /// Waits until the process prints this line.
    pub async fn says(&mut self, line: &str) -> Result<()> {
        while let Some(said) = self.lines.next_line().await? {
            if said == line {
                return Ok(());
            }
        }
        bail!("a contender ended without saying {line:?}")
    }

    /// Sends it `go` or `stop`; a stopped process reads that when it is resumed.
    pub async fn tell(&mut self, line: &str) -> Result<()> {
        Ok(self.stdin.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// Stops the process without ending it (SIGSTOP) and returns when it has stopped.
    pub async fn pause(&mut self) -> Result<()> {
        pause(self.pid()?, || self.process.try_wait()).await
    }

    /// Lets a paused process continue (SIGCONT).
    pub fn resume(&mut self) -> Result<()> {
        resume(self.pid()?, || self.process.try_wait())
    }

    /// Kills the process (SIGKILL) and returns when it has ended.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.process.kill().await
    }

    /// Waits until it has had all its turns and has ended successfully.
    pub async fn done(mut self) -> Result<()> {
        self.says("done").await?;
        ensure!(self.process.wait().await?.success(), "a contender failed");
        Ok(())
    }

    fn pid(&self) -> Result<Pid> {
        let id = self.process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        id.context("the contender has ended")
    }
}
