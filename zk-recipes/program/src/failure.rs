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
    /// It is not known whether a transaction was carried out.
    pub(crate) const UNKNOWN: u8 = 3;
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
        Self::new(status::FAILED, format!("{what}: {why}"))
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

/// What errors of the library name, and what it is here.
const OPTIONS: [(&str, &str); 11] = [
    ("Client::create_all and ensure", "zk create --parents"),
    ("add_auth", "--auth"),
    // The program has no such option.
    (" (see allow_read_only)", ""),
    ("; see allow_read_only", ""),
    ("; only a new client helps, see SessionKeeper", ""),
    ("ClientBuilder::dialect", "--dialect"),
    ("the client's dialect", "--dialect"),
    ("TlsOptions::identity", "--tls-cert and --tls-key"),
    ("TlsOptions::server_name", "--tls-name"),
    ("Limits::max_request", "--max-request"),
    ("Limits::max_reply", "--max-reply"),
];

/// Puts the options of this program where an error names settings of the library.
fn in_options(message: String) -> String {
    OPTIONS.iter().fold(message, |message, (setting, option)| message.replace(setting, option))
}

/// Writes a line to stderr. If nobody reads that, there is nobody else to tell.
pub(crate) fn warn(message: &str) {
    drop(writeln!(std::io::stderr(), "zk: {}", in_options(message.to_owned())));
}

/// The exit status for an end by this signal.
pub(crate) fn by_signal(signal: i32) -> u8 {
    u8::try_from(status::SIGNAL + signal).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The sources of a folder, without comments and tests.
    fn sources(folder: &Path, text: &mut String) {
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() {
                sources(&path, text);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs")
            {
                let source = fs::read_to_string(&path).unwrap();
                let code = source.split("#[cfg(test)]").next().unwrap();
                let code = code.lines().map(str::trim).filter(|line| !line.starts_with("//"));
                text.push_str(&code.collect::<Vec<_>>().join("\n"));
                text.push('\n');
            }
        }
    }

    /// The parts of a text that name something of the library.
    fn names(text: &str) -> Vec<&str> {
        let is_of_a_name = |letter: char| letter.is_alphanumeric() || "_:".contains(letter);
        let words = text.split(|letter| !is_of_a_name(letter)).collect::<Vec<_>>();
        let is_type = |word: &str| {
            let mut parts = word.split("::");
            parts.next().is_some_and(|first| first.starts_with(char::is_uppercase))
                && parts.next().is_some_and(|second| second.starts_with(char::is_lowercase))
        };
        let is_joined =
            |word: &str| word.contains('_') || word.chars().skip(1).any(char::is_uppercase);
        let is_named = |pair: &&[&str]| is_type(pair[1]) || pair[0] == "see" && is_joined(pair[1]);
        words.windows(2).filter(is_named).map(|pair| pair[1]).collect()
    }

    #[test]
    fn no_error_names_what_this_program_does_not_have() {
        let mut text = String::new();
        for library in ["zk-client", "zk-recipes"] {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            sources(&root.join(library).join("src"), &mut text);
        }
        // A text goes on behind a backslash at the end of a line.
        let text = text.replace("\\\n", "").replace("'\"'", "").replace("\\\"", "'");
        let texts = text.lines().flat_map(|line| line.split('"').skip(1).step_by(2));
        let texts = texts.filter(|text| text.contains(' ')).collect::<Vec<_>>();
        let named = |text: &str| names(text).len();
        assert!(texts.iter().map(|text| named(text)).sum::<usize>() > 8, "the search finds them");
        for text in texts {
            let said = in_options(text.to_owned());
            assert_eq!(names(&said), [""; 0], "{said}");
        }
    }
}
