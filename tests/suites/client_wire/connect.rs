//! How a client finds a server, loses it and finds the next, on a paused clock.

use std::io::ErrorKind as Io;
use std::time::Duration;

use zk_client::{Client, ClientBuilder, ErrorKind, Outcome, SessionIdentity, SessionState};
use zk_proto::{ErrorCode, SessionId, Zxid};
use zk_test_support::peer::{
    Clock, Network, SESSION, TIMEOUT, data, expired, password, payload, there,
};

fn builder(network: &Network) -> ClientBuilder {
    Client::builder().connector(network.dialer()).session_timeout(TIMEOUT).seed(1)
}

/// A connected client with one server.
async fn connected(network: &mut Network) -> (Client, zk_test_support::peer::Peer) {
    let connecting = builder(network).connect("zk1:1");
    let (client, peer) = tokio::join!(connecting, network.attach());
    (client.unwrap(), peer)
}

#[tokio::test(start_paused = true)]
async fn connects_and_answers() {
    let mut network = Network::new();
    let clock = Clock::start();
    let (client, mut peer) = connected(&mut network).await;
    assert_eq!(clock.elapsed(), Duration::ZERO, "the first attempt does not wait");
    assert_eq!(client.state(), SessionState::Connected);
    assert_eq!(client.session().unwrap().id, SESSION);
    assert_eq!(client.session_timeout(), TIMEOUT);

    let reply = client.get_data("/a");
    peer.expect("getData#1 /a").await;
    peer.answer(&data(b"hello")).await;
    assert_eq!(reply.await.unwrap().data, "hello");
}

#[tokio::test(start_paused = true)]
async fn no_server_in_time_names_every_server_and_why() {
    let mut network = Network::new();
    let clock = Clock::start();
    let timeout = Duration::from_secs(5);
    let connecting = builder(&network).connect_timeout(timeout).connect("zk1:1,zk2:2,zk3:3");
    let connecting = tokio::spawn(connecting);
    let mut dialed = Vec::new();
    for why in [Io::ConnectionRefused, Io::HostUnreachable, Io::NetworkDown] {
        let dial = network.dial().await;
        dialed.push(format!("{}: {}", dial.host, std::io::Error::from(why)));
        dial.refuse(why);
    }
    let refusing = tokio::spawn(async move {
        loop {
            network.dial().await.ignore().await;
        }
    });
    let error = connecting.await.unwrap().unwrap_err();
    assert_eq!(clock.elapsed(), timeout);
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::NoServer, Outcome::NotApplied));
    let mut servers: Vec<_> = error.attempts().iter().map(|one| one.server.clone()).collect();
    servers.sort();
    assert_eq!(servers, ["zk1:1", "zk2:2", "zk3:3"]);
    let message = error.to_string();
    assert!(message.contains("5s"), "{message}");
    for attempt in &dialed[1..] {
        assert!(message.contains(attempt), "{attempt}: {message}");
    }
    refusing.abort();
}

/// The usual reason is a wrong port, and an error about a length of gigabytes would not help.
#[tokio::test(start_paused = true)]
async fn a_server_of_another_protocol_is_named_with_what_it_said() {
    let mut network = Network::new();
    let connecting = tokio::spawn(builder(&network).connect("zk1:1"));
    let answering = tokio::spawn(async move {
        loop {
            let mut peer = network.dial().await.accept();
            peer.handshake().await;
            peer.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            peer.expect_hangup().await;
        }
    });
    let message = connecting.await.unwrap().unwrap_err().to_string();
    assert!(message.contains("the port of a web server"), "{message}");
    answering.abort();
}

