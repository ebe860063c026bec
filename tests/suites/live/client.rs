//! The client on real servers: the claims that hold on every server, and its session during
//! failures.

use std::net::Ipv6Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use zk_client::{
    Client, CreateOptions, ErrorCode, ErrorKind, EventType, Id, Limits, OpCode, Outcome, Reconfig,
    SessionState, StreamEvent, WatchMode, Watcher,
};
use zk_test_support::claims::{ALONE, CLIENT, equipped, hold_apart, hold_at_once};
use zk_test_support::fault::{Fault, Faults};
use zk_test_support::server::{Ensemble, ServerConfig, Standalone};

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

async fn connect(servers: &str) -> Result<Client> {
    Ok(Client::builder().session_timeout(ServerConfig::LASTING).connect(servers).await?)
}

async fn sees(watch: &mut Watcher, kind: EventType, path: &str) -> Result<bool> {
    let event = watch.changed().await?;
    assert_eq!((event.kind, event.path.as_str()), (kind, path));
    Ok(event.missed)
}

#[tokio::test]
async fn every_claim_holds_on_a_standalone() -> Result<()> {
    hold_at_once(Standalone::with(&equipped(ServerConfig::default())).await?, CLIENT).await
}

#[tokio::test]
async fn every_claim_holds_on_an_ensemble() -> Result<()> {
    hold_at_once(Ensemble::with(&equipped(ServerConfig::default()), 3).await?, CLIENT).await
}

#[tokio::test]
async fn each_claim_about_a_server_alone_holds() -> Result<()> {
    hold_apart(Standalone::start, ALONE).await
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

    // The connection breaks while this write is in flight, and the changes happen before the next
    // connection.
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
    let mut server = Standalone::with(&ServerConfig::lasting()).await?;
    let client = connect(&server.address()).await?;
    client.create("/mine", b"", &CreateOptions::ephemeral()).await?;
    let (_, mut watch) = client.get_data_and_watch("/mine").await?;
    let session = client.session();
    server.kill().await;
    client.states().wait_for(|state| !state.is_connected()).await?;
    // This call is made while there is no server, and sent to the next one.
    let waiting = client.set_data("/mine", b"later", None);
    server.restart().await?;
    assert_eq!(waiting.await?.version, 1);
    assert_eq!(client.session(), session);
    sees(&mut watch, EventType::NODE_DATA_CHANGED, "/mine").await?;
    Ok(())
}

/// This fails on a machine without the address `::1`, since no other test shows that IPv6 works.
#[tokio::test]
async fn a_session_lives_over_ipv6() -> Result<()> {
    std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0))
        .context("this test needs the IPv6 loopback address ::1")?;
    let config = ServerConfig { listen: Ipv6Addr::LOCALHOST.into(), ..ServerConfig::lasting() };
    let mut server = Standalone::with(&config).await?;
    let address = server.address();
    assert!(address.starts_with("[::1]:"), "{address}");
    let client = connect(&address).await?;
    client.create("/mine", b"", &CreateOptions::ephemeral()).await?;
    assert_eq!(client.who_am_i().await?, [Id::ip("0:0:0:0:0:0:0:1")]);
    let session = client.session();
    server.restart().await?;
    client.sync("/").await.ok();
    client.sync("/").await?;
    assert_eq!(client.session(), session);
    assert!(client.exists("/mine").await?.is_some());
    client.close().await;
    Ok(())
}

