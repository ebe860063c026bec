//! How the program ends: its exit statuses, and the one sentence on stderr that explains a failure.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// It could not start, or could not save its snapshot.
const FAILED: u8 = 1;

/// The arguments are wrong.
const USAGE: u8 = 2;

/// Why the program ends without success.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    pub(crate) fn of(what: &str, why: impl Display) -> Self {
        Self { status: FAILED, message: format!("{what}: {why}") }
    }

    pub(crate) fn usage(why: impl Display) -> Self {
        Self { status: USAGE, message: format!("{why}; see zk-embedded --help") }
    }

    /// Writes the message to stderr, and returns the exit status.
    pub(crate) fn report(self) -> ExitCode {
        // If nobody reads that, there is nobody else to tell.
        drop(writeln!(std::io::stderr(), "zk-embedded: {}", self.message));
        ExitCode::from(self.status)
    }
}

/// Prints what was asked for, and returns the exit status.
pub(crate) fn print(text: &str) -> ExitCode {
    let mut output = std::io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => Failure::of("cannot write to standard output", error).report(),
    }
}
