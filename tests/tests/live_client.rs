//! The client on real servers: its operations, its watches, and its session through disasters.

use std::time::Duration;

use anyhow::{Context, Result};
use zk_client::{
    Client, CreateOptions, ErrorCode, ErrorKind, EventType, OpCode, Outcome, SessionState, Watcher,
};
use zk_tests::fault::{Fault, Faults};
use zk_tests::server::{Ensemble, ServerConfig, Standalone};

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

async fn connect(servers: &str) -> Result<Client> {
    Ok(Client::builder().session_timeout(Duration::from_secs(4)).connect(servers).await?)
}

async fn sees(watch: &mut Watcher, kind: EventType, path: &str) -> Result<bool> {
    let event = watch.changed().await?;
    assert_eq!((event.kind, event.path.as_str()), (kind, path));
    Ok(event.missed)
}

#[tokio::test]
async fn every_operation_does_what_zookeeper_does() -> Result<()> {
    let server = Standalone::start().await?;
    let client = connect(&server.address()).await?;

    let created = client.create("/a", b"one", &PERSISTENT).await?;
    assert_eq!((created.path.as_str(), created.stat.version), ("/a", 0));
    let error = client.create("/a", b"", &PERSISTENT).await.expect_err("it exists");
    assert!(error.is_node_exists());
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Refused, Outcome::NotApplied));

    let sequential = CreateOptions::ephemeral().sequential();
    for expected in ["/a/s-0000000000", "/a/s-0000000001"] {
        let created = client.create("/a/s-", b"", &sequential).await?;
        assert_eq!(created.path, expected);
        assert_eq!(Some(created.stat.ephemeral_owner), client.session().map(|own| own.id));
    }
    let container = client.create("/c", b"", &CreateOptions::container()).await?;
    assert_eq!(container.stat.ephemeral_owner.0, 0);

    let node = client.get_data("/a").await?;
    assert_eq!((&node.data[..], node.stat.num_children), (&b"one"[..], 2));
    let stat = client.set_data("/a", b"two", Some(0)).await?;
    assert_eq!(stat.version, 1);
    let error = client.set_data("/a", b"three", Some(0)).await.expect_err("a stale version");
    assert_eq!(error.code(), Some(ErrorCode::BAD_VERSION));
    assert_eq!(client.exists("/a").await?.map(|stat| stat.version), Some(1));
    assert_eq!(client.exists("/nothing").await?, None);

    let mut children = client.get_children("/a").await?;
    children.names.sort();
    assert_eq!(children.names, ["s-0000000000", "s-0000000001"]);
    client.sync("/a").await?;
    let error = client.delete("/a", None).await.expect_err("it has children");
    assert_eq!(error.code(), Some(ErrorCode::NOT_EMPTY));
    client.delete("/a/s-0000000000", Some(0)).await?;
    assert_eq!(client.get_children("/a").await?.names, ["s-0000000001"]);
    assert!(client.get_data("/nothing").await.expect_err("absent").is_no_node());
    Ok(())
}

#[tokio::test]
async fn calls_reach_the_server_in_call_order_however_they_are_awaited() -> Result<()> {
    let server = Standalone::start().await?;
    let client = connect(&server.address()).await?;
    client.create("/n", b"", &PERSISTENT).await?;
    let mut writes = Vec::new();
    for n in 0..500 {
        writes.push((n, client.set_data("/n", n.to_string().as_bytes(), Some(n))));
    }
    for (n, write) in writes.into_iter().rev() {
        assert_eq!(write.await?.version, n + 1);
    }
    Ok(())
}

#[tokio::test]
async fn watches_see_each_kind_of_change_once() -> Result<()> {
    let server = Standalone::start().await?;
    let (client, other) = (connect(&server.address()).await?, connect(&server.address()).await?);
    let (absent, mut created) = client.exists_and_watch("/w").await?;
    assert_eq!(absent, None);
    other.create("/w", b"1", &PERSISTENT).await?;
    sees(&mut created, EventType::NODE_CREATED, "/w").await?;

    let (node, mut data) = client.get_data_and_watch("/w").await?;
    assert_eq!(&node.data[..], b"1");
    let (_, mut children) = client.get_children_and_watch("/w").await?;
    other.create("/w/child", b"", &PERSISTENT).await?;
    sees(&mut children, EventType::NODE_CHILDREN_CHANGED, "/w").await?;
    other.set_data("/w", b"2", None).await?;
    sees(&mut data, EventType::NODE_DATA_CHANGED, "/w").await?;

    let (_, mut gone) = client.get_data_and_watch("/w/child").await?;
    other.delete("/w/child", None).await?;
    assert!(!sees(&mut gone, EventType::NODE_DELETED, "/w/child").await?);
    let spent = gone.changed().await.expect_err("a watch is one-shot");
    assert_eq!((spent.kind(), spent.is_session_over()), (ErrorKind::WatchSpent, false));
    Ok(())
}

