//! The program `zk`: it runs commands under a lock of ZooKeeper.
//!
//! `arguments` says what can be asked for, and `commands` has a file for each subcommand. What runs
//! a command and stops it in time is in `run`, and knows nothing of the kind of lock.

mod arguments;
mod commands;
mod connection;
mod failure;
mod run;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Subcommand};
use failure::{Failure, status};
use run::watchdog;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return ExitCode::from(arguments::report(&error)),
    };
    if let Subcommand::Watchdog = arguments.subcommand {
        return watchdog::run();
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return Failure::new(status::FAILED, format!("no runtime: {error}")).report();
        }
    };
    match runtime.block_on(commands::run(arguments)) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => failure.report(),
    }
}
