//! Clients other than ours, as child processes with or without a dialogue.
//!
//! The error of a [`Program`] that fails, or takes too long, shows its whole transcript. A program
//! has a process group of its own, which dropping it kills, since scripts have children. [`ZkCli`]
//! is ZooKeeper's command line, and [`Curator`] are Curator's locks; the tests define what their
//! commands mean.

use std::collections::VecDeque;
use std::env;
use std::io::{self, pipe};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, sleep, timeout_at};

use crate::server::process::{self, pid};
use crate::server::{QUICK_TO_START, java};

/// How long a program may run.
const DEADLINE: Duration = Duration::from_secs(120);
/// Where Debian's package `zookeeper` has ZooKeeper's command line.
const ZKCLI: &str = "/usr/share/zookeeper/bin/zkCli.sh";
/// The jars of Debian's package `libcurator-recipes-java`, which names those that it depends on,
/// and the jar that prints the log.
const CURATOR_JARS: &str = "/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-simple.jar";
/// A command of [`ZkCli`] that needs no server, and the line that it prints.
const MARK: [&str; 2] = ["printwatches", "printwatches is on"];
/// How a line about an event begins.
const EVENT: &str = "WatchedEvent ";

/// A running program. Dropping it kills its process group.
#[derive(Debug)]
pub struct Program {
    process: Child,
    stdin: Option<ChildStdin>,
    output: Lines<BufReader<Receiver>>,
    transcript: String,
    deadline: Instant,
}

