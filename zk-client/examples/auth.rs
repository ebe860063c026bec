//! Identities that the client proves on every connection, and the access that they give.

#![expect(clippy::expect_used, reason = "an example ends where it is proved wrong")]

use zk_client::{Acl, Client, CreateOptions, ErrorCode, ErrorKind, Id, OpCode, Perms};
use zk_embedded::{Fault, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let ann = Client::builder().auth("digest", b"ann:secret").connect(server.address()).await?;

    // The entry has the user's name and a hash, so reading the list does not give the password.
    let acl = [Acl::new(Perms::ALL, Id::digest("ann", "secret"))];
    ann.create("/diary", b"today", &CreateOptions::persistent().with_acl(&acl)).await?;
    println!("made /diary for {}", acl[0].id);

    let bob = Client::connect(server.address()).await?;
    match bob.get_data("/diary").await {
        Err(refused) if refused.code() == Some(ErrorCode::NO_AUTH) => println!("bob: {refused}"),
        other => return Err(format!("it is not his, and yet: {other:?}").into()),
    }
    // No server refuses a password: anyone who knows the right one is that user.
    bob.add_auth("digest", b"ann:guess").await?;
    assert!(bob.get_data("/diary").await.is_err());
    bob.add_auth("digest", b"ann:secret").await?;
    println!("bob, told the password: {:?}", bob.get_data("/diary").await?.data);

    // Identities belong to a connection, so the client proves them on each one.
    server.inject(Fault::lose_reply().op(OpCode::SET_DATA));
    let lost = ann.set_data("/diary", b"tomorrow", None).await.expect_err("the connection broke");
    println!("ann: {lost}");
    println!("ann, on another connection: {:?}", ann.get_data("/diary").await?.data);

    // A scheme that the server does not know ends the client.
    let error = bob.add_auth("kerberos", b"ticket").await.expect_err("nobody knows it");
    assert_eq!(error.kind(), ErrorKind::AuthFailed);
    println!("bob: {error}");
    Ok(())
}
