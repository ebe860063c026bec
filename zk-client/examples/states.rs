//! The states of a session as a stream: every state, in order, up to the last.

use zk_client::{Client, SessionState, StateEvent};
use zk_embedded::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(server.address()).await?;
    let mut states = client.state_stream();
    let session = client.session().ok_or("a connected client has a session")?;

    // The stream reports every disconnect, however short: code that relies on the session must
    // check again.
    server.disconnect_all();
    let mut seen = Vec::new();
    while let Some(event) = states.next().await {
        println!("{event:?}");
        match event {
            StateEvent::Entered(state) => seen.push(state),
            other => return Err(format!("nothing was missed, and yet: {other:?}").into()),
        }
        if seen.len() == 3 {
            println!("the servers end the session");
            server.expire(session.id);
        }
    }

    use SessionState::{Connected, Disconnected, Expired};
    assert_eq!(seen, [Connected, Disconnected, Connected, Disconnected, Expired]);
    println!("nothing comes after that");
    Ok(())
}
