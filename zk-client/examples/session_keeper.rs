//! A service that survives the end of its session: it creates its ephemeral nodes again.

use zk_client::{Client, CreateOptions};
use zk_embedded::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let keeper = Client::builder().keep(server.address()).await?;

    // This task registers the service in each session, and ends with the keeper.
    let mut sessions = keeper.sessions();
    let registering = tokio::spawn(async move {
        let mut last = 0;
        while let Ok(session) = sessions.next().await {
            last = session.number;
            let here = session.client.create("/here", b"10.0.0.7:80", &CreateOptions::ephemeral());
            println!("session {last}: {:?}", here.await.map(|created| created.path));
        }
        last
    });

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
    assert_eq!(registering.await?, 2);
    Ok(())
}
