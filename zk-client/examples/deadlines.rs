//! Replies that must come in time, and the outcome of requests whose reply did not.

use std::time::Duration;

use zk_client::{Client, CreateOptions, ErrorKind, Outcome};
use zk_embedded::{Fault, OpCode, Server};

const LIMIT: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(server.address()).await?;
    client.create("/motd", b"hello", &CreateOptions::persistent()).await?;

    let node = client.get_data("/motd").within(LIMIT).await?;
    println!("in time: {:?}", node.data);

    // The request was sent, so it may still be applied, and here it is.
    server.inject(Fault::delay(LIMIT * 3).op(OpCode::SET_DATA));
    match client.set_data("/motd", b"bye", None).within(LIMIT).await {
        Err(late) if late.kind() == ErrorKind::TimedOut => {
            println!("{late}: {:?}", late.outcome());
            assert_eq!(late.outcome(), Outcome::Unknown);
        }
        other => return Err(format!("the server takes its time, and yet: {other:?}").into()),
    }
    assert_eq!(client.get_data("/motd").await?.data, "bye");

    // Without a server the request is not sent, and it is withdrawn: it is never applied.
    server.set_serving(false);
    client.states().wait_for(|state| !state.is_connected()).await?;
    match client.set_data("/motd", b"too late", None).within(LIMIT).await {
        Err(late) if late.kind() == ErrorKind::TimedOut => {
            println!("{late}: {:?}", late.outcome());
            assert_eq!(late.outcome(), Outcome::NotApplied);
        }
        other => return Err(format!("there is no server, and yet: {other:?}").into()),
    }
    server.set_serving(true);
    assert_eq!(client.get_data("/motd").await?.data, "bye");
    println!("the session has noticed nothing of all this");
    client.close().await;
    Ok(())
}
