//! A client's command, run against one hostile server.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use zk_embedded::{Config, Server};
use zk_tap::{Observer, Tap};

use super::plan::Plan;
use super::relay::{Applied, Hostile};

/// How much of a client's output is kept; the rest is read and thrown away.
const KEPT: usize = 1 << 20;

/// How long the ends of the output may take when the client has ended.
const LAST_OUTPUT: Duration = Duration::from_secs(5);

/// The variable that has the address of the server.
const ADDRESS: &str = "ZK_ADDRESS";

/// What stands for the address in an argument.
const PLACE: &str = "{}";

/// Texts in a client's output that show that it has crashed, or a thread of it.
const CRASHES: [&str; 9] = [
    "panicked at",
    "AddressSanitizer",
    "runtime error:",
    "Exception in thread",
    "Fatal Python error",
    "OutOfMemoryError",
    "MemoryError",
    "stack smashing detected",
    "double free",
];

/// How a client's command is run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The program and its arguments. `{}` in an argument becomes the address of the server, which
    /// is also in the variable `ZK_ADDRESS`.
    pub command: Vec<OsString>,
    /// How long the client may take. Then its connections are closed and the server behaves, and it
    /// has this time again; a client that has not ended then hangs.
    pub patience: Duration,
    /// Texts in its output that show a crash, beside the usual ones.
    pub crashes: Vec<String>,
    /// The limit of its address space in MiB, if it has one.
    pub memory: Option<u64>,
}

impl Options {
    /// A command with a patience of 20 seconds.
    pub fn new(command: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            patience: Duration::from_secs(20),
            crashes: Vec::new(),
            memory: None,
        }
    }

    fn command(&self, address: &str) -> Result<Command> {
        let arguments = self.command.iter().map(|argument| match argument.to_str() {
            Some(text) => text.replace(PLACE, address).into(),
            None => argument.clone(),
        });
        let mut arguments = arguments.collect::<Vec<OsString>>().into_iter();
        let program = arguments.next().context("no command")?;
        let mut command = match self.memory {
            None => Command::new(program),
            Some(mebibytes) => {
                let mut command = Command::new("sh");
                let limit = (mebibytes << 10).to_string();
                command.args(["-c", "ulimit -v \"$0\" && exec \"$@\"", &limit]).arg(program);
                command
            }
        };
        command.args(arguments).env(ADDRESS, address);
        Ok(command)
    }
}

/// How a client ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// With this exit status.
    Exit(i32),
    /// It crashed: by a signal, or with a text that shows a crash.
    Crash(String),
    /// It did not end, not even when the server behaved again.
    Hang,
    /// It claims to have read what no node ever held, although nobody lied to it.
    Wrong(String),
}

impl Ending {
    /// Whether it is to be reported.
    pub fn is_finding(&self) -> bool {
        !matches!(self, Self::Exit(_))
    }

    /// The kind of ending, without its details.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Exit(_) => "exit",
            Self::Crash(_) => "crash",
            Self::Hang => "hang",
            Self::Wrong(_) => "wrong result",
        }
    }
}

/// What came of one run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) ending: Ending,
    pub(super) applied: Vec<Applied>,
    pub(super) output: String,
}

/// A line of output in which a client says what it has read.
#[derive(Deserialize)]
struct Claim {
    path: String,
    version: i32,
    data: String,
}

/// Runs the command once. The recording, if there is one, has what the client sent and received.
pub(super) async fn run(
    plan: Plan,
    options: &Options,
    recording: Option<Box<dyn Write + Send>>,
) -> Result<Run> {
    let config = Config::new()
        .tick_time(Duration::from_millis(200))
        .max_session_timeout(Duration::from_secs(60))
        .extended_types(true)
        .max_connections_per_host(0);
    let server = Server::with(config).await?;
    let hostile = Hostile::start(plan, server.address()).await?;
    let tap = match recording {
        None => None,
        Some(out) => {
            let observer = Observer::new().recording(BufWriter::new(out));
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            Some(Tap::start(listener, hostile.address().to_owned(), observer)?)
        }
    };
    let address = tap.as_ref().map(|tap| tap.address().to_string());
    let address = address.as_deref().unwrap_or(hostile.address());
    let mut client = Client::start(options.command(address)?)?;
    let mut status = timeout(options.patience, client.child.wait()).await;
    if status.is_err() {
        hostile.behave();
        status = timeout(options.patience, client.child.wait()).await;
    }
    let output = client.end().await;
    if let Some(tap) = tap {
        tap.stop().await?;
    }
    let ending = match status {
        Err(_) => Ending::Hang,
        Ok(status) => judge(status?, &output, options, &hostile),
    };
    Ok(Run { ending, applied: hostile.applied(), output })
}

