//! Trees: created with their parents, walked level by level, and deleted with everything below.

use zk_client::{Client, CreateOptions};
use zk_embedded::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(server.address()).await?;

    // Parents that do not exist yet cost one more round trip, whatever their number. As containers,
    // the servers delete them when they are empty.
    let job = CreateOptions::persistent().sequential().container_parents();
    for region in ["eu", "us"] {
        for task in ["resize", "mail"] {
            let stem = format!("/jobs/{region}/{task}/job-");
            let made = client.create_all(&stem, b"42", &job).await?;
            println!("made {}", made.path);
        }
    }
    client.ensure("/done", &CreateOptions::persistent()).await?;
    client.ensure("/done", &CreateOptions::persistent()).await?;

    let mut walk = client.walk("/jobs");
    let mut bytes = 0;
    while let Some(node) = walk.next().await? {
        println!("{} has {} bytes", node.path, node.stat.data_length);
        bytes += node.stat.data_length;
    }
    assert_eq!(bytes, 4 * 2);

    // A chroot is a tree of its own, and its root remains when everything in it is deleted.
    let europe = Client::connect(&format!("{}/jobs/eu", server.address())).await?;
    let deleted = europe.delete_all("/").await?;
    println!("{deleted} nodes deleted in Europe");
    assert_eq!((deleted, europe.get_children("/").await?.names.len()), (4, 0));
    assert_eq!(client.delete_all("/jobs").await?, 1 + 1 + 5);
    assert_eq!(client.delete_all("/jobs").await?, 0);
    Ok(())
}
