//! The subcommands, a file each.

mod lock;
pub(crate) mod tap;

use crate::arguments::{Arguments, Subcommand};
use crate::failure::{Failure, status};

/// Carries out what was asked for, and returns the exit status.
pub(crate) async fn run(arguments: Arguments) -> Result<u8, Failure> {
    match arguments.subcommand {
        Subcommand::Lock(lock) => lock::run(lock).await,
        Subcommand::Tap(arguments) => tap::tap(arguments).await,
        Subcommand::Replay(arguments) => tap::replay(arguments).await,
        Subcommand::Watchdog => Err(Failure::new(status::FAILED, "a watchdog needs no runtime")),
    }
}
