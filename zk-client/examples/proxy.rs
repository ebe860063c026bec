//! A proxy that prints every frame: [`FrameCodec`] with tokio-util's `Framed`.

use futures_util::{StreamExt, TryStreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::codec::Framed;
use zk_client::{Client, CreateOptions, FrameCodec, FrameError};
use zk_embedded::Server;

const MAX_FRAME: usize = 1 << 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let proxy = listener.local_addr()?.to_string();
    let to = server.address().to_owned();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            if let Ok(server) = TcpStream::connect(&to).await {
                tokio::spawn(relay(client, server));
            }
        }
    });

    let client = Client::connect(&proxy).await?;
    client.create("/motd", b"hello", &CreateOptions::persistent()).await?;
    let motd = client.get_data("/motd").await?;
    println!("read through the proxy: {}", String::from_utf8_lossy(&motd.data));
    client.close().await;
    Ok(())
}

/// Forwards whole frames in both directions until one side closes.
async fn relay(client: TcpStream, server: TcpStream) -> Result<(), FrameError> {
    let (to_client, from_client) = Framed::new(client, FrameCodec::new(MAX_FRAME)).split();
    let (to_server, from_server) = Framed::new(server, FrameCodec::new(MAX_FRAME)).split();
    let requests = from_client.inspect_ok(|frame| println!("-> {} bytes", frame.len()));
    let replies = from_server.inspect_ok(|frame| println!("<- {} bytes", frame.len()));
    tokio::try_join!(requests.forward(to_server), replies.forward(to_client))?;
    Ok(())
}