impl Program {
    /// Starts `command`.
    pub fn start(mut command: Command) -> Result<Self> {
        let (reader, writer) = pipe()?;
        let transcript = format!("{:?}\n", command.as_std());
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| {
                format!("cannot start {transcript}tests/run installs what it needs")
            })?;
        Ok(Self {
            stdin: process.stdin.take(),
            process,
            output: BufReader::new(Receiver::from_owned_fd(reader.into())?).lines(),
            transcript,
            deadline: sleep(DEADLINE).deadline(),
        })
    }

    /// Sets another deadline than two minutes from its start.
    pub fn within(mut self, time: Duration) -> Self {
        self.deadline = sleep(time).deadline();
        self
    }

    /// Closes its input and waits until it ends. Fails if the program fails.
    pub async fn finish(mut self) -> Result<()> {
        self.stdin = None;
        while self.line().await?.is_some() {}
        let Ok(status) = timeout_at(self.deadline, self.process.wait()).await else {
            bail!(self.failure("it has closed its output and runs on"));
        };
        let status = status?;
        ensure!(status.success(), self.failure(&status.to_string()));
        Ok(())
    }

    /// The next line of its output or errors, or `None` at their end.
    async fn line(&mut self) -> Result<Option<String>> {
        let Ok(line) = timeout_at(self.deadline, self.output.next_line()).await else {
            bail!(self.failure("it takes too long"));
        };
        let line = line?;
        if let Some(line) = &line {
            self.transcript.extend([line, "\n"]);
        }
        Ok(line)
    }

    /// The next line of its output or errors. Fails if there is none.
    pub(crate) async fn next_line(&mut self) -> Result<String> {
        self.line().await?.ok_or_else(|| self.failure("it has ended"))
    }

    /// Waits until it prints this line, and skips all lines before.
    pub async fn says(&mut self, line: &str) -> Result<()> {
        while self.next_line().await? != line {}
        Ok(())
    }

    /// Waits until it says that it is done and has ended successfully.
    pub async fn done(mut self) -> Result<()> {
        self.says("done").await?;
        self.finish().await
    }

    /// Writes a line to its input, a pipe whose buffer is far larger than the text. A paused
    /// process reads that when it is resumed.
    pub async fn tell(&mut self, line: &str) -> Result<()> {
        self.transcript.extend(["> ", line, "\n"]);
        let stdin = self.stdin.as_mut().context("the input is closed")?;
        let written = stdin.write_all(format!("{line}\n").as_bytes()).await;
        written.map_err(|error| self.failure(&error.to_string()))
    }

    /// Stops the process without ending it (SIGSTOP) and returns when it has stopped.
    pub async fn pause(&mut self) -> Result<()> {
        process::pause(&mut self.process).await
    }

    /// Lets a paused process continue (SIGCONT).
    pub fn resume(&mut self) -> Result<()> {
        process::resume(&mut self.process)
    }

    /// Kills the process (SIGKILL) and returns when it has ended.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.process.kill().await
    }

    /// An error with the whole transcript.
    fn failure(&self, what: &str) -> anyhow::Error {
        anyhow!("{what}; the transcript:\n{}", self.transcript)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(group) = pid(&self.process) {
            // It fails if the whole group has just ended, which is the aim.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

/// One session of `zkCli.sh`.
#[derive(Debug)]
pub struct ZkCli {
    program: Program,
    events: VecDeque<String>,
}

impl ZkCli {
    /// Starts it and returns when it is connected to the server at `address`.
    pub async fn connect(address: &str) -> Result<Self> {
        let mut command = Command::new(ZKCLI);
        command.args(["-timeout", "4000", "-server", address]).env("JVMFLAGS", QUICK_TO_START);
        let mut zkcli = Self { program: Program::start(command)?, events: VecDeque::new() };
        while zkcli.events.is_empty() {
            zkcli.line().await?;
        }
        zkcli.sees("state:SyncConnected type:None path:null").await?;
        // Skip its greeting, which comes before or after that.
        zkcli.ask("").await?;
        Ok(zkcli)
    }

    /// Sends a command, and fails unless the answer is exactly these lines.
    pub async fn answers(&mut self, command: &str, expected: &[&str]) -> Result<()> {
        let answer = self.ask(command).await?;
        ensure!(answer == expected, self.program.failure(&format!("expected {expected:?}")));
        Ok(())
    }

    /// Sends a command, and fails unless the answer contains all of these lines.
    pub async fn tells(&mut self, command: &str, expected: &[&str]) -> Result<()> {
        let answer = self.ask(command).await?;
        let missing = expected.iter().find(|line| !answer.iter().any(|said| said == *line));
        ensure!(missing.is_none(), self.program.failure(&format!("expected {missing:?}")));
        Ok(())
    }

    /// Waits for the next event, and fails unless it is this one.
    pub async fn sees(&mut self, expected: &str) -> Result<()> {
        while self.events.is_empty() {
            if let Some(line) = self.line().await? {
                bail!(self.program.failure(&format!("expected an event, not {line:?}")));
            }
        }
        let event = self.events.pop_front();
        ensure!(
            event.as_deref() == Some(expected),
            self.program.failure(&format!("expected {expected:?}, not {event:?}"))
        );
        Ok(())
    }

    /// Ends the session and the program. Fails if another event came before.
    pub async fn quit(mut self) -> Result<()> {
        ensure!(self.events.is_empty(), self.program.failure(&format!("{:?}", self.events)));
        self.program.tell("quit").await?;
        self.program.finish().await
    }

    /// Sends a command and returns the answer.
    async fn ask(&mut self, command: &str) -> Result<Vec<String>> {
        self.program.tell(command).await?;
        self.program.tell(MARK[0]).await?;
        let mut answer = Vec::new();
        loop {
            match self.line().await? {
                Some(line) if line == MARK[1] => return Ok(answer),
                line => answer.extend(line),
            }
        }
    }

    /// The next line of output, unless it belongs to an event or to the log.
    async fn line(&mut self) -> Result<Option<String>> {
        let line = self.program.next_line().await?;
        if let Some(event) = line.strip_prefix(EVENT) {
            // ZooKeeper 3.9 adds the zxid.
            let event = event.split_once(" zxid").map_or(event, |(event, _)| event);
            self.events.push_back(event.to_owned());
        } else if !line.is_empty() && line != "WATCHER::" && !line.starts_with("SLF4J:") {
            return Ok(Some(line));
        }
        Ok(None)
    }
}

/// A process with Curator's locks.
///
/// It is `interop/CuratorPeer.java`, which documents its commands and answers.
#[derive(Debug)]
pub struct Curator(Program);

/// The command that runs a source file of Java with Curator.
pub fn with_curator(source: &Path) -> Command {
    with_classes(CURATOR_JARS, source)
}

fn with_classes(path: &str, program: &Path) -> Command {
    let mut command = Command::new(java());
    command.args(QUICK_TO_START.split(' ')).arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
    command.args(["-classpath", path]).arg(program);
    command
}

impl Curator {
    /// Starts it and returns when it is connected to the server at `address`.
    pub async fn connect(address: &str) -> Result<Self> {
        Self::connect_for(address, Duration::from_secs(4)).await
    }

    /// The same with another session timeout than four seconds. It pings after a third of that.
    pub async fn connect_for(address: &str, session: Duration) -> Result<Self> {
        // Java compiles a source file each time, which takes longer than most tests.
        let mut command = match env::var("ZK_INTEROP_CURATOR") {
            Ok(compiled) => {
                with_classes(&format!("{compiled}:{CURATOR_JARS}"), Path::new("CuratorPeer"))
            }
            Err(_) => {
                let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
                with_curator(&manifest.join("../interop/CuratorPeer.java"))
            }
        };
        command.arg(address).arg(session.as_millis().to_string());
        let mut curator = Self(Program::start(command)?);
        curator.says("ready").await?;
        Ok(curator)
    }

    /// Sets another deadline than two minutes from its start.
    pub fn within(self, time: Duration) -> Self {
        Self(self.0.within(time))
    }

    /// Sends it a command, without waiting for the answer.
    pub async fn tell(&mut self, line: &str) -> Result<()> {
        self.0.tell(line).await
    }

    /// Waits until it prints this line, and skips all lines before. Fails if a command has failed.
    pub async fn says(&mut self, expected: &str) -> Result<()> {
        while self.line().await? != expected {}
        Ok(())
    }

    /// Waits for the next answer of one of its threads, and returns the answer without `ok`.
    ///
    /// Skips the answers of other threads, and fails if a command has failed.
    pub async fn answer(&mut self, thread: &str) -> Result<String> {
        let done = format!("{thread} ok");
        loop {
            if let Some(answer) = self.line().await?.strip_prefix(&done) {
                return Ok(answer.trim_start().to_owned());
            }
        }
    }

    /// Sends it a command, waits until it is done and returns the answer without `ok`.
    pub async fn does(&mut self, line: &str) -> Result<String> {
        self.tell(line).await?;
        self.answer(line.split(' ').next().unwrap_or_default()).await
    }

    /// Ends its session and the program.
    pub async fn quit(self) -> Result<()> {
        self.0.finish().await
    }

    async fn line(&mut self) -> Result<String> {
        let line = self.0.next_line().await?;
        ensure!(!line.contains(" failed: "), self.0.failure("something failed"));
        Ok(line)
    }
}
