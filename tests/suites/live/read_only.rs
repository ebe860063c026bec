//! A member of a real ensemble that has lost the others and serves only reads.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::timeout;
use zk_client::{Client, CreateOptions, ErrorCode, SessionState};
use zk_embedded::{Config, Server};
use zk_proto::{
    Acl, AddWatchMode, AddWatchRequest, AuthPacket, CheckVersionRequest, CloseSessionRequest,
    ConnectRequest, ConnectResponse, CreateMode, Decode, GetAclRequest, List, MultiOp,
    MultiRequest, OpCode, Password, Reader, ReplyHeader, Secret, SessionId, SetAclRequest,
    SyncRequest, Text,
};
use zk_test_support::raw::{
    RawClient, create, delete, exists, framed, get_children, get_data, hello, set_data,
};
use zk_test_support::server::{Ensemble, ServerConfig, four_letter};

const PATIENCE: Duration = Duration::from_secs(60);

/// Members that keep serving without a quorum. Since 3.7 they then open only local sessions.
fn config(local_sessions: bool) -> ServerConfig {
    let mut config = ServerConfig::default();
    config.properties.push(("readonlymode.enabled".to_owned(), "true".to_owned()));
    for name in ["localSessionsEnabled", "localSessionsUpgradingEnabled"] {
        config.lines.push(format!("{name}={local_sessions}"));
    }
    config
}

/// Sends the first frame. Returns the client, and the server's answer as text.
async fn greeted(address: &str, request: &ConnectRequest) -> Result<(RawClient, String)> {
    let mut client = RawClient::dial(address).await?;
    client.write(&framed(request)).await;
    let Some(frame) = client.frame().await else {
        return Ok((client, "closed".to_owned()));
    };
    let text = match ConnectResponse::decode_exact(&frame) {
        Ok(answer) => {
            (client.session, client.password) = (answer.session_id, answer.password);
            format!("expired: {}, read-only: {:?}", answer.is_expired(), answer.read_only)
        }
        Err(_) => {
            let ReplyHeader { xid, error, .. } = ReplyHeader::decode(&mut Reader::new(&frame))?;
            format!("{} bytes: {xid} {error}", frame.len())
        }
    };
    Ok((client, text))
}

/// All answers of a read-only server at `address` to clients with this session of the ensemble or
/// with none. `local` is true if the server opens sessions.
async fn shown(address: &str, global: ConnectRequest, local: bool) -> Result<Vec<String>> {
    let mut shown = Vec::new();
    let plain = hello(Duration::from_secs(30));
    let asking = ConnectRequest { read_only: Some(true), ..plain };
    for request in [
        plain,
        ConnectRequest { read_only: None, ..plain },
        ConnectRequest { read_only: Some(true), ..global },
        ConnectRequest { session_id: SessionId(77), password: Password::ZERO, ..asking },
    ] {
        shown.push(greeted(address, &request).await?.1);
    }
    shown.push(four_letter(address, "isro").await?);
    let told = four_letter(address, "srvr").await?;
    shown.extend(told.lines().filter(|line| line.contains("READ-ONLY")).map(str::to_owned));

    let (mut client, text) = greeted(address, &asking).await?;
    shown.push(text);
    if !local {
        return Ok(shown);
    }
    let resume = ConnectRequest { read_only: Some(true), ..client.resume() };
    let (mut again, text) = greeted(address, &resume).await?;
    shown.extend([text, client.hear().await]);
    let wrong = ConnectRequest { password: Password::ZERO, ..resume };
    let (_, text) = greeted(address, &wrong).await?;
    shown.extend([text, again.hear().await]);

    let mut client = greeted(address, &asking).await?.0;
    let acl = List::new(&[Acl::OPEN]);
    let ops = [MultiOp::Check(CheckVersionRequest { path: "/a", version: 0 })];
    let reads = [MultiOp::GetData(get_data("/a", false))];
    let proof =
        AuthPacket { kind: 0, scheme: "digest".into(), auth: Secret::new(Some(b"user:secret")) };
    client.send(&create("/b", CreateMode::PERSISTENT)).await;
    client.send_as(OpCode::CREATE2, &create("/b", CreateMode::EPHEMERAL)).await;
    client.send_as(OpCode::CREATE_CONTAINER, &create("/b", CreateMode::CONTAINER)).await;
    client.send(&delete("/a")).await;
    client.send(&set_data("/a")).await;
    client.send(&SetAclRequest { path: "/a", acl, version: -1 }).await;
    client.send(&MultiRequest::new(&ops)).await;
    client.send(&SyncRequest { path: Text::from("/a") }).await;
    client.send(&exists("/a", true)).await;
    client.send(&get_children("/", true)).await;
    client.send(&GetAclRequest { path: "/a" }).await;
    client.send(&AddWatchRequest { path: "/a", mode: AddWatchMode::PERSISTENT }).await;
    client.send_as(OpCode::MULTI_READ, &MultiRequest::new(&reads)).await;
    for _ in 0..13 {
        shown.push(client.hear().await);
    }
    client.send(&proof).await;
    shown.extend([client.hear().await, client.ping().await]);
    client.send_as(OpCode::CREATE_SESSION, &30_000_i32).await;
    let frame = client.frame().await.context("an answer to createSession")?;
    let welcome = ConnectResponse::decode_exact(&frame)?;
    shown.push(format!("{} {:?}", welcome.session_id == client.session, welcome.read_only));
    client.send(&CloseSessionRequest).await;
    shown.extend([client.hear().await, client.hear().await]);
    Ok(shown)
}

