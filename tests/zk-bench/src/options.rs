//! The options of a bench's command line. An option has the same meaning in all benches that take
//! it.

use std::error::Error;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};
use tokio::runtime::{Builder, Runtime};

use crate::meter::{self, Core};

/// The options of a bench, with their defaults.
#[derive(Clone, Debug)]
pub struct Options {
    /// The workload; `None` for a tour of all workloads.
    pub workload: Option<String>,
    /// How many requests are in flight, each of its own task.
    pub depth: usize,
    /// The number of threads.
    ///
    /// One is a runtime on the current thread, more are the workers of a multi-thread one.
    pub threads: usize,
    /// The server.
    pub server: Kind,
    /// Whether to pin the client to core 0 and the server to core 1.
    pub pin: bool,
    /// Whether to time each request, which costs CPU.
    pub latency: bool,
    /// How long to measure.
    pub duration: Duration,
    /// How long to warm up before measuring.
    pub warm_up: Duration,
    /// How many operations to measure, in place of a time; a tenth of them are run before.
    pub ops: Option<u64>,
    /// How many bytes of data nodes have.
    pub payload: usize,
    /// How many children a node has.
    pub children: usize,
    /// How many watches are set.
    pub watches: usize,
    /// How many processes contend.
    pub processes: usize,
    /// How many tasks each of these processes has.
    pub tasks: usize,
    /// How long a contender pauses between its turns, on average.
    pub pause: Duration,
    /// The folder in which this process contends. Set only in a contending process.
    pub contender: Option<String>,
}

/// The kind of server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A child with a [`NullServer`](crate::null::NullServer).
    Null,
    /// A child with a [`zk_embedded::Server`].
    Embedded,
    /// A server that listens there already.
    At(String),
}

/// The options of a bench of one client.
pub const CLIENT: &[&str] = &[
    "depth", "threads", "server", "connect", "pin", "latency", "seconds", "warm-up", "ops",
    "payload", "children", "watches",
];

/// The options of a [race](crate::race) between processes.
pub const RACE: &[&str] = &[
    "threads",
    "server",
    "connect",
    "pin",
    "latency",
    "seconds",
    "warm-up",
    "processes",
    "tasks",
    "pause",
    "contender",
];

/// The help text of these options, for `--help`.
pub fn help(options: &[&str]) -> String {
    let is_taken = |line: &&str| {
        let name = line.trim_start().strip_prefix("--").and_then(|rest| rest.split(' ').next());
        name.is_some_and(|name| options.contains(&name))
    };
    HELP.split_inclusive('\n').filter(is_taken).collect()
}

const HELP: &str = "\
  --depth N            requests in flight, each of its own task (1)
  --threads N          1: a runtime on the current thread, else N workers (1)
  --server WHICH       null: answers at once, embedded: a real tree (null)
  --connect HOST:PORT  a server that is there, instead of one of the above
  --pin                this process on core 0, the server on core 1
  --latency            time each operation, at some cost of CPU
  --seconds S          how long to measure (2)
  --warm-up S          how long not to measure before (0.5)
  --ops N              measure so many operations instead, after a tenth of them
  --payload BYTES      data of a node (100)
  --children N         children of a node (10)
  --watches N          watches that are set (each workload's own)
  --processes N        processes that contend (each workload's own)
  --tasks N            tasks of each of them (each workload's own)
  --pause US           microseconds between turns: the mean of random pauses (0)
";

impl Default for Options {
    fn default() -> Self {
        Self {
            workload: None,
            depth: 1,
            threads: 1,
            server: Kind::Null,
            pin: false,
            latency: false,
            duration: Duration::from_secs(2),
            warm_up: Duration::from_millis(500),
            ops: None,
            payload: 100,
            children: 10,
            watches: 0,
            processes: 1,
            tasks: 1,
            pause: Duration::ZERO,
            contender: None,
        }
    }
}

impl Options {
    /// Parses arguments. Those that begin with a dash must be among the options `taken`.
    ///
    /// The error is to be shown to the user.
    pub fn parse(
        taken: &[&str],
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Self, lexopt::Error> {
        Self::default().with(taken, arguments)
    }

    /// Parses arguments like [`parse`](Self::parse), with other defaults.
    pub fn with(
        self,
        taken: &[&str],
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Self, lexopt::Error> {
        let mut options = self;
        let mut arguments = Parser::from_args(arguments);
        while let Some(argument) = arguments.next()? {
            let name = match argument {
                Arg::Long(name) if taken.contains(&name) => name.to_owned(),
                Arg::Value(workload) if options.workload.is_none() => {
                    options.workload = Some(workload.string()?);
                    continue;
                }
                other => return Err(other.unexpected()),
            };
            let switch = match name.as_str() {
                "pin" => Some(&mut options.pin),
                "latency" => Some(&mut options.latency),
                _ => None,
            };
            if let Some(switch) = switch {
                *switch = true;
                continue;
            }
            let value = arguments.value()?;
            match name.as_str() {
                "depth" => options.depth = value.parse()?,
                "threads" => options.threads = value.parse()?,
                "server" => options.server = value.parse()?,
                "connect" => options.server = Kind::At(value.string()?),
                "seconds" => options.duration = value.parse_with(seconds)?,
                "warm-up" => options.warm_up = value.parse_with(seconds)?,
                "ops" => options.ops = Some(value.parse()?),
                "payload" => options.payload = value.parse()?,
                "children" => options.children = value.parse()?,
                "watches" => options.watches = value.parse()?,
                "processes" => options.processes = value.parse()?,
                "tasks" => options.tasks = value.parse()?,
                "pause" => options.pause = Duration::from_micros(value.parse()?),
                "contender" => options.contender = Some(value.string()?),
                other => return Err(format!("--{other} is in no table").into()),
            }
        }
        let Self { depth, threads, processes, tasks, .. } = options;
        if [depth, threads, processes, tasks].contains(&0) {
            return Err("depth, threads, processes and tasks are at least 1".into());
        }
        Ok(options)
    }

    /// The runtime that the options ask for.
    ///
    /// Its threads are pinned if this thread is: see [`Options::pin_client`].
    pub fn runtime(&self) -> io::Result<Runtime> {
        match self.threads {
            1 => Builder::new_current_thread().enable_all().build(),
            threads => Builder::new_multi_thread().worker_threads(threads).enable_all().build(),
        }
    }

    /// Pins this process if the options say so. Call it before the process has other threads.
    pub fn pin_client(&self) -> io::Result<()> {
        if self.pin { meter::pin(Core::Client) } else { Ok(()) }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "null" => Ok(Self::Null),
            "embedded" => Ok(Self::Embedded),
            other => Err(format!("{other} is no server; there are null and embedded")),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Embedded => "embedded",
            Self::At(address) => address,
        })
    }
}

fn seconds(text: &str) -> Result<Duration, Box<dyn Error + Send + Sync>> {
    Ok(Duration::try_from_secs_f64(text.parse()?)?)
}
