//! What the program can be asked for.
//!
//! The comments of the fields are what `--help` prints, so they are written for users.

mod nodes;
mod run;

use clap::Parser;
use clap::error::ErrorKind;

use crate::commands::tap::{ReplayArguments, TapArguments};
use crate::failure::status;

pub(crate) use nodes::{
    Acl, Completion, Create, Get, List, Remove, Set, Stat, Target, Watch, Words,
};
pub(crate) use run::{Elect, Lock, Run, Sem, Wait};

/// Locks, elections, semaphores and nodes of ZooKeeper, for the command line
///
/// zk lock, elect and sem run a command while something is held, and stop it before that may be
/// over. The other subcommands read and write nodes.
#[derive(Debug, Parser)]
#[command(name = "zk", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Lock(Lock),
    Elect(Elect),
    Sem(Sem),
    Get(Get),
    Set(Set),
    Create(Create),
    Ls(List),
    Stat(Stat),
    Watch(Watch),
    Rm(Remove),
    Acl(Acl),
    Words(Words),
    Tap(TapArguments),
    Replay(ReplayArguments),
    Completion(Completion),
}

/// Prints what is wrong with the arguments, or the help that was asked for. Returns the exit
/// status.
pub(crate) fn report(error: &clap::Error) -> u8 {
    // If nobody reads the message, the status has to do.
    error.print().unwrap_or_default();
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let runs_a_command =
        std::env::args_os().nth(1).is_some_and(|word| RUNNING.iter().any(|name| word == *name));
    match (is_help, runs_a_command) {
        (true, _) => 0,
        (false, true) => status::FAILED,
        (false, false) => status::USAGE,
    }
}

/// The subcommands whose exit status is that of a command, which may be 2 as well.
const RUNNING: &[&str] = &["lock", "elect", "sem"];
