//! The arguments of `zk txn`, and the operations of its lines.

use std::ffi::OsString;

use clap::{Args, Parser};

use crate::arguments::nodes::Kind;
use crate::connection::Connection;

/// Make several changes at once: all of them or none
///
/// Reads operations, one a line, and carries them out in their order as one transaction. Each sees
/// what those before it have done. Prints the paths of the nodes that were created.
///
/// The exit status is 1 if nothing was changed, and 3 if that is not known because the connection
/// broke.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("txn.txt"))]
pub(crate) struct Txn {
    /// The file with the operations, or - for the standard input
    #[arg(default_value = "-")]
    pub(crate) file: String,

    /// Ask no server, and print the operations if their lines can be read
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,

    /// Print JSON, an object for each operation
    #[arg(short, long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// A line of a transaction, in the words of the subcommands.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true, disable_help_subcommand = true)]
struct Line {
    #[command(subcommand)]
    operation: Operation,
}

/// An operation of a transaction.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Operation {
    Create {
        #[command(flatten)]
        kind: Kind,
        path: String,
        data: Option<OsString>,
    },
    Set {
        #[arg(short, long)]
        version: Option<i32>,
        path: String,
        data: OsString,
    },
    Rm {
        #[arg(short, long)]
        version: Option<i32>,
        path: String,
    },
    Check {
        #[arg(short, long)]
        version: Option<i32>,
        path: String,
    },
}

impl Operation {
    /// Reads the words of a line. The error says what is wrong.
    pub(crate) fn parse(words: Vec<OsString>) -> Result<Self, String> {
        let line = Line::try_parse_from(words).map_err(|error| sentence(&error.to_string()))?;
        let path = line.operation.path();
        let checked = match &line.operation {
            // The server appends digits.
            Self::Create { kind, .. } if kind.sequential => {
                zk_client::check_path(&format!("{path}0"))
            }
            _ => zk_client::check_path(path),
        };
        checked.map_err(|rule| format!("path {path:?}: {rule}"))?;
        Ok(line.operation)
    }

    pub(crate) fn path(&self) -> &str {
        let (Self::Create { path, .. }
        | Self::Set { path, .. }
        | Self::Rm { path, .. }
        | Self::Check { path, .. }) = self;
        path
    }

    /// Its word.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Set { .. } => "set",
            Self::Rm { .. } => "rm",
            Self::Check { .. } => "check",
        }
    }
}

/// What is wrong and what helps, in one line: what follows is of use for a whole program.
fn sentence(error: &str) -> String {
    let parts =
        error.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let is_of_use = |part: &String| !["Usage:", "For more"].iter().any(|it| part.starts_with(it));
    let parts = parts.take_while(is_of_use).collect::<Vec<_>>();
    parts.join("; ").trim_start_matches("error: ").to_owned()
}
