//! A service that leads while it holds a lock, and goes on when its session ends.
//!
//! ```text
//! cargo run --release -p zk-recipes --example leader
//! ```
//!
//! A lock goes with the session of its client, and a client is good for one session. So a service
//! has a keeper, which opens one session after the other, and makes a new lock in each. Started in
//! several processes, one of them leads, and the next in the queue when that one is gone. It runs
//! on a server inside of this process.

use std::future::pending;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use zk_client::{Client, SessionId, SessionKeeper};
use zk_embedded::Server;
use zk_recipes::{ErrorKind, FencingToken, Lock};

const LOCK: &str = "/locks/leader";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let keeper = Client::builder().keep(server.address()).await?;
    let (tell, mut terms) = unbounded_channel();
    let service = tokio::spawn(serve(keeper.clone(), tell));

    let first = terms.recv().await.ok_or("the service has ended")?;
    // As after a pause that was longer than the session timeout; here nobody waits for that.
    println!("the ensemble ends the session");
    assert!(server.expire(first.session));

    let second = terms.recv().await.ok_or("the service has ended")?;
    assert_ne!(second.session, first.session);
    assert!(second.token > first.token, "what the first term writes late can be told and refused");

    // The last thing that a program does: without it the lock is taken until the session expires.
    keeper.close().await;
    service.await??;
    println!("the service is stopped");
    Ok(())
}

/// Leads whenever it can, until the keeper is closed.
async fn serve(
    keeper: SessionKeeper,
    tell: UnboundedSender<Term>,
) -> Result<(), zk_recipes::Error> {
    loop {
        let client = match keeper.client().await {
            Ok(client) => client,
            Err(error) if error.kind() == zk_client::ErrorKind::Closed => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        match lead(&client, &tell).await {
            Ok(()) => return Ok(()),
            // The session is over, while the lock was held or waited for; or it lives on, and the
            // lock alone is lost. The keeper knows.
            Err(error) if error.is_session_over() || error.kind() == ErrorKind::Lost => {
                println!("no longer: {error}");
            }
            Err(error) => return Err(error),
        }
    }
}

/// Waits for the lock and works under it, until the work is done or the lock is lost.
async fn lead(client: &Client, tell: &UnboundedSender<Term>) -> Result<(), zk_recipes::Error> {
    let guard = Lock::new(client, LOCK)?.acquire().await?;
    println!("leading, with token {}", guard.token());
    let session = client.session().map(|session| session.id).unwrap_or_default();
    // An error means that nobody listens.
    tell.send(Term { session, token: guard.token() }).ok();
    // It is dropped where it stands when the lock is lost.
    guard.run(work()).await?;
    guard.release().await?;
    Ok(())
}

/// What only one may do at a time. This has no end.
async fn work() {
    pending().await
}

/// That the service leads.
struct Term {
    session: SessionId,
    token: FencingToken,
}
