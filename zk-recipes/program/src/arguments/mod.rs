//! What the program can be asked for.
//!
//! The comments of the fields are what `--help` prints, so they are written for users.

mod nodes;
mod run;
mod trees;
mod txn;

use clap::Parser;
use clap::error::ErrorKind;

use crate::commands::tap::{ReplayArguments, TapArguments};
use crate::failure::status;

pub(crate) use nodes::entry as acl_entry;
pub(crate) use nodes::{
    Acl, Completion, Create, Get, List, Remove, Set, Stat, Target, Watch, Who, Words,
};
pub(crate) use run::{Elect, Lock, Run, Sem, Wait};
pub(crate) use trees::{Diff, Dump, Load, Tree, Which};
pub(crate) use txn::{Operation, Txn};

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
    Who(Who),
    Get(Get),
    Set(Set),
    Create(Create),
    Txn(Txn),
    Ls(List),
    Tree(Tree),
    Stat(Stat),
    Watch(Watch),
    Rm(Remove),
    Acl(Acl),
    Dump(Dump),
    Load(Load),
    Diff(Diff),
    Words(Words),
    Tap(TapArguments),
    Replay(ReplayArguments),
    Completion(Completion),
}

/// Prints what is wrong with the arguments, or the help that was asked for. Returns the exit
/// status.
pub(crate) fn report(error: &clap::Error) -> u8 {
    let printed = error.print();
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    match (is_help, runs_a_command()) {
        // A reader that has gone has seen enough of the help. If nobody reads what is wrong, the
        // status has to do.
        (true, _) if printed.as_ref().map_or_else(is_gone, |()| true) => 0,
        (true, false) => status::REFUSED,
        (_, true) => status::FAILED,
        (false, false) => status::USAGE,
    }
}

/// True if the exit status is that of a command.
pub(crate) fn runs_a_command() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| RUNNING.iter().any(|name| word == *name))
}

/// True if this says that the reader of the output has gone.
fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
}

/// The subcommands whose exit status is that of a command, which may be 2 as well.
const RUNNING: &[&str] = &["lock", "elect", "sem"];
