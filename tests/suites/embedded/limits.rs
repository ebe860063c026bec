//! Limits: requests that are too large, too many or too slow do not affect other clients.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use zk_embedded::{Config, Core, Fault, Server};
use zk_proto::{AddWatchMode, AddWatchRequest, CreateMode, CreateRequest, OpCode, SetDataRequest};
use zk_test_support::peer::Clock;
use zk_test_support::raw::{RawClient, create, exists, framed, get_data, hello, request, set_data};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// A request whose payload has `length` bytes. The server ignores the bytes after its record.
fn exists_of(length: usize) -> Vec<u8> {
    let mut frame = request(9, OpCode::EXISTS, &exists("/", false)).to_vec();
    frame.resize(4 + length, 0);
    frame[..4].copy_from_slice(&(length as u32).to_be_bytes());
    frame
}

#[tokio::test(start_paused = true)]
async fn a_frame_of_the_limit_is_served_and_one_byte_more_is_the_end() {
    for (config, limit) in [
        (Config::new(), 0xf_ffff),
        (Config::new().max_buffer(100), 100),
        (Config::new().max_buffer(2 << 20), 2 << 20),
    ] {
        let server = Server::in_memory(config);
        let mut bystander = RawClient::open(&server).await;
        let mut client = RawClient::open(&server).await;
        client.write(&exists_of(limit)).await;
        assert_eq!(client.hear().await, "9 ok", "{limit} bytes");
        // The length field alone closes the connection.
        client.write(&exists_of(limit + 1)[..4]).await;
        assert_eq!(client.hear().await, "closed", "{limit} bytes and one");
        assert!(server.sessions().contains(&client.session), "the session goes on");
        assert_eq!(bystander.ask(&exists("/", false)).await, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_holds_for_the_handshake() {
    let server = Server::in_memory(Config::new().max_buffer(45));
    assert_eq!(framed(&hello(MS(4000))).len(), 4 + 45);
    RawClient::open(&server).await;
    let server = Server::in_memory(Config::new().max_buffer(44));
    assert!(RawClient::connect(&server).greet(hello(MS(4000))).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_length_below_zero_is_the_end() {
    let server = Server::in_memory(Config::new());
    for length in [-1, i32::MIN] {
        let mut fresh = RawClient::connect(&server);
        let mut client = RawClient::open(&server).await;
        for client in [&mut fresh, &mut client] {
            client.write(&length.to_be_bytes()).await;
            assert_eq!(client.hear().await, "closed");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_without_a_whole_header_is_the_end() {
    let server = Server::in_memory(Config::new());
    for length in 0..8 {
        let mut client = RawClient::open(&server).await;
        client.write(&[&[0, 0, 0, length], &vec![0; length.into()][..]].concat()).await;
        assert_eq!(client.hear().await, "closed", "{length} bytes");
    }
    let mut client = RawClient::open(&server).await;
    assert_eq!(client.ping().await, "-2 ok");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_cut_short_is_the_end() {
    let server = Server::in_memory(Config::new());
    let whole = framed(&hello(MS(4000)));
    for length in 0..whole.len() as u8 - 5 {
        let mut client = RawClient::connect(&server);
        client.write(&[&[0, 0, 0, length], &whole[4..][..length.into()]].concat()).await;
        assert_eq!(client.hear().await, "closed", "{length} bytes");
    }
    assert_eq!(server.sessions(), []);
}

#[tokio::test(start_paused = true)]
async fn one_connection_too_many_is_closed_without_a_word() {
    let server = Server::in_memory(Config::new().max_connections_per_host(2));
    let mut first = RawClient::open(&server).await;
    let fresh = RawClient::connect(&server);
    let mut third = RawClient::connect(&server);
    third.write(b"ruok").await;
    assert_eq!(third.hear().await, "closed");
    assert_eq!(first.ask(&exists("/", false)).await, [""; 0]);
    drop(fresh);
    first.heard().await;
    let mut fourth = RawClient::connect(&server);
    assert!(fourth.greet(first.resume()).await.is_some());
    assert_eq!(first.hear().await, "closed");
    drop(first);
    fourth.heard().await;
    RawClient::open(&server).await;
}

#[tokio::test(start_paused = true)]
async fn no_limit_of_connections_is_none() {
    for (config, most) in [(Config::new(), 60), (Config::new().max_connections_per_host(0), 200)] {
        let server = Server::in_memory(config);
        let mut clients = Vec::new();
        for _ in 0..most {
            clients.push(RawClient::open(&server).await);
        }
        let next = RawClient::connect(&server).greet(hello(MS(4000))).await;
        assert_eq!(next.is_some(), most == 200);
    }
}

/// Creates a node with so much data that a reply is longer than `bytes`.
async fn make_big(client: &mut RawClient, bytes: usize) {
    let big =
        CreateRequest { data: Some(&vec![7; bytes]), ..create("/big", CreateMode::PERSISTENT) };
    client.reply(&big).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_not_served_until_it_does() {
    let server = Server::in_memory(Config::new());
    let mut other = RawClient::open(&server).await;
    make_big(&mut other, 500_000).await;
    let mut client = RawClient::open(&server).await;
    let mut burst = BytesMut::new();
    for xid in 1..=20 {
        burst.extend(request(xid, OpCode::GET_DATA, &get_data("/big", false)));
    }
    burst.extend(request(21, OpCode::SET_DATA, &set_data("/big")));
    client.write(&burst).await;

    // The paused clock advances when no task has work left.
    tokio::time::sleep(MS(1)).await;
    let big = other.reply(&get_data("/big", false)).await;
    assert!(big.len() > 500_000, "the write behind the reads waits");
    for xid in 1..=21 {
        assert_eq!(client.hear().await, format!("{xid} ok"));
    }
    assert!(other.reply(&get_data("/big", false)).await.len() < 100);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_late_gets_the_event_behind_the_replies() {
    let server = Server::in_memory(Config::new());
    let mut other = RawClient::open(&server).await;
    make_big(&mut other, 700_000).await;
    let mut client = RawClient::open(&server).await;
    client.send(&exists("/late", true)).await;
    client.send(&get_data("/big", false)).await;
    client.send(&get_data("/big", false)).await;
    tokio::time::sleep(MS(1)).await;
    other.reply(&create("/late", CreateMode::PERSISTENT)).await;
    tokio::time::sleep(MS(1)).await;
    assert_eq!(client.heard().await, ["1 NoNode", "2 ok", "3 ok", "NodeCreated /late"]);
}

#[tokio::test(start_paused = true)]
async fn time_goes_on_while_a_delayed_reply_is_due_and_not_read() {
    let server = Server::in_memory(Config::new());
    let mut client = RawClient::open(&server).await;
    make_big(&mut client, 700_000).await;
    server.inject(Fault::delay(MS(100)).after(2));
    let clock = Clock::start();
    for _ in 0..3 {
        client.send(&get_data("/big", false)).await;
    }
    tokio::time::sleep(MS(1000)).await;
    for xid in 2..=4 {
        assert_eq!(client.hear().await, format!("{xid} ok"));
        assert_eq!(clock.elapsed(), MS(1000));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_can_be_hung_up_on() {
    let server = Server::in_memory(Config::new().max_connections_per_host(1));
    let mut client = RawClient::open(&server).await;
    make_big(&mut client, 700_000).await;
    for _ in 0..4 {
        client.send(&get_data("/big", false)).await;
    }
    tokio::time::sleep(MS(1)).await;
    assert!(server.disconnect(client.session));
    tokio::time::sleep(MS(1)).await;
    let mut again = RawClient::attach(&server, client.resume()).await;
    assert_eq!(again.ask(&exists("/", false)).await, [""; 0]);
    // The client gets only the bytes that were in flight by then, which are fewer than the replies.
    assert!(client.bytes().await.len() < 4 * 700_000);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
fn what_waits_for_a_client_is_bounded_however_much_it_asks_for() {
    let now = Instant::now();
    let mut core = Core::new(Config::new(), now, Duration::ZERO);
    let client = core.handle_connection(now, ([127, 0, 0, 1], 50_000).into());
    let data = vec![7; 1_000_000];
    let mut input = BytesMut::new();
    let mut ask = |frame: Bytes| input.extend(frame);
    ask(framed(&hello(MS(4000))));
    let big = CreateRequest { data: Some(&data), ..create("/big", CreateMode::PERSISTENT) };
    ask(request(1, OpCode::CREATE, &big));
    for xid in 2..2000 {
        ask(request(xid, OpCode::GET_DATA, &get_data("/big", false)));
    }
    let empty = SetDataRequest { data: None, ..set_data("/big") };
    ask(request(2000, OpCode::SET_DATA, &empty));

    let mut rounds = 0;
    let mut sent = 0;
    while !input.is_empty() {
        core.handle_input(now, client, &mut input);
        let unsent = core.unsent(client);
        assert!(unsent <= Core::MAX_BEHIND + data.len() + 200, "{unsent} bytes wait");
        let mut out = BytesMut::new();
        assert!(!core.poll_transmit(now, client, &mut out));
        assert!(core.unsent(client) == 0 && out.len() == unsent);
        sent += out.len();
        rounds += 1;
    }
    assert!(rounds > 900, "{rounds} rounds");
    assert!(sent > 1998 * data.len(), "{sent} bytes");
}

/// A real server continues until it runs out of memory.
#[test]
#[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
fn a_client_that_does_not_read_is_hung_up_on_before_its_events_fill_the_memory() {
    const BOUND: usize = 64 * 1024 * 1024;
    let now = Instant::now();
    let mut core = Core::new(Config::new(), now, Duration::ZERO);
    let mut out = BytesMut::new();
    let mut connect = |port: u16, core: &mut Core| {
        let id = core.handle_connection(now, ([127, 0, 0, 1], port).into());
        core.handle_input(now, id, &mut BytesMut::from(&framed(&hello(MS(4000)))[..]));
        assert!(!core.poll_transmit(now, id, &mut out));
        id
    };
    let (writer, watcher) = (connect(1, &mut core), connect(2, &mut core));
    let watch = AddWatchRequest { path: "/", mode: AddWatchMode::PERSISTENT_RECURSIVE };
    core.handle_input(
        now,
        watcher,
        &mut BytesMut::from(&request(1, OpCode::ADD_WATCH, &watch)[..]),
    );
    let path = format!("/{}", "x".repeat(1_000_000));
    let make = create(&path, CreateMode::PERSISTENT);
    let make = request(1, OpCode::CREATE, &make);
    core.handle_input(now, writer, &mut BytesMut::from(&make[..]));
    let write = request(2, OpCode::SET_DATA, &set_data(&path));
    let mut most = 0;
    while !core.poll_abort(watcher) {
        core.handle_input(now, writer, &mut BytesMut::from(&write[..]));
        assert!(!core.poll_transmit(now, writer, &mut BytesMut::new()), "the others go on");
        most = most.max(core.unsent(watcher));
        assert!(most <= BOUND, "{most} bytes wait");
    }
    assert!(most > BOUND - 2 * path.len(), "hung up on at {most} bytes");
    assert_eq!((core.unsent(watcher), core.watch_count()), (0, 0));
}
