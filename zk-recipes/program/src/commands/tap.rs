//! `zk tap` and `zk replay`: a proxy that shows every frame, and its recordings played again.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use zk_tap::{Observer, Tap, recording, replay};

use crate::connection::seconds;
use crate::failure::{Failure, status, warn};

/// Show what clients and a server say to each other
///
/// Passes each connection to LISTEN on to TARGET, and prints every frame with its meaning. At the
/// end, when it is interrupted, prints the latencies by operation and path. Changes no byte, and
/// shows fewer frames rather than slow them down.
#[derive(Debug, Args)]
pub(crate) struct TapArguments {
    /// Where clients connect to: HOST:PORT, with port 0 for any free one
    listen: String,

    /// The server: HOST:PORT
    target: String,

    /// Write a recording, which has all bytes, passwords included, for the owner of the file alone
    ///
    /// If it cannot be written to its end, that is said at once, and the status is 1.
    #[arg(short, long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Print no frames, and only the latencies at the end
    #[arg(short, long)]
    quiet: bool,
}

/// Play a recording of zk tap again
///
/// Sends what one side has sent as soon as the other side has said as much as in the recording.
/// Prints each frame that differs. The status is 1 if any differs or is missing.
#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// The recording
    file: PathBuf,

    /// Play the clients against this server: HOST:PORT
    #[arg(long, value_name = "SERVER", required_unless_present = "listen")]
    to: Option<String>,

    /// Play the server to clients that connect here: HOST:PORT
    #[arg(long, value_name = "ADDRESS", conflicts_with = "to")]
    listen: Option<String>,

    /// For how long to wait for a frame
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    patience: Duration,
}

/// The exit status of a replay in which something was not as recorded.
const DIFFERENT: u8 = 1;

/// `zk tap`: runs until it is interrupted or terminated.
pub(crate) async fn tap(arguments: TapArguments) -> Result<u8, Failure> {
    let failed = |error| Failure::of("cannot wait for a signal", error);
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let mut observer = Observer::new();
    if !arguments.quiet {
        observer = observer.lines(BufWriter::new(std::io::stdout()));
    }
    if let Some(file) = &arguments.record {
        let name = file.display().to_string();
        observer = observer
            .recording(BufWriter::new(create(file)?))
            .on_recording_error(move |error| warn(&format!("{name} ends early: {error}")));
    }
    let listener = listen(&arguments.listen).await?;
    let started = Tap::start(listener, arguments.target.clone(), observer);
    let tap = started.map_err(|error| Failure::of("cannot start", error))?;
    print(&format!("{} to {}\n", tap.address(), arguments.target))?;
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    let report = tap.stop().await.map_err(|error| Failure::of("cannot stop", error))?;
    print(&report.to_string())?;
    Ok(if report.recording_error.is_none() { 0 } else { status::REFUSED })
}

/// `zk replay`
pub(crate) async fn replay(arguments: ReplayArguments) -> Result<u8, Failure> {
    let name = arguments.file.display().to_string();
    let file = File::open(&arguments.file).map_err(|error| Failure::of(&name, error))?;
    let read = recording::read_to_the_end(BufReader::new(file));
    let (entries, is_cut_short) = read.map_err(|error| Failure::of(&name, error))?;
    if is_cut_short {
        warn(&format!("{name} ends within a line, which is left out"));
    }
    let (address, outcome) = match (arguments.to, arguments.listen) {
        (Some(target), _) => {
            let outcome = replay::as_client(&entries, &target, arguments.patience).await;
            (target, outcome)
        }
        (None, address) => {
            let address = address.unwrap_or_default();
            let listener = listen(&address).await?;
            (address, replay::as_server(&entries, &listener, arguments.patience).await)
        }
    };
    let outcome = outcome.map_err(|error| Failure::of(&address, error))?;
    print(&outcome.to_string())?;
    let is_same = outcome.different.is_empty() && outcome.missing == 0;
    Ok(if is_same { 0 } else { DIFFERENT })
}

async fn listen(address: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| Failure::of(address, error))
}

fn create(file: &Path) -> Result<File, Failure> {
    recording::create(file).map_err(|error| Failure::of(&file.display().to_string(), error))
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Failure::of("stdout", error))
}
