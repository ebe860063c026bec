//! The relay to a server.

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zk_test_support::relay::Relay;

#[tokio::test]
async fn every_byte_of_a_long_opening_arrives() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let relay = Relay::to(&listener.local_addr()?.to_string())?;
    let mut client = TcpStream::connect(relay.address()?).await?;
    let sent = (0..=u8::MAX).collect::<Vec<_>>();
    client.write_all(&sent).await?;
    client.shutdown().await?;
    let mut received = Vec::new();
    listener.accept().await?.0.read_to_end(&mut received).await?;
    assert_eq!(received, sent);
    Ok(())
}
