//! Measures the figures that this project promises, in turns, and compares them with their bounds.
//!
//! Each round runs every command once, so that disturbances of the machine affect all of them; a
//! ratio is taken within a round. `tests/figures` builds the programs and runs this.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lexopt::{Arg, ValueExt};
use serde_json::Value;

/// The suites, in the order of their rows. A suite of another program goes to the end.
const SUITES: &[Suite] = &[
    Suite {
        // What a get costs depends above all on the kernel, and so on the machine. The bounds are
        // for what the client adds to the sketch, the plainest async client.
        title: "CPU of a get, in microseconds, beside the sketch",
        program: "bench",
        rows: &[
            Row::new("1 in flight", GET_1, CPU)
                .against("get/sketch", SKETCH_1, CPU)
                .adds(8.0, 1.25),
            Row::new("16 in flight", GET_16, CPU)
                .against("get/sketch", SKETCH_16, CPU)
                .adds(0.5, 1.3),
            Row::new("256 in flight", GET_256, CPU)
                .against("get/sketch", SKETCH_256, CPU)
                .adds(0.5, 1.8),
            Row::new("10,000 in flight", "get --depth 10000", CPU)
                .against("get/sketch", "sketch --depth 10000", CPU)
                .adds(0.6, 2.3),
            Row::new("16, two workers", "get --depth 16 --threads 2", CPU)
                .against("get/sketch", "sketch --depth 16 --threads 2", CPU)
                .adds(0.5, 1.2),
            Row::new("256, two workers", "get --depth 256 --threads 2", CPU)
                .against("get/sketch", "sketch --depth 256 --threads 2", CPU)
                .adds(0.5, 1.2),
        ],
    },
    Suite {
        // Without an async runtime, and with one write for all requests in flight.
        title: "CPU of a get, in microseconds, beside bare sockets",
        program: "bench",
        rows: &[
            Row::new("1 in flight", GET_1, CPU).against("get/raw", RAW_1, CPU),
            Row::new("16 in flight", GET_16, CPU).against("get/raw", RAW_16, CPU),
            Row::new("256 in flight", GET_256, CPU).against("get/raw", RAW_256, CPU),
        ],
    },
    Suite {
        title: "Latency of a get, in microseconds, beside the sketch",
        program: "bench",
        rows: &[
            Row::new("p50, 1 in flight", "get --latency", "p50_us")
                .against("get/sketch", "sketch --latency", "p50_us")
                .adds(10.0, 1.15),
            Row::new("p99, 1 in flight", "get --latency", "p99_us")
                .against("get/sketch", "sketch --latency", "p99_us")
                .adds(40.0, 1.4),
        ],
    },
    Suite {
        title: "CPU of watches, in microseconds, beside a get of the sketch",
        program: "bench",
        rows: &[
            Row::new("to set one", WATCH, CPU)
                .against("watch/get", SKETCH_256, CPU)
                .line("watch-arm")
                .ratio(4.5),
            Row::new("an event, of 10,000", WATCH, CPU)
                .against("event/get", SKETCH_256, CPU)
                .line("watch-burst")
                .ratio(1.8),
            Row::new("an event, a task for each", WATCH, CPU).line("watch-burst-tasks"),
            Row::new("an event of a stream", "stream", CPU)
                .against("event/get", SKETCH_256, CPU)
                .ratio(0.8),
        ],
    },
    Suite {
        title: "Memory",
        program: "bench",
        rows: &[
            Row::new("a million gets, times payload", KEEP, "times_payload_besides_handles")
                .at_most(2.5),
            Row::new("an idle watch, bytes", "idle", "bytes_per_watch_besides_path").at_most(300.0),
        ],
    },
    Suite {
        title: "CPU as work grows, in microseconds",
        program: "bench",
        rows: &[
            Row::new("100,000 idle watches", "get --depth 256 --watches 100000", CPU)
                .against("100,000/1", "get --depth 256 --watches 1", CPU)
                .ratio(1.3),
            Row::new("to set 100,000 watches", "watch --watches 100000", CPU)
                .line("watch-arm")
                .against("100,000/1,000", "watch --watches 1000", CPU)
                .ratio(2.6),
        ],
    },
    Suite {
        title: "CPU of a list of children, in nanoseconds for each name",
        program: "bench",
        rows: &[Row::new("100,000 names", "children --children 100000", "cpu_ns_per_name")
            .against("100,000/1,000", "children --children 1000", "cpu_ns_per_name")],
    },
];

