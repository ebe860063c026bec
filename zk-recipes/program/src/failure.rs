//! How the program ends: its exit statuses, and the one sentence on stderr that explains a failure.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// Exit statuses of the subcommands that run a command.
pub(crate) mod status {
    /// The lock was lost, or was about to be, or was asked back, while the command ran.
    pub(crate) const LOST: u8 = 123;
    /// The lock was not free in time.
    pub(crate) const CONFLICT: u8 = 124;
    /// `zk` itself failed, and did not run the command or did not see its end.
    pub(crate) const FAILED: u8 = 125;
    /// The command was found but could not be run.
    pub(crate) const NOT_EXECUTABLE: u8 = 126;
    /// The command was not found.
    pub(crate) const NOT_FOUND: u8 = 127;
    /// Added to the number of the signal that ended the command, or `zk` while it waited.
    pub(crate) const SIGNAL: i32 = 128;
    /// A subcommand that runs no command failed.
    pub(crate) const REFUSED: u8 = 1;
    /// The arguments of a subcommand that runs no command are wrong.
    pub(crate) const USAGE: u8 = 2;
}

/// Why the program ends without success.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: u8, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// A failure of `zk` itself.
    pub(crate) fn of(what: &str, why: impl Display) -> Self {
        Self::new(status::FAILED, in_options(format!("{what}: {why}")))
    }

    /// An end without a message and with success: nobody reads the output any more.
    pub(crate) fn silent() -> Self {
        Self::new(0, "")
    }

    /// The same failure, of a subcommand that runs no command.
    pub(crate) fn of_a_node(self) -> Self {
        let status = if self.status == status::FAILED { status::REFUSED } else { self.status };
        Self { status, ..self }
    }

    /// The same failure with another status, unless it is no failure.
    pub(crate) fn with_status(self, status: u8) -> Self {
        if self.status == 0 { self } else { Self { status, ..self } }
    }

    /// Writes the message to stderr, and returns the exit status.
    pub(crate) fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            warn(&self.message);
        }
        ExitCode::from(self.status)
    }
}

/// Puts the options of this program where an error names settings of the library.
fn in_options(message: String) -> String {
    const OPTIONS: [(&str, &str); 8] = [
        ("Client::create_all and ensure", "zk create --parents"),
        ("add_auth", "--auth"),
        // The program has no such option.
        (" (see allow_read_only)", ""),
        ("Limits::max_request and ", ""),
        ("; only a new client helps, see SessionKeeper", ""),
        ("TlsOptions::identity", "--tls-cert and --tls-key"),
        ("TlsOptions::server_name", "--tls-name"),
        ("Limits::max_reply", "--max-reply"),
    ];
    OPTIONS.iter().fold(message, |message, (setting, option)| message.replace(setting, option))
}

/// Writes a line to stderr. If nobody reads that, there is nobody else to tell.
pub(crate) fn warn(message: &str) {
    drop(writeln!(std::io::stderr(), "zk: {message}"));
}

/// The exit status for an end by this signal.
pub(crate) fn by_signal(signal: i32) -> u8 {
    u8::try_from(status::SIGNAL + signal).unwrap_or(u8::MAX)
}
