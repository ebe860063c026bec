//! A client process that fights for a lock: a handle for the program `contender`.
//!
//! A test starts it, waits for what it says and tells it when to go on; and kills, stops and
//! resumes it. What it does is in its own documentation, `src/bin/contender.rs`.

use std::io;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::server::{pause, resume};

/// A running contender, which is killed when this is dropped.
#[derive(Debug)]
pub struct Contender {
    process: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Contender {
    /// Starts `program`, which tests know as `env!("CARGO_BIN_EXE_contender")`, with arguments of
    /// the form `name=value`.
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

    /// Waits until it says this.
    pub async fn says(&mut self, line: &str) -> Result<()> {
        while let Some(said) = self.lines.next_line().await? {
            if said == line {
                return Ok(());
            }
        }
        bail!("a contender ended without saying {line:?}")
    }

    /// Tells it to `go` on or to `stop`; a stopped process reads that when it is resumed.
    pub async fn tell(&mut self, line: &str) -> Result<()> {
        Ok(self.stdin.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// Stops the process without ending it (SIGSTOP) and returns when it does nothing any more.
    pub async fn pause(&mut self) -> Result<()> {
        pause(self.pid()?, || self.process.try_wait()).await
    }

    /// Lets a paused process run on (SIGCONT).
    pub fn resume(&mut self) -> Result<()> {
        resume(self.pid()?, || self.process.try_wait())
    }

    /// Kills the process (SIGKILL) and returns when it has ended.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.process.kill().await
    }

    /// Waits until it has had all its turns and has ended well.
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
