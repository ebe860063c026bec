//! `zk-fuzz`: a server against zk-embedded, a server against claims, a client against a hostile
//! server, and seeds for the fuzz targets.

mod conform;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufReader, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use zk_embedded::{Config, Server, ServerVersion};
use zk_fuzz_kit::differential::{Case, Pair, Scope, super_digest};
use zk_fuzz_kit::hostile::{self, Fault, Options, Place};
use zk_fuzz_kit::server::Campaign;
use zk_tap::recording;

/// The exit status if anything was found.
const FOUND: u8 = 1;

/// The exit status if it could not run.
const FAILED: u8 = 2;

/// Fuzz any ZooKeeper server, or any client
///
/// The exit status is 0 if nothing was found, 1 if anything was, and 2 if it could not run.
#[derive(Debug, Parser)]
#[command(name = "zk-fuzz", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    Server(ServerArguments),
    Conformance(conform::ConformanceArguments),
    Replay(ReplayArguments),
    Client(ClientArguments),
    Show(ShowArguments),
    Seeds(SeedsArguments),
}

/// Compare a server with zk-embedded, request by request
///
/// Sends the same random requests to both, compares the replies field by field, and makes small
/// what differs. The server may hold nodes: all requests are below a new node of the root, which
/// is deleted again if the server has the superuser of --super-digest.
#[derive(Debug, Args)]
struct ServerArguments {
    /// The server: HOST:PORT
    address: String,

    #[command(flatten)]
    seeds: Seeds,

    #[command(flatten)]
    ours: Ours,

    /// How many requests each seed sends at least
    #[arg(long, default_value_t = 200)]
    requests: usize,

    /// Give one in so many requests an odd value in a field; 0 for none
    #[arg(long, default_value_t = 20)]
    odd: u32,

    /// The server is new: send requests for the root and its own nodes as well
    #[arg(long)]
    fresh: bool,

    /// How many runs it may take to make a case small
    #[arg(long, default_value_t = 300)]
    runs: usize,
}

/// Run a case of zk-fuzz again
#[derive(Debug, Args)]
struct ReplayArguments {
    /// The case, which zk-fuzz server has written
    file: PathBuf,

    /// The server: HOST:PORT
    address: String,

    #[command(flatten)]
    ours: Ours,
}

/// Print what a case does, with its frames
#[derive(Debug, Args)]
struct ShowArguments {
    /// The case, which zk-fuzz server has written
    file: PathBuf,
}

/// Run a client against a server that corrupts, cuts, repeats, delays and lies
///
/// Reports crashes, hangs and wrong results, each with few faults that show it. In the
/// command, {} becomes the address of the server, which is also in the variable ZK_ADDRESS.
///
/// A client that prints {"path":"/a","version":1,"data":"text"} in a line of its own claims to have
/// read this. Where all faults of a run are honest, such a claim must be true.
#[derive(Debug, Args)]
struct ClientArguments {
    #[command(flatten)]
    seeds: Seeds,

    /// The kinds of faults, separated by commas; honest and lies stand for several
    #[arg(long, value_delimiter = ',', default_value = "honest,lies", value_parser = faults)]
    faults: Vec<Faults>,

    /// Faults at these frames alone, as CONNECTION.FRAME, separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Option<Vec<Place>>,

    /// A text in the client's output that shows a crash, beside the usual ones
    #[arg(long, value_name = "TEXT")]
    crash: Vec<String>,

    /// Limit the client's address space
    #[arg(long, value_name = "MEBIBYTES")]
    memory: Option<u64>,

    /// The client's program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Turn a recording of zk tap into inputs for the fuzz targets
///
/// Writes the inputs of each target into a folder with its name. If these folders are in
/// fuzz/scratch, fuzz/smoke --keep starts from them. The inputs hold what the recording holds,
/// passwords included.
#[derive(Debug, Args)]
struct SeedsArguments {
    /// The recording
    file: PathBuf,

    /// Where the folders of the targets are, such as fuzz/scratch
    folder: PathBuf,
}

#[derive(Debug, Args)]
struct Seeds {
    /// The first seed [default: 0]
    #[arg(long)]
    seed: Option<u64>,

