//! A service that leads while it is elected, and goes on when its session ends.
//!
//! ```text
//! cargo run --release -p zk-recipes --example leader
//! ```
//!
//! A term ends with the session of its client, and a client is valid for one session. So the
//! service has a keeper, which opens one session after another, and takes part in the election anew
//! in each. Started in several processes, one of them leads, and the next in the queue when that
//! one is gone. It runs on a server inside this process.

use std::future::pending;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use zk_client::{Client, SessionId, SessionKeeper};
use zk_embedded::Server;
use zk_recipes::{Election, Error, FencingToken, Guard, Options, retry};

const ELECTION: &str = "/service/leader";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let keeper = Client::builder().keep(server.address()).await?;
    let (tell, mut terms) = unbounded_channel();

    tokio::select! {
        served = run(&keeper, &tell) => served?,
        // In a real service: `tokio::signal::ctrl_c()`.
        two_terms = async {
            let first = terms.recv().await?;
            // As after a pause that was longer than the session timeout.
            println!("the ensemble ends the session");
            assert!(server.expire(first.session));
            Some((first, terms.recv().await?))
        } => {
            let (first, second) = two_terms.ok_or("the service has ended")?;
            assert_ne!(second.session, first.session);
            assert!(second.token > first.token, "late writes of the first term can be refused");
        }
    }

    // The end of a program: without it the leadership is taken until the session expires.
    keeper.close().await;
    println!("the service is stopped");
    Ok(())
}

/// Serves in one session after another. What a lost connection ends begins anew in the same one.
pub(crate) async fn run(keeper: &SessionKeeper, tell: &UnboundedSender<Term>) -> Result<(), Error> {
    keeper.run_each(|client| async move { retry(|| serve(&client, tell)).await }).await
}

/// Takes part in the election for as long as the session lives.
async fn serve(client: &Client, tell: &UnboundedSender<Term>) -> Result<(), Error> {
    let options = Options::new().data("10.0.0.7:80");
    let election = Election::with_options(client, ELECTION, options)?;
    let session = client.session().map(|session| session.id).unwrap_or_default();
    election
        .lead(async |term| {
            println!("leading, with token {}", term.token());
            // An error means that nobody listens.
            tell.send(Term { session, token: term.token() }).ok();
            // The future is dropped where it stands when the leadership is in doubt.
            work(&term).await;
        })
        .await
}

/// What only one process may do at a time. This has no end.
async fn work(_: &Guard) {
    pending().await
}

/// The service leads.
pub(crate) struct Term {
    session: SessionId,
    pub(crate) token: FencingToken,
}
