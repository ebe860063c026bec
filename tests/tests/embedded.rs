//! The embedded server as its users meet it.

use std::sync::Arc;
use std::time::Duration;

use zk_client::{Client, CreateOptions, Host};
use zk_embedded::{Config, Server};

#[tokio::test]
async fn a_client_talks_to_it_over_tcp() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    let created = client.create("/a", b"x", &CreateOptions::persistent()).await.unwrap();
    assert_eq!(created.path, "/a");
    client.close().await;
    assert_eq!(server.sessions(), []);
}

#[tokio::test(start_paused = true)]
async fn a_session_expires_in_virtual_time() {
    let server = Arc::new(Server::in_memory(Config::new()));
    let there = Arc::clone(&server);
    let client = Client::builder()
        .session_timeout(Duration::from_secs(4))
        .connector(move |_: &Host| Ok(there.connect()))
        .connect("zk:2181")
        .await
        .unwrap();
    client.create("/mine", b"", &CreateOptions::ephemeral()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(server.has_node("/mine"));
    let session = server.sessions()[0];
    server.expire(session);
    assert!(!server.has_node("/mine"));
    let error = client.get_data("/").await.unwrap_err();
    assert!(error.is_connection_loss() || error.is_session_over(), "{error}");
}

#[tokio::test]
async fn the_tour_needs_no_other_server() -> anyhow::Result<()> {
    zk_tests::tour::check(&[]).await
}