    /// How many seeds [default: 1 if --seed is given, 100 otherwise, any number with --time]
    #[arg(long)]
    seeds: Option<u64>,

    /// Begin no seed after so many seconds
    #[arg(long, value_name = "SECONDS")]
    time: Option<u64>,

    /// How long to wait for a server's reply or for a client's end
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    patience: u64,

    /// Where findings go, as files
    #[arg(long, value_name = "FOLDER", default_value = "zk-fuzz-findings")]
    findings: PathBuf,
}

impl Seeds {
    fn range(&self) -> std::ops::RangeInclusive<u64> {
        let count = match (self.seeds, self.time, self.seed) {
            (Some(count), ..) => count.max(1),
            (None, Some(_), _) => u64::MAX,
            (None, None, None) => 100,
            (None, None, Some(_)) => 1,
        };
        let first = self.seed.unwrap_or(0);
        first..=first.saturating_add(count - 1)
    }

    fn time(&self) -> Option<Duration> {
        self.time.map(Duration::from_secs)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.patience)
    }
}

/// The settings of zk-embedded, which must be those of the other server
#[derive(Debug, Args)]
struct Ours {
    /// Compare with this server instead of zk-embedded: HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    against: Option<String>,

    /// The version that the server is compatible with
    #[arg(long, value_enum, default_value_t = Version::V3_9)]
    zookeeper: Version,

    /// tickTime, in milliseconds
    #[arg(long, default_value_t = 2000)]
    tick: u64,

    /// minSessionTimeout, in milliseconds [default: 2 ticks]
    #[arg(long)]
    min_session_timeout: Option<u64>,

    /// maxSessionTimeout, in milliseconds [default: 20 ticks]
    #[arg(long)]
    max_session_timeout: Option<u64>,

    /// zookeeper.extendedTypesEnabled is true
    #[arg(long)]
    extended_types: bool,