/// The suites on a real server. Those that resemble a service come first, then closed loops.
const LOCKS: &[Suite] = &[
    Suite {
        title: "Acquire, write, release, pause: how long an acquire takes, in microseconds",
        program: "bench_locks",
        rows: &[
            Row::new("1 process, pause 1 ms, p50", LONE, "p50_us").against_peer(LONE).ratio(0.72),
            Row::new("4, 0.3 ms, p50", FEW, "p50_us").against_peer(FEW).ratio(0.8),
            Row::new("4, 0.3 ms, p99", FEW, "p99_us").against_peer(FEW).ratio(0.8),
            Row::new("16, 2 ms, p50", MORE, "p50_us").against_peer(MORE).ratio(0.8),
            Row::new("16, 2 ms, p99", MORE, "p99_us").against_peer(MORE).ratio(0.8),
            Row::new("48, 6 ms, p50", MANY, "p50_us").against_peer(MANY).ratio(0.8),
            Row::new("48, 6 ms, p99", MANY, "p99_us").against_peer(MANY).ratio(0.8),
        ],
    },
    Suite {
        title: "Acquire, write, release, pause: acquires a second",
        program: "bench_locks",
        rows: &[
            Row::new("1 process, pause 1 ms", LONE, RATE).against_peer(LONE).ratio_at_least(1.0),
            Row::new("4, 0.3 ms", FEW, RATE).against_peer(FEW).ratio_at_least(1.0),
            Row::new("16, 2 ms", MORE, RATE).against_peer(MORE).ratio_at_least(1.0),
            Row::new("48, 6 ms", MANY, RATE).against_peer(MANY).ratio_at_least(1.0),
        ],
    },
    Suite {
        title: "Acquire, write, release, pause: CPU of an acquire, in microseconds",
        program: "bench_locks",
        rows: &[
            Row::new("4, 0.3 ms, clients", FEW, CPU).against_peer(FEW).ratio(0.75),
            Row::new("4, 0.3 ms, server", FEW, SERVER).against_peer(FEW).ratio(0.8),
            Row::new("16, 2 ms, clients", MORE, CPU).against_peer(MORE).ratio(0.75),
            Row::new("16, 2 ms, server", MORE, SERVER).against_peer(MORE).ratio(0.8),
            Row::new("48, 6 ms, clients", MANY, CPU).against_peer(MANY).ratio(1.0),
            Row::new("48, 6 ms, server", MANY, SERVER).against_peer(MANY).ratio(1.0),
        ],
    },
    Suite {
        title: "Acquire, write, release, pause: requests and notifications for each acquire",
        program: "bench_locks",
        rows: &[
            Row::new("4, 0.3 ms, requests", FEW, REQUESTS).against_peer(FEW),
            Row::new("4, 0.3 ms, notifications", FEW, EVENTS).against_peer(FEW),
            Row::new("16, 2 ms, requests", MORE, REQUESTS).against_peer(MORE),
            Row::new("16, 2 ms, notifications", MORE, EVENTS).against_peer(MORE),
            Row::new("48, 6 ms, requests", MANY, REQUESTS).against_peer(MANY),
            Row::new("48, 6 ms, notifications", MANY, EVENTS).against_peer(MANY),
        ],
    },
    Suite {
        title: "Closed loops: acquires a second",
        program: "bench_locks",
        rows: &[
            Row::new("1 process", CYCLE, RATE).against_peer(CYCLE).ratio_at_least(1.3),
            Row::new("4 processes", FIGHT, RATE).against_peer(FIGHT).ratio_at_least(1.3),
            Row::new("2 processes of 32 tasks, two-level", TWO_LEVEL, RATE)
                .against_peer(TWO_LEVEL)
                .ratio_at_least(20.0),
        ],
    },
    Suite {
        // Requests that begin before the count and end in it are counted in part, and so are pings.
        title: "Closed loops: requests for each acquire",
        program: "bench_locks",
        rows: &[
            Row::new("1 process", CYCLE, REQUESTS).against_peer(CYCLE),
            Row::new("4 processes", FIGHT, REQUESTS).against_peer(FIGHT),
            Row::new("2 processes of 32 tasks, two-level", TWO_LEVEL, REQUESTS)
                .against_peer(TWO_LEVEL)
                .at_most(0.17),
        ],
    },
    Suite {
        title: "Closed loops: acquires of the process with most, by those of the one with fewest",
        program: "bench_locks",
        rows: &[
            Row::new("4 processes", FIGHT, FAIRNESS).against_peer(FIGHT).at_most(1.3),
            Row::new("2 processes of 32 tasks, two-level", TWO_LEVEL, FAIRNESS)
                .against_peer(TWO_LEVEL)
                .at_most(1.3),
        ],
    },
    Suite {
        title: "A two-level lock that lingers",
        program: "bench_locks",
        rows: &[
            Row::new("taken again, a second", LINGER, RATE).at_least(500_000.0),
            Row::new("taken again, requests", LINGER, REQUESTS).at_most(0.001),
            Row::new("taken from another session, p50, us", VISIT, "p50_us"),
            Row::new("taken from another session, p99, us", VISIT, "p99_us").at_most(5_000.0),
        ],
    },
    Suite {
        title: "Long queues, 2 processes of 500 tasks: CPU of an acquire, in microseconds",
        program: "bench_locks",
        rows: &[
            Row::new("clients", CROWD, CPU).against_peer(CROWD).ratio(0.5),
            Row::new("server", CROWD, SERVER).against_peer(CROWD).ratio(0.7),
        ],
    },
];

