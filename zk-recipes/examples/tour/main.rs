//! A tour of a distributed lock: contenders take turns, and every frame that matters is told with
//! what it means.
//!
//! ```text
//! cargo run --release --example tour
//! cargo run --release --example tour -- --connect 127.0.0.1:2181
//! ```
//!
//! The first runs on a server inside of this process, the second on a real one.

mod narrator;

use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use zk_client::{Client, ErrorKind};
use zk_embedded::Server;
use zk_recipes::{Guard, Lock, Options};

use crate::narrator::{Narrator, say};

type Error = Box<dyn std::error::Error + Send + Sync>;

const FOLDER: &str = "/zk-recipes-tour";

// One thread, so that the story is told in the order in which it happens.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let server = match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => None,
        (Some("--connect"), Some(server)) if arguments.next().is_none() => Some(server),
        (word, _) => {
            println!("usage: tour [--connect HOST:PORT]      default: a server in this process");
            let asked = matches!(word, Some("-h" | "--help"));
            return if asked { ExitCode::SUCCESS } else { ExitCode::from(2) };
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
         protocol over real sockets; with --connect HOST:PORT the tour takes you to a real one.",
        server.address()
    ));
    tour(server.address()).await
}

async fn tour(server: &str) -> Result<(), Error> {
    // First of all, so that nothing is told where there is no server.
    let look = Client::builder().connect_timeout(Duration::from_secs(5)).connect(server).await?;
    let crowd = look.exists(FOLDER).await?.is_some_and(|folder| folder.num_children > 0);
    look.close().await;
    if crowd {
        return Err(format!("somebody is in {FOLDER} already: is another tour under way?").into());
    }

    say(&format!(
        "A lock in ZooKeeper is a queue: a folder, here {FOLDER}, in which every contender has a \
         node. The server numbers the nodes in the order in which it creates them, and whoever has \
         the lowest number holds the lock. The nodes are ephemeral: each goes with the session of \
         its contender, so a crash leaves no lock behind."
    ));
    say(
        "Below, -> is a frame that a contender sends and <- is one that it gets. Frames that leave \
         together are one packet.",
    );

    say("1. ANA TAKES THE FREE LOCK. It costs one round trip: the create and the list of the \
         folder leave together, and the server answers them in order. So the list is newer than \
         Ana's node, and if nobody with a lower number is in it, nobody ever will be. The very \
         first contender finds no folder and makes it, which takes another round trip, this once.");
    let ana = Contender::connect("Ana", server).await?;
    let guard = ana.acquire().await?;

    say("2. BEN AND CHO QUEUE UP. Each lists who is ahead and waits for the one right ahead: \
         however long the queue, the end of the holder hands the lock to one contender. Two more \
         watches make the wait safe and the hand-over cheap: one on the own node, one on the \
         contender before the one right ahead.");
    let ben = Contender::connect("Ben", server).await?;
    let ben_waits = ben.queue_up().await?;
    let cho = Contender::connect("Cho", server).await?;
    let cho_waits = cho.queue_up().await?;

    say(
        "3. ANA RELEASES: she deletes her node. Ben's watch fires, and as he has now seen everybody \
         ahead of him go, the lock is his. He sends nothing.",
    );
    guard.release().await?;
    let guard_of_ben = ben_waits.await??;

    say(
        "4. DAN QUEUES UP AND CHANGES HIS MIND. Dropping the future is all it takes: his node goes \
         at once, and nobody will wait behind a contender that has left.",
    );
    let dan = Contender::connect("Dan", server).await?;
    let dan_waits = dan.queue_up().await?;
    dan_waits.abort();
    drop(dan_waits.await);
    dan.client.sync("/").await?;

    say("5. BEN'S SESSION ENDS while he holds the lock. Here it is closed; the ensemble does the \
         same by itself with a client that it has not heard from for a session timeout. His node \
         goes with the session, and Cho is woken as if he had released.");
    ben.client.close().await;
    let guard_of_cho = cho_waits.await??;

    say(&format!(
        "6. BEN KNOWS NOTHING OF IT, say because he was stopped all the while, and writes to the \
         store that the lock protects. This is what the fencing token is for: the number of the \
         transaction that made the holder's node, which grows from holder to holder. Ben's is {}, \
         and the store has seen Cho's, {}: it refuses. No clock was asked.",
        guard_of_ben.token(),
        guard_of_cho.token()
    ));
    assert!(guard_of_ben.token() < guard_of_cho.token(), "tokens grow from holder to holder");
    println!("        the store: {} < {}, refused", guard_of_ben.token(), guard_of_cho.token());
    println!("        Ben releases, and hears: {:?}", guard_of_ben.release().await?);

    say(
        "7. CHO DROPS HER GUARD. That is a release too: the delete is on its way at once, without \
         an await. If the connection broke now, it would be the first request of the next one.",
    );
    drop(guard_of_cho);
    cho.client.sync("/").await?;

    say("The queue is empty. Its folder is a container, which the server removes some time after \
         its last child.");
    for contender in [ana, cho, dan] {
        contender.client.close().await;
    }
    Ok(())
}

/// Somebody with a session of their own, whose frames are told.
struct Contender {
    name: &'static str,
    client: Client,
    waiting: watch::Receiver<bool>,
}

impl Contender {
    async fn connect(name: &'static str, server: &str) -> Result<Self, Error> {
        let (narrator, waiting) = Narrator::new(name);
        let builder = Client::builder().connect_timeout(Duration::from_secs(5));
        let client = builder.connector(narrator).connect(server).await?;
        Ok(Self { name, client, waiting })
    }

    fn acquire(&self) -> impl Future<Output = Result<Guard, Error>> + Send + use<> {
        let (name, client) = (self.name, self.client.clone());
        async move {
            let guard =
                Lock::with_options(&client, FOLDER, Options::new().data(name))?.acquire().await?;
            println!("        {name} holds the lock. Fencing token: {}", guard.token());
            Ok(guard)
        }
    }

    /// Starts to acquire, and returns once the watches are set and there is nothing to do but wait.
    async fn queue_up(&self) -> Result<JoinHandle<Result<Guard, Error>>, Error> {
        let waits = tokio::spawn(self.acquire());
        self.waiting.clone().wait_for(|waiting| *waiting).await?;
        println!("        {} waits.", self.name);
        Ok(waits)
    }
}

fn how_to_start(server: &str) -> String {
    format!(
        "No ZooKeeper answers at {server}. To start one on this machine, until Ctrl-C:\n\n\
         \x20 Debian, Ubuntu:  sudo apt-get install zookeeper\n\
         \x20                  /usr/share/zookeeper/bin/zkServer.sh start-foreground\n\
         \x20 elsewhere:       unpack a release of Apache ZooKeeper, copy conf/zoo_sample.cfg\n\
         \x20                  to conf/zoo.cfg, and run bin/zkServer.sh start-foreground\n\n\
         It says little when it is ready. Then run the tour again; without --connect it takes\n\
         the server that it brings along."
    )
}
