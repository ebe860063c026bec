//! The harness itself, on real servers.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zk_tests::server::{Ensemble, Server, ServerConfig, Standalone};

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
async fn restart_keeps_the_address_and_the_data() -> Result<()> {
    let mut server = Standalone::start().await?;
    assert_eq!(zxid(&server).await?, 0);
    open_session(&server).await?;
    let (address, before) = (server.address(), zxid(&server).await?);
    assert!(before > 0);

    server.kill().await;
    server.restart().await?;
    assert_eq!(server.address(), address);
    // The old session's end may have been logged, too.
    assert!(zxid(&server).await? >= before);

    // A running server is killed first.
    let pid = server.pid();
    server.restart().await?;
    assert_ne!(server.pid(), pid);
    assert!(zxid(&server).await? >= before);
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
async fn ensemble_elects_a_leader_and_survives_its_death() -> Result<()> {
    let mut ensemble = Ensemble::start(3).await?;
    let addresses: Vec<_> = ensemble.members().iter().map(Server::address).collect();
    assert_eq!(ensemble.connect_string(), addresses.join(","));
    let first = ensemble.wait_for_quorum().await?;
    assert_eq!(ensemble.leader().await, Some(first));

    ensemble.members_mut()[first].kill().await;
    let second = ensemble.wait_for_quorum().await?;
    assert_ne!(second, first);

    ensemble.members_mut()[second].kill().await;
    assert_eq!(ensemble.leader().await, None);

    let (left, right) = ensemble.members_mut().split_at_mut(first.max(second));
    let (one, other) = (&mut left[first.min(second)], &mut right[0]);
    tokio::try_join!(one.restart(), other.restart())?;
    ensemble.wait_for_quorum().await?;
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
async fn restart_fails_while_the_port_is_taken() -> Result<()> {
    let mut server = Standalone::start().await?;
    server.kill().await;
    let taken = std::net::TcpListener::bind(server.address())?;
    let error = server.restart().await.err().context("the port is taken")?.to_string();
    assert!(error.contains("java.net.BindException"), "{error}");
    drop(taken);
    server.restart().await
}

/// What Linux knows of the server's process, until the process is reaped.
fn process(server: &Server) -> Result<String> {
    Ok(format!("/proc/{}", server.pid().context("the server runs")?))
}

/// The id of the server's last transaction.
async fn zxid(server: &Server) -> Result<u64> {
    let answer = server.four_letter("srvr").await?;
    let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x"));
    Ok(u64::from_str_radix(zxid.context("`srvr` tells the zxid")?, 16)?)
}

/// Opens a session, which is a transaction, and leaves it to expire.
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
