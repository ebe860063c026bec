//! The program `zk`: it runs commands under a lock of ZooKeeper, and reads and writes nodes.
//!
//! `arguments` says what can be asked for, and `commands` has a file for each subcommand. What runs
//! a command and stops it in time is in `run`, and knows nothing of the kind of lock.

mod arguments;
mod commands;
mod connection;
mod failure;
mod output;
mod run;

use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use failure::{Failure, status};
use run::watchdog;

fn main() -> ExitCode {
    if watchdog::is_meant() {
        return watchdog::run();
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return ExitCode::from(arguments::report(&error)),
    };
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