/// One session alone takes the lock, or a second session takes it in between each time.
const LINGER: &str = "linger";
const VISIT: &str = "visit --latency";

const LONE: &str = "contend --processes 1 --pause 1000 --latency";
const FEW: &str = "contend --processes 4 --pause 300 --latency";
const MORE: &str = "contend --processes 16 --pause 2000 --latency";
const MANY: &str = "contend --processes 48 --pause 6000 --latency";
const CYCLE: &str = "lock-cycle";
const FIGHT: &str = "lock-fight --processes 4";
const CROWD: &str = "lock-fight --processes 2 --tasks 500";
const TWO_LEVEL: &str = "two-level --processes 2 --tasks 32";

const RATE: &str = "ops_per_second";
const SERVER: &str = "server_cpu_us_per_op";
const REQUESTS: &str = "requests_per_op";
const EVENTS: &str = "events_per_op";
const FAIRNESS: &str = "most_by_fewest";

/// The same races with other libraries' locks.
const PEER: &str = "peer_locks";

const RAW_1: &str = "raw --depth 1";
const RAW_16: &str = "raw --depth 16";
const RAW_256: &str = "raw --depth 256";
const SKETCH_1: &str = "sketch --depth 1";
const SKETCH_16: &str = "sketch --depth 16";
const SKETCH_256: &str = "sketch --depth 256";
const GET_1: &str = "get --depth 1";
const GET_16: &str = "get --depth 16";
const GET_256: &str = "get --depth 256";
const WATCH: &str = "watch --watches 10000";
const KEEP: &str = "keep --depth 256";

const CPU: &str = "client_cpu_us_per_op";

