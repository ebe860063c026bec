//! Examines what is written in `students`: `cargo run -p zk-gym -- LEVEL`.
//!
//! The files of students are part of this program alone, so that little is built when one changes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::{Arg, Parser, ValueExt};
use zk_gym::{Effort, Finding, LEVELS, Level, Verdict, examine};

#[path = "../students/mod.rs"]
mod students;

const USAGE: &str = "\
Usage: zk-gym [OPTIONS] LEVEL

Examines the program in zk-recipes/learn/gym/students/level_LEVEL.rs: searches for a run that breaks
it, and shows the shortest one.

  --list         list the levels
  --all          examine all levels, and go on behind a broken one
  --show         write the run that breaks it as a page of the playground, gym-level-LEVEL.html
  --report FILE  write the results as JSON
  --quick        leave out late frames, most pairs of faults and most seeds
  -h, --help     print this text

It ends with 0 if all levels that were examined are passed.";

/// What the command line asks for.
struct Arguments {
    levels: Vec<&'static Level>,
    shows: bool,
    report: Option<PathBuf>,
    effort: Effort,
}

fn main() -> ExitCode {
    match parse() {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(arguments)) => match work(&arguments) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("zk-gym: {error}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            eprintln!("zk-gym: {error}\n\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<Option<Arguments>, lexopt::Error> {
    let mut arguments =
        Arguments { levels: Vec::new(), shows: false, report: None, effort: Effort::WHOLE };
    let mut parser = Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => {
                println!("{USAGE}");
                return Ok(None);
            }
            Arg::Long("list") => {
                for level in LEVELS {
                    println!("{}  {}", level.number, level.title);
                }
                return Ok(None);
            }
            Arg::Long("all") => arguments.levels = LEVELS.iter().collect(),
            Arg::Long("show") => arguments.shows = true,
            Arg::Long("report") => arguments.report = Some(PathBuf::from(parser.value()?)),
            Arg::Long("quick") => arguments.effort = Effort::new(32, 50, 200),
            Arg::Value(value) => {
                let number = value.parse::<usize>()?;
                let level = LEVELS.iter().find(|level| level.number == number);
                let last = LEVELS.len();
                let level = level.ok_or_else(|| format!("there are levels 1 to {last}"))?;
                arguments.levels.push(level);
            }
            other => return Err(other.unexpected()),
        }
    }
    match arguments.levels.is_empty() {
        true => Err("which level?".into()),
        false => Ok(Some(arguments)),
    }
}

/// Examines all levels that are asked for. Returns true if all are passed.
fn work(arguments: &Arguments) -> std::io::Result<bool> {
    let mut verdicts = Vec::new();
    for level in &arguments.levels {
        let Some(solution) = students::solution(level.number) else {
            continue;
        };
        let verdict = examine(level, &solution, arguments.effort);
        println!("{verdict}");
        if arguments.shows {
            show(&verdict)?;
        }
        verdicts.push(verdict);
    }
    if let Some(file) = &arguments.report {
        std::fs::write(file, zk_gym::report(&verdicts))?;
    }
    Ok(verdicts.iter().all(|verdict| matches!(verdict.result, Finding::Passed(_))))
}

/// Writes the page of a broken level.
fn show(verdict: &Verdict) -> std::io::Result<()> {
    let name = format!("gym-level-{}.html", verdict.level.number);
    let page = Path::new(&name);
    match verdict.page() {
        None => println!("There is nothing to show: no run has broken it."),
        Some(text) => {
            std::fs::write(page, text)?;
            println!("Open this page in a browser: {}", std::fs::canonicalize(page)?.display());
        }
    }
    Ok(())
}
