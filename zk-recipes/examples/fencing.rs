//! A holder that was stopped for too long comes back and writes, and is refused.
//!
//! ```text
//! cargo run --release --example fencing
//! ```
//!
//! No lock can stop a process that has lost it without noticing, for instance because its machine
//! was paused. What it writes must be refused where it arrives: by a store that compares tokens, or
//! by the ensemble, in one transaction with a check of the lock. It runs on a server inside of this
//! process.

use std::error::Error;
use std::fmt;

use zk_client::{Client, CreateOptions, Op};
use zk_embedded::Server;
use zk_recipes::{ErrorKind, FencingToken, Lock};

const LOCK: &str = "/locks/account";
/// What the lock protects in ZooKeeper; there is a store elsewhere, too.
const BALANCE: &str = "/balance";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start().await?;
    let first = Client::connect(server.address()).await?;
    let second = Client::connect(server.address()).await?;
    first.create(BALANCE, b"100", &CreateOptions::persistent()).await?;
    let mut store = Store::default();

    // All is well: the first holds the lock, and writes with its token.
    let stale = Lock::new(&first, LOCK)?.acquire().await?;
    println!("the first holds the lock, with token {}", stale.token());
    store.write(stale.token(), "100")?;

    // It is stopped. The ensemble hears nothing of it for a session timeout, and ends its session;
    // here nobody waits for that.
    let session = first.session().ok_or("there is no session")?;
    assert!(server.expire(session.id));
    println!("it is stopped, and the ensemble ends its session");

    // So the second gets the lock, and writes.
    let guard = Lock::new(&second, LOCK)?.acquire().await?;
    println!("the second holds the lock, with token {}", guard.token());
    store.write(guard.token(), "70")?;
    guard.fenced(Op::set_data(BALANCE, b"70", None)).await?;

    // The first goes on where it was. What it believes of the lock does not matter from here on.
    let late = refused(store.write(stale.token(), "130"))?;
    println!("the first writes to the store: {late}");

    let write = Op::set_data(BALANCE, b"130", None);
    let late = refused(stale.fenced(write).await)?;
    assert_eq!(late.kind(), ErrorKind::Lost);
    println!("the first writes to the ensemble: {late}");

    // A result that is stored as the lock is released is refused in the same way.
    let late = refused(stale.release_with(write).await)?;
    assert_eq!(late.error.kind(), ErrorKind::Lost);
    assert!(late.guard.is_none(), "there is nothing left to release");
    println!("the first releases with a result: {late}");

    let balance = second.get_data(BALANCE).await?.data;
    assert_eq!((store.row.as_str(), &balance[..]), ("70", &b"70"[..]));
    println!("both still say what the second wrote: {}", store.row);
    guard.release().await?;
    Ok(())
}

fn refused<T, E>(write: Result<T, E>) -> Result<E, &'static str> {
    write.err().ok_or("a holder that lost the lock was let through")
}

/// A store that knows nothing of ZooKeeper but the greatest token that it has seen.
#[derive(Debug, Default)]
struct Store {
    greatest: Option<FencingToken>,
    row: String,
}

impl Store {
    /// Comparing and writing are one step: a database does both in one transaction.
    fn write(&mut self, token: FencingToken, row: &str) -> Result<(), Stale> {
        match self.greatest {
            Some(greatest) if token < greatest => Err(Stale { token, greatest }),
            _ => {
                self.greatest = Some(token);
                self.row = row.to_owned();
                Ok(())
            }
        }
    }
}

/// The store has seen a later holder.
#[derive(Debug)]
struct Stale {
    token: FencingToken,
    greatest: FencingToken,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token {} is older than {}", self.token, self.greatest)
    }
}

impl Error for Stale {}