/// A web server that waits for the end of a line is silent, and only that hints at what it is. The
/// hint is there whether the attempt ends first or the time to connect.
#[tokio::test(start_paused = true)]
async fn a_port_that_accepts_and_is_silent_is_told_from_one_that_does_not_accept() {
    for (accepts, seconds, why) in [
        (true, 1, "no answer yet, although the connection was accepted"),
        (true, 6, "no answer within 4s, although the connection was accepted"),
        (false, 1, "not connected yet"),
        (false, 6, "no handshake within 4s: perhaps packets get lost"),
    ] {
        let mut network = Network::new();
        let (clock, timeout) = (Clock::start(), Duration::from_secs(seconds));
        let connecting = builder(&network).connect_timeout(timeout).connect("zk1:1");
        let connecting = tokio::spawn(connecting);
        let silent = tokio::spawn(async move {
            loop {
                let dial = network.dial().await;
                if accepts {
                    let mut peer = dial.accept();
                    peer.handshake().await;
                    peer.expect_hangup().await;
                } else {
                    dial.ignore().await;
                }
            }
        });
        let message = connecting.await.unwrap().unwrap_err().to_string();
        assert_eq!(clock.elapsed(), timeout);
        assert!(message.contains(&format!("zk1:1: {why}")), "{message}");
        assert_eq!(message.contains("a web server"), accepts, "{message}");
        silent.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lazy_client_goes_on_trying_and_answers_what_was_asked_before() {
    let mut network = Network::new();
    let client = builder(&network).connect_lazily("zk1:1").unwrap();
    let clock = Clock::start();
    let reply = client.get_data("/a");
    for _ in 0..50 {
        network.dial().await.refuse(Io::ConnectionRefused);
    }
    assert!(clock.elapsed() > Duration::from_secs(20), "{:?}", clock.elapsed());
    assert_eq!(client.state(), SessionState::Connecting);
    let mut peer = network.attach().await;
    peer.expect("getData#1 /a").await;
    peer.answer(&data(b"late")).await;
    assert_eq!(reply.await.unwrap().data, "late");
}

#[tokio::test(start_paused = true)]
async fn a_cut_leads_to_the_next_server_within_50_ms_and_around() {
    let mut network = Network::new();
    let connecting = tokio::spawn(builder(&network).connect("zk1:1,zk2:2,zk3:3"));
    let mut hosts = Vec::new();
    let dial = network.dial().await;
    hosts.push(dial.host.clone());
    let mut peer = dial.accept();
    peer.attach().await;
    let client = connecting.await.unwrap().unwrap();
    let mut waits = Vec::new();
    for _ in 0..8 {
        // A connection that is cut at once would count as a failed attempt.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let clock = Clock::start();
        drop(peer);
        let dial = network.dial().await;
        waits.push(clock.elapsed());
        hosts.push(dial.host.clone());
        peer = dial.accept();
        let request = peer.attach().await;
        assert_eq!((request.session_id, request.last_zxid_seen), (SESSION, Zxid(0)));
    }
    assert_eq!(hosts[..3], hosts[3..6]);
    assert_eq!(hosts[..3], hosts[6..]);
    hosts.truncate(3);
    hosts.sort();
    assert_eq!(hosts, ["zk1:1", "zk2:2", "zk3:3"]);
    assert!(waits.iter().all(|wait| *wait <= Duration::from_millis(51)), "{waits:?}");
    waits.sort();
    waits.dedup();
    assert!(waits.len() > 4, "all clients of a server come back at different times: {waits:?}");
    drop(client);
    peer.expect("closeSession#1").await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_throws_the_session_out_at_once_is_not_asked_in_a_loop() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let clock = Clock::start();
    for _ in 0..10 {
        drop(peer);
        peer = network.attach().await;
    }
    assert!(clock.elapsed() > Duration::from_secs(3), "{:?}", clock.elapsed());
    drop(client);
    peer.expect("closeSession#1").await;
}

#[tokio::test(start_paused = true)]
async fn waits_grow_to_a_second_and_differ() {
    let mut network = Network::new();
    let client = builder(&network).connect_lazily("zk1:1").unwrap();
    network.dial().await.refuse(Io::ConnectionRefused);
    let mut waits = Vec::new();
    for _ in 0..12 {
        let clock = Clock::start();
        network.dial().await.refuse(Io::ConnectionRefused);
        waits.push(clock.elapsed());
    }
    for (n, wait) in waits.iter().enumerate() {
        let full = Duration::from_millis((100 << n.min(4)).min(1000));
        let range = full / 2..=full + Duration::from_millis(1);
        assert!(range.contains(wait), "wait {n} of {waits:?}");
    }
    waits.sort();
    waits.dedup();
    assert!(waits.len() > 8, "{waits:?}");
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_an_answer_costs_its_share_of_the_timeout() {
    let mut network = Network::new();
    let client = builder(&network).connect_lazily("zk1:1,zk2:2,zk3:3").unwrap();
    let clock = Clock::start();
    network.dial().await.ignore().await;
    assert_eq!(clock.elapsed(), TIMEOUT / 3);
    let mut peer = network.dial().await.accept();
    let clock = Clock::start();
    peer.handshake().await;
    peer.expect_hangup().await;
    let elapsed = clock.elapsed();
    assert!(elapsed.abs_diff(TIMEOUT / 3) <= Duration::from_millis(1), "{elapsed:?}");
    network.attach().await.serve();
    client.get_data("/a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_connect_that_is_dropped_closes_what_it_opened() {
    let mut network = Network::new();
    let connecting = tokio::spawn(builder(&network).connect("zk1:1"));
    let mut peer = network.dial().await.accept();
    peer.handshake().await;
    connecting.abort();
    assert!(connecting.await.unwrap_err().is_cancelled());
    peer.send(&payload(&zk_test_support::peer::welcome(TIMEOUT))).await;
    peer.expect("closeSession#1").await;
    peer.answer(&()).await;
    peer.expect_hangup().await;
}

#[tokio::test(start_paused = true)]
async fn a_resumed_session_that_is_over_fails_the_connect() {
    let mut network = Network::new();
    let session = SessionIdentity::new(SESSION, password());
    let connecting = tokio::spawn(builder(&network).session(session).connect("zk1:1"));
    let mut peer = network.dial().await.accept();
    assert_eq!(peer.handshake().await.session_id, SESSION);
    peer.send(&payload(&expired())).await;
    assert_eq!(connecting.await.unwrap().unwrap_err().kind(), ErrorKind::SessionExpired);
    peer.expect_hangup().await;
}

#[tokio::test(start_paused = true)]
async fn a_chroot_that_is_missing_fails_the_connect() {
    let mut network = Network::new();
    let connecting = tokio::spawn(builder(&network).connect("zk1:1/shop/a"));
    let mut peer = network.attach().await;
    peer.expect("exists#1 /shop/a").await;
    peer.refuse(ErrorCode::NO_NODE).await;
    let error = connecting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChrootNotFound);
    assert!(error.to_string().contains("/shop/a"), "{error}");
    peer.expect("closeSession#2").await;
}

#[tokio::test(start_paused = true)]
async fn a_chroot_that_is_there_or_forbidden_does_not() {
    for code in [ErrorCode::OK, ErrorCode::NO_AUTH] {
        let mut network = Network::new();
        let connecting = tokio::spawn(builder(&network).connect("zk1:1/shop"));
        let mut peer = network.attach().await;
        peer.expect("exists#1 /shop").await;
        match code {
            ErrorCode::OK => peer.answer(&there()).await,
            code => peer.refuse(code).await,
        }
        assert!(connecting.await.unwrap().is_ok(), "{code}");
        peer.expect("closeSession#2").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_connect_string_or_timeout_is_refused_before_anything_is_dialed() {
    let network = Network::new();
    let (string, setting) = (ErrorKind::InvalidConnectString, ErrorKind::InvalidSetting);
    for (servers, timeout, kind, rule) in [
        ("", TIMEOUT, string, "a server is missing"),
        ("zk1:x", TIMEOUT, string, "1 to 65535"),
        ("zk1:1/a/", TIMEOUT, string, "does not end"),
        ("zk1:1", Duration::ZERO, setting, "session timeout"),
        ("zk1:1", Duration::MAX, setting, "session timeout"),
    ] {
        let error = builder(&network).session_timeout(timeout).connect(servers).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{servers:?}");
        assert!(error.to_string().contains(rule), "{error}");
        let lazy = builder(&network).session_timeout(timeout).connect_lazily(servers);
        assert_eq!(lazy.unwrap_err().kind(), kind);
    }
    let error = builder(&network).connect_timeout(Duration::ZERO).connect("zk1:1").await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), setting);
    assert!(error.to_string().contains("connect timeout"), "{error}");
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let error = Client::connect_lazily("zk1:1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoRuntime);
    assert!(error.to_string().contains("tokio runtime"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_frames_lead_to_the_next_server_with_the_same_session() {
    let oversize = (16 * 1024 * 1024 + 1_i32).to_be_bytes();
    let cases: [(&str, &[u8]); 4] = [
        ("a negative length", &[0xff; 4]),
        ("an oversize length", &oversize),
        ("a frame that is too short", &[0, 0, 0, 2, 1, 1]),
        ("the end in the middle of a frame", &[0, 0, 1]),
    ];
    for (what, bytes) in cases {
        let mut network = Network::new();
        let (client, mut peer) = connected(&mut network).await;
        let reply = client.set_data("/a", b"x", None);
        peer.expect("setData#1 /a").await;
        peer.raw(bytes).await;
        if bytes.len() == 3 {
            drop(peer);
        } else {
            peer.expect_hangup().await;
        }
        let error = reply.await.unwrap_err();
        assert!(error.is_connection_loss(), "{what}: {error}");
        assert_eq!(error.outcome(), Outcome::Unknown, "{what}");
        assert!(error.to_string().starts_with("setData /a: connection lost before"), "{error}");

        let mut peer = network.dial().await.accept();
        assert_eq!(peer.attach().await.session_id, SESSION, "{what}");
        let served = peer.serve();
        client.get_data("/b").await.unwrap();
        drop(client);
        assert_eq!(served.await.unwrap(), ["getData#2 /b", "closeSession#3"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_keeps_an_idle_session_for_ten_minutes() {
    let mut network = Network::new();
    let (client, peer) = connected(&mut network).await;
    let served = peer.serve();
    tokio::time::sleep(Duration::from_secs(600)).await;
    client.get_data("/a").await.unwrap();
    client.close().await;
    assert_eq!(served.await.unwrap(), ["getData#1 /a", "closeSession#2"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_left_at_two_thirds_of_the_timeout() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let clock = Clock::start();
    let reply = client.get_data("/a");
    peer.expect("getData#1 /a").await;
    // The server reads and does not answer, not even pings.
    while peer.frame().await.is_some() {}
    let elapsed = clock.elapsed();
    assert!(elapsed.abs_diff(TIMEOUT * 2 / 3) <= Duration::from_millis(1), "{elapsed:?}");
    let error = reply.await.unwrap_err();
    assert!(error.to_string().contains("silent for 8s"), "{error}");
    network.attach().await.serve();
    client.get_data("/a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_cut_off_expires_by_itself() {
    let mut network = Network::new();
    let (client, peer) = connected(&mut network).await;
    let mut states = client.states();
    let clock = Clock::start();
    let (_, mut watch) = {
        let served = peer.serve();
        let watched = client.get_data_and_watch("/a").await.unwrap();
        served.abort();
        served.await.unwrap_err();
        watched
    };
    let refusing = network.refuse_all();
    let waiting = client.get_data("/b");
    states.wait_for(|state| *state == SessionState::Expired).await.unwrap();
    let elapsed = clock.elapsed();
    assert!(elapsed.abs_diff(TIMEOUT * 4 / 3) <= Duration::from_millis(2), "{elapsed:?}");
    let error = waiting.await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::SessionExpired, Outcome::NotApplied));
    assert_eq!(watch.changed().await.unwrap_err().kind(), ErrorKind::SessionExpired);
    let late = client.get_data("/c").await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::SessionExpired);
    client.close().await;
    assert_eq!(client.state(), SessionState::Expired, "what is over stays over");
    refusing.abort();
}

#[tokio::test(start_paused = true)]
async fn states_come_in_order() {
    let mut network = Network::new();
    let client = builder(&network).connect_lazily("zk1:1").unwrap();
    let mut states = client.states();
    assert_eq!(*states.borrow_and_update(), SessionState::Connecting);
    let peer = network.attach().await;
    states.changed().await.unwrap();
    assert_eq!(*states.borrow_and_update(), SessionState::Connected);
    drop(peer);
    states.changed().await.unwrap();
    assert_eq!(*states.borrow_and_update(), SessionState::Disconnected);
    let mut peer = network.dial().await.accept();
    peer.handshake().await;
    let fake = zk_proto::ConnectResponse {
        read_only: Some(true),
        ..zk_test_support::peer::welcome(TIMEOUT)
    };
    peer.send(&payload(&fake)).await;
    states.changed().await.unwrap();
    assert_eq!(*states.borrow_and_update(), SessionState::ConnectedReadOnly);
    drop(peer);
    let mut peer = network.dial().await.accept();
    assert_ne!(peer.handshake().await.session_id, SessionId(0));
    peer.send(&payload(&expired())).await;
    states.wait_for(|state| *state == SessionState::Expired).await.unwrap();
    assert_eq!(client.state(), SessionState::Expired);
    peer.expect_hangup().await;
}

#[tokio::test(start_paused = true)]
async fn servers_that_never_let_the_session_in_are_tried_ever_more_slowly() {
    let mut network = Network::new();
    let client = builder(&network).connect_lazily("zk1:1,zk2:2").unwrap();
    let mut waits = Vec::new();
    for _ in 0..10 {
        let clock = Clock::start();
        let dial = network.dial().await;
        waits.push(clock.elapsed());
        match dial.host.as_str() {
            // The server is silent until the attempt is over, so no connection was established.
            "zk1:1" => dial.ignore().await,
            _ => dial.refuse(Io::ConnectionRefused),
        }
    }
    drop(client);
    assert!(waits[6..].iter().all(|wait| *wait >= Duration::from_millis(100)), "{waits:?}");
}
