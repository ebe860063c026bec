//! The program `zk`: it runs commands under a lock of ZooKeeper, and reads and writes nodes.
//!
//! `arguments` says what can be asked for, and `commands` has a file for each subcommand. What runs
//! a command and stops it in time is in `run`, and knows nothing of the kind of lock.

mod arguments;
mod commands;
mod connection;
mod failure;
mod identity;
mod input;
mod output;
mod run;
mod trees;
mod words;

use std::fs::File;
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::{Builder, Runtime};

use arguments::Arguments;
use failure::Failure;
use run::{signals, watchdog};

/// How many more files the program may open at once: sockets, pipes, and those of the runtime.
const DESCRIPTORS: usize = 16;

fn main() -> ExitCode {
    // Before any thread or child, which inherit the mask.
    if let Err(error) = signals::unblock() {
        return Failure::of("cannot unblock signals", error).report();
    }
    if watchdog::is_meant() {
        return watchdog::run();
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return ExitCode::from(arguments::report(&error)),
    };
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(failure) if arguments::runs_a_command() => return failure.report(),
        Err(failure) => return failure.of_a_node().report(),
    };
    match runtime.block_on(commands::run(arguments)) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => failure.report(),
    }
}

fn runtime() -> Result<Runtime, Failure> {
    // Where tokio finds too few, it panics.
    let spare: Result<Vec<_>, _> = (0..DESCRIPTORS).map(|_| File::open("/dev/null")).collect();
    drop(spare.map_err(|error| Failure::of("too few files can be opened (ulimit -n)", error))?);
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::of("no runtime", error))
}
