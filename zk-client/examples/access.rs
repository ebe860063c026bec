//! Access lists: who may do what to a node, and how that is changed.

use zk_client::{Acl, Client, CreateOptions, Error, ErrorCode, Id, Perms};
use zk_embedded::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(server.address()).await?;
    for id in client.who_am_i().await? {
        println!("we are {id}");
    }

    // The presets are lists. By default everyone has all permissions.
    client.create("/public", b"1", &CreateOptions::persistent()).await?;
    assert_eq!(client.get_acl("/public").await?.acl, Acl::OPEN);
    let notice = CreateOptions::persistent().with_acl(Acl::READ_ONLY);
    client.create("/notice", b"closed on Sundays", &notice).await?;
    let error = refused(client.set_data("/notice", b"open", None).await)?;
    println!("{error}");
    assert_eq!(error.code(), Some(ErrorCode::NO_AUTH));

    // Bob has all permissions once he has authenticated, this machine may read, and no other client
    // may do anything.
    let bob = Acl::new(Perms::ALL, Id::digest("bob", "secret"));
    let here = Acl::new(Perms::READ | Perms::ADMIN, Id::ip("127.0.0.1"));
    let acl = [bob, here];
    client.create("/vault", b"gold", &CreateOptions::persistent().with_acl(&acl)).await?;
    println!("we may read {:?}", client.get_data("/vault").await?.data);
    refused(client.set_data("/vault", b"lead", None).await)?;

    // Read, change, write back: the server refuses if another client has changed the list
    // meanwhile.
    let mut list = client.get_acl("/vault").await?;
    list.acl.retain(|acl| acl.id.scheme != "digest");
    list.acl.push(Acl::new(Perms::WRITE, Id::ANYONE));
    let stat = client.set_acl("/vault", &list.acl, Some(list.stat.aversion)).await?;
    println!("changed {} time(s): {:?}", stat.aversion, list.acl);
    client.set_data("/vault", b"lead", None).await?;
    let stale = client.set_acl("/vault", Acl::OPEN, Some(list.stat.aversion)).await;
    println!("{}", refused(stale)?);

    client.close().await;
    Ok(())
}

/// The error of a call that must fail.
fn refused<T>(answer: Result<T, Error>) -> Result<Error, &'static str> {
    answer.err().ok_or("it was let through")
}
