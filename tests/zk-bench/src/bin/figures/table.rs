//! The table of the README: what a build and a lock cost beside other crates, and what each lacks.

use std::error::Error;
use std::process::{Command, Stdio};

use crate::{Arguments, digits, run, spread};

/// A crate, as `tests/build-times` names it.
struct Crate {
    name: &'static str,
    /// The program of its lock. It may have none.
    locks: Option<&'static str>,
    /// What was read in its sources, for what no command can measure.
    lacks: &'static str,
}

const CRATES: [Crate; 4] = [
    Crate {
        name: "zk-recipes",
        locks: Some("bench_locks"),
        lacks: "a release; runtimes other than tokio",
    },
    Crate {
        name: "zookeeper-client",
        locks: Some("zookeeper-client-locks"),
        lacks: "shared and reentrant locks, a guard that says when it is lost, fencing tokens; \
                bounds for queues and replies",
    },
    Crate {
        name: "zookeeper-async",
        locks: Some("zookeeper-async-locks"),
        lacks: "the same of locks, fenced writes, and the search for a lost create; \
                transactions, TLS, SASL, watches after a reconnect",
    },
    Crate {
        name: "tokio-zookeeper",
        locks: None,
        lacks: "locks; lists of servers, authentication, TLS, watches after a reconnect",
    },
];

/// A lock that nobody else wants, in a closed loop.
const LOCK: &str = "lock-cycle --latency";

/// Measures, and prints the table as Markdown.
pub(crate) fn run_for_readme(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let rounds = arguments.rounds.to_string();
    let builds = Command::new("tests/build-times").arg(rounds).stderr(Stdio::inherit()).output()?;
    if !builds.status.success() {
        return Err(format!("tests/build-times: {}", builds.status).into());
    }
    let builds = String::from_utf8(builds.stdout)?;
    let mut locks = CRATES.map(|_| Vec::new());
    for _ in 0..arguments.rounds {
        for (Crate { locks, .. }, lines) in CRATES.iter().zip(&mut locks) {
            if let Some(program) = locks.filter(|it| arguments.programs.join(it).exists()) {
                lines.extend(run(arguments, program, LOCK)?);
            }
        }
    }

    let mut columns = Vec::new();
    for (Crate { name, locks: program, lacks }, lines) in CRATES.iter().zip(&locks) {
        let built = builds.lines().filter_map(Build::parse).find(|build| build.name == *name);
        let (version, seconds, crates) = match built {
            Some(Build { version, seconds, crates, .. }) => (version, seconds, crates),
            None => ("", "not built", "not built"),
        };
        let figure = |field| {
            let figures = lines.iter().filter_map(|line| line[field].as_f64()).collect::<Vec<_>>();
            match (program, &*figures) {
                (None, _) => "no lock".to_owned(),
                (_, []) => "not built".to_owned(),
                (_, figures) => digits(spread(figures).0),
            }
        };
        let requests = figure("requests_per_op");
        let cells = [crates, seconds, &requests, &figure("p50_us"), lacks].map(str::to_owned);
        columns.push((format!("{name} {version}"), cells));
    }
    let cells = |title: &str, cell: &dyn Fn(usize) -> String| {
        let cells = (0..columns.len()).map(cell).collect::<Vec<_>>();
        println!("| {title} | {} |", cells.join(" | "));
    };
    cells("", &|n| columns[n].0.clone());
    cells("---", &|_| "---".to_owned());
    let titles = [
        "crates in a build",
        "a clean build, seconds",
        "requests of a free lock, with its release",
        "microseconds until it is held, p50",
        "lacks",
    ];
    for (row, title) in titles.iter().enumerate() {
        cells(title, &|n| columns[n].1[row].clone());
    }
    Ok(())
}

/// A line of `tests/build-times`.
struct Build<'a> {
    name: &'a str,
    version: &'a str,
    seconds: &'a str,
    crates: &'a str,
}

impl<'a> Build<'a> {
    /// `NAME VERSION: SECONDS s (of SECONDS ...), CRATES crates`
    fn parse(line: &'a str) -> Option<Self> {
        let (package, figures) = line.split_once(": ")?;
        let (name, version) = package.split_once(' ')?;
        let (seconds, rest) = figures.split_once(" s ")?;
        let (_, crates) = rest.strip_suffix(" crates")?.rsplit_once(", ")?;
        Some(Self { name, version, seconds, crates })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_about_a_build_is_understood() {
        let line = "zk-recipes 0.1.0: 12.2 s (of 12.2 12.1 13.0), 24 crates";
        let build = Build::parse(line).unwrap();
        let Build { name, version, seconds, crates } = build;
        assert_eq!([name, version, seconds, crates], ["zk-recipes", "0.1.0", "12.2", "24"]);
        assert!(Build::parse("zookeeper-async: cannot be built").is_none());
    }
}
