//! The harness itself, on real servers.

use std::cell::RefCell;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zk_client::{Client, CreateOptions};
use zk_test_support::relay::Relay;
use zk_test_support::server::{Ensemble, Server, ServerConfig, Standalone};

#[tokio::test]
async fn starts_serves_and_stops() -> Result<()> {
    let mut server = Standalone::start().await?;
    assert!(server.four_letter("srvr").await?.contains("Mode: standalone"));

    server.kill().await;
    assert_eq!(server.pid(), None);
    assert!(server.four_letter("srvr").await.is_err());
    assert!(server.pause().await.is_err());
    Ok(())
}

#[tokio::test]
async fn the_configuration_reaches_the_server() -> Result<()> {
    let server = Standalone::with(&ServerConfig {
        tick_time: Duration::from_millis(300),
        min_session_timeout: Some(Duration::from_millis(500)),
        max_session_timeout: Some(Duration::from_secs(7)),
        lines: vec!["maxClientCnxns=17".to_owned()],
        properties: vec![("zookeeper.4lw.commands.whitelist".into(), "srvr,conf".into())],
        ..ServerConfig::default()
    })
    .await?;
    let conf = server.four_letter("conf").await?;
    for setting in
        ["tickTime=300", "minSessionTimeout=500", "maxSessionTimeout=7000", "maxClientCnxns=17"]
    {
        assert!(conf.lines().any(|line| line == setting), "{setting} in\n{conf}");
    }
    assert!(server.four_letter("ruok").await?.contains("not in the whitelist"));
    Ok(())
}

#[tokio::test]
async fn a_paused_server_does_nothing_until_it_is_resumed() -> Result<()> {
    let mut server = Standalone::start().await?;
    server.pause().await?;
    let answer = tokio::time::timeout(Duration::from_millis(500), server.four_letter("srvr"));
    assert!(answer.await.is_err());
    server.resume()?;
    server.four_letter("srvr").await?;

    server.pause().await?;
    server.restart().await
}

#[tokio::test]
async fn packets_received_counts_its_own_packet() -> Result<()> {
    let server = Standalone::start().await?;
    let first = server.packets_received().await?;
    assert_eq!(server.packets_received().await?, first + 1);
    server.four_letter("ruok").await?;
    assert_eq!(server.packets_received().await?, first + 3);
    open_session(&server).await?;
    assert_eq!(server.packets_received().await?, first + 5);
    Ok(())
}

#[tokio::test]
async fn drop_ends_the_process() -> Result<()> {
    let server = Standalone::start().await?;
    let process = process(&server)?;
    assert!(Path::new(&process).exists());
    drop(server);
    assert!(!Path::new(&process).exists());
    Ok(())
}

#[tokio::test]
async fn a_panic_ends_the_process() -> Result<()> {
    let mut server = Standalone::start().await?;
    server.pause().await?;
    let process = process(&server)?;
    let test = tokio::spawn(async move {
        assert_eq!(server.pid(), None, "a panic that is part of this test");
    });
    assert!(test.await.is_err());
    assert!(!Path::new(&process).exists());
    Ok(())
}

