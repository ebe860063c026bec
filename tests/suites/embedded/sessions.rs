//! How a session begins, continues on other connections, and ends, to the millisecond.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zk_embedded::{Config, Fault, Server, SessionId};
use zk_proto::{
    AuthPacket, CloseSessionRequest, ConnectRequest, ConnectResponse, CreateMode, Decode, Encode,
    ErrorCode, GetDataResponse, GetSaslRequest, OpCode, Password, Reader, ReplyHeader, Secret,
    Zxid, frame,
};
use zk_test_support::peer::Clock;
use zk_test_support::raw::{
    RawClient, create, exists, framed, get_children, get_data, hello, request, set_data,
};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn server() -> Server {
    Server::in_memory(Config::new().tick_time(MS(1000)))
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_between_its_timeout_and_a_tick_later() {
    // As measured on a real server with a tick of 1 s.
    for (timeout, touched, expires) in [
        (2000, 0, 3000),
        (2999, 999, 4000),
        (4321, 500, 5000),
        (2000, 1000, 4000),
        (2000, 999, 3000),
    ] {
        let (server, clock) = (server(), Clock::start());
        tokio::time::sleep(MS(touched)).await;
        let mut client = RawClient::attach(&server, hello(MS(timeout))).await;
        client.reply(&create("/mine", CreateMode::EPHEMERAL)).await;
        tokio::time::sleep(MS(expires - touched - 1)).await;
        assert!(server.has_node("/mine"), "{timeout} {touched}");
        assert_eq!(server.sessions(), [client.session]);
        assert_eq!(client.hear().await, "closed");
        assert_eq!(clock.elapsed(), MS(expires), "{timeout} {touched}");
        assert!(!server.has_node("/mine"));
        assert_eq!(server.sessions(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn every_request_keeps_the_session_and_events_do_not() {
    let server = server();
    let mut other = RawClient::attach(&server, hello(MS(20_000))).await;
    other.reply(&create("/a", CreateMode::PERSISTENT)).await;
    let clock = Clock::start();
    let mut client = RawClient::attach(&server, hello(MS(2000))).await;
    for _ in 0..3 {
        tokio::time::sleep(MS(1400)).await;
        assert_eq!(client.ping().await, "-2 ok");
        tokio::time::sleep(MS(1900)).await;
        client.reply(&exists("/a", true)).await;
        tokio::time::sleep(MS(1900)).await;
        // A refused request keeps the session as well.
        let refused = client.send(&get_data("/none", false)).await;
        assert_eq!(client.hear().await, format!("{refused} NoNode"));
        tokio::time::sleep(MS(500)).await;
        other.reply(&set_data("/a")).await;
        assert_eq!(client.hear().await, "NodeDataChanged /a");
    }
    assert_eq!(client.hear().await, "closed");
    assert_eq!(clock.elapsed(), MS(19_000), "asked for the last time at 16.6 s");
}

#[tokio::test(start_paused = true)]
async fn timeouts_are_settled_within_the_servers_limits() {
    let second = Config::new().tick_time(MS(1000));
    let custom = second.clone().min_session_timeout(MS(50)).max_session_timeout(MS(700));
    let lowest = second.clone().min_session_timeout(MS(30_000));
    for (config, wanted, settled) in [
        (&second, 0, 2000),
        (&second, -5, 2000),
        (&second, i32::MIN, 2000),
        (&second, 1999, 2000),
        (&second, 2001, 2001),
        (&second, 7777, 7777),
        (&second, 20_000, 20_000),
        (&second, 20_001, 20_000),
        (&second, i32::MAX, 20_000),
        (&custom, 1, 50),
        (&custom, 1000, 700),
        (&lowest, 1, 30_000),
        (&lowest, i32::MAX, 30_000),
        (&Config::new(), 1, 4000),
        (&Config::new(), i32::MAX, 40_000),
    ] {
        let server = Server::in_memory(config.clone());
        let request = ConnectRequest { timeout: wanted, ..hello(MS(0)) };
        let answer = RawClient::connect(&server).greet(request).await.unwrap();
        assert_eq!(answer.timeout, settled, "{wanted} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_has_a_read_only_byte_if_the_request_has() {
    let server = server();
    for (read_only, length) in [(None, 36), (Some(false), 37), (Some(true), 37)] {
        let mut client = RawClient::connect(&server);
        client.write(&framed(&ConnectRequest { read_only, ..hello(MS(4000)) })).await;
        let answer = client.frame().await.unwrap();
        assert_eq!(answer.len(), length);
        assert_eq!(answer.get(36), read_only.map(|_| &0), "the server is not");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_goes_on_with_its_nodes_and_without_its_watches() {
    let server = server();
    let mut client = RawClient::open(&server).await;
    client.reply(&create("/mine", CreateMode::EPHEMERAL)).await;
    client.reply(&exists("/mine", true)).await;
    client.reply(&get_children("/", true)).await;
    assert_eq!(server.watch_count(), 2);
    drop(client.heard().await);
    let resume = client.resume();
    drop(client);

    let mut again = RawClient::attach(&server, resume).await;
    assert_eq!((again.session, again.password), (resume.session_id, resume.password));
    assert_eq!(server.watch_count(), 0);
    let body = again.reply(&get_data("/mine", false)).await;
    let node = GetDataResponse::decode(&mut Reader::new(&body)).unwrap();
    assert_eq!(node.stat.ephemeral_owner, again.session);
    assert_eq!(again.ask(&set_data("/mine")).await, [""; 0], "no event");
}

#[tokio::test(start_paused = true)]
async fn taking_a_session_up_starts_its_clock_with_the_timeout_of_now() {
    let (server, clock) = (server(), Clock::start());
    let client = RawClient::attach(&server, hello(MS(2000))).await;
    tokio::time::sleep(MS(1900)).await;
    let resume = ConnectRequest { timeout: 7000, ..client.resume() };
    let mut again = RawClient::connect(&server);
    assert_eq!(again.greet(resume).await.unwrap().timeout, 7000);
    drop(client);
    assert_eq!(again.hear().await, "closed");
    assert_eq!(clock.elapsed(), MS(9000));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_over_or_another_is_answered_and_hung_up_on() {
    let server = server();
    let mut client = RawClient::open(&server).await;
    let wrong = Password::new(b"0123456789abcdef").unwrap();
    let mut closed = RawClient::open(&server).await;
    closed.reply(&CloseSessionRequest).await;
    let unknown = SessionId(client.session.0 + 1000);
    for request in [
        ConnectRequest { session_id: unknown, ..client.resume() },
        closed.resume(),
        ConnectRequest { password: Password::ZERO, ..client.resume() },
        ConnectRequest { password: Password::default(), ..client.resume() },
        ConnectRequest { password: wrong, ..client.resume() },
    ] {
        let mut again = RawClient::connect(&server);
        let answer = again.greet(request).await.unwrap();
        assert_eq!((answer.timeout, answer.session_id), (0, SessionId(0)), "{request:?}");
        assert_eq!((answer.password, answer.read_only), (Password::ZERO, Some(false)));
        assert_eq!(again.hear().await, "closed");
    }
    // The session's id alone does not resume it, but its connection is closed all the same.
    assert_eq!(client.hear().await, "closed");
    let again = RawClient::attach(&server, client.resume()).await;
    assert_eq!(again.session, client.session);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_does_not_keep_the_session() {
    let (server, clock) = (server(), Clock::start());
    let mut other = RawClient::attach(&server, hello(MS(20_000))).await;
    let mut client = RawClient::attach(&server, hello(MS(2000))).await;
    client.reply(&create("/mine", CreateMode::EPHEMERAL)).await;
    other.reply(&exists("/mine", true)).await;
    tokio::time::sleep(MS(1500)).await;
    let request = ConnectRequest { password: Password::ZERO, ..client.resume() };
    RawClient::connect(&server).greet(request).await;
    assert_eq!(other.hear().await, "NodeDeleted /mine");
    assert_eq!(clock.elapsed(), MS(3000));
}

#[tokio::test(start_paused = true)]
async fn a_second_connection_of_a_session_ends_the_first() {
    let server = server();
    let mut first = RawClient::open(&server).await;
    let mut bystander = RawClient::open(&server).await;
    assert_eq!(first.ask(&exists("/none", true)).await, ["1 NoNode"]);
    let mut second = RawClient::attach(&server, first.resume()).await;
    assert_eq!(first.heard().await, ["closed"]);
    first.send(&create("/late", CreateMode::PERSISTENT)).await;
    assert_eq!(second.ask(&exists("/", false)).await, [""; 0]);
    assert!(!server.has_node("/late"));
    // The end of the first connection does not affect the second.
    second.send(&exists("/none", true)).await;
    drop(first);
    assert_eq!(second.heard().await, ["2 NoNode"]);
    assert_eq!(server.watch_count(), 1);
    assert!(server.disconnect(second.session));
    assert_eq!(bystander.heard().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_seen_more_than_the_server_is_hung_up_on() {
    let server = server();
    let client = RawClient::open(&server).await;
    for (last_zxid_seen, session_id, lets_in) in [
        (Zxid(1), SessionId(0), true),
        (Zxid(3), SessionId(0), false),
        (Zxid(i64::MAX), client.session, false),
        (Zxid(-1), client.session, true),
    ] {
        let request = ConnectRequest { last_zxid_seen, session_id, ..client.resume() };
        let answer = RawClient::connect(&server).greet(request).await;
        assert_eq!(answer.is_some(), lets_in, "{last_zxid_seen}");
    }
    assert_eq!(server.sessions().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn opening_and_ending_a_session_are_transactions() {
    let server = server();
    let mut client = RawClient::open(&server).await;
    let other = RawClient::open(&server).await;
    assert!(server.expire(other.session));
    client.send(&exists("/", false)).await;
    let frame = client.frame().await.unwrap();
    let header = ReplyHeader::decode(&mut Reader::new(&frame)).unwrap();
    assert_eq!((header.zxid, header.error), (Zxid(3), ErrorCode::OK));
}

/// A client that counts auth requests as signs of life loses its session, here as in production.
#[tokio::test(start_paused = true)]
async fn proofs_of_identity_do_not_keep_a_session() {
    let (server, clock) = (server(), Clock::start());
    let mut client = RawClient::attach(&server, hello(MS(2000))).await;
    let proof =
        AuthPacket { kind: 0, scheme: "digest".into(), auth: Secret::new(Some(b"user:secret")) };
    for _ in 0..2 {
        tokio::time::sleep(MS(700)).await;
        assert_eq!(client.ask(&proof).await, [""; 0]);
        tokio::time::sleep(MS(700)).await;
        assert_eq!(client.ask(&GetSaslRequest { token: Secret::new(Some(b"")) }).await, [""; 0]);
    }
    assert_eq!(client.hear().await, "closed");
    assert_eq!(clock.elapsed(), MS(3000));
}

/// The frame of a handshake with a password of any length, or a null one.
fn hello_with(session: SessionId, password: Option<&[u8]>) -> Bytes {
    let mut out = BytesMut::new();
    let written = frame::encode(&mut out, usize::MAX, |writer| {
        0_i32.encode(writer);
        Zxid(0).encode(writer);
        4000_i32.encode(writer);
        session.encode(writer);
        password.encode(writer);
        false.encode(writer);
    });
    written.expect("no limit");
    out.freeze()
}

#[tokio::test(start_paused = true)]
async fn a_new_session_takes_any_password_and_a_known_one_its_own_alone() {
    let server = server();
    let known = RawClient::open(&server).await;
    let own = known.password.expose();
    let longer = [own, b"and more"].concat();
    let passwords: [Option<&[u8]>; 6] =
        [None, Some(b""), Some(b"abc"), Some(&longer), Some(&[0; 1000]), Some(own)];
    for password in passwords {
        for (session, welcome) in [(SessionId(0), true), (known.session, password == Some(own))] {
            let mut client = RawClient::connect(&server);
            client.write(&hello_with(session, password)).await;
            let answer = client.frame().await.expect("an answer");
            let answer = ConnectResponse::decode_exact(&answer).unwrap();
            assert_eq!(!answer.is_expired(), welcome, "{session} with {password:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_behind_the_handshake_is_served() {
    let server = server();
    let mut client = RawClient::connect(&server);
    let asked = [
        framed(&hello(MS(4000))),
        request(1, OpCode::CREATE, &create("/a", CreateMode::PERSISTENT)),
        request(2, OpCode::EXISTS, &exists("/a", true)),
        request(3, OpCode::SET_DATA, &set_data("/a")),
    ];
    // The frames are sent in one write, and byte by byte.
    client.write(&asked.concat()).await;
    assert!(client.frame().await.is_some());
    assert_eq!(client.heard().await, ["1 ok", "2 ok", "NodeDataChanged /a", "3 ok"]);
    let mut client = RawClient::connect(&server);
    for byte in asked.concat() {
        client.write(&[byte]).await;
        tokio::task::yield_now().await;
    }
    assert!(client.frame().await.is_some());
    assert_eq!(client.heard().await, ["1 NodeExists", "2 ok", "NodeDataChanged /a", "3 ok"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_behind_a_handshake_that_fails_is_not_served() {
    let server = server();
    let mut client = RawClient::connect(&server);
    let gone = ConnectRequest { session_id: SessionId(77), ..hello(MS(4000)) };
    let create = request(1, OpCode::CREATE, &create("/a", CreateMode::PERSISTENT));
    client.write(&[framed(&gone), create].concat()).await;
    assert!(client.frame().await.is_some());
    assert_eq!(client.hear().await, "closed");
    assert!(!server.has_node("/a"));
}

/// A client that connects late in a ten-second bucket has little more than ten seconds, as measured
/// on a real server.
#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_say_who_it_is_is_closed_within_ten_to_twenty_seconds() {
    for (connected, closed) in [(0, 20_000), (333, 20_000), (9_999, 20_000), (10_000, 30_000)] {
        let (server, clock) = (server(), Clock::start());
        tokio::time::sleep(MS(connected)).await;
        let mut silent = RawClient::connect(&server);
        let mut halting = RawClient::connect(&server);
        halting.write(&framed(&hello(MS(4000)))[..48]).await;
        let mut served = RawClient::attach(&server, hello(MS(20_000))).await;
        for client in [&mut silent, &mut halting] {
            assert_eq!(client.bytes().await.len(), 0);
            assert_eq!(clock.elapsed(), MS(closed), "connected at {connected}");
        }
        assert_eq!(served.hear().await, "closed");
        let expired = MS((connected + 20_000) / 1000 * 1000 + 1000);
        assert_eq!(clock.elapsed(), expired, "its session lives as long as ever");
    }
}

/// Servers send this request to each other. It is a mistake that they accept it from a client.
#[tokio::test(start_paused = true)]
async fn create_session_is_answered_like_a_handshake_and_sets_the_sessions_clock() {
    let (server, clock) = (server(), Clock::start());
    let mut client = RawClient::open(&server).await;
    for read_only in [Some(false), None] {
        let mut client =
            RawClient::attach(&server, ConnectRequest { read_only, ..client.resume() }).await;
        client.send_as(OpCode::CREATE_SESSION, &1_i32).await;
        let answer = ConnectResponse::decode_exact(&client.frame().await.unwrap()).unwrap();
        assert_eq!((answer.session_id, answer.password), (client.session, client.password));
        assert_eq!((answer.timeout, answer.read_only), (4000, read_only));
        // The request takes a transaction, even if its body is cut short.
        let xid = client.send_as(OpCode::CREATE_SESSION, &()).await;
        let frame = client.frame().await.unwrap();
        let header = ReplyHeader::decode_exact(&frame).unwrap();
        let zxid = Zxid(if read_only.is_some() { 3 } else { 5 });
        assert_eq!((header.xid.0, header.zxid), (xid, zxid));
        assert_eq!(header.error, ErrorCode::MARSHALLING_ERROR);
    }
    assert_eq!(client.hear().await, "closed");
    let mut last = RawClient::attach(&server, client.resume()).await;
    last.send_as(OpCode::CREATE_SESSION, &1_i32).await;
    assert!(last.frame().await.is_some());
    assert_eq!(last.hear().await, "closed");
    assert_eq!(clock.elapsed(), MS(1000), "a millisecond, up to the next tick");
    assert_eq!(server.sessions(), []);
}

#[tokio::test(start_paused = true)]
async fn a_close_deletes_what_is_ephemeral_tells_and_hangs_up() {
    let server = server();
    let mut watcher = RawClient::open(&server).await;
    let mut client = RawClient::open(&server).await;
    client.reply(&create("/mine", CreateMode::EPHEMERAL)).await;
    for client in [&mut watcher, &mut client] {
        client.reply(&exists("/mine", true)).await;
    }
    let close = request(3, OpCode::CLOSE_SESSION, &());
    let late = request(4, OpCode::CREATE, &create("/late", CreateMode::PERSISTENT));
    client.write(&[close, late].concat()).await;
    assert_eq!(client.heard().await, ["NodeDeleted /mine", "3 ok", "closed"]);
    assert_eq!(watcher.heard().await, ["NodeDeleted /mine"]);
    assert!(!server.has_node("/late"));
    assert_eq!(server.sessions(), [watcher.session]);
    let again = RawClient::connect(&server).greet(client.resume()).await.unwrap();
    assert!(again.is_expired());
}

#[tokio::test(start_paused = true)]
async fn the_nodes_of_a_session_go_in_one_transaction() {
    let server = Server::in_memory(Config::new().keep_history(true));
    let mut client = RawClient::open(&server).await;
    for path in ["/b", "/a"] {
        client.reply(&create(path, CreateMode::EPHEMERAL)).await;
    }
    client.reply(&CloseSessionRequest).await;
    let [.., first, second] = &server.history()[..] else { panic!("two deletions") };
    assert_eq!(first.zxid, second.zxid);
    assert_eq!([first.session, second.session], [Some(client.session); 2]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_tells_of_the_end_of_a_session_whose_connection_lives() {
    let server = server();
    let mut watcher = RawClient::open(&server).await;
    let mut client = RawClient::open(&server).await;
    client.reply(&create("/mine", CreateMode::EPHEMERAL)).await;
    watcher.reply(&exists("/mine", true)).await;
    server.inject(Fault::expire_session().op(OpCode::SET_DATA));
    let write = request(7, OpCode::SET_DATA, &set_data("/mine"));
    let late = request(8, OpCode::CREATE, &create("/late", CreateMode::EPHEMERAL));
    client.write(&[write, late].concat()).await;
    assert_eq!(client.heard().await, ["7 SessionExpired"], "it is not hung up on");
    assert_eq!(watcher.heard().await, ["NodeDeleted /mine"]);
    assert_eq!(server.pending_faults(), 0);
    assert!(!server.has_node("/late"));
    assert_eq!(server.sessions(), [watcher.session]);
    let again = RawClient::connect(&server).greet(client.resume()).await.unwrap();
    assert!(again.is_expired());
}
