//! `zk-fuzz conformance`: its arguments, and what it prints.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use zk_fuzz_kit::conformance::{self, Allowed, Format, Like, Options, Plan};

/// Try some hundreds of small claims about ZooKeeper's servers on a server
///
/// Says in front what it will do. Everything happens below one new node of the root, which is
/// deleted at the end. The exit status is 0 if all is as expected or allowed, 1 if anything is not,
/// and 2 if it could not run.
#[derive(Debug, Args)]
pub(crate) struct ConformanceArguments {
    /// The server: HOST:PORT
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "list")]
    server: Option<String>,

    /// How the report is printed
    #[arg(long, value_enum, default_value_t = Shape::Text)]
    format: Shape,

    /// What the server should be like, such as apache-3.9 or apache-3.8.0 [default: what the word
    /// srvr tells, or apache-3.9]
    #[arg(long, value_name = "SERVER")]
    like: Option<Like>,

    /// A file of known deviations: the number of a claim in each line, and a comment behind #
    #[arg(long, value_name = "FILE")]
    allow: Option<PathBuf>,

    /// Print every frame as well
    #[arg(long)]
    frames: bool,

    /// These chapters and claims alone, such as 4 or 4.12, separated by commas
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    only: Vec<String>,

    /// How long to wait for an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    patience: u64,

    /// How long all claims may take together
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    limit: u64,

    /// Print the claims, and run none
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shape {
    Text,
    Json,
    Html,
}

/// Returns whether anything was unexpected.
pub(crate) async fn run(arguments: ConformanceArguments) -> Result<bool> {
    let Some(server) = arguments.server.filter(|_| !arguments.list) else {
        print!("{}", conformance::list()?);
        return Ok(false);
    };
    let mut options = Options::new(&server);
    options.like = arguments.like;
    if let Some(file) = &arguments.allow {
        let name = || file.display().to_string();
        let text = std::fs::read_to_string(file).with_context(name)?;
        options.allowed = Allowed::parse(&text).with_context(name)?;
    }
    options.frames = arguments.frames;
    options.only = arguments.only;
    options.patience = Duration::from_secs(arguments.patience);
    options.limit = Duration::from_secs(arguments.limit);
    let plan = Plan::new(options).await?;
    // The report alone goes to standard output.
    eprintln!("{}", plan.announcement());
    let interrupted = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    };
    let report = plan.run(interrupted).await?;
    let format = match arguments.format {
        Shape::Text => Format::Text,
        Shape::Json => Format::Json,
        Shape::Html => Format::Html,
    };
    print!("{}", report.print(format)?);
    Ok(!report.is_good())
}
