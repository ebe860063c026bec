//! The relay to a server.

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zk_test_support::relay::{Relay, advertise};

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

#[test]
fn another_address_is_advertised_and_the_rest_stays() {
    let message = |address: &str| {
        let length = u32::try_from(address.len()).unwrap().to_be_bytes();
        [&[7; 16], &length[..], address.as_bytes(), b"more"].concat()
    };
    let (before, after) = (message("127.0.0.1:1"), message("127.0.0.1:23456"));
    assert_eq!(advertise(&before, "127.0.0.1:23456"), Some(after));
    for end in 0..before.len() - b"more".len() {
        assert_eq!(advertise(&before[..end], "127.0.0.1:23456"), None, "{end} bytes");
    }
}