#[tokio::test]
async fn watches_survive_the_server_and_tell_what_was_missed() -> Result<()> {
    let ensemble = Ensemble::start(3).await?;
    let servers = ensemble.connect_string();
    let other = connect(&servers).await?;
    for path in ["/changed", "/deleted", "/kept"] {
        other.create(path, b"", &PERSISTENT).await?;
    }
    let faults = Faults::new();
    let builder = Client::builder().session_timeout(Duration::from_secs(4));
    let client = builder.connector(faults.clone()).connect(&servers).await?;
    client.sync("/").await?;
    let session = client.session();
    let (_, mut changed) = client.get_data_and_watch("/changed").await?;
    let (_, mut deleted) = client.get_data_and_watch("/deleted").await?;
    let (_, mut kept) = client.get_data_and_watch("/kept").await?;
    let (_, mut made) = client.exists_and_watch("/made").await?;

    // The connection breaks on the way of this write, and the changes happen before the next one.
    faults.arm(Fault::LoseRequest(OpCode::SET_DATA));
    let lost = client.set_data("/kept", b"lost", None);
    let mut states = client.states();
    states.wait_for(|state| *state == SessionState::Disconnected).await?;
    other.set_data("/changed", b"x", None).await?;
    other.delete("/deleted", None).await?;
    other.create("/made", b"", &PERSISTENT).await?;
    let error = lost.await.expect_err("the connection broke");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::ConnectionLoss, Outcome::Unknown));

    sees(&mut changed, EventType::NODE_DATA_CHANGED, "/changed").await?;
    sees(&mut deleted, EventType::NODE_DELETED, "/deleted").await?;
    sees(&mut made, EventType::NODE_CREATED, "/made").await?;
    assert_eq!(client.session(), session);
    client.sync("/").await?;
    other.set_data("/kept", b"y", None).await?;
    assert!(!sees(&mut kept, EventType::NODE_DATA_CHANGED, "/kept").await?);
    Ok(())
}

#[tokio::test]
async fn a_session_outlives_the_restart_of_its_server() -> Result<()> {
    let mut server = Standalone::start().await?;
    let client = connect(&server.address()).await?;
    client.create("/mine", b"", &CreateOptions::ephemeral()).await?;
    let (_, mut watch) = client.get_data_and_watch("/mine").await?;
    let session = client.session();
    server.kill().await;
    client.states().wait_for(|state| !state.is_connected()).await?;
    // Called while there is no server: sent to the next one.
    let waiting = client.set_data("/mine", b"later", None);
    server.restart().await?;
    assert_eq!(waiting.await?.version, 1);
    assert_eq!(client.session(), session);
    sees(&mut watch, EventType::NODE_DATA_CHANGED, "/mine").await?;
    Ok(())
}

#[tokio::test]
async fn a_session_that_the_server_ended_is_expired_for_good() -> Result<()> {
    let server = Standalone::start().await?;
    let client = connect(&server.address()).await?;
    let (_, mut watch) = client.exists_and_watch("/never").await?;
    // Taking the session up cuts the first client off, and closing it is an expiry for that one.
    let session = client.session().context("a session")?;
    let thief = Client::builder().session(session).connect(&server.address()).await?;
    assert_eq!(thief.session(), Some(session));
    thief.close().await;

    client.states().wait_for(|state| *state == SessionState::Expired).await?;
    for error in [
        client.get_data("/").await.map(drop).expect_err("expired"),
        watch.changed().await.map(drop).expect_err("expired"),
    ] {
        assert_eq!(error.kind(), ErrorKind::SessionExpired, "{error}");
    }
    let again = Client::builder().session(session).connect(&server.address()).await;
    assert_eq!(again.expect_err("expired").kind(), ErrorKind::SessionExpired);
    client.close().await;
    Ok(())
}

