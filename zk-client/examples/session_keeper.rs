//! A service that survives the end of its session: it creates its ephemeral nodes again.

use std::convert::Infallible;
use std::future::pending;

use zk_client::{Client, CreateOptions, Error, ErrorKind, SessionKeeper};
use zk_embedded::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let keeper = Client::builder().keep(server.address()).await?;

    // This task ends with the keeper.
    let kept = keeper.clone();
    let registering = tokio::spawn(async move { register(&kept).await });

    let client = keeper.client().await?;
    let mut new = keeper.sessions();
    new.next().await?;
    let session = client.session().ok_or("a session that began has an id")?;
    println!("the servers end the session");
    server.expire(session.id);

    // A client is valid for one session. The keeper returns another as soon as there is one.
    new.next().await?;
    assert!(client.get_data("/here").await.is_err_and(|error| error.is_session_over()));
    let client = keeper.client().await?;
    let (mut here, mut watch) = client.exists_and_watch("/here").await?;
    if here.is_none() {
        watch.changed().await?;
        here = client.exists("/here").await?;
    }
    assert_eq!(here.map(|stat| stat.ephemeral_owner), client.session().map(|session| session.id));
    println!("the service is back");

    keeper.close().await;
    assert!(registering.await?.is_err_and(|error| error.kind() == ErrorKind::Closed));
    Ok(())
}

/// Registers the service in each session.
pub(crate) async fn register(keeper: &SessionKeeper) -> Result<Infallible, Error> {
    keeper
        .run_each(|client| async move {
            let options = CreateOptions::ephemeral();
            // If a reply is lost, `resolving` looks for the node. A session survives such a loss.
            while let Err(error) = client.resolving().create("/here", b"here", &options).await {
                if !error.is_transient() {
                    return Err(error);
                }
            }
            println!("registered");
            pending().await
        })
        .await
}
