//! Several processes that run the same workload at once: how often each of them gets its turn.
//!
//! A contender is this program again, with `--contender`. It connects, reports that, and begins
//! when all are ready. From then on it counts when it is ordered to, and continues until its
//! standard input ends, so that no contender has it easier because others have already ended.

use std::env;
use std::io::{self, BufRead, BufReader, Write, stdin, stdout};
use std::process::{self, Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::meter::{Latencies, Memory, Meter, Spent, now};
use crate::options::Options;
use crate::report::{Report, rounded};
use crate::server::Server;

/// Runs `options.processes` contenders with the workload, and prints the line about them.
pub fn run(workload: &str, options: &Options, server: &Server) -> io::Result<()> {
    // Folders that were used before would begin with other sequence numbers.
    let folder = format!("/{workload}-{}", process::id());
    let mut contenders = (0..options.processes)
        .map(|_| Contender::start(workload, options, server, &folder))
        .collect::<io::Result<Vec<_>>>()?;
    for contender in &mut contenders {
        contender.hear("ready")?;
    }
    tell(&mut contenders, GO)?;
    thread::sleep(options.warm_up);
    let (packets, cpu_before) = (server.packets(), server.cpu());
    let start = now();
    tell(&mut contenders, COUNT)?;
    thread::sleep(options.duration);
    tell(&mut contenders, REPORT)?;
    let time = start.elapsed();
    let (packets_after, cpu_after) = (server.packets(), server.cpu());
    let counts = contenders.iter_mut().map(Contender::count).collect::<io::Result<Vec<_>>>()?;
    drop(contenders);

    let each = counts.iter().filter_map(|count| count["ops"].as_u64()).collect::<Vec<_>>();
    let ops = each.iter().sum();
    let most = |name: &str| counts.iter().filter_map(|count| count[name].as_f64()).reduce(f64::max);
    let cpu = counts.iter().filter_map(|count| count["cpu_seconds"].as_f64()).sum();
    let spent = Spent { time, cpu: Duration::from_secs_f64(cpu) };
    let mut report = Report::new(workload, options, ops, spent);
    if options.latency {
        let latencies = Latencies::default();
        for count in &counts {
            latencies.add(serde_json::from_value::<Vec<_>>(count["nanoseconds"].clone())?);
        }
        report.latencies(&latencies);
    }
    report.put("peak_memory_bytes", most("peak_memory_bytes"));
    let per_op = |count: f64| rounded(count / ops.max(1) as f64);
    if let (Some(before), Some(after)) = (packets, packets_after) {
        // The request for the count counts itself.
        let requests = after.received.saturating_sub(before.received + 1);
        report.put("requests_per_op", per_op(requests as f64));
        if let (Some(before), Some(after)) = (before.sent, after.sent) {
            let events = after.saturating_sub(before + 1).saturating_sub(requests);
            report.put("events_per_op", per_op(events as f64));
        }
    }
    if let (Some(before), Some(after)) = (cpu_before, cpu_after) {
        let cpu = after.saturating_sub(before);
        report.put("server_cpu_us_per_op", per_op(cpu.as_secs_f64() * 1e6));
    }
    report.put("pause_us", options.pause.as_micros() as u64);
    report.put("processes", options.processes);
    report.put("tasks", options.tasks);
    let (fewest, most) = (each.iter().min(), each.iter().max());
    if let (Some(&fewest), Some(&most)) = (fewest, most) {
        report.put("most_by_fewest", rounded(most as f64 / fewest.max(1) as f64));
    }
    report.print()
}

const GO: &str = "go\n";
const COUNT: &str = "count\n";
const REPORT: &str = "report\n";

/// One of the processes. It ends when this is dropped.
struct Contender {
    child: Child,
    orders: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
}

impl Contender {
    fn start(workload: &str, options: &Options, server: &Server, folder: &str) -> io::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args([workload, "--contender", folder, "--connect", server.address()]);
        command.args(["--tasks", &options.tasks.to_string()]);
        command.args(["--pause", &options.pause.as_micros().to_string()]);
        command.args(["--threads", &options.threads.to_string()]);
        command.args(options.pin.then_some("--pin"));
        command.args(options.latency.then_some("--latency"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (orders @ Some(_), Some(said)) => {
                Ok(Self { child, orders, said: BufReader::new(said) })
            }
            _ => Err(io::Error::other("a process without pipes")),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.said.read_line(&mut line)? {
            0 => Err(io::Error::other("a contender has ended")),
            _ => Ok(line),
        }
    }

    fn hear(&mut self, word: &str) -> io::Result<()> {
        let line = self.line()?;
        if line.trim_end() == word {
            return Ok(());
        }
        Err(io::Error::other(format!("{line:?} is not {word}")))
    }

    fn count(&mut self) -> io::Result<Value> {
        Ok(serde_json::from_str(&self.line()?)?)
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Err(error) = self.child.wait() {
            eprintln!("a contender: {error}");
        }
    }
}

fn tell(contenders: &mut [Contender], order: &str) -> io::Result<()> {
    for orders in contenders.iter_mut().filter_map(|contender| contender.orders.as_mut()) {
        orders.write_all(order.as_bytes())?;
    }
    Ok(())
}

/// The count of a contender, which its tasks share.
#[derive(Debug)]
pub struct Turns {
    phase: AtomicU8,
    ops: AtomicU64,
    latencies: Option<Latencies>,
}

const NOT_COUNTED: u8 = 0;
const COUNTED: u8 = 1;
const OVER: u8 = 2;

impl Turns {
    /// Reports that this contender is ready, and waits until all are. Start the tasks after this.
    pub fn start(options: &Options) -> io::Result<Arc<Self>> {
        let turns = Arc::new(Self {
            phase: AtomicU8::new(NOT_COUNTED),
            ops: AtomicU64::new(0),
            latencies: options.latency.then(Latencies::default),
        });
        println!("ready");
        order()?;
        let obeying = Arc::clone(&turns);
        thread::spawn(move || {
            if let Err(error) = obeying.obey() {
                eprintln!("a contender: {error}");
            }
            obeying.phase.store(OVER, Ordering::Relaxed);
        });
        Ok(turns)
    }

    /// Whether to take another turn.
    pub fn go_on(&self) -> bool {
        self.phase.load(Ordering::Relaxed) != OVER
    }

    /// The time, if turns are timed.
    pub fn asked(&self) -> Option<Instant> {
        self.latencies.is_some().then(now)
    }

    /// Counts a turn, which was asked for at this time.
    pub fn count(&self, asked: Option<Instant>) {
        if self.phase.load(Ordering::Relaxed) != COUNTED {
            return;
        }
        self.ops.fetch_add(1, Ordering::Relaxed);
        if let (Some(latencies), Some(asked)) = (&self.latencies, asked) {
            latencies.record(asked.elapsed());
        }
    }

    fn obey(&self) -> io::Result<()> {
        let mut meter = None;
        loop {
            match order()?.as_str() {
                COUNT => {
                    meter = Some(Meter::start());
                    self.phase.store(COUNTED, Ordering::Relaxed);
                }
                REPORT => {
                    self.phase.store(NOT_COUNTED, Ordering::Relaxed);
                    let spent = meter.take().map(Meter::stop).unwrap_or_default();
                    self.report(spent)?;
                }
                _ => return Ok(()),
            }
        }
    }

    fn report(&self, spent: Spent) -> io::Result<()> {
        let line = json!({
            "ops": self.ops.load(Ordering::Relaxed),
            "cpu_seconds": spent.cpu.as_secs_f64(),
            "nanoseconds": self.latencies.as_ref().map(Latencies::recorded),
            "peak_memory_bytes": Memory::look()?.peak,
        });
        writeln!(stdout(), "{line}")
    }
}

/// The next line of standard input; empty at its end.
fn order() -> io::Result<String> {
    let mut line = String::new();
    stdin().lock().read_line(&mut line)?;
    Ok(line)
}