#[tokio::test]
async fn start_error_shows_the_log() -> Result<()> {
    let lines = vec!["tickTime=nonsense".to_owned()];
    let start = Standalone::with(&ServerConfig { lines, ..ServerConfig::default() }).await;
    let error = start.err().context("a nonsensical configuration must not start")?.to_string();
    assert!(error.contains("it ended with exit status"), "{error}");
    assert!(error.contains("NumberFormatException"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_start_without_its_port_is_tried_with_another() -> Result<()> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let port = |listener: &TcpListener| Ok::<_, io::Error>(listener.local_addr()?.port());
    let (taken, free) = (bind()?, port(&bind()?)?);
    let ports = RefCell::new(vec![free, port(&taken)?]);
    let next = || ports.borrow_mut().pop().ok_or_else(|| io::Error::other("one retry is enough"));
    let server = Standalone::on(&ServerConfig::default(), next).await?;
    assert!(server.address().ends_with(&format!(":{free}")), "{}", server.address());
    Ok(())
}

#[tokio::test]
async fn restart_fails_while_the_port_is_taken() -> Result<()> {
    let mut server = Standalone::start().await?;
    server.kill().await;
    let taken = TcpListener::bind(server.address())?;
    let error = server.restart().await.err().context("the port is taken")?.to_string();
    assert!(error.contains("java.net.BindException"), "{error}");
    drop(taken);
    server.restart().await
}

/// A leader or follower gives up after one second without a quorum.
const SYNC_LIMIT: u32 = 5;

fn quick_to_notice() -> ServerConfig {
    let lines = vec![format!("syncLimit={SYNC_LIMIT}")];
    ServerConfig { lines, ..ServerConfig::default() }
}

/// A client that connects to this server only.
async fn client_of(server: &Server) -> Result<Client> {
    let builder = Client::builder().session_timeout(Duration::from_secs(4));
    Ok(builder.connect(&server.address()).await?)
}

#[tokio::test]
async fn an_isolated_follower_keeps_its_clients_but_writes_nothing() -> Result<()> {
    let mut ensemble = Ensemble::with_cuts(&quick_to_notice(), 3).await?;
    let leader = ensemble.wait_for_quorum().await?;
    let (cut, whole) = ((leader + 1) % 3, (leader + 2) % 3);
    let inside = client_of(&ensemble.members()[cut]).await?;
    let writer = client_of(&ensemble.members()[cut]).await?;
    let outside = client_of(&ensemble.members()[whole]).await?;
    inside.create("/before", b"", &CreateOptions::persistent()).await?;

    ensemble.isolate(cut);
    // The write has a session of its own, because reads wait behind the writes of their session.
    let write = writer.create("/cut", b"", &CreateOptions::persistent());
    outside.create("/whole", b"", &CreateOptions::persistent()).await?;
    assert_eq!(ensemble.leader().await, Some(leader));
    assert!(inside.exists("/before").await?.is_some(), "it still serves what it has");
    assert!(inside.exists("/whole").await?.is_none(), "and cannot have more");
    assert!(write.await.is_err(), "nothing is written without a majority");
    ensemble.members()[cut].wait_for_mode(None).await?;

    ensemble.heal(cut);
    ensemble.members()[cut].wait_for_mode(Some("follower")).await?;
    let healed = client_of(&ensemble.members()[cut]).await?;
    healed.sync("/").await?;
    assert!(healed.exists("/whole").await?.is_some());
    healed.create("/healed", b"", &CreateOptions::persistent()).await?;
    Ok(())
}

/// This is why a connection that answers does not prove that the session is alive.
#[tokio::test]
async fn an_isolated_follower_answers_a_session_that_the_others_have_ended() -> Result<()> {
    let lines = vec!["syncLimit=40".to_owned()];
    let config = ServerConfig { lines, ..ServerConfig::default() };
    let mut ensemble = Ensemble::with_cuts(&config, 3).await?;
    let leader = ensemble.wait_for_quorum().await?;
    let (cut, whole) = ((leader + 1) % 3, (leader + 2) % 3);
    let builder = Client::builder().session_timeout(Duration::from_secs(1));
    let inside = builder.connect(&ensemble.members()[cut].address()).await?;
    let outside = client_of(&ensemble.members()[whole]).await?;
    inside.create("/held", b"", &CreateOptions::ephemeral()).await?;
    outside.sync("/").await?;
    let (held, mut watch) = outside.exists_and_watch("/held").await?;
    assert!(held.is_some());

    ensemble.isolate(cut);
    let ended = watch.changed();
    timeout(Duration::from_secs(4), ended).await.context("it outlives its timeout")??;
    assert!(outside.exists("/held").await?.is_none());
    assert!(inside.exists("/held").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn an_isolated_leader_is_replaced_and_gives_up() -> Result<()> {
    let config = quick_to_notice();
    let mut ensemble = Ensemble::with_cuts(&config, 3).await?;
    let first = ensemble.wait_for_quorum().await?;

    ensemble.isolate(first);
    assert_eq!(ensemble.members()[first].mode().await.as_deref(), Some("leader"));
    // The leader checks every half tick.
    let given_up = ensemble.members()[first].wait_for_mode(None);
    timeout(config.tick_time * (SYNC_LIMIT + 3), given_up)
        .await
        .context("it clings to office")??;
    let second = ensemble.wait_for_quorum().await?;
    assert_ne!(second, first);
    let outside = client_of(&ensemble.members()[second]).await?;
    outside.create("/second", b"", &CreateOptions::persistent()).await?;

    ensemble.heal(first);
    ensemble.members()[first].wait_for_mode(Some("follower")).await?;
    let healed = client_of(&ensemble.members()[first]).await?;
    healed.sync("/").await?;
    assert!(healed.exists("/second").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn any_member_can_be_isolated_again_and_again() -> Result<()> {
    let mut ensemble = Ensemble::with_cuts(&quick_to_notice(), 3).await?;
    for cut in [0, 1, 2] {
        ensemble.isolate(cut);
        ensemble.members()[cut].wait_for_mode(None).await?;
        ensemble.wait_for_quorum().await?;
        ensemble.heal(cut);
        ensemble.wait_for_all().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_relay_freezes_in_silence_and_thaws() -> Result<()> {
    let server = Standalone::start().await?;
    let relay = Relay::to(&server.address())?;
    let mut idle = TcpStream::connect(relay.address()?).await?;
    let mut asking = TcpStream::connect(relay.address()?).await?;
    relay.freeze();
    asking.write_all(b"ruok").await?;
    let mut late = TcpStream::connect(relay.address()?).await?;
    late.write_all(b"ruok").await?;
    let silence = Duration::from_millis(300);
    for stream in [&mut idle, &mut asking, &mut late] {
        assert!(timeout(silence, stream.read_u8()).await.is_err(), "not even an end comes through");
    }
    relay.thaw();
    for stream in [&mut asking, &mut late] {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        assert_eq!(answer, "imok");
    }
    Ok(())
}

/// The folder of the server's process in `/proc`, which exists until the process is reaped.
fn process(server: &Server) -> Result<String> {
    Ok(format!("/proc/{}", server.pid().context("the server runs")?))
}

/// Opens a session, which is a transaction, and lets it expire.
async fn open_session(server: &Server) -> Result<()> {
    let mut stream = TcpStream::connect(server.address()).await?;
    let fields: [&[u8]; 7] = [
        &0_i32.to_be_bytes(),    // protocol version
        &0_i64.to_be_bytes(),    // last zxid seen
        &4000_i32.to_be_bytes(), // timeout in ms
        &0_i64.to_be_bytes(),    // session id
        &16_i32.to_be_bytes(),   // length of the password
        &[0; 16],                // password
        &[0],                    // read-only
    ];
    let request = fields.concat();
    stream.write_i32(request.len().try_into()?).await?;
    stream.write_all(&request).await?;
    stream.read_i32().await?;
    Ok(())
}
