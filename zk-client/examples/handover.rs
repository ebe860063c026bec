//! A session that outlives its process: one client hands it over, with its nodes, to the next.

use zk_client::{Client, CreateOptions, ErrorKind};
use zk_embedded::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let old = Client::connect(server.address()).await?;
    let options = CreateOptions::ephemeral().sequential();
    let node = old.create_owned("/primary-", b"old", &options).await?;
    let path = node.path().to_owned();

    // Anyone who has this identity can use the session: pass it to the next process as a
    // secret.
    let identity = old.detach().await.ok_or("a session")?;
    println!("left with its nodes: {identity:?}");
    match old.get_data(&path).await {
        Err(error) if error.kind() == ErrorKind::Closed => println!("the old client: {error}"),
        other => return Err(format!("it is detached, and yet: {other:?}").into()),
    }

    let new = Client::builder().session(identity).connect(server.address()).await?;
    let node = new.adopt(&path).await?;
    println!("the new client owns {}, made in {}", node.path(), node.czxid());
    assert!(server.has_node(&path));

    node.delete().await?;
    assert!(!server.has_node(&path));
    new.close().await;
    Ok(())
}
