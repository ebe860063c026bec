//! A process that fights for a lock: takes it again and again, and each time adds one to a number
//! in a file that nothing else protects. If two processes are ever inside together, the number
//! ends too low.
//!
//! ```text
//! contender SERVERS LOCK FILE TIMES SESSION_TIMEOUT_MS
//! contender SERVERS LOCK hold SESSION_TIMEOUT_MS
//! ```
//!
//! Prints `ready`, then `at N` now and then, and `done`; or `held`, and keeps the lock until it is
//! killed.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use zk_client::Client;
use zk_recipes::{ErrorKind, Lock};

/// How many turns lie between two lines of output.
const TURNS_PER_LINE: u32 = 50;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let arguments = arguments.iter().map(String::as_str).collect::<Vec<_>>();
    match arguments.as_slice() {
        [servers, lock, "hold", timeout] => hold(servers, lock, timeout).await,
        [servers, lock, file, times, timeout] => fight(servers, lock, file, times, timeout).await,
        _ => bail!("usage: contender SERVERS LOCK (FILE TIMES | hold) SESSION_TIMEOUT_MS"),
    }
}

async fn connect(servers: &str, timeout: &str) -> Result<Client> {
    let timeout = Duration::from_millis(timeout.parse()?);
    let builder = Client::builder().session_timeout(timeout).connect_timeout(4 * timeout);
    Ok(builder.connect(servers).await?)
}

async fn fight(servers: &str, lock: &str, file: &str, times: &str, timeout: &str) -> Result<()> {
    let client = connect(servers, timeout).await?;
    let lock = Lock::new(&client, lock)?;
    println!("ready");
    for turn in 1..=times.parse()? {
        let guard = lock.acquire().await?;
        let number: u64 = fs::read_to_string(file)?.trim().parse().context("the number")?;
        fs::write(file, format!("{}", number + 1))?;
        match guard.release().await {
            Ok(_) => {}
            // The connection broke: the client goes on releasing it.
            Err(error) if error.kind() == ErrorKind::Unconfirmed => {}
            Err(error) => return Err(error.into()),
        }
        if turn % TURNS_PER_LINE == 0 {
            println!("at {turn}");
        }
    }
    println!("done");
    client.close().await;
    Ok(())
}

async fn hold(servers: &str, lock: &str, timeout: &str) -> Result<()> {
    let client = connect(servers, timeout).await?;
    let guard = Lock::new(&client, lock)?.acquire().await?;
    println!("held");
    std::future::pending::<()>().await;
    drop(guard);
    Ok(())
}
