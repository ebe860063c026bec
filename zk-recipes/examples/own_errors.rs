//! A service with an error type of its own, in which nothing sorts errors by hand.
//!
//! `cargo run -p zk-recipes --example own_errors`: it fetches prices over HTTP and stores them in a
//! database, under a lock (both are stand-ins). Lost connections, a busy database and the end of a
//! session are survived by `run_each` and `retry`; any other error ends the service.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use thiserror::Error;
use zk_client::{Client, CreateOptions, SessionKeeper, Transient};
use zk_embedded::{Fault, OpCode, Server};
use zk_recipes::{Lock, retry};

/// Whatever may go wrong in the service.
#[derive(Debug, Error)]
pub(crate) enum ServiceError {
    #[error(transparent)]
    Session(#[from] zk_client::Error),
    #[error(transparent)]
    Lock(#[from] zk_recipes::Error),
    #[error("cannot store the price: {0}")]
    Database(#[from] DatabaseError),
    #[error("cannot fetch the price: {0}")]
    Http(#[from] HttpError),
}

/// As of SQLite: only that it is busy may pass, which the mark in its source says.
#[derive(Debug, Error)]
pub(crate) enum DatabaseError {
    #[error("the database is locked")]
    Busy(#[source] Transient),
}

#[derive(Debug, Error)]
#[error("status {0}")]
pub(crate) struct HttpError(u16);

const PRICES: [&str; 3] = ["tea", "milk", "gold"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start().await?;
    let keeper = Client::builder().keep(server.address()).await?;
    // What is to go wrong: a lost reply, a server that has too much to do, the end of a session.
    server.inject(Fault::lose_reply().op(OpCode::CREATE2));
    server.inject(Fault::refuse(zk_client::ErrorCode::THROTTLED_OP).op(OpCode::SET_DATA));
    server.inject(Fault::expire_session().op(OpCode::SET_DATA).after(2));

    let service = Service::default();
    match service.run(&keeper).await {
        Err(error @ ServiceError::Http(_)) => println!("the service ends: {error}"),
        done => done?,
    }
    println!("stored: {:?}", service.stored.lock().map_err(|_| "a panic")?);
    println!("attempts: {}", service.attempts.load(Ordering::Relaxed));
    keeper.close().await;
    Ok(())
}

#[derive(Default)]
pub(crate) struct Service {
    pub(crate) stored: Mutex<BTreeMap<&'static str, u32>>,
    attempts: AtomicU32,
}

impl Service {
    pub(crate) async fn run(&self, keeper: &SessionKeeper) -> Result<(), ServiceError> {
        let serve = |client: Client| async move { retry(|| self.store_prices(&client)).await };
        keeper.run_each(serve).await
    }

    /// Stores the prices that are not stored yet, so that it may begin anew at any place.
    async fn store_prices(&self, client: &Client) -> Result<(), ServiceError> {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        let guard = Lock::new(client, "/shop/lock")?.acquire().await?;
        client.ensure("/shop/count", &CreateOptions::persistent()).await?;
        for name in PRICES {
            let price = fetch(name)?;
            let count = self.store(name, price, attempt)?;
            client.set_data("/shop/count", count.to_string().as_bytes(), None).await?;
        }
        guard.release().await?;
        Ok(())
    }

    /// Stands for a database, which is busy at the second attempt.
    fn store(&self, name: &'static str, price: u32, attempt: u32) -> Result<usize, DatabaseError> {
        match self.stored.lock() {
            Ok(mut stored) if attempt != 1 => {
                stored.insert(name, price);
                Ok(stored.len())
            }
            _ => Err(DatabaseError::Busy(Transient::Fault)),
        }
    }
}

/// Stands for a request over HTTP.
fn fetch(name: &str) -> Result<u32, HttpError> {
    match name {
        "tea" => Ok(3),
        "milk" => Ok(2),
        _ => Err(HttpError(404)),
    }
}
