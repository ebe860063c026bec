//! A client process that contends for a lock: the program `contender`.
//!
//! A test starts it, waits for its output and lets it continue; and kills, stops and resumes it.
//! Its own documentation is in `src/bin/contender/main.rs`.

use std::time::Duration;

use anyhow::Result;
use tokio::process::Command;

use crate::foreign::Program;

/// How long a contender may run, which is longer than any test.
const DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

/// A running contender.
pub type Contender = Program;

/// Starts `program` with arguments of the form `name=value`.
///
/// Tests know the program as `env!("CARGO_BIN_EXE_contender")`.
pub fn start<S: AsRef<str>>(program: &str, arguments: &[S]) -> Result<Contender> {
    let mut command = Command::new(program);
    command.args(arguments.iter().map(AsRef::as_ref));
    Ok(Program::start(command)?.within(DEADLINE))
}
