//! Injected faults: their effect on the server, and the result that the client gets.

use std::time::Duration;

use zk_client::{Client, CreateOptions, ErrorKind, Op, Outcome, Read, SessionState, WatchMode};
use zk_embedded::{Config, ErrorCode, Fault, OpCode, Server};
use zk_proto::{CreateMode, MultiOp, MultiRequest, PingRequest, SetDataRequest, SyncRequest, Text};
use zk_test_support::peer::Clock;
use zk_test_support::raw::{RawClient, create, delete, exists, get_data, request, set_data};

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();
const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();
const MS: fn(u64) -> Duration = Duration::from_millis;

async fn connect(server: &Server) -> Client {
    let builder = Client::builder().session_timeout(Duration::from_secs(6));
    builder.connector(server.connector()).connect("zk").await.unwrap()
}

/// A server with a node `/a`, a client, and a raw connection of another client.
async fn world() -> (Server, Client, RawClient) {
    let server = Server::in_memory(Config::new());
    let client = connect(&server).await;
    client.create("/a", b"", &PERSISTENT).await.unwrap();
    let bystander = RawClient::open(&server).await;
    (server, client, bystander)
}

/// Checks that a connection was not affected.
async fn is_untouched(bystander: &mut RawClient) {
    assert_eq!(bystander.heard().await, [""; 0]);
    assert_eq!(bystander.ask(&exists("/a", false)).await, [""; 0]);
}

/// `true` for a failure that leaves open whether the request was carried out.
fn is_unknown(error: &zk_client::Error) -> bool {
    (error.kind(), error.outcome()) == (ErrorKind::ConnectionLoss, Outcome::Unknown)
}

#[tokio::test(start_paused = true)]
async fn a_request_may_be_served_after_its_connection_if_its_session_lives() {
    for expires in [false, true] {
        let (server, client, mut bystander) = world().await;
        server.inject(Fault::serve_late(MS(500)).op(OpCode::CREATE2));
        let lost = client.create("/late", b"", &CreateOptions::ephemeral()).await.unwrap_err();
        assert!(is_unknown(&lost), "{lost}");
        client.sync("/a").await.unwrap();
        assert!(client.exists("/late").await.unwrap().is_none());
        let session = client.session().unwrap().id;
        assert!(!expires || server.expire(session));
        tokio::time::sleep(MS(400)).await;
        assert!(!server.has_node("/late"));
        tokio::time::sleep(MS(200)).await;
        assert_eq!(server.has_node("/late"), !expires);
        assert_eq!(server.pending_faults(), 0);
        is_untouched(&mut bystander).await;
        if !expires {
            let stat = client.exists("/late").await.unwrap().unwrap();
            assert_eq!(stat.ephemeral_owner, session);
        }
    }
}