/// Rows that belong together, and the example that measures them.
struct Suite {
    title: &'static str,
    program: &'static str,
    rows: &'static [Row],
}

/// A figure, the figure that it is compared with, and its bound.
struct Row {
    label: &'static str,
    figure: Figure,
    /// The name of the ratio, and the figure to divide by.
    against: Option<(&'static str, Figure)>,
    bound: Bound,
}

/// A field of a line that a command prints.
#[derive(Clone, Copy)]
struct Figure {
    /// The program, if it is not the suite's.
    program: Option<&'static str>,
    command: &'static str,
    /// The workload of the line, if the command prints several.
    line: Option<&'static str>,
    field: &'static str,
}

#[derive(Clone, Copy)]
enum Bound {
    None,
    AtMost(f64),
    AtLeast(f64),
    RatioAtMost(f64),
    RatioAtLeast(f64),
    /// At most so much more than the other figure, and at most so many times it.
    Adds(f64, f64),
}

impl Row {
    const fn new(label: &'static str, command: &'static str, field: &'static str) -> Self {
        let figure = Figure { program: None, command, line: None, field };
        Self { label, figure, against: None, bound: Bound::None }
    }

    const fn line(mut self, workload: &'static str) -> Self {
        self.figure.line = Some(workload);
        self
    }

    const fn against(
        mut self,
        ratio: &'static str,
        command: &'static str,
        field: &'static str,
    ) -> Self {
        let line = self.figure.line;
        self.against = Some((ratio, Figure { program: None, command, line, field }));
        self
    }

    /// The same figure of [`PEER`].
    const fn against_peer(mut self, command: &'static str) -> Self {
        let field = self.figure.field;
        let figure = Figure { program: Some(PEER), command, line: None, field };
        self.against = Some(("ours/theirs", figure));
        self
    }

    const fn at_most(mut self, bound: f64) -> Self {
        self.bound = Bound::AtMost(bound);
        self
    }

    const fn at_least(mut self, bound: f64) -> Self {
        self.bound = Bound::AtLeast(bound);
        self
    }

    const fn ratio(mut self, bound: f64) -> Self {
        self.bound = Bound::RatioAtMost(bound);
        self
    }

    const fn ratio_at_least(mut self, bound: f64) -> Self {
        self.bound = Bound::RatioAtLeast(bound);
        self
    }

    const fn adds(mut self, more: f64, times: f64) -> Self {
        self.bound = Bound::Adds(more, times);
        self
    }

