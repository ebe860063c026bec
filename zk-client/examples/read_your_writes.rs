//! Read what somebody else has written, through another server: the zxid of the write says how far
//! that server must have come.

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

    // Every answer carries a zxid; that of a write is its own transaction.
    let (stat, zxid) = writer.set_data("/config", b"2", None).with_zxid().await?;
    assert_eq!(stat.mzxid, zxid);
    println!("written in transaction {zxid}");

    // It travels as a number, in a message or a cookie. The reader may be at a server of the
    // ensemble that has not heard of the write: it waits until that one has.
    let message = zxid.0;
    println!("the reader has seen {}", reader.last_zxid());
    reader.wait_for_zxid(Zxid(message)).await?;
    let node = reader.get_data("/config").await?;
    println!("the reader is at {} and reads {:?}", reader.last_zxid(), node.data);
    assert_eq!(node.data, "2");

    // To hear that there is nothing is an answer, too, and a refusal is one.
    let (none, seen) = reader.exists("/missing").with_zxid().await?;
    println!("at {seen} there is {none:?}");
    let refused = reader.set_data("/config", b"3", Some(7)).await.err().and_then(|e| e.zxid());
    println!("refused in transaction {refused:?}");
    assert!(refused > Some(seen));

    // What no server ever reaches is given up after one session timeout.
    let error = reader.wait_for_zxid(Zxid(message + 1_000)).await.err().ok_or("it is far away")?;
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::Behind);
    Ok(())
}