#[tokio::test]
async fn a_client_that_is_cut_off_expires_by_itself() -> Result<()> {
    let config = ServerConfig {
        min_session_timeout: Some(Duration::from_millis(300)),
        ..ServerConfig::default()
    };
    let mut server = Standalone::with(&config).await?;
    let timeout = Duration::from_millis(600);
    let client = Client::builder().session_timeout(timeout).connect(&server.address()).await?;
    assert_eq!(client.session_timeout(), timeout);
    let (_, mut watch) = client.exists_and_watch("/never").await?;
    server.kill().await;
    let waiting = client.get_data("/");
    let error = waiting.await.expect_err("no server");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::SessionExpired, Outcome::NotApplied));
    assert_eq!(client.state(), SessionState::Expired);
    assert!(watch.changed().await.is_err());
    Ok(())
}

#[tokio::test]
async fn close_ends_the_session_on_the_server() -> Result<()> {
    let server = Standalone::start().await?;
    let (client, other) = (connect(&server.address()).await?, connect(&server.address()).await?);
    client.create("/eph", b"", &CreateOptions::ephemeral()).await?;
    let (stat, mut watch) = other.exists_and_watch("/eph").await?;
    assert!(stat.is_some());
    let pending = client.get_data("/eph");
    client.close().await;
    pending.await?;
    assert_eq!(client.state(), SessionState::Closed);
    assert_eq!(other.exists("/eph").await?, None);
    sees(&mut watch, EventType::NODE_DELETED, "/eph").await?;

    // The last handle's end is a close too.
    let client = connect(&server.address()).await?;
    client.create("/eph", b"", &CreateOptions::ephemeral()).await?;
    let (_, mut watch) = other.exists_and_watch("/eph").await?;
    drop(client);
    sees(&mut watch, EventType::NODE_DELETED, "/eph").await?;
    Ok(())
}

#[tokio::test]
async fn a_chroot_is_the_clients_root() -> Result<()> {
    let server = Standalone::start().await?;
    let outside = connect(&server.address()).await?;
    let missing = connect(&format!("{}/app", server.address())).await.expect_err("no chroot");
    assert!(missing.to_string().contains("chroot /app"), "{missing}");

    outside.create("/app", b"root", &PERSISTENT).await?;
    let inside = connect(&format!("{}/app", server.address())).await?;
    assert_eq!(&inside.get_data("/").await?.data[..], b"root");
    let (_, mut watch) = inside.exists_and_watch("/a").await?;
    assert_eq!(inside.create("/a", b"", &PERSISTENT).await?.path, "/a");
    sees(&mut watch, EventType::NODE_CREATED, "/a").await?;
    assert!(outside.exists("/app/a").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_here_and_what_can_is_taken_there() -> Result<()> {
    let server = Standalone::start().await?;
    let client = connect(&server.address()).await?;
    let error = client.create("/big", &[0; 2 << 20], &PERSISTENT).await.expect_err("2 MiB");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotApplied));
    assert!(error.to_string().contains("1048575"), "{error}");
    // The largest that fits: the limit less header, path, access list and the lengths.
    let overhead = 8 + 4 + "/big".len() + 4 + 4 + 4 + 4 + "world".len() + 4 + "anyone".len() + 4;
    let data = vec![7; 0xf_ffff - overhead];
    client.create("/big", &data, &PERSISTENT).await?;
    assert_eq!(client.get_data("/big").await?.data, data);
    let error = client.create("/big2", &data, &PERSISTENT).await.expect_err("one byte more");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    Ok(())
}

#[tokio::test]
async fn no_server_is_an_error_that_names_the_server() -> Result<()> {
    let mut server = Standalone::start().await?;
    let address = server.address();
    server.kill().await;
    let builder = Client::builder().connect_timeout(Duration::from_millis(300));
    let error = builder.connect(&address).await.expect_err("no server");
    assert_eq!(error.kind(), ErrorKind::NoServer);
    assert!(error.to_string().contains(&address), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");

    let client = Client::connect_lazily(&address)?;
    let waiting = client.create("/late", b"", &PERSISTENT);
    server.restart().await?;
    waiting.await?;
    Ok(())
}

#[tokio::test]
async fn the_tour_is_told_to_its_end() -> Result<()> {
    let server = Standalone::start().await?;
    zk_tests::tour::check(&["--connect", &server.address()]).await
}
