//! Read what another client has written, through another server: the zxid of the write says what
//! that server must have applied.

use std::time::Duration;

use zk_client::{Client, CreateOptions, ErrorKind, Zxid};
use zk_embedded::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let writer = Client::connect(server.address()).await?;
    let builder = Client::builder().session_timeout(Duration::from_secs(4));
    let reader = builder.connect(server.address()).await?;
    writer.create("/config", b"1", &CreateOptions::persistent()).await?;

    // Every reply carries a zxid; that of a write is its own transaction.
    let (stat, zxid) = writer.set_data("/config", b"2", None).with_zxid().await?;
    assert_eq!(stat.mzxid, zxid);
    println!("written in transaction {zxid}");

    // It is sent as a number, in a message or a cookie. The reader may be connected to a server of
    // the ensemble that has not applied the write: the reader waits until it has.
    let message = zxid.0;
    println!("the reader has seen {}", reader.last_zxid());
    reader.wait_for_zxid(Zxid(message)).await?;
    let node = reader.get_data("/config").await?;
    println!("the reader is at {} and reads {:?}", reader.last_zxid(), node.data);
    assert_eq!(node.data, "2");

    // That a node does not exist is a reply with a zxid too, and so is a refusal.
    let (none, seen) = reader.exists("/missing").with_zxid().await?;
    println!("at {seen} there is {none:?}");
    let refused = reader.set_data("/config", b"3", Some(7)).await.err().and_then(|e| e.zxid());
    println!("refused in transaction {refused:?}");
    assert!(refused > Some(seen));

    // A wait for a zxid that no server reaches fails after one session timeout.
    let error = reader.wait_for_zxid(Zxid(message + 1_000)).await.err().ok_or("it is far away")?;
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::Behind);
    Ok(())
}
