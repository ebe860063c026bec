//! Transactions: operations that are all applied or none, whose results have the operations' types;
//! and many reads in one request.

use std::time::Duration;

use zk_client::{Client, CreateOptions, Error, ErrorCode, Op, Read};
use zk_embedded::{Config, Server};

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Servers allow nodes with a time to live only if they are configured to.
    let server = Server::with(Config::new().extended_types(true)).await?;
    let client = Client::connect(server.address()).await?;

    // The folders of open and finished jobs and their count, created in one transaction. A tuple of
    // operations has a tuple of results.
    let (todo, done, count) = client
        .multi((
            Op::create("/todo", b"", &PERSISTENT),
            Op::create("/done", b"", &PERSISTENT),
            Op::create("/count", b"0", &PERSISTENT),
        ))
        .await?;
    println!("made {}, {} and {}", todo.path, done.path, count.path);
    let jobs = ["/todo/a", "/todo/b"].map(|path| Op::create(path, b"work", &PERSISTENT));
    let [resize, mail] = client.multi(jobs).await?;
    println!("made {} and {}", resize.path, mail.path);

    let (job, before) =
        client.multi_read((Read::get_data("/todo/a"), Read::get_data("/count"))).await?;
    let (job, before) = (job?, before?);
    let hour = PERSISTENT.sequential().ttl(Duration::from_secs(3600));
    let finish = (
        Op::delete("/todo/a", Some(job.stat.version)),
        Op::create("/done/a-", &job.data, &hour),
        Op::set_data("/count", b"1", Some(before.stat.version)),
    );
    let ((), done, count) = client.multi(finish).await?;
    println!("finished as {}, the count is at version {}", done.path, count.version);
    assert_eq!((&*done.path, count.version), ("/done/a-0000000000", 1));

    // The second time nothing is applied: the first operation fails, and with it all others.
    let error = refused(client.multi(finish).await)?;
    println!("{error}");
    assert_eq!((error.code(), error.failed_op()), (Some(ErrorCode::NO_NODE), Some(0)));
    assert_eq!(client.get_children("/done").await?.names.len(), 1);

    // A list that is built step by step: each result states its kind.
    let mut clean_up = Vec::new();
    let paths = ["/todo/b", "/done/a-0000000000", "/todo", "/done"];
    for path in paths {
        clean_up.push(Op::delete(path, None).any());
    }
    clean_up.push(Op::set_data("/count", b"0", None).any());
    println!("{:?}", client.multi(&clean_up).await?.first());

    // Reads succeed or fail one by one.
    for node in client.multi_read(["/count", "/todo"].map(Read::get_data)).await? {
        match node {
            Ok(node) => println!("read {:?}", node.data),
            Err(error) => println!("{error}"),
        }
    }
    client.close().await;
    Ok(())
}

/// The error of a call that must fail.
fn refused<T>(answer: Result<T, Error>) -> Result<Error, &'static str> {
    answer.err().ok_or("it was let through")
}