    /// zookeeper.DigestAuthenticationProvider.superDigest is super:lK75jTNcA+U9vtVEw5vB51mj/w4=
    #[arg(long)]
    super_digest: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Version {
    #[value(name = "3.8")]
    V3_8,
    #[value(name = "3.9")]
    V3_9,
}

impl Ours {
    /// The server that is right.
    async fn server(&self) -> Result<(Option<Server>, &'static str, String)> {
        if let Some(address) = &self.against {
            return Ok((None, "first", address.clone()));
        }
        let tick = Duration::from_millis(self.tick);
        let timeout = |set: Option<u64>, ticks| set.map_or(tick * ticks, Duration::from_millis);
        let mut config = Config::new()
            .server_version(match self.zookeeper {
                Version::V3_8 => ServerVersion::V3_8,
                Version::V3_9 => ServerVersion::V3_9,
            })
            .tick_time(tick)
            .min_session_timeout(timeout(self.min_session_timeout, 2))
            .max_session_timeout(timeout(self.max_session_timeout, 20))
            .extended_types(self.extended_types)
            .container_check_interval(Duration::from_secs(86_400))
            .max_connections_per_host(0);
        if self.super_digest {
            config = config.super_digest(super_digest());
        }
        let server = Server::with(config).await.context("cannot start zk-embedded")?;
        let address = server.address().to_owned();
        Ok((Some(server), "embedded", address))
    }
}

/// Some kinds of faults.
#[derive(Clone, Debug)]
struct Faults(Vec<Fault>);

fn faults(text: &str) -> Result<Faults, String> {
    let chosen: Vec<_> = Fault::ALL
        .iter()
        .copied()
        .filter(|fault| match text {
            "honest" => fault.is_honest(),
            "lies" => !fault.is_honest(),
            name => fault.name() == name,
        })
        .collect();
    if chosen.is_empty() {
        let names: Vec<_> = Fault::ALL.iter().map(|fault| fault.name()).collect();
        return Err(format!("the faults are honest, lies, {}", names.join(", ")));
    }
    Ok(Faults(chosen))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime")
        .and_then(|runtime| {
            runtime.block_on(async {
                match arguments.command {
                    Subcommands::Server(arguments) => server(arguments).await,
                    Subcommands::Conformance(arguments) => conform::run(arguments).await,
                    Subcommands::Replay(arguments) => replay(arguments).await,
                    Subcommands::Client(arguments) => client(arguments).await,
                    Subcommands::Show(arguments) => show(&arguments),
                    Subcommands::Seeds(arguments) => seeds(&arguments),
                }
            })
        });
    match done {
        Ok(true) => ExitCode::from(FOUND),
        Ok(false) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zk-fuzz: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

/// Returns whether anything was found.
async fn server(arguments: ServerArguments) -> Result<bool> {
    let (_server, name, address) = arguments.ours.server().await?;
    let mut campaign = Campaign::new([(name, &address), ("other", &arguments.address)]);
    campaign.seeds = arguments.seeds.range();
    campaign.requests = arguments.requests;
    campaign.odd = arguments.odd;
    campaign.scope = if arguments.fresh { Scope::Everything } else { Scope::Own };
    campaign.patience = arguments.seeds.patience();
    campaign.time = arguments.seeds.time();
    campaign.runs = arguments.runs;
    campaign.folder = Some(arguments.seeds.findings.clone());
    let report = campaign.run(|finding| println!("{finding}")).await?;
    let seconds = report.time.as_secs_f64();
    println!(
        "{} seeds, {} requests to each server in {seconds:.0} s, {:.0} a second; {} kinds of \
         differences",
        report.seeds,
        report.requests,
        report.requests as f64 / seconds.max(0.001),
        report.kinds.len(),
    );
    for (kind, seeds) in &report.kinds {
        println!("  in {seeds} seeds: {kind}");
    }
    if let Some(why) = &report.ended_early {
        println!("ended early {why}");
    }
    Ok(!report.kinds.is_empty() || report.ended_early.is_some())
}

/// Returns whether the servers differ.
async fn replay(arguments: ReplayArguments) -> Result<bool> {
    let (_server, name, address) = arguments.ours.server().await?;
    let case = read(&arguments.file)?;
    let servers = [(name, &*address), ("other", &*arguments.address)];
    let mut pair = Pair::new(servers, Duration::from_secs(10));
    match pair.run(&case).await? {
        None => println!("{} requests, no difference", case.requests()),
        Some(difference) => {
            println!("{}", zk_fuzz_kit::differential::report(&case, &difference));
            return Ok(true);
        }
    }
    Ok(false)
}

fn show(arguments: &ShowArguments) -> Result<bool> {
    print!("{}", read(&arguments.file)?);
    Ok(false)
}

fn seeds(arguments: &SeedsArguments) -> Result<bool> {
    let name = || arguments.file.display().to_string();
    let file = File::open(&arguments.file).with_context(name)?;
    let entries = recording::read(BufReader::new(file)).with_context(name)?;
    for (target, seeds) in zk_fuzz_kit::seeds::seeds(&entries) {
        let folder = arguments.folder.join(target);
        fs::create_dir_all(&folder)?;
        for (name, seed) in &seeds {
            match recording::create(&folder.join(name)) {
                Ok(mut file) => file.write_all(seed)?,
                // The name has a hash of the seed, so it is the same seed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
        }
        println!("{}: {} inputs", folder.display(), seeds.len());
    }
    Ok(false)
}

fn read(file: &PathBuf) -> Result<Case> {
    let name = || file.display().to_string();
    Case::read(BufReader::new(File::open(file).with_context(name)?)).with_context(name)
}

/// Returns whether anything was found.
async fn client(arguments: ClientArguments) -> Result<bool> {
    let mut options = Options::new(arguments.command);
    options.patience = arguments.seeds.patience();
    options.crashes = arguments.crash;
    options.memory = arguments.memory;
    let mut campaign = hostile::Campaign::new(options);
    campaign.seeds = arguments.seeds.range();
    campaign.time = arguments.seeds.time();
    campaign.faults = arguments.faults.into_iter().flat_map(|Faults(faults)| faults).collect();
    campaign.only = arguments.only;
    campaign.folder = Some(arguments.seeds.findings.clone());
    ensure!(!campaign.faults.is_empty(), "no faults");
    let report = campaign.run(|finding| println!("{finding}")).await?;
    println!("{} seeds, {} faults; {:?}", report.seeds, report.faults, report.endings);
    println!("{} findings", report.findings.len());
    Ok(!report.findings.is_empty())
}
