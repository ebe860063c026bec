//! Nodes that are never left behind: found again when the reply was lost, deleted when dropped, and
//! with a lease that says until when they certainly exist.

use std::time::Duration;

use zk_client::{Client, CreateOptions, LeaseState, OpCode};
use zk_embedded::{Fault, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(server.address()).await?;

    // The server creates the node, and its reply is lost: the client searches for the node and
    // finds it.
    server.inject(Fault::lose_reply().op(OpCode::CREATE2));
    let options = CreateOptions::ephemeral().sequential();
    let path = format!("/member-{:032x}-", client.unique());
    let member = client.create_owned(&path, b"10.0.0.7:80", &options).await?;
    println!("found again: ...{}", member.path().get(40..).unwrap_or_default());
    assert_eq!(members(&server), 1);

    // Work that must not outlive the node checks the lease.
    let lease = member.lease(Some(Duration::from_secs(60)));
    match lease.state() {
        LeaseState::Valid { .. } => println!("surely held, and for a minute at most"),
        state => println!("not sure: {state:?}"),
    }
    drop(lease);

    // Another is dropped before its reply has come.
    let other = format!("/member-{:032x}-", client.unique());
    drop(client.create_owned(&other, b"", &options));
    client.sync("/").await?;
    client.sync("/").await?;
    assert_eq!(members(&server), 1);
    println!("the one that nobody waited for is gone");

    drop(member);
    client.sync("/").await?;
    assert_eq!(members(&server), 0);
    println!("the other was dropped, and is gone, too");
    Ok(())
}

fn members(server: &Server) -> usize {
    server.children("/").iter().filter(|name| name.starts_with("member-")).count()
}