    fn figures(&self) -> impl Iterator<Item = Figure> {
        [Some(self.figure), self.against.map(|(_, figure)| figure)].into_iter().flatten()
    }
}

/// The lines that each command printed, round after round.
#[derive(Default)]
struct Measured(BTreeMap<(&'static str, &'static str), Vec<Vec<Value>>>);

impl Measured {
    /// The values of a figure, one for each round.
    fn all(&self, program: &'static str, figure: Figure) -> Result<Vec<f64>, String> {
        let rounds = self
            .0
            .get(&(figure.program.unwrap_or(program), figure.command))
            .map(Vec::as_slice)
            .unwrap_or_default();
        let find = |lines: &Vec<Value>| {
            let line = lines.iter().find(|line| match figure.line {
                Some(workload) => line["workload"] == workload,
                None => true,
            });
            line.and_then(|line| line[figure.field].as_f64())
        };
        let missing = || format!("`{}` tells no {}", figure.command, figure.field);
        rounds.iter().map(|lines| find(lines).ok_or_else(missing)).collect()
    }
}

const USAGE: &str = "\
Usage: tests/figures [--no-pin] [--seconds S] [--only WORD] [ROUNDS]

Measures what this project promises of its speed, ROUNDS times in turns (5), and prints the medians
beside their bounds. The client runs on core 0 and the server on core 1; the machine should have
nothing else to do. --seconds is for how long each command measures (2). --only leaves out the
parts without the word in their title. Fails, at its end, if a bound is not met.

tests/figures-locks measures the locks in the same way, on a real server that it starts.
";

struct Arguments {
    programs: PathBuf,
    pin: bool,
    seconds: String,
    only: String,
    rounds: usize,
    /// The address of a real server, to measure the locks on it.
    locks: Option<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(arguments) = arguments()? else {
        print!("{USAGE}");
        return Ok(());
    };
    let suites = if arguments.locks.is_some() { LOCKS } else { SUITES };
    let suites = suites.iter().filter(|suite| suite.title.contains(&arguments.only));
    let suites = suites.collect::<Vec<_>>();
    if suites.is_empty() {
        return Err(format!("no part has {:?} in its title", arguments.only).into());
    }
    let mut commands = Vec::new();
    for suite in &suites {
        for figure in suite.rows.iter().flat_map(Row::figures) {
            let command = (figure.program.unwrap_or(suite.program), figure.command);
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
    }
    let mut measured = Measured::default();
    for round in 1..=arguments.rounds {
        eprintln!("round {round} of {}: {} commands", arguments.rounds, commands.len());
        for (program, command) in &commands {
            let lines = run(&arguments, program, command)?;
            measured.0.entry((program, command)).or_default().push(lines);
        }
    }
    let mut unmet = 0;
    for suite in suites {
        unmet += print(suite, &measured)?;
    }
    match unmet {
        0 => Ok(()),
        _ => Err(format!("not met: {unmet} of the bounds").into()),
    }
}

fn arguments() -> Result<Option<Arguments>, Box<dyn Error>> {
    let mut parsed = Arguments {
        programs: Path::new("target/release/examples").to_owned(),
        pin: true,
        seconds: "2".to_owned(),
        only: String::new(),
        rounds: 5,
        locks: None,
    };
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Long("programs") => parsed.programs = arguments.value()?.into(),
            Arg::Long("no-pin") => parsed.pin = false,
            Arg::Long("seconds") => parsed.seconds = arguments.value()?.string()?,
            Arg::Long("only") => parsed.only = arguments.value()?.string()?,
            Arg::Long("locks") => parsed.locks = Some(arguments.value()?.string()?),
            Arg::Value(rounds) => parsed.rounds = rounds.parse()?,
            other => return Err(other.unexpected().into()),
        }
    }
    if parsed.rounds == 0 {
        return Err("at least one round".into());
    }
    Ok(Some(parsed))
}

