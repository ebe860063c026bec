//! The bounds on what a client holds in memory, and the errors of requests that exceed them.

use zk_client::WatchStream;
use zk_client::{Client, CreateOptions, ErrorKind, Limits, Outcome, StreamEvent, WatchMode};
use zk_embedded::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let mut limits = Limits::default();
    limits.max_reply = 64 * 1024;
    limits.max_requests = 10;
    let client = Client::builder().limits(limits).connect(server.address()).await?;
    let roomy = Client::connect(server.address()).await?;
    let node = CreateOptions::persistent();

    // Too large to be sent: the client refuses it, since servers would close the connection without
    // an error.
    let error = failed(client.create("/huge", &vec![0; 2_000_000], &node).await)?;
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotApplied));
    println!("{error}");

    // Too large to be received: only that request fails, and the connection goes on.
    roomy.create("/large", &vec![0; 100_000], &node).await?;
    let error = failed(client.get_data("/large").await)?;
    assert_eq!(error.kind(), ErrorKind::ReplyTooLarge);
    println!("{error}");
    assert_eq!(client.stats().totals.connections, 1);

    // Too many at once.
    let asked = client.batch(|| (0..11).map(|_| client.exists("/large")).collect::<Vec<_>>());
    let mut refused = 0;
    for reply in asked {
        refused += u32::from(reply.await.is_err_and(|e| e.kind() == ErrorKind::LimitExceeded));
    }
    assert_eq!(refused, 1);
    println!("of 11 requests at once, {refused} was refused");

    // More changes than a stream holds, each with its path and 64 bytes: the stream reports how
    // many are missing.
    let mut changes = client.watch("/large", WatchMode::Persistent).await?;
    let full = WatchStream::CAPACITY.div_ceil("/large".len() + 64);
    let writes = (0..full + 5).map(|_| roomy.set_data("/large", b"", None));
    for write in writes.collect::<Vec<_>>() {
        write.await?;
    }
    client.wait_for_zxid(roomy.last_zxid()).await?;
    loop {
        if let StreamEvent::Lagged(missing) = changes.next().await? {
            assert_eq!(missing, 5);
            break println!("the stream lags by {missing}: read again");
        }
    }
    Ok(())
}

fn failed<T>(result: Result<T, zk_client::Error>) -> Result<zk_client::Error, &'static str> {
    result.err().ok_or("it is beyond a limit")
}
