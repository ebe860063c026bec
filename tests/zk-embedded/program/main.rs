//! The program `zk-embedded`: a ZooKeeper server in memory, for tests in any language.
//!
//! It runs the library's `Server` or `Ensemble`, and takes commands by lines of text: faults to
//! inject, and questions. `commands` has the table of all commands, and `control` reads and answers
//! their lines.

mod commands;
mod control;
mod escape;
mod failure;
mod faults;
mod files;
mod log;
mod options;
mod target;
#[cfg(feature = "tls")]
mod tls;

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use zk_embedded::{Ensemble, Server};

use control::Control;
use failure::Failure;
use options::{Options, Parsed};
use target::Servers;

fn main() -> ExitCode {
    let options = match options::parse(std::env::args_os()) {
        Ok(Parsed::Run(options)) => *options,
        Ok(Parsed::Print(text)) => return failure::print(&text),
        Err(failure) => return failure.report(),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::of("no runtime", error).report(),
    };
    log::start();
    let result = runtime.block_on(run(options));
    // A thread may wait for standard input, for ever.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Serves until a signal, a command or the end of the input ends it.
async fn run(options: Options) -> Result<(), Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::of("no signals", error))?;
    let snapshot = match &options.load {
        Some(path) => files::load(path, options.save.as_ref() == Some(path))?,
        None => None,
    };
    let listens = format!("cannot listen on {}:{}", options.host, options.port);
    let config = options.config.listen((options.host, options.port));
    let servers = match options.members {
        None => Server::with(config).await.map(|server| Servers::Alone(Arc::new(server))),
        Some(members) => {
            let ensemble = Ensemble::start(config, members).await;
            ensemble.map(|ensemble| Servers::Ensemble(Arc::new(ensemble)))
        }
    };
    let servers = servers.map_err(|error| Failure::of(&listens, error))?;
    if let Servers::Alone(server) = &servers {
        // It accepts its first connection when this task waits, which it has not done yet.
        if let Some(snapshot) = snapshot {
            server.restore(&snapshot).map_err(|error| Failure::of("cannot load", error))?;
        }
        if options.read_only {
            server.set_read_only(true);
        }
    }
    let control = Arc::new(Control::new(servers.clone(), options.keeps_history));
    let mut said = format!("listening on {}\n", servers.addresses());
    let mut tasks = JoinSet::new();
    #[cfg(feature = "tls")]
    if let (Some(tls), Servers::Alone(server)) = (&options.tls, &servers) {
        let listener = tls::listen(options.host, tls).await?;
        said += &format!("tls on {}\n", listener.address());
        tasks.spawn(listener.accept(Arc::clone(server)));
    }
    if let Some(port) = options.control {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener =
            listener.map_err(|error| Failure::of("cannot listen for commands", error))?;
        let address = listener.local_addr().map_err(|error| Failure::of("no address", error))?;
        said += &format!("control on {address}\n");
        tasks.spawn(control::accept(listener, Arc::clone(&control)));
    }
    let mut output = tokio::io::stdout();
    let announced = async {
        output.write_all(said.as_bytes()).await?;
        output.flush().await
    };
    announced.await.map_err(|error| Failure::of("cannot write to standard output", error))?;

    let input = async {
        if !options.stdin {
            std::future::pending::<()>().await;
        }
        control.serve_input(output).await;
    };
    tokio::select! {
        () = signals.recv() => {}
        () = control.quits() => {}
        () = input => {}
    }
    drop(tasks);
    match (&options.save, &servers) {
        (Some(path), Servers::Alone(server)) => {
            // Nothing is acknowledged behind the snapshot.
            server.set_serving(false);
            files::save(path, &server.snapshot())
        }
        _ => Ok(()),
    }
}

/// The signals that end the program.
struct Signals {
    #[cfg(unix)]
    term: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    /// `None` if the program was started to outlive its terminal, as `nohup` does.
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let (term, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        let hangup = match ignores_hangup() {
            true => None,
            false => Some(signal(SignalKind::hangup())?),
        };
        Ok(Self { term: signal(term)?, interrupt: signal(interrupt)?, hangup })
    }

    #[cfg(unix)]
    async fn recv(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = hangup => {}
            _ = self.term.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn new() -> std::io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn recv(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// True if whoever started the program has SIGHUP ignored: Linux shows the set of these signals.
#[cfg(unix)]
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set & 1 == 1)
}