/// Runs a command and returns its lines.
fn run(arguments: &Arguments, program: &str, command: &str) -> Result<Vec<Value>, Box<dyn Error>> {
    let mut child = Command::new(arguments.programs.join(program));
    child.args(command.split_whitespace()).args(["--seconds", &arguments.seconds]);
    if arguments.pin {
        child.arg("--pin");
    }
    if let Some(server) = &arguments.locks {
        child.args(["--connect", server]);
    }
    let output = child.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{program} {command}: {}", output.status).into());
    }
    let lines = String::from_utf8(output.stdout)?;
    Ok(lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Prints the table of a suite. Returns how many of its bounds are not met.
fn print(suite: &Suite, measured: &Measured) -> Result<usize, Box<dyn Error>> {
    let mut unmet = 0;
    println!("\n{}\n", suite.title);
    println!("| | median | least | most | beside | ratio | bound | |");
    println!("|---|---|---|---|---|---|---|---|");
    for row in suite.rows {
        let figures = measured.all(suite.program, row.figure)?;
        let (value, least, most) = spread(&figures);
        let (mut beside, mut compared, mut told) = (String::new(), None, String::new());
        if let Some((name, figure)) = row.against {
            let others = measured.all(suite.program, figure)?;
            let pairs = || figures.iter().zip(&others);
            let ratios = pairs().map(|(a, b)| a / b).collect::<Vec<_>>();
            let more = pairs().map(|(a, b)| a - b).collect::<Vec<_>>();
            let (times, more) = (spread(&ratios).0, spread(&more).0);
            beside = digits(spread(&others).0);
            told = format!("{name} {times:.2}");
            if let Bound::Adds(..) = row.bound {
                told += &format!(", {more:+.2}");
            }
            compared = Some((times, more));
        }
        let (bound, met) = match (row.bound, compared) {
            (Bound::AtMost(bound), _) => (format!("{bound}"), Some(value <= bound)),
            (Bound::AtLeast(bound), _) => (format!("at least {bound}"), Some(value >= bound)),
            (Bound::RatioAtMost(bound), Some((times, _))) => {
                (format!("{bound} times"), Some(times <= bound))
            }
            (Bound::RatioAtLeast(bound), Some((times, _))) => {
                (format!("at least {bound} times"), Some(times >= bound))
            }
            (Bound::Adds(bound, most), Some((times, more))) => {
                (format!("{most} times, {bound:+}"), Some(times <= most && more <= bound))
            }
            _ => (String::new(), None),
        };
        unmet += usize::from(met == Some(false));
        let met = met.map_or("", |met| if met { "met" } else { "NOT MET" });
        println!(
            "| {} | {} | {} | {} | {beside} | {told} | {bound} | {met} |",
            row.label,
            digits(value),
            digits(least),
            digits(most),
        );
    }
    Ok(unmet)
}

/// The median, the least and the greatest.
fn spread(figures: &[f64]) -> (f64, f64, f64) {
    let mut figures = figures.to_vec();
    figures.sort_unstable_by(f64::total_cmp);
    let last = figures.len() - 1;
    // For an odd count both are the middle one.
    let median = (figures[last / 2] + figures[last.div_ceil(2)]) / 2.0;
    (median, figures[0], figures[last])
}

/// The figure with three digits.
fn digits(figure: f64) -> String {
    let before = figure.abs().max(1e-9).log10().floor() as i32;
    format!("{figure:.*}", (2 - before).clamp(0, 4) as usize)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(spread(&[3.0]), (3.0, 3.0, 3.0));
        assert_eq!(spread(&[4.0, 1.0]), (2.5, 1.0, 4.0));
        assert_eq!(spread(&[9.0, 1.0, 2.0]), (2.0, 1.0, 9.0));
        assert_eq!(spread(&[9.0, 1.0, 2.0, 5.0]), (3.5, 1.0, 9.0));
    }

    #[test]
    fn bounds_that_are_not_met_are_counted() {
        const ROWS: &[Row] = &[
            Row::new("met", "a", "cost").at_most(2.0),
            Row::new("not met", "a", "cost").at_most(1.9),
            Row::new("met", "a", "cost").at_least(2.0),
            Row::new("not met", "a", "cost").at_least(2.1),
            Row::new("met", "a", "cost").against("a/b", "b", "cost").ratio(0.5),
            Row::new("not met", "a", "cost").against("a/b", "b", "cost").ratio(0.49),
            Row::new("met", "a", "cost").against("a/b", "b", "cost").ratio_at_least(0.5),
            Row::new("not met", "a", "cost").against("a/b", "b", "cost").ratio_at_least(0.51),
            Row::new("met", "b", "cost").against("b/a", "a", "cost").adds(2.0, 2.0),
            Row::new("not met", "b", "cost").against("b/a", "a", "cost").adds(1.9, 2.0),
            Row::new("not met", "b", "cost").against("b/a", "a", "cost").adds(2.0, 1.9),
            Row::new("unbounded", "a", "cost").against("a/b", "b", "cost"),
        ];
        let mut measured = Measured::default();
        measured.0.insert(("p", "a"), vec![vec![json!({ "cost": 2.0 })]]);
        measured.0.insert(("p", "b"), vec![vec![json!({ "cost": 4.0 })]]);
        let suite = Suite { title: "t", program: "p", rows: ROWS };
        assert_eq!(print(&suite, &measured).unwrap(), 6);
    }
}
