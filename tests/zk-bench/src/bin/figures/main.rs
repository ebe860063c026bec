//! Measures the figures that this project promises, in turns, and compares them with their bounds.
//!
//! Each round runs every command once, so that disturbances of the machine affect all of them; a
//! ratio is taken within a round. `tests/figures` builds the programs and runs this.

mod peers;
mod suites;
mod table;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lexopt::{Arg, ValueExt};
use serde_json::Value;

use suites::{Bound, Figure, LOCKS, Row, SUITES, Suite};

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
Usage: tests/figures [--peers | --table] [--no-pin] [--seconds S] [--only WORD] [ROUNDS]

Measures what this project promises of its speed, ROUNDS times in turns (5), and prints the medians
beside their bounds. The client runs on core 0 and the server on core 1; the machine should have
nothing else to do. --seconds is for how long each command measures (2). --only leaves out the
parts without the word in their title. Fails, at its end, if a bound is not met.

--peers, which comes first, measures the requests on a real server that it starts, beside those of
the crates zookeeper-client, zookeeper-async and tokio-zookeeper, and fails if a row is behind the
best of them by more than the spread of the rounds. --table, too, comes first, and prints what a
build and a lock cost beside these crates, as the README has it.

tests/figures-locks measures the locks in the same way, on a real server that it starts.
";

struct Arguments {
    programs: PathBuf,
    pin: bool,
    seconds: String,
    only: String,
    rounds: usize,
    mode: Mode,
    /// The address of a real server.
    server: Option<String>,
}

/// What to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Client,
    Locks,
    Peers,
    Table,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(arguments) = arguments()? else {
        print!("{USAGE}");
        return Ok(());
    };
    let suites = match arguments.mode {
        Mode::Client => SUITES,
        Mode::Locks => LOCKS,
        Mode::Peers => return peers::run_beside_peers(&arguments),
        Mode::Table => return table::run_for_readme(&arguments),
    };
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
        mode: Mode::Client,
        server: None,
    };
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Long("programs") => parsed.programs = arguments.value()?.into(),
            Arg::Long("no-pin") => parsed.pin = false,
            Arg::Long("seconds") => parsed.seconds = arguments.value()?.string()?,
            Arg::Long("only") => parsed.only = arguments.value()?.string()?,
            Arg::Long(mode @ ("locks" | "peers" | "table")) => {
                parsed.mode = match mode {
                    "locks" => Mode::Locks,
                    "peers" => Mode::Peers,
                    _ => Mode::Table,
                };
                parsed.server = Some(arguments.value()?.string()?);
            }
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
    if let Some(server) = &arguments.server {
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
