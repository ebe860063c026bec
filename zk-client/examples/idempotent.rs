//! Writes whose replies are lost: the client checks their outcome, and sends only those again that
//! were certainly not applied.

use zk_client::{Client, Committed, CreateOptions, ErrorCode, Op, Outcome};
use zk_embedded::{Fault, OpCode, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(server.address()).await?;
    client.create("/counter", b"0", &CreateOptions::persistent()).await?;

    // The plain call reports that the outcome is unknown.
    server.inject(Fault::lose_reply().op(OpCode::SET_DATA));
    let error = client.set_data("/counter", b"1", Some(0)).await.err().ok_or("a lost reply")?;
    println!("{error}");
    assert_eq!(error.outcome(), Outcome::Unknown);

    // These calls check. The first time the server applies the write and its reply is lost; the
    // second time the request is lost.
    let sure = client.resolving();
    for (fault, version) in [(Fault::lose_reply(), 1), (Fault::lose_request(), 2)] {
        server.inject(fault.op(OpCode::SET_DATA));
        let count = (version + 1).to_string();
        let stat = sure.set_data("/counter", count.as_bytes(), version).await?;
        println!("counted to {count}, at version {}", stat.version);
        assert_eq!(stat.version, version + 1);
    }

    // The client recognizes an ephemeral node by its session and its data.
    server.inject(Fault::lose_reply().op(OpCode::CREATE2));
    let mine = sure.create("/leader", b"10.0.0.7", &CreateOptions::ephemeral()).await?;
    let owner = mine.stat.map(|stat| stat.ephemeral_owner);
    println!("{} is of {owner:?}", mine.path);
    assert_eq!(owner, client.session().map(|own| own.id));

    // A refusal is reported as one, whatever was lost before it.
    server.inject(Fault::lose_request().op(OpCode::SET_DATA));
    let error = sure.set_data("/counter", b"9", 1).await.err().ok_or("a stale version")?;
    println!("{error}");
    assert_eq!(error.code(), Some(ErrorCode::BAD_VERSION));

    // If a node is gone, it is impossible to know who deleted it, so the outcome stays unknown.
    server.inject(Fault::lose_reply().op(OpCode::DELETE));
    let error = sure.delete("/counter", 3).await.err().ok_or("it could be anybody")?;
    println!("{error}");
    assert_eq!(error.outcome(), Outcome::Unknown);

    // A transaction that also writes to a marker shows what became of it, whatever it does.
    let name = format!("/marker-{:032x}-", client.unique());
    let options = CreateOptions::ephemeral().sequential();
    let mut marker = sure.marker(client.create_owned(&name, b"", &options).await?);
    server.inject(Fault::lose_reply().op(OpCode::MULTI));
    let entry = Op::create("/entry-", b"", &CreateOptions::persistent().sequential());
    let Committed::Found(zxid) = marker.multi(entry).await? else {
        return Err("the reply is lost".into());
    };
    println!("the entry was made in transaction {zxid}");
    Ok(())
}