#[tokio::test]
async fn a_stream_outlives_the_restart_of_its_server_and_says_so() -> Result<()> {
    let mut server = Standalone::with(&ServerConfig::lasting()).await?;
    let client = connect(&server.address()).await?;
    client.create("/w", b"", &PERSISTENT).await?;
    let mut tree = client.watch("/w", WatchMode::PersistentRecursive).await?;
    let mut node = client.watch("/w", WatchMode::Persistent).await?;
    let (_, mut children) = client.get_children_and_watch("/w").await?;
    client.sync("/").await?;
    assert_eq!(tree.next().await?, StreamEvent::Rearmed, "of two modes one is set last");
    assert_eq!(node.next().await?, StreamEvent::Rearmed);
    server.kill().await;
    client.states().wait_for(|state| !state.is_connected()).await?;
    server.restart().await?;
    assert_eq!(tree.next().await?, StreamEvent::Rearmed);
    assert_eq!(node.next().await?, StreamEvent::Rearmed);
    client.create("/w/a", b"", &PERSISTENT).await?;
    for (stream, kind, path) in [
        (&mut tree, EventType::NODE_CREATED, "/w/a"),
        (&mut node, EventType::NODE_CHILDREN_CHANGED, "/w"),
    ] {
        match stream.next().await? {
            StreamEvent::Changed(event) => {
                assert_eq!((event.kind, event.path.as_str()), (kind, path));
            }
            other => panic!("{other:?}"),
        }
    }
    sees(&mut children, EventType::NODE_CHILDREN_CHANGED, "/w").await?;
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
    zk_test_support::tour::check(&["--connect", &server.address()]).await
}

#[tokio::test]
async fn members_leave_and_join_while_the_ensemble_serves() -> Result<()> {
    let config = ServerConfig {
        lines: vec!["reconfigEnabled=true".to_owned()],
        properties: vec![("zookeeper.skipACL".to_owned(), "yes".to_owned())],
        ..ServerConfig::default()
    };
    let ensemble = Ensemble::with(&config, 3).await?;
    let leader = ensemble.leader().await.expect("a leader");
    let client = connect(&ensemble.members()[leader].address()).await?;
    let (before, mut watch) = client.get_config_and_watch().await?;
    assert_eq!(before.members.iter().map(|member| member.id).collect::<Vec<_>>(), [1, 2, 3]);
    let version = before.version.expect("an ensemble has one");
    let addresses = ensemble.connect_string();

    let follower = (0..3).rfind(|index| *index != leader).expect("two of them");
    let id = follower as u64 + 1;
    let leaving = Reconfig::Change { joining: &[], leaving: &[id] };
    let less = client.reconfig(leaving, Some(version)).await?;
    assert_eq!(less.members.len(), 2);
    assert!(less.version > Some(version), "{:?}", less.version);
    sees(&mut watch, EventType::NODE_DATA_CHANGED, "/zookeeper/config").await?;
    assert_eq!(client.get_config().await?.text, less.text);

    let error = client.reconfig(leaving, Some(version)).await.expect_err("stale");
    assert_eq!(error.code(), Some(ErrorCode::BAD_VERSION));
    let same = client.reconfig(Reconfig::Members(&[]), less.version).await?;
    assert_eq!(same.members, less.members, "to ask for nothing changes the version alone");

    let mut returning = before.members[follower].clone();
    returning.client = addresses.split(',').nth(follower).map(str::to_owned);
    let joining = [returning];
    let more = client.reconfig(Reconfig::Change { joining: &joining, leaving: &[] }, None).await?;
    assert_eq!(more.members.len(), 3);
    let whole = client.reconfig(Reconfig::Members(&less.members), more.version).await?;
    assert_eq!(whole.members, less.members);
    Ok(())
}

/// The request is not made again, so nothing but its one error can say what was wrong with it.
#[tokio::test]
async fn a_write_above_the_limit_of_the_server_names_its_size_and_the_limit() -> Result<()> {
    let server = Standalone::start().await?;
    let mut limits = Limits::default();
    limits.max_request = 4 << 20;
    let client = Client::builder().limits(limits).connect(&server.address()).await?;
    client.create("/a", b"", &PERSISTENT).await?;
    let data = vec![7; 1_200_000];
    let setting = client.set_data("/a", &data, None).await;
    let creating = client.create("/b", &data, &PERSISTENT).await;
    for (error, words) in [
        (setting.expect_err("it is too large"), "setData /a: "),
        (creating.expect_err("it is too large"), "create /b: "),
    ] {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::ConnectionLoss, Outcome::Unknown));
        let message = error.to_string();
        assert!(message.starts_with(words), "{message}");
        assert!(message.contains("this request of 12000"), "{message}");
        assert!(message.contains("jute.maxbuffer (1048575 bytes by default)"), "{message}");
    }
    client.set_data("/a", b"smaller", None).await?;
    Ok(())
}
