//! A tour of distributed locks: contenders take turns, and every frame that matters is told with
//! what it means.
//!
//! ```text
//! cargo run --release --example tour
//! cargo run --release --example tour -- --connect 127.0.0.1:2181
//! ```
//!
//! The first runs on a server inside of this process, the second on a real one.

mod chapters;
mod contender;
mod narrator;
mod story;
mod text;

use std::process::ExitCode;
use std::time::Duration;

use lexopt::{Arg, ValueExt};
use zk_client::{Client, CreateOptions, ErrorCode, ErrorKind};
use zk_embedded::Server;

use crate::contender::Contender;
use crate::text::say;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The folders of the locks, and what one of them protects.
const LOCK: &str = "/zk-recipes-tour";
const CATALOGUE: &str = "/zk-recipes-tour-catalogue";
const STOCK: &str = "/zk-recipes-tour-stock";
const BALANCE: &str = "/zk-recipes-tour-balance";

const USAGE: &str = "usage: tour [--connect HOST:PORT]      default: a server in this process";

/// What the command line asks for.
enum Arguments {
    Help,
    /// The tour, on this server or on one of its own.
    Server(Option<String>),
}

fn arguments() -> Result<Arguments, lexopt::Error> {
    let mut server = None;
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("connect") => server = Some(parser.value()?.string()?),
            Arg::Short('h') | Arg::Long("help") => return Ok(Arguments::Help),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Arguments::Server(server))
}

// One thread, so that the story is told in the order in which it happens.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let server = match arguments() {
        Ok(Arguments::Help) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Ok(Arguments::Server(server)) => server,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let told = match &server {
        Some(server) => tour(server).await,
        None => tour_without_server().await,
    };
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\n{error}");
            let error = error.downcast_ref::<zk_client::Error>();
            if let Some(server) = server
                && error.is_some_and(|error| error.kind() == ErrorKind::NoServer)
            {
                eprintln!("\n{}", how_to_start(&server));
            }
            ExitCode::FAILURE
        }
    }
}

async fn tour_without_server() -> Result<(), Error> {
    let server = Server::start().await?;
    say(&format!(
        "There is a ZooKeeper server in this process, at {}: zk-embedded. It speaks the real \
         protocol over real sockets; with --connect HOST:PORT the tour runs on a real one.",
        server.address()
    ));
    tour(server.address()).await
}

async fn tour(server: &str) -> Result<(), Error> {
    // First of all, so that nothing is told where there is no server.
    let stage = Client::builder().connect_timeout(Duration::from_secs(5)).connect(server).await?;
    for folder in [LOCK, CATALOGUE, STOCK] {
        if stage.exists(folder).await?.is_some_and(|folder| folder.num_children > 0) {
            return Err(format!("somebody is in {folder}: is another tour under way?").into());
        }
    }
    say(&format!(
        "A lock in ZooKeeper is a queue: a folder, here {LOCK}, in which every contender has a \
         node. The server numbers the nodes in the order in which it creates them, and whoever has \
         the lowest number holds the lock. The nodes are ephemeral: each is deleted with the \
         session of its contender, so a crash leaves no lock behind."
    ));
    say(
        "Below, -> is a frame that a contender sends and <- is one that it gets. Frames that leave \
         together are one packet. Replies that only confirm a request are not shown. Ana, Ben and \
         Cho are clients with a session each:",
    );
    let cast = Cast {
        ana: Contender::connect("Ana", server).await?,
        ben: Contender::connect("Ben", server).await?,
        cho: Contender::connect("Cho", server).await?,
    };

    let lock_of_ana = cast.ana.lock()?;
    chapters::queue::tell(&cast, &lock_of_ana).await?;
    chapters::requeue::tell(&cast, lock_of_ana).await?;
    chapters::lost_reply::tell(&cast).await?;
    stage.create(BALANCE, b"", &CreateOptions::ephemeral()).await?;
    chapters::lost_session::tell(&cast, server).await?;
    for folder in [CATALOGUE, STOCK] {
        // So that the story need not tell of that again.
        match stage.create(folder, b"", &CreateOptions::container()).await {
            Err(error) if error.code() != Some(ErrorCode::NODE_EXISTS) => return Err(error.into()),
            _ => {}
        }
    }
    chapters::sharing::tell(&cast).await?;
    chapters::two_levels::tell(&cast).await?;
    chapters::linger::tell(&cast).await?;

    say("The queues are empty. Their folders are containers, which the server removes some time \
         after the last child.");
    for contender in [cast.ana, cast.ben, cast.cho] {
        contender.narrator.quiet();
        contender.client.close().await;
    }
    stage.close().await;
    Ok(())
}

/// Those who are in the queues most of the time.
struct Cast {
    ana: Contender,
    ben: Contender,
    cho: Contender,
}

fn how_to_start(server: &str) -> String {
    format!(
        "No ZooKeeper answers at {server}. To start one on this machine, until Ctrl-C:\n\n\
         \x20 Debian, Ubuntu:  sudo apt-get install zookeeper\n\
         \x20                  /usr/share/zookeeper/bin/zkServer.sh start-foreground\n\
         \x20 elsewhere:       unpack a release of Apache ZooKeeper, copy conf/zoo_sample.cfg\n\
         \x20                  to conf/zoo.cfg, and run bin/zkServer.sh start-foreground\n\n\
         It prints little when it is ready. Then run the tour again. Without --connect it uses\n\
         its own server."
    )
}
