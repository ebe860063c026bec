//! Measures the client's cost with closed loops, watches and kept replies, against a server that
//! replies at once, an embedded one, or a real one. Without arguments it runs every workload
//! briefly.

mod keep;
mod loops;
mod watch;

use std::env;
use std::time::Duration;

use zk_bench::options::{self, Kind, Options};
use zk_bench::report::Report;
use zk_bench::server::{self, Server};
use zk_bench::{raw, sketch};
use zk_client::{Client, CreateOptions, Error, ErrorCode};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const WORKLOADS: &str = "\
usage: bench [WORKLOAD] [OPTIONS]

  get            read a node; with --watches N beside so many idle ones
  set            write a node
  create-delete  create a node and delete it: an operation is both
  event          watch a node, write it, and wait for the event, on a server that sends it
  children       list the --children N of a node
  raw            a floor: get without a client, `depth` requests in each write
  sketch         a floor: get by the plainest async client that can be written
  watch          set N watches, have them all fire, and wait for them: in one task, and in N
  stream         receive N changes of a tree from a persistent watch
  idle           set N watches and keep them: bytes for each besides its path
  keep           read a node a million times, or --ops N, and keep what was read: bytes for each
  serve          be the server that --server names, until standard input ends

Each measurement is a line of JSON. Without a workload: a tenth of a second of each.

";

/// The node that most loops read and write.
const NODE: &str = "/bench";
/// The node with children.
const CROWD: &str = "/crowd";
/// The most requests in flight.
const PIPELINED: usize = 10_000;

fn main() -> Result<()> {
    let arguments = env::args().skip(1).collect::<Vec<_>>();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{WORKLOADS}{}", options::help(options::CLIENT));
        return Ok(());
    }
    let options = Options::parse(options::CLIENT, arguments)?;
    match options.workload.as_deref() {
        Some(server::SERVE) => Ok(server::serve(&options)?),
        Some(workload) => run(workload, &options),
        None => tour(&options),
    }
}

fn run(workload: &str, options: &Options) -> Result<()> {
    options.pin_client()?;
    let server = Server::start(options)?;
    if let "raw" | "sketch" = workload {
        return floor(workload, &server, options);
    }
    options.runtime()?.block_on(async {
        let client = Client::connect(server.address()).await?;
        let data = vec![b'x'; options.payload];
        made(client.create(NODE, &data, &CreateOptions::persistent()).await)?;
        match workload {
            "get" => loops::run(loops::Work::Get, &client, &server, options).await?,
            "set" => loops::run(loops::Work::Set(data), &client, &server, options).await?,
            "children" => {
                if options.server != Kind::Null {
                    let name = |n| format!("{CROWD}/child-{n:010}");
                    fill(&client, CROWD, (0..options.children).map(name)).await?;
                }
                loops::run(loops::Work::Children, &client, &server, options).await?;
            }
            "create-delete" => {
                loops::run(loops::Work::CreateDelete, &client, &server, options).await?;
            }
            "event" => loops::run(loops::Work::Event(data), &client, &server, options).await?,
            "watch" => watch::one_shot(&client, &server, options).await?,
            "stream" => watch::stream(&client, &server, options).await?,
            "idle" => watch::idle(&client, options).await?,
            "keep" => keep::run(&client, options).await?,
            other => return Err(format!("{other} is no workload; try --help").into()),
        }
        client.close().await;
        Ok(())
    })
}

fn floor(workload: &str, server: &Server, options: &Options) -> Result<()> {
    let runtime = options.runtime()?;
    if options.server != Kind::Null {
        runtime.block_on(async {
            let client = Client::connect(server.address()).await?;
            let data = vec![b'x'; options.payload];
            made(client.create(NODE, &data, &CreateOptions::persistent()).await)?;
            client.close().await;
            Result::Ok(())
        })?;
    }
    if workload == "sketch" {
        let outcome = runtime.block_on(sketch::get(server, NODE, options))?;
        return Ok(outcome.report(workload, options).print()?);
    }
    let (ops, spent, latencies) = raw::get(server.address(), NODE, options)?;
    let mut report = Report::new(workload, options, ops, spent);
    if let Some(latencies) = latencies {
        report.latencies(&latencies);
    }
    report.put("requests_per_op", 1);
    Ok(report.print()?)
}

/// A tenth of a second of each workload.
fn tour(options: &Options) -> Result<()> {
    let options = Options {
        duration: Duration::from_millis(100),
        warm_up: Duration::from_millis(20),
        ..options.clone()
    };
    for workload in ["raw", "sketch", "get", "set", "create-delete"] {
        for depth in [1, 16, 256] {
            run(workload, &Options { depth, ..options.clone() })?;
        }
    }
    run("children", &Options { children: 10_000, ..options.clone() })?;
    for workload in ["watch", "stream", "idle"] {
        run(workload, &Options { watches: 1000, ..options.clone() })?;
    }
    run("keep", &Options { ops: Some(10_000), depth: 256, ..options })
}

/// Creates nodes in a folder.
async fn fill(client: &Client, folder: &str, paths: impl Iterator<Item = String>) -> Result<()> {
    let node = CreateOptions::persistent();
    made(client.create(folder, b"", &node).await)?;
    for paths in paths.collect::<Vec<_>>().chunks(PIPELINED) {
        let replies = paths.iter().map(|path| client.create(path, b"", &node));
        for reply in replies.collect::<Vec<_>>() {
            made(reply.await)?;
        }
    }
    Ok(())
}

/// Accepts a node that exists already.
fn made<T>(created: std::result::Result<T, Error>) -> Result<()> {
    match created {
        Err(error) if error.code() != Some(ErrorCode::NODE_EXISTS) => Err(error.into()),
        _ => Ok(()),
    }
}
