//! Less common operations: the nodes of a session, the size of a tree, the members of the ensemble,
//! and nodes that expire.

use std::time::Duration;

use zk_client::{Client, CreateOptions, Error, ErrorKind};
use zk_embedded::{Config, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Servers allow nodes with a time to live only if they are configured to, and check once a
    // minute which of them have expired.
    let often = Duration::from_millis(20);
    let config = Config::new().extended_types(true).container_check_interval(often);
    let server = Server::with(config).await?;
    let client = Client::connect(server.address()).await?;

    for path in ["/members", "/members/eu", "/members/us"] {
        client.create(path, b"", &CreateOptions::persistent()).await?;
    }
    for path in ["/members/eu/a", "/members/eu/b", "/members/us/c"] {
        client.create(path, b"", &CreateOptions::ephemeral()).await?;
    }
    println!("{} nodes below /members", client.get_all_children_number("/members").await?);
    let mut own = client.get_ephemerals("/members/eu/").await?;
    own.sort();
    println!("ours in Europe: {own:?}");
    assert_eq!(own, ["/members/eu/a", "/members/eu/b"]);

    // This node expires, since no client writes to it in time.
    let brief = CreateOptions::persistent().ttl(Duration::from_millis(1));
    client.create("/brief", b"", &brief).await?;
    let (there, mut gone) = client.exists_and_watch("/brief").await?;
    match there {
        Some(_) => println!("{} /brief", gone.changed().await?.kind),
        None => println!("/brief is gone already"),
    }
    let never = CreateOptions::ephemeral().ttl(Duration::from_secs(1));
    let error = refused(client.create("/never", b"", &never).await)?;
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::InvalidOptions);

    // A standalone server has no ensemble to report or to change.
    let config = client.get_config().await?;
    println!("{} members, connect to {:?}", config.members.len(), config.connect_string());

    client.close().await;
    Ok(())
}

/// The error of a call that must fail.
fn refused<T>(answer: Result<T, Error>) -> Result<Error, &'static str> {
    answer.err().ok_or("it was let through")
}