/// How a read-only server ends a session of its own by its own clock: the end of the connection,
/// and the answer to a client that then resumes the session.
async fn expiry(address: &str) -> Result<[String; 2]> {
    let asking = ConnectRequest { read_only: Some(true), ..hello(Duration::from_millis(400)) };
    let mut client = greeted(address, &asking).await?.0;
    let end = timeout(PATIENCE, client.hear()).await.context("the session never expires")?;
    let resume = ConnectRequest { read_only: Some(true), ..client.resume() };
    Ok([end, greeted(address, &resume).await?.1])
}

/// Creates the nodes that [`shown`] reads, and opens a session of the ensemble. If sessions are
/// local at first, the ephemeral node turns it into a session of the ensemble.
async fn prepared(address: &str) -> Result<ConnectRequest> {
    let mut client = RawClient::dial(address).await?;
    client.greet(hello(Duration::from_secs(30))).await.context("a welcome")?;
    client.reply(&create("/a", CreateMode::PERSISTENT)).await;
    client.reply(&create("/mine", CreateMode::EPHEMERAL)).await;
    Ok(client.resume())
}

#[tokio::test]
async fn the_embedded_server_is_read_only_as_a_real_one_is() -> Result<()> {
    for local in [false, true] {
        let mut ensemble = Ensemble::with(&config(local), 3).await?;
        ensemble.wait_for_all().await?;
        let address = ensemble.members()[0].address();
        let session = prepared(&address).await?;
        ensemble.members_mut()[1].kill().await;
        ensemble.members_mut()[2].kill().await;
        ensemble.members()[0].wait_for_mode(Some("read-only")).await?;
        let real = shown(&address, session, local).await?;

        let tick = Duration::from_millis(200);
        let server = Server::with(Config::new().tick_time(tick).local_sessions(local)).await?;
        let session = prepared(server.address()).await?;
        server.set_read_only(true);
        let embedded = shown(server.address(), session, local).await?;
        println!("local sessions: {local}\n{real:#?}");
        assert_eq!(embedded, real, "local sessions: {local}");
        if local {
            let embedded = expiry(server.address()).await?;
            let mut real = expiry(&address).await?;
            // Now and then a real server closes the connection of a silent client a moment before
            // the session expires: it can then be resumed, or ends in the handshake.
            for _ in 0..3 {
                if real != embedded {
                    real = expiry(&address).await?;
                }
            }
            assert_eq!(embedded, real);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_client_reads_where_the_quorum_is_gone_and_leaves_when_it_is_back() -> Result<()> {
    let mut ensemble = Ensemble::with(&config(true), 3).await?;
    ensemble.wait_for_all().await?;
    let servers = ensemble.connect_string();
    let writer = Client::connect(&servers).await?;
    writer.create("/a", b"1", &CreateOptions::persistent()).await?;
    // The remaining member has the node.
    let left = ensemble.members()[0].address();
    Client::connect(&left).await?.sync("/a").await?;
    writer.close().await;
    ensemble.members_mut()[1].kill().await;
    ensemble.members_mut()[2].kill().await;
    // Until the member has noticed the loss, it accepts every client.
    ensemble.members()[0].wait_for_mode(Some("read-only")).await?;

    let strict = Client::builder().connect_timeout(Duration::from_secs(3)).connect(&left).await;
    ensure!(strict.is_err(), "nobody asked for reads alone");
    let builder = Client::builder().allow_read_only(true).connect_timeout(PATIENCE);
    let client = builder.connect(&servers).await?;
    ensure!(client.state() == SessionState::ConnectedReadOnly, "{:?}", client.state());
    let (node, mut watch) = client.get_data_and_watch("/a").await?;
    ensure!(node.data == "1");
    for error in [
        client.set_data("/a", b"2", None).await.map(drop),
        client.sync("/a").await,
        client.create("/b", b"", &CreateOptions::ephemeral()).await.map(drop),
    ] {
        let code = error.err().and_then(|error| error.code());
        ensure!(code == Some(ErrorCode::NOT_READ_ONLY), "{code:?}");
    }
    ensure!(client.session().is_none());

    // Two of three are a quorum: the read-only server ends, or the client finds another one first.
    ensemble.members_mut()[1].restart().await?;
    let mut states = client.states();
    let connected = states.wait_for(|state| *state == SessionState::Connected);
    timeout(PATIENCE, connected).await.context("it never leaves")??;
    client.set_data("/a", b"2", None).await?;
    timeout(PATIENCE, watch.changed()).await.context("the watch was left behind")??;
    client.create("/mine", b"", &CreateOptions::ephemeral()).await?;
    ensure!(client.session().is_some());
    client.close().await;
    Ok(())
}