fn judge(status: ExitStatus, output: &str, options: &Options, hostile: &Hostile) -> Ending {
    let crashes = CRASHES.iter().copied().chain(options.crashes.iter().map(String::as_str));
    if let Some(signal) = status.signal() {
        return Ending::Crash(format!("signal {signal}"));
    }
    // The address space may end, and a shell reports the signal of what it ran.
    if let Some(code @ 129..=165) = status.code() {
        return Ending::Crash(format!("signal {} of a process below", code - 128));
    }
    if let Some(text) = crashes.into_iter().find(|text| output.contains(text)) {
        let line = output.lines().find(|line| line.contains(text)).unwrap_or(text);
        return Ending::Crash(line.trim().to_owned());
    }
    if hostile.applied().iter().all(|applied| applied.fault.is_honest()) {
        let claims = output.lines().filter(|line| line.starts_with('{'));
        for Claim { path, version, data } in claims.filter_map(|it| serde_json::from_str(it).ok()) {
            let held = (path, version, data.into_bytes());
            if !hostile.has_said(&held) {
                let (path, version, data) = held;
                let data = data.escape_ascii();
                return Ending::Wrong(format!("{path} never held \"{data}\" in version {version}"));
            }
        }
    }
    Ending::Exit(status.code().unwrap_or(-1))
}

/// A running client and what it has printed.
struct Client {
    child: Child,
    /// Its process group, which it leads.
    group: Option<Pid>,
    output: Arc<Mutex<Vec<u8>>>,
    readers: tokio::task::JoinSet<()>,
}

impl Client {
    fn start(mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {:?}", command.as_std()))?;
        let output = Arc::new(Mutex::new(Vec::new()));
        let mut readers = tokio::task::JoinSet::new();
        if let Some(stdout) = child.stdout.take() {
            readers.spawn(read(stdout, Arc::clone(&output)));
        }
        if let Some(stderr) = child.stderr.take() {
            readers.spawn(read(stderr, Arc::clone(&output)));
        }
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Self { child, group, output, readers })
    }

    /// Kills what is left of it, and returns what it has printed.
    async fn end(mut self) -> String {
        // What it left behind keeps the number of the group, and may have its pipes. Without any,
        // the number is free, and not so soon another's.
        if let Some(group) = self.group {
            // It fails if the whole group has ended, which is the aim.
            kill_process_group(group, Signal::KILL).ok();
        }
        // The output so far is all there is if these do not end.
        timeout(LAST_OUTPUT, async { while self.readers.join_next().await.is_some() {} })
            .await
            .ok();
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&output).into_owned()
    }
}

/// Reads to the end, line by line, so that the lines of both streams stay whole.
async fn read(mut from: impl AsyncRead + Unpin, to: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = Vec::new();
    loop {
        let read = from.read_buf(&mut buffer).await;
        let is_end = !matches!(read, Ok(1..));
        let lines = match buffer.iter().rposition(|byte| *byte == b'\n') {
            _ if is_end || buffer.len() > KEPT => buffer.len(),
            Some(last) => last + 1,
            None => 0,
        };
        let lines: Vec<u8> = buffer.drain(..lines).collect();
        let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
        let room = KEPT.saturating_sub(to.len()).min(lines.len());
        to.extend_from_slice(&lines[..room]);
        if is_end {
            return;
        }
    }
}

/// Creates a file for a recording.
pub(super) fn create(file: &std::path::Path) -> io::Result<Box<dyn Write + Send>> {
    Ok(Box::new(std::fs::File::create(file)?))
}
