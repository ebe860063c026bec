//! The requests of this client beside those of others, on a real server.

use std::error::Error;

use serde_json::Value;

use crate::{Arguments, digits, run, spread};

/// Ours first: the name, and the program that runs the commands.
const CLIENTS: [(&str, &str); 4] = [
    ("zk-client", "bench"),
    ("zookeeper-client", "zookeeper-client-requests"),
    ("zookeeper-async", "zookeeper-async-requests"),
    ("tokio-zookeeper", "tokio-zookeeper-requests"),
];

const EVENT: &str = "event --latency";
const EVENT_2: &str = "event --latency --threads 2";
const CREATE_1: &str = "create-delete --latency";
const CREATE_64: &str = "create-delete --depth 64";
const SET_1: &str = "set --latency";
const SET_64: &str = "set --depth 64";
const COMMANDS: [&str; 6] = [EVENT, EVENT_2, CREATE_1, CREATE_64, SET_1, SET_64];

const CPU: &str = "client_cpu_us_per_op";
const P50: &str = "p50_us";

/// The label, the command and the field.
const ROWS: [(&str, &str, &str); 10] = [
    ("to watch, write and get the event, CPU", EVENT, CPU),
    ("the same, p50", EVENT, P50),
    ("the same on two workers, CPU", EVENT_2, CPU),
    ("the same on two workers, p50", EVENT_2, P50),
    ("create and delete, CPU", CREATE_1, CPU),
    ("the same, p50", CREATE_1, P50),
    ("create and delete, 64 in flight, CPU of each", CREATE_64, CPU),
    ("set, CPU", SET_1, CPU),
    ("the same, p50", SET_1, P50),
    ("set, 64 in flight, CPU of each", SET_64, CPU),
];

/// What a client printed for a command, round after round, or why it is not measured.
type Lines = Result<Vec<Value>, &'static str>;

fn measure_all(arguments: &Arguments) -> Vec<[Lines; 4]> {
    let mut all = Vec::from_iter(COMMANDS.map(|_| CLIENTS.map(|_| Ok(Vec::new()))));
    for round in 0..arguments.rounds {
        eprintln!("round {} of {}", round + 1, arguments.rounds);
        for (command, lines) in COMMANDS.iter().zip(&mut all) {
            for turn in 0..CLIENTS.len() {
                // Each client is the first one in turn.
                let client = (turn + round) % CLIENTS.len();
                measure(arguments, CLIENTS[client].1, command, &mut lines[client]);
            }
        }
    }
    all
}

fn measure(arguments: &Arguments, program: &str, command: &str, lines: &mut Lines) {
    let Ok(measured) = lines else {
        return;
    };
    if !arguments.programs.join(program).exists() {
        *lines = Err("not built");
        return;
    }
    match run(arguments, program, command) {
        Ok(line) => measured.extend(line),
        Err(error) => {
            eprintln!("{error}");
            *lines = Err("failed");
        }
    }
}

/// Measures, and prints the table. Fails if a row is behind.
pub(crate) fn run_beside_peers(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let all = measure_all(arguments);
    println!("\nMicroseconds of a request: the median of the rounds, the least and the most\n");
    print!("|");
    CLIENTS.iter().for_each(|(name, _)| print!(" | {name}"));
    println!(" | ratio to the best | |\n|---|---|---|---|---|---|---|");
    let mut behind = 0;
    for (label, command, field) in ROWS {
        let lines = COMMANDS.iter().zip(&all).find(|(other, _)| **other == command);
        let (_, lines) = lines.ok_or("a row without a command")?;
        let (cells, verdict) = row(lines, field);
        println!("| {label} | {} | {verdict} |", cells.join(" | "));
        behind += usize::from(verdict != AHEAD && verdict != EQUAL);
    }
    match behind {
        0 => Ok(()),
        _ => Err(format!("behind, or without a figure: {behind} of the rows").into()),
    }
}

const AHEAD: &str = "ahead";
const EQUAL: &str = "equal";

/// The cells of a row, with the ratio, and whether this client is ahead of the best peer.
fn row(lines: &[Lines; 4], field: &str) -> (Vec<String>, &'static str) {
    let figures = lines.each_ref().map(|lines| {
        let values = lines.as_ref().map_err(|why| *why)?.iter();
        let values = values.map(|line| line[field].as_f64()).collect::<Option<Vec<_>>>();
        values.filter(|values| !values.is_empty()).ok_or("no figure")
    });
    let cells = figures.iter().map(|figures| match figures {
        Ok(figures) => told(figures, digits),
        Err(why) => (*why).to_owned(),
    });
    let mut cells = cells.collect::<Vec<_>>();
    let [ours, peers @ ..] = &figures;
    let best = peers.iter().zip(&CLIENTS[1..]).filter_map(|(figures, (name, _))| {
        let figures = figures.as_ref().ok()?;
        Some((spread(figures).0, figures, name))
    });
    let best = best.min_by(|(one, ..), (other, ..)| one.total_cmp(other));
    let (Ok(ours), Some((_, best, name))) = (ours, best) else {
        cells.push("none".to_owned());
        return (cells, "NOT MEASURED");
    };
    // A ratio is taken within a round.
    let ratios = ours.iter().zip(best).map(|(ours, best)| ours / best).collect::<Vec<_>>();
    cells.push(format!("{} of {name}", told(&ratios, |ratio| format!("{ratio:.2}"))));
    let (ratio, least, _) = spread(&ratios);
    let verdict = match () {
        () if ratio <= 1.0 => AHEAD,
        () if least <= 1.0 => EQUAL,
        () => "BEHIND",
    };
    (cells, verdict)
}

fn told(figures: &[f64], digits: impl Fn(f64) -> String) -> String {
    let (median, least, most) = spread(figures);
    format!("{} ({} to {})", digits(median), digits(least), digits(most))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_is_behind_the_best_peer_beyond_the_spread_alone() {
        let lines = |figures: [f64; 3]| Ok(figures.map(|cost| json!({ "cost": cost })).to_vec());
        let slow = || lines([9.0, 9.0, 9.0]);
        for (ours, verdict) in
            [([1.8, 1.9, 2.4], AHEAD), ([1.9, 2.1, 2.4], EQUAL), ([2.1, 2.1, 2.4], "BEHIND")]
        {
            let measured = [lines(ours), slow(), lines([2.0, 2.0, 2.0]), Err("not built")];
            let (cells, told) = row(&measured, "cost");
            assert_eq!(told, verdict);
            assert_eq!(cells[3], "not built");
            assert!(cells[4].ends_with("of zookeeper-async"), "{}", cells[4]);
        }
        let alone = [lines([1.0, 1.0, 1.0]), Err("not built"), Err("failed"), slow()];
        assert_eq!(row(&alone, "other").1, "NOT MEASURED");
    }
}