/// As in the table at `Fault::op`. `/a` shows which operations have a path.
#[tokio::test(start_paused = true)]
async fn a_fault_knows_the_calls_of_the_client_by_their_operations() {
    let (server, client, _) = world().await;
    let (container, hour) = (CreateOptions::container(), PERSISTENT.ttl(MS(3_600_000)));
    let is_hit =
        |op, path: &str| server.inject(Fault::refuse(ErrorCode::THROTTLED_OP).op(op).path(path));
    macro_rules! hits {
        ($($op:ident $path:literal: $call:expr;)*) => {$(
            is_hit(OpCode::$op, $path);
            let error = $call.await.map(drop).unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::THROTTLED_OP), stringify!($op));
        )*};
    }
    hits! {
        CREATE2 "/a": client.create("/a/b", b"", &PERSISTENT);
        CREATE2 "/a": client.create_owned("/a/b-", b"", &OWNED);
        CREATE_CONTAINER "/a": client.create("/a/b", b"", &container);
        CREATE_TTL "/a": client.create("/a/b", b"", &hour);
        DELETE "/a": client.delete("/a", None);
        EXISTS "/a": client.exists("/a");
        GET_DATA "/a": client.get_data("/a");
        SET_DATA "/a": client.set_data("/a", b"", None);
        SYNC "/a": client.sync("/a");
        GET_CHILDREN2 "/a": client.get_children("/a");
        ADD_WATCH "/a": client.watch("/a", WatchMode::Persistent);
    }
    // These operations have no path, which a fault for any path shows.
    server.inject(Fault::lose_request().path(""));
    client.multi(Op::check("/a", None)).await.unwrap();
    client.multi_read(Read::get_data("/a")).await.unwrap().unwrap();
    server.clear_faults();
    server.inject(Fault::lose_reply().op(OpCode::MULTI));
    assert!(is_unknown(&client.multi(Op::check("/a", None)).await.unwrap_err()));
    server.inject(Fault::lose_reply().op(OpCode::MULTI_READ));
    client.multi_read(Read::get_data("/a")).await.unwrap_err();
    server.inject(Fault::lose_reply().op(OpCode::CLOSE_SESSION));
    assert_eq!(server.pending_faults(), 1, "it waits for its request");
    client.close().await;
    assert_eq!(server.pending_faults(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_is_not_served_and_its_sender_cannot_know() {
    let (server, client, mut bystander) = world().await;
    let session = client.session();
    server.inject(Fault::lose_request());
    let error = client.set_data("/a", b"x", None).await.unwrap_err();
    assert!(is_unknown(&error), "{error}");
    assert_eq!(server.pending_faults(), 0);
    assert_eq!(client.set_data("/a", b"x", None).await.unwrap().version, 1, "it was not served");
    assert_eq!(client.session(), session);
    is_untouched(&mut bystander).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_takes_those_behind_it_and_none_ahead_of_it() {
    let (server, client, _) = world().await;
    server.inject(Fault::lose_request().op(OpCode::SET_DATA).after(1));
    let writes = client.batch(|| [(); 3].map(|()| client.set_data("/a", b"x", None)));
    let [first, second, third] = writes;
    assert_eq!(first.await.unwrap().version, 1);
    assert!(is_unknown(&second.await.unwrap_err()));
    assert!(is_unknown(&third.await.unwrap_err()));
    assert_eq!(client.exists("/a").await.unwrap().unwrap().version, 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_hides_a_write_that_was_made() {
    let (server, client, mut bystander) = world().await;
    let session = client.session();
    server.inject(Fault::lose_reply());
    let error = client.create("/b", b"", &CreateOptions::ephemeral()).await.unwrap_err();
    assert!(is_unknown(&error), "{error}");
    assert!(server.has_node("/b"));
    assert_eq!(server.pending_faults(), 0);
    let error = client.create("/b", b"", &PERSISTENT).await.unwrap_err();
    assert!(error.is_node_exists(), "{error}");
    assert_eq!(client.session(), session);
    is_untouched(&mut bystander).await;
}

#[tokio::test(start_paused = true)]
async fn events_of_a_write_whose_reply_is_lost_are_told() {
    let (server, _, mut bystander) = world().await;
    let mut writer = RawClient::open(&server).await;
    for client in [&mut writer, &mut bystander] {
        client.reply(&get_data("/a", true)).await;
    }
    assert_eq!(server.watch_count(), 2);
    server.inject(Fault::lose_reply().op(OpCode::SET_DATA));
    assert_eq!(writer.ask(&set_data("/a")).await, ["NodeDataChanged /a", "closed"]);
    assert_eq!(bystander.heard().await, ["NodeDataChanged /a"]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_cut_at_any_byte() {
    let (server, ..) = world().await;
    let asked = request(7, OpCode::GET_DATA, &get_data("/a", false));
    let mut whole = RawClient::open(&server).await;
    whole.write(&asked).await;
    let length = 4 + whole.frame().await.unwrap().len();
    for bytes in (0..=length + 2).chain([usize::MAX]) {
        let mut client = RawClient::open(&server).await;
        client.write(&asked).await;
        let reply = client.frame().await.unwrap();
        let framed = [&(reply.len() as u32).to_be_bytes(), &reply[..]].concat();
        server.inject(Fault::cut_reply(bytes));
        // The request behind it is not answered.
        client.write(&[&asked[..], &asked].concat()).await;
        assert_eq!(client.bytes().await, framed[..bytes.min(length)], "cut at {bytes}");
        assert!(!server.disconnect(client.session), "it has no connection");
        assert!(server.sessions().contains(&client.session));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_anywhere_in_a_reply_is_unknown_to_the_client_and_applied() {
    let (server, client, _) = world().await;
    let session = client.session();
    // The reply holds a length, a header and a stat.
    let length = 4 + 16 + 68;
    for bytes in 0..length {
        server.inject(Fault::cut_reply(bytes).path("/a"));
        let error = client.set_data("/a", b"x", None).await.unwrap_err();
        assert!(is_unknown(&error), "cut at {bytes}: {error}");
        let version = client.exists("/a").await.unwrap().unwrap().version;
        assert_eq!(version, bytes as i32 + 1, "cut at {bytes}");
    }
    server.inject(Fault::cut_reply(length));
    client.set_data("/a", b"x", None).await.expect("the reply is whole");
    client.states().wait_for(|state| !state.is_connected()).await.unwrap();
    client.sync("/").await.unwrap();
    assert_eq!(client.session(), session);
}

#[tokio::test(start_paused = true)]
async fn a_cut_connection_has_no_watches() {
    let (server, _, mut bystander) = world().await;
    let mut client = RawClient::open(&server).await;
    client.reply(&get_data("/a", true)).await;
    server.inject(Fault::cut_reply(9));
    client.send(&get_data("/a", false)).await;
    assert_eq!(client.bytes().await.len(), 9);
    assert_eq!(server.watch_count(), 0);
    assert_eq!(bystander.ask(&set_data("/a")).await, [""; 0]);

    // A connection whose client does not read, and so does not know of the cut yet, has none
    // either.
    let data = vec![7; 700_000];
    let big = SetDataRequest { data: Some(&data), ..set_data("/a") };
    bystander.reply(&big).await;
    let mut deaf = RawClient::open(&server).await;
    server.inject(Fault::lose_reply().after(3));
    for _ in 0..4 {
        deaf.send(&get_data("/a", true)).await;
    }
    tokio::time::sleep(MS(1)).await;
    assert_eq!((server.pending_faults(), server.watch_count()), (0, 0));
    assert_eq!(deaf.heard().await, ["1 ok", "2 ok", "3 ok", "closed"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_given_up_by_the_client_and_the_session_goes_on() {
    let (server, client, mut bystander) = world().await;
    let session = client.session();
    let clock = Clock::start();
    server.inject(Fault::go_silent().op(OpCode::SET_DATA));
    let error = client.set_data("/a", b"x", None).await.unwrap_err();
    assert!(is_unknown(&error), "{error}");
    assert_eq!(clock.elapsed(), MS(4000), "two thirds of the session timeout");
    assert_eq!(client.exists("/a").await.unwrap().unwrap().version, 1, "it was served");
    assert_eq!(client.session(), session);
    is_untouched(&mut bystander).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_serves_nothing_and_does_not_even_end_with_its_session() {
    let (server, ..) = world().await;
    let mut client = RawClient::open(&server).await;
    client.reply(&get_data("/a", true)).await;
    server.inject(Fault::go_silent().session(client.session));
    client.send(&create("/b", CreateMode::EPHEMERAL)).await;
    client.send(&create("/c", CreateMode::PERSISTENT)).await;
    client.send(&PingRequest).await;
    assert_eq!(client.heard().await, [""; 0]);
    assert!(server.has_node("/b"));
    assert!(!server.has_node("/c"));
    RawClient::open(&server).await.reply(&set_data("/a")).await;
    assert_eq!(client.heard().await, [""; 0]);

    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!server.sessions().contains(&client.session));
    assert!(!server.has_node("/b"));
    assert_eq!(client.heard().await, [""; 0]);
    drop(server);
    assert_eq!(client.hear().await, "closed");
}

#[tokio::test(start_paused = true)]
async fn a_session_goes_on_elsewhere_without_a_word_to_its_silent_connection() {
    let (server, ..) = world().await;
    let mut client = RawClient::open(&server).await;
    server.inject(Fault::go_silent());
    client.send(&exists("/a", true)).await;
    let mut again = RawClient::attach(&server, client.resume()).await;
    again.reply(&set_data("/a")).await;
    assert_eq!(client.heard().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_delay_holds_a_reply_and_all_behind_it() {
    let (server, _, mut bystander) = world().await;
    let mut client = RawClient::open(&server).await;
    client.reply(&exists("/a", true)).await;
    server.inject(Fault::delay(MS(300)).op(OpCode::CREATE2));
    let clock = Clock::start();
    client.send(&get_data("/a", false)).await;
    client.send(&create("/b", CreateMode::PERSISTENT)).await;
    client.send(&SyncRequest { path: Text::from("/") }).await;
    assert_eq!(client.hear().await, "2 ok");
    assert_eq!(clock.elapsed(), MS(0));

    // Other clients see the change, and the events of their changes wait for this client, too.
    assert_eq!(bystander.ask(&delete("/b")).await, [""; 0]);
    bystander.reply(&set_data("/a")).await;
    assert_eq!(clock.elapsed(), MS(0));
    for expected in ["3 ok", "4 ok", "NodeDataChanged /a"] {
        assert_eq!(client.hear().await, expected);
        assert_eq!(clock.elapsed(), MS(300));
    }
    client.reply(&get_data("/a", false)).await;
    assert_eq!(clock.elapsed(), MS(300));
}

#[tokio::test(start_paused = true)]
async fn an_event_of_the_delayed_request_is_ahead_of_its_reply() {
    let (server, ..) = world().await;
    let mut client = RawClient::open(&server).await;
    client.reply(&exists("/a", true)).await;
    server.inject(Fault::delay(MS(70)));
    let clock = Clock::start();
    client.send(&set_data("/a")).await;
    assert_eq!(client.hear().await, "NodeDataChanged /a");
    assert_eq!(clock.elapsed(), MS(0));
    assert_eq!(client.hear().await, "2 ok");
    assert_eq!(clock.elapsed(), MS(70));
}

#[tokio::test(start_paused = true)]
async fn a_shorter_delay_behind_a_longer_one_changes_nothing() {
    for (first, second, arrivals) in
        [(300, 100, [300, 300, 300]), (100, 300, [100, 300, 300]), (100, 100, [100, 100, 100])]
    {
        let (server, ..) = world().await;
        let mut client = RawClient::open(&server).await;
        server.inject(Fault::delay(MS(first)));
        server.inject(Fault::delay(MS(second)));
        let clock = Clock::start();
        for _ in 0..3 {
            client.send(&get_data("/a", false)).await;
        }
        for (xid, arrives) in (1..).zip(arrivals) {
            assert_eq!(client.hear().await, format!("{xid} ok"));
            assert_eq!(clock.elapsed(), MS(arrives), "reply {xid} of {first} and {second}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_does_not_wait_for_a_delay() {
    let (server, ..) = world().await;
    let mut client = RawClient::open(&server).await;
    server.inject(Fault::delay(Duration::from_secs(3600)));
    client.send(&get_data("/a", false)).await;
    let clock = Clock::start();
    assert_eq!(client.hear().await, "closed");
    assert_eq!(clock.elapsed(), Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_the_client_does_not_wait_out_is_a_lost_reply() {
    let (server, client, _) = world().await;
    server.inject(Fault::delay(Duration::from_secs(60)).path("/a"));
    let error = client.set_data("/a", b"x", None).await.unwrap_err();
    assert!(is_unknown(&error), "{error}");
    assert_eq!(client.exists("/a").await.unwrap().unwrap().version, 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_not_served_and_the_connection_goes_on() {
    let (server, client, mut bystander) = world().await;
    server.inject(Fault::refuse(ErrorCode::THROTTLED_OP));
    let (refused, served) =
        client.batch(|| (client.set_data("/a", b"x", None), client.set_data("/a", b"y", None)));
    let error = refused.await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::THROTTLED_OP));
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert_eq!(served.await.unwrap().version, 1);
    assert_eq!(client.state(), SessionState::Connected);
    is_untouched(&mut bystander).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_is_not_set() {
    let (server, ..) = world().await;
    let mut client = RawClient::open(&server).await;
    server.inject(Fault::refuse(ErrorCode::NO_NODE));
    assert_eq!(client.ask(&exists("/a", true)).await, ["1 NoNode"]);
    assert_eq!(server.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_swapped_session_ends_the_client_and_not_the_session() {
    let (server, client, mut bystander) = world().await;
    client.create("/mine", b"", &CreateOptions::ephemeral()).await.unwrap();
    let session = client.session().unwrap();
    server.inject(Fault::swap_session());
    client.set_data("/a", b"x", None).await.expect("it meets handshakes alone");
    assert_eq!(server.pending_faults(), 1);

    assert!(server.disconnect(session.id));
    client.states().wait_for(|state| *state == SessionState::Expired).await.unwrap();
    assert_eq!(server.pending_faults(), 0);
    assert!(server.sessions().contains(&session.id));
    assert!(server.has_node("/mine"));
    is_untouched(&mut bystander).await;
}

#[tokio::test(start_paused = true)]
async fn a_swap_gives_away_another_session_and_leaves_that_of_others() {
    let server = Server::in_memory(Config::new());
    let (one, two) = (RawClient::open(&server).await, RawClient::open(&server).await);
    server.inject(Fault::swap_session().session(two.session).op(OpCode::SYNC).path("/nothing"));
    let first = RawClient::attach(&server, one.resume()).await;
    assert_eq!(first.session, one.session);
    server.inject(Fault::swap_session());
    let new = RawClient::open(&server).await;
    assert_eq!(server.pending_faults(), 2, "a new session is no wish for an old one");
    RawClient::attach(&server, new.resume()).await;
    assert_eq!(server.pending_faults(), 1);
    let swapped = RawClient::attach(&server, two.resume()).await;
    assert!(![one.session, two.session, new.session].contains(&swapped.session));
    let again = RawClient::attach(&server, two.resume()).await;
    assert_eq!(again.session, two.session);
}

#[tokio::test(start_paused = true)]
async fn conditions_name_the_request() {
    let (server, _, mut other) = world().await;
    let mut client = RawClient::open(&server).await;
    let refuse = || Fault::refuse(ErrorCode::SYSTEM_ERROR);
    let sync = |path| SyncRequest { path };

    server.inject(refuse().op(OpCode::SET_DATA).path("/a").session(client.session).after(1));
    assert_eq!(client.ask(&get_data("/a", false)).await, [""; 0], "another operation");
    assert_eq!(client.ask(&set_data("/zookeeper")).await, [""; 0], "another path");
    assert_eq!(other.ask(&set_data("/a")).await, [""; 0], "another session");
    assert_eq!(client.ask(&set_data("/a")).await, [""; 0], "one may pass");
    assert_eq!(client.ask(&set_data("/a")).await, ["4 SystemError"]);
    assert_eq!(client.ask(&set_data("/a")).await, [""; 0], "it strikes once");

    // The path is compared by characters and not by components, whether the node exists or not.
    server.inject(refuse().path("/a/b"));
    assert_eq!(client.ask(&exists("/a", false)).await, [""; 0]);
    assert_eq!(client.ask(&exists("/a/beyond", false)).await, ["7 SystemError"]);
    server.inject(refuse().path("/a").op(OpCode::SYNC));
    assert_eq!(client.ask(&sync(Text::from("/b"))).await, [""; 0]);
    assert_eq!(client.ask(&sync(Text::from("/a"))).await, ["9 SystemError"]);

    // A multi has no path.
    let ops = [MultiOp::SetData(set_data("/a"))];
    server.inject(refuse().path("/a"));
    client.reply(&MultiRequest::new(&ops)).await;
    server.inject(refuse().op(OpCode::MULTI));
    let refused = client.ask(&MultiRequest::new(&ops)).await;
    assert_eq!(refused, ["11 SystemError"]);
    server.clear_faults();
    assert_eq!(server.pending_faults(), 0);
    assert_eq!(client.ask(&set_data("/a")).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn faults_count_each_for_itself_and_take_turns() {
    let (server, ..) = world().await;
    let mut client = RawClient::open(&server).await;
    server.inject(Fault::refuse(ErrorCode::SYSTEM_ERROR));
    server.inject(Fault::refuse(ErrorCode::THROTTLED_OP));
    server.inject(Fault::refuse(ErrorCode::NO_AUTH).after(3));
    for expected in ["1 SystemError", "2 ThrottledOp"] {
        assert_eq!(client.ask(&exists("/a", false)).await, [expected]);
    }
    assert_eq!(client.ask(&exists("/a", false)).await, [""; 0]);
    assert_eq!(client.ask(&exists("/a", false)).await, ["4 NoAuth"]);
}

#[tokio::test(start_paused = true)]
async fn pings_meet_the_faults_that_name_them() {
    let (server, ..) = world().await;
    let mut client = RawClient::open(&server).await;
    server.inject(Fault::lose_request());
    assert_eq!(client.ping().await, "-2 ok");
    assert_eq!(server.pending_faults(), 1);
    server.clear_faults();
    server.inject(Fault::lose_reply().op(OpCode::PING));
    assert_eq!(client.ask(&exists("/a", false)).await, [""; 0]);
    assert_eq!(client.ping().await, "closed");
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_the_close_of_a_session_does_not_keep_it() {
    for fault in [Fault::lose_reply(), Fault::go_silent(), Fault::delay(MS(50))] {
        let (server, ..) = world().await;
        let mut client = RawClient::open(&server).await;
        client.reply(&create("/mine", CreateMode::EPHEMERAL)).await;
        server.inject(fault.clone().op(OpCode::CLOSE_SESSION));
        client.write(&request(2, OpCode::CLOSE_SESSION, &())).await;
        let heard = match fault {
            _ if fault == Fault::lose_reply() => vec!["closed"],
            _ if fault == Fault::go_silent() => vec![],
            _ => {
                assert_eq!(client.hear().await, "2 ok");
                vec!["closed"]
            }
        };
        assert_eq!(client.heard().await, heard, "{fault:?}");
        assert!(!server.sessions().contains(&client.session));
        assert!(!server.has_node("/mine"));
    }
}
