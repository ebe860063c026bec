//! The example of a whole service as a process that tests disturb.
//!
//! ```text
//! service SERVERS PAUSE_MS
//! ```
//!
//! It asks for a session timeout of one second, and writes a job every PAUSE_MS while it leads. It
//! prints `ready` when it has a session. The command `expire` on its input ends its session as
//! the ensemble would. The command `stop`, like the end of its input, ends the service; it prints
//! `done` then.

use std::io::stdin;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;
use zk_client::{Client, SessionKeeper};

#[allow(dead_code, reason = "its main runs as an example")]
#[path = "../../../zk-recipes/examples/service.rs"]
mod example;

use example::Service;

const SESSION: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().context("which servers?")?;
    let pause = arguments.next().context("which pause?")?.parse()?;
    let (tell, mut told) = unbounded_channel();
    // This is a thread because, unlike a blocking task, it does not keep the process alive.
    thread::spawn(move || {
        let lines = stdin().lines().map_while(Result::ok);
        lines.chain(["stop".to_owned()]).for_each(|line| drop(tell.send(line)));
    });
    // A server may be gone at this moment.
    let keeper = Client::builder().session_timeout(SESSION).keep_lazily(&servers)?;
    keeper.client().await?;
    let mut service = Service::new(keeper)?;
    service.pause = Duration::from_millis(pause);
    println!("ready");
    let orders = async {
        while let Some(order) = told.recv().await.filter(|order| order != "stop") {
            if order == "expire" {
                tokio::spawn(expire(service.keeper.clone(), servers.clone()));
            }
        }
    };
    tokio::select! {
        served = service.run() => served?,
        () = orders => {}
    }
    timeout(4 * SESSION, service.keeper.close()).await.ok();
    println!("done");
    Ok(())
}

/// Ends the current session from a second connection, which the service does not know of.
async fn expire(keeper: SessionKeeper, servers: String) -> Result<()> {
    let session = keeper.client().await?.session().context("a session")?;
    let thief = Client::builder().session_timeout(SESSION).session(session);
    thief.connect(&servers).await?.close().await;
    Ok(())
}
