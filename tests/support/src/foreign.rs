//! Clients that are not ours, as child processes with a dialogue or without.
//!
//! A [`Program`] that fails, or takes too long, is shown with all that was said. It has a process
//! group of its own, which dropping it kills, since scripts have children. [`ZkCli`] is ZooKeeper's
//! command line, and [`Curator`] are Curator's locks; what their commands mean is up to the test.

use std::collections::VecDeque;
use std::io::pipe;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, sleep, timeout_at};

use crate::server::find_java;

/// How long a program may run.
const DEADLINE: Duration = Duration::from_secs(120);
/// Where Debian's package `zookeeper` has ZooKeeper's command line.
const ZKCLI: &str = "/usr/share/zookeeper/bin/zkCli.sh";
/// What Java is told besides, to start quickly.
const JVM_FLAGS: &str = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -XX:-UsePerfData";
/// The jars of Debian's package `libcurator-recipes-java`, which names those that it depends on,
/// and what prints the log.
const CURATOR_JARS: &str = "/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-simple.jar";
/// A command of [`ZkCli`] that concerns no server, and the line that it prints.
const MARK: [&str; 2] = ["printwatches", "printwatches is on"];
/// How a line starts that tells of an event.
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

    /// Gives it another time than two minutes from its start.
    pub fn within(mut self, time: Duration) -> Self {
        self.deadline = sleep(time).deadline();
        self
    }

    /// Closes its input and waits until it ends; fails unless it ends well.
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

    /// The next line of its output and errors, or `None` at their end.
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

    /// Writes to its input, which is a pipe that holds far more than this.
    async fn write(&mut self, text: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the input is closed")?;
        let written = stdin.write_all(text.as_bytes()).await;
        written.map_err(|error| self.failure(&error.to_string()))
    }

    /// An error that shows all that was said.
    fn failure(&self, what: &str) -> anyhow::Error {
        anyhow!("{what}; the transcript:\n{}", self.transcript)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The id is there until the process is reaped, so that it is nobody else's.
        if let Some(group) = self.process.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            // It fails when all of the group have just ended, which is what it is for.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

/// `zkCli.sh`, one session of it.
#[derive(Debug)]
pub struct ZkCli {
    program: Program,
    events: VecDeque<String>,
}

impl ZkCli {
    /// Starts it and returns when it is connected to the server at `address`.
    pub async fn connect(address: &str) -> Result<Self> {
        let mut command = Command::new(ZKCLI);
        command.args(["-timeout", "4000", "-server", address]).env("JVMFLAGS", JVM_FLAGS);
        let mut zkcli = Self { program: Program::start(command)?, events: VecDeque::new() };
        while zkcli.events.is_empty() {
            zkcli.line().await?;
        }
        zkcli.sees("state:SyncConnected type:None path:null").await?;
        // Its greeting, before or after that, is not an answer.
        zkcli.ask("").await?;
        Ok(zkcli)
    }

    /// Gives it a command, and fails unless it answers with exactly these lines.
    pub async fn answers(&mut self, command: &str, expected: &[&str]) -> Result<()> {
        let answer = self.ask(command).await?;
        ensure!(answer == expected, self.program.failure(&format!("expected {expected:?}")));
        Ok(())
    }

    /// Gives it a command, and fails unless all of these lines are in the answer.
    pub async fn tells(&mut self, command: &str, expected: &[&str]) -> Result<()> {
        let answer = self.ask(command).await?;
        for line in expected {
            ensure!(
                answer.iter().any(|said| said == line),
                self.program.failure(&format!("expected {line:?}"))
            );
        }
        Ok(())
    }

    /// Waits for the next event, and fails unless it is this.
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

    /// Ends the session and the program; fails if there was one more event before.
    pub async fn quit(mut self) -> Result<()> {
        ensure!(self.events.is_empty(), self.program.failure(&format!("{:?}", self.events)));
        self.program.write("quit\n").await?;
        self.program.finish().await
    }

    /// Gives it a command and returns the answer.
    async fn ask(&mut self, command: &str) -> Result<Vec<String>> {
        self.program.transcript.extend(["> ", command, "\n"]);
        self.program.write(&format!("{command}\n{}\n", MARK[0])).await?;
        let mut answer = Vec::new();
        loop {
            match self.line().await? {
                Some(line) if line == MARK[1] => return Ok(answer),
                line => answer.extend(line),
            }
        }
    }

    /// The next line of output, unless it belongs to an event or to the logging.
    async fn line(&mut self) -> Result<Option<String>> {
        let Some(line) = self.program.line().await? else {
            bail!(self.program.failure("it has ended"));
        };
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

/// A process with Curator's locks, `interop/CuratorPeer.java`, which explains what it is told and
/// says.
#[derive(Debug)]
pub struct Curator(Program);

impl Curator {
    /// Starts it and returns when it is connected to the server at `address`.
    pub async fn connect(address: &str) -> Result<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../interop/CuratorPeer.java");
        let java = find_java().context("no Java found; tests/run installs it")?;
        let mut command = Command::new(java);
        command.args(JVM_FLAGS.split(' ')).arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
        command.args(["-classpath", CURATOR_JARS]).arg(source).arg(address);
        let mut curator = Self(Program::start(command)?);
        curator.says("ready").await?;
        Ok(curator)
    }

    /// Has it do something, without waiting for the answer.
    pub async fn tell(&mut self, line: &str) -> Result<()> {
        self.0.transcript.extend(["> ", line, "\n"]);
        self.0.write(&format!("{line}\n")).await
    }

    /// Waits until it says this, and passes over whatever it says before. Fails when something
    /// failed.
    pub async fn says(&mut self, expected: &str) -> Result<()> {
        while self.line().await? != expected {}
        Ok(())
    }

    /// Waits for the next answer of this thread of it and returns what that says besides `ok`.
    /// Passes over the others, and fails when something failed.
    pub async fn answer(&mut self, thread: &str) -> Result<String> {
        let done = format!("{thread} ok");
        loop {
            if let Some(answer) = self.line().await?.strip_prefix(&done) {
                return Ok(answer.trim_start().to_owned());
            }
        }
    }

    /// Has it do something, waits until it is done and returns what it says besides `ok`.
    pub async fn does(&mut self, line: &str) -> Result<String> {
        self.tell(line).await?;
        self.answer(line.split(' ').next().unwrap_or_default()).await
    }

    /// Ends its session and the program.
    pub async fn quit(self) -> Result<()> {
        self.0.finish().await
    }

    async fn line(&mut self) -> Result<String> {
        let line = self.0.line().await?;
        let line = line.ok_or_else(|| self.0.failure("it has ended"))?;
        ensure!(!line.contains(" failed: "), self.0.failure("something failed"));
        Ok(line)
    }
}
