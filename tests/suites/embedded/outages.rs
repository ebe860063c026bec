//! The faults that a test causes at a server: it ends sessions, cuts connections, or makes the
//! server lose its ensemble, stop serving or fail to write.

use std::time::Duration;

use zk_client::{Client, CreateOptions, ErrorKind, Outcome, SessionState};
use zk_embedded::{Config, Fault, OpCode, Server};
use zk_proto::*;
use zk_test_support::peer::Clock;
use zk_test_support::raw::{
    RawClient, create, delete, exists, framed, get_children, get_data, hello, request, set_data,
};

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();
const MS: fn(u64) -> Duration = Duration::from_millis;

/// The settings of a server that accepts clients while it is read-only.
fn read_only() -> Config {
    Config::new().tick_time(MS(1000)).local_sessions(true)
}

fn server() -> Server {
    Server::in_memory(Config::new().tick_time(MS(1000)))
}

async fn connect(server: &Server) -> Client {
    let builder = Client::builder().session_timeout(Duration::from_secs(6));
    builder.connector(server.connector()).connect("zk").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_takes_its_nodes_and_its_connection_and_nothing_else() {
    let server = server();
    let (client, other) = (connect(&server).await, connect(&server).await);
    client.create("/mine", b"", &CreateOptions::ephemeral()).await.unwrap();
    other.create("/theirs", b"", &CreateOptions::ephemeral()).await.unwrap();
    let (_, mut watch) = other.exists_and_watch("/mine").await.unwrap();
    let session = client.session().unwrap().id;
    assert!(server.expire(session));
    assert_eq!(server.children("/"), ["theirs", "zookeeper"]);
    assert_eq!(watch.changed().await.unwrap().path, "/mine");
    client.states().wait_for(|state| *state == SessionState::Expired).await.unwrap();
    assert_eq!(other.state(), SessionState::Connected);
    assert!(!server.expire(session), "it is over");
    assert!(!server.disconnect(session));
    assert!(!server.partition(session));
    assert_eq!(server.sessions(), [other.session().unwrap().id]);
}

#[tokio::test(start_paused = true)]
async fn a_cut_connection_is_one_of_many() {
    let server = server();
    let (client, other) = (connect(&server).await, connect(&server).await);
    client.create("/mine", b"", &CreateOptions::ephemeral()).await.unwrap();
    let session = client.session().unwrap();
    assert!(server.disconnect(session.id));
    assert!(!server.disconnect(session.id), "it has none now");
    let error = client.get_data("/mine").await.map(drop);
    if let Err(error) = error {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::ConnectionLoss, Outcome::Unknown));
    }
    client.get_data("/mine").await.unwrap();
    assert_eq!(client.session(), Some(session));
    assert_eq!(other.state(), SessionState::Connected);

    let mut states = [client.states(), other.states()];
    server.disconnect_all();
    for expected in [SessionState::Disconnected, SessionState::Connected] {
        for states in &mut states {
            states.wait_for(|state| *state == expected).await.unwrap();
        }
    }
    assert_eq!(server.sessions().len(), 2);
    assert!(server.has_node("/mine"));
}

#[tokio::test(start_paused = true)]
async fn all_connections_are_those_without_a_session_too() {
    let server = server();
    let mut clients = [RawClient::open(&server).await, RawClient::connect(&server)];
    assert_eq!(clients[1].heard().await, [""; 0]);
    server.disconnect_all();
    for client in &mut clients {
        assert_eq!(client.hear().await, "closed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_its_ensemble_answers_pings_and_nothing_else() {
    let server = server();
    let mut other = RawClient::open(&server).await;
    let mut client = RawClient::open(&server).await;
    client.reply(&create("/a", CreateMode::PERSISTENT)).await;
    client.reply(&get_data("/a", true)).await;
    client.reply(&get_children("/", true)).await;
    assert!(server.partition(client.session));

    for request in [
        request(4, OpCode::SET_DATA, &set_data("/a")),
        request(5, OpCode::EXISTS, &exists("/a", false)),
        request(6, OpCode::CREATE, &create("/b", CreateMode::EPHEMERAL)),
    ] {
        client.write(&request).await;
        assert_eq!(client.ping().await, "-2 ok");
    }
    assert!(!server.has_node("/b"), "the ensemble hears nothing");
    assert_eq!(other.ask(&set_data("/a")).await, [""; 0]);
    assert_eq!(other.ask(&create("/c", CreateMode::PERSISTENT)).await, [""; 0]);
    assert_eq!(client.heard().await, [""; 0], "and tells nothing");
    assert_eq!(server.watch_count(), 0, "but to that server");

    server.heal();
    let events = ["NodeDataChanged /a", "NodeChildrenChanged /"];
    assert_eq!(client.heard().await, [&events[..], &["4 ok", "5 ok", "6 ok"]].concat());
    assert!(server.has_node("/b"));
    assert_eq!(client.ask(&set_data("/a")).await, [""; 0], "it goes on as ever");
    assert_eq!(other.heard().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn pings_from_there_tell_of_no_transaction_since() {
    let server = server();
    let mut other = RawClient::open(&server).await;
    let mut client = RawClient::open(&server).await;
    server.partition(client.session);
    other.reply(&create("/a", CreateMode::PERSISTENT)).await;
    for (zxid, healed) in [(Zxid(2), false), (Zxid(3), true)] {
        if healed {
            server.heal();
        }
        client.write(&request(-2, OpCode::PING, &())).await;
        let frame = client.frame().await.unwrap();
        assert_eq!(ReplyHeader::decode(&mut Reader::new(&frame)).unwrap().zxid, zxid);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_behind_a_partition_expires_though_its_pings_are_answered() {
    let (server, clock) = (server(), Clock::start());
    let mut other = RawClient::attach(&server, hello(MS(20_000))).await;
    let mut client = RawClient::attach(&server, hello(MS(2000))).await;
    client.reply(&create("/mine", CreateMode::EPHEMERAL)).await;
    other.reply(&exists("/mine", true)).await;
    server.partition(client.session);
    client.send(&create("/held", CreateMode::PERSISTENT)).await;
    for _ in 0..5 {
        tokio::time::sleep(MS(500)).await;
        assert_eq!(client.ping().await, "-2 ok");
    }
    assert_eq!(other.hear().await, "NodeDeleted /mine");
    assert_eq!(clock.elapsed(), MS(3000));
    assert_eq!(client.ping().await, "-2 ok", "it is not told");
    server.heal();
    assert_eq!(client.hear().await, "closed");
    assert!(!server.has_node("/held"), "nothing is served for a session that is over");
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_heals_in_time_is_only_slow() {
    let (server, clock) = (server(), Clock::start());
    let mut client = RawClient::attach(&server, hello(MS(2000))).await;
    server.partition(client.session);
    tokio::time::sleep(MS(2999)).await;
    client.send(&set_data("/")).await;
    assert_eq!(client.ping().await, "-2 ok");
    server.heal();
    assert_eq!(client.hear().await, "1 ok");
    assert_eq!(client.hear().await, "closed");
    assert_eq!(clock.elapsed(), MS(5000), "what was held is a sign of life when it is served");
}

#[tokio::test(start_paused = true)]
async fn an_expiry_behind_a_partition_is_told_when_it_heals() {
    let server = server();
    let mut client = RawClient::open(&server).await;
    client.reply(&create("/mine", CreateMode::EPHEMERAL)).await;
    server.partition(client.session);
    assert!(server.expire(client.session));
    assert!(!server.has_node("/mine"));
    assert_eq!(client.ping().await, "-2 ok");
    assert!(RawClient::connect(&server).greet(client.resume()).await.unwrap().is_expired());
    server.heal();
    assert_eq!(client.hear().await, "closed");
}

#[tokio::test(start_paused = true)]
async fn a_session_leaves_a_partition_through_another_connection() {
    let server = server();
    let mut client = RawClient::open(&server).await;
    client.reply(&create("/mine", CreateMode::EPHEMERAL)).await;
    server.partition(client.session);
    client.send(&create("/held", CreateMode::PERSISTENT)).await;
    let mut again = RawClient::attach(&server, client.resume()).await;
    assert_eq!(again.ask(&set_data("/mine")).await, [""; 0]);
    assert_eq!(client.ping().await, "-2 ok", "the old server does not know");

    server.heal();
    assert_eq!(client.hear().await, "closed");
    assert!(!server.has_node("/held"));
    drop(client);
    assert_eq!(again.ask(&exists("/mine", true)).await, [""; 0]);
    assert_eq!(server.watch_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_does_not_take_a_session_out_of_a_partition() {
    let server = server();
    let mut client = RawClient::open(&server).await;
    server.partition(client.session);
    client.send(&set_data("/")).await;
    let wrong = ConnectRequest { password: Password::ZERO, ..client.resume() };
    assert!(RawClient::connect(&server).greet(wrong).await.unwrap().is_expired());
    server.heal();
    assert_eq!(client.heard().await, ["1 ok"]);
}

#[tokio::test(start_paused = true)]
async fn requests_behind_a_close_or_a_cut_in_a_partition_are_not_served() {
    for cut in [false, true] {
        let server = server();
        let mut client = RawClient::open(&server).await;
        server.partition(client.session);
        assert!(server.partition(client.session), "it is in one already");
        client.send(&create("/a", CreateMode::PERSISTENT)).await;
        if cut {
            server.inject(Fault::lose_reply().op(OpCode::SYNC));
            client.send(&SyncRequest { path: Text::from("/") }).await;
        } else {
            client.send(&CloseSessionRequest).await;
        }
        client.send(&create("/b", CreateMode::PERSISTENT)).await;
        server.heal();
        let heard = ["1 ok", "2 ok", "closed"];
        let heard = if cut { &["1 ok", "closed"][..] } else { &heard };
        assert_eq!(client.heard().await, heard);
        assert!(server.has_node("/a"));
        assert!(!server.has_node("/b"));
        assert_eq!(server.sessions().len(), usize::from(cut));
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_ends_with_its_connection() {
    let server = server();
    let mut client = RawClient::open(&server).await;
    server.partition(client.session);
    client.send(&create("/held", CreateMode::PERSISTENT)).await;
    assert!(server.disconnect(client.session));
    assert_eq!(client.hear().await, "closed");
    let mut again = RawClient::attach(&server, client.resume()).await;
    assert_eq!(again.ask(&exists("/", false)).await, [""; 0]);
    server.heal();
    assert_eq!(again.heard().await, [""; 0]);
    assert!(!server.has_node("/held"));
}

#[tokio::test(start_paused = true)]
async fn a_client_of_ours_waits_a_partition_out() {
    let server = server();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let (_, mut watch) = client.exists_and_watch("/seen").await.unwrap();
    let session = client.session().unwrap();
    server.partition(session.id);
    let held = client.create("/held", b"", &CreateOptions::ephemeral());
    other.create("/seen", b"", &PERSISTENT).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(client.state(), SessionState::Connected);
    server.heal();
    held.await.unwrap();
    assert_eq!(watch.changed().await.unwrap().path, "/seen");
    assert_eq!(client.session(), Some(session));
    assert_eq!(other.state(), SessionState::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_serve_hangs_up_and_ends_no_session() {
    let server = server();
    let clock = Clock::start();
    let mut client = RawClient::attach(&server, hello(MS(2000))).await;
    client.reply(&create("/mine", CreateMode::EPHEMERAL)).await;
    let mut fresh = RawClient::connect(&server);
    tokio::time::sleep(MS(1500)).await;
    server.set_serving(false);
    for client in [&mut client, &mut fresh] {
        assert_eq!(client.hear().await, "closed");
    }
    assert!(RawClient::connect(&server).greet(client.resume()).await.is_none());
    assert!(RawClient::connect(&server).greet(hello(MS(2000))).await.is_none());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(server.has_node("/mine"));

    // The timeouts of all sessions start again.
    let back = clock.elapsed();
    server.set_serving(true);
    let mut watcher = RawClient::attach(&server, hello(MS(20_000))).await;
    watcher.reply(&exists("/mine", true)).await;
    assert_eq!(watcher.hear().await, "NodeDeleted /mine");
    assert_eq!((back, clock.elapsed()), (MS(3_601_500), MS(3_604_000)));
}

#[tokio::test(start_paused = true)]
async fn a_server_told_twice_to_serve_starts_no_clock_anew() {
    let (server, clock) = (server(), Clock::start());
    let mut client = RawClient::attach(&server, hello(MS(2000))).await;
    client.reply(&create("/mine", CreateMode::EPHEMERAL)).await;
    tokio::time::sleep(MS(1500)).await;
    server.set_serving(true);
    server.set_read_only(false);
    assert_eq!(client.hear().await, "closed", "whichever it is set to");
    let mut watcher = RawClient::attach(&server, hello(MS(20_000))).await;
    watcher.reply(&exists("/mine", true)).await;
    assert_eq!(watcher.hear().await, "NodeDeleted /mine");
    assert_eq!(clock.elapsed(), MS(3000));
}

#[tokio::test(start_paused = true)]
async fn a_client_of_ours_survives_a_server_that_pauses() {
    let server = server();
    let client = connect(&server).await;
    client.create("/mine", b"", &CreateOptions::ephemeral()).await.unwrap();
    let session = client.session();
    server.set_serving(false);
    client.states().wait_for(|state| !state.is_connected()).await.unwrap();
    let waiting = client.set_data("/mine", b"x", None);
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.set_serving(true);
    assert_eq!(waiting.await.unwrap().version, 1);
    assert_eq!(client.session(), session);
}

#[tokio::test(start_paused = true)]
async fn a_read_only_server_with_local_sessions_lets_in_whoever_asks_for_that() {
    let server = Server::in_memory(read_only());
    let mut client = RawClient::open(&server).await;
    server.set_read_only(true);
    assert_eq!(client.hear().await, "closed");
    let read_only = ConnectRequest { read_only: Some(true), ..hello(MS(4000)) };
    for request in [
        hello(MS(4000)),
        ConnectRequest { read_only: None, ..read_only },
        ConnectRequest { read_only: Some(true), ..client.resume() },
    ] {
        assert!(RawClient::connect(&server).greet(request).await.is_none(), "{request:?}");
    }
    let mut local = RawClient::connect(&server);
    let answer = local.greet(read_only).await.unwrap();
    assert_eq!(answer.read_only, Some(true));

    // The server accepts its own sessions again, and reports every other session as over.
    let resume = ConnectRequest { read_only: Some(true), ..local.resume() };
    let mut again = RawClient::connect(&server);
    assert!(!again.greet(resume).await.unwrap().is_expired());
    assert_eq!(local.hear().await, "closed");
    let wrong = ConnectRequest { password: client.password, ..resume };
    let unknown = ConnectRequest { session_id: SessionId(77), ..resume };
    for request in [wrong, unknown] {
        let answer = RawClient::connect(&server).greet(request).await.unwrap();
        assert!(answer.is_expired(), "{request:?}");
    }
}

/// Like ZooKeeper since 3.7: the answer is the header of a reply, and the connection stays open.
#[tokio::test(start_paused = true)]
async fn a_read_only_server_without_local_sessions_lets_nobody_in() {
    let server = server();
    let known = RawClient::open(&server).await;
    server.set_read_only(true);
    let start = Clock::start();
    let mut client = RawClient::connect(&server);
    let read_only = ConnectRequest { read_only: Some(true), ..hello(MS(4000)) };
    client.write(&framed(&read_only)).await;
    assert_eq!(client.hear().await, "0 NotReadOnly");
    client.send(&exists("/", false)).await;
    assert_eq!(client.hear().await, "closed", "nothing more is heard of it");
    assert_eq!(start.elapsed(), MS(20_000), "until its time is over");
    assert_eq!(server.sessions(), [known.session]);
    for request in [hello(MS(4000)), ConnectRequest { read_only: Some(true), ..known.resume() }] {
        assert!(RawClient::connect(&server).greet(request).await.is_none(), "{request:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_of_a_read_only_server_expires_there() {
    let server = Server::in_memory(read_only());
    let known = RawClient::open(&server).await;
    server.set_read_only(true);
    let clock = Clock::start();
    let read_only = ConnectRequest { read_only: Some(true), ..hello(MS(2000)) };
    let mut local = RawClient::attach(&server, read_only).await;
    assert_eq!(server.sessions(), [known.session, local.session]);
    assert_eq!(local.hear().await, "closed");
    assert_eq!(clock.elapsed(), MS(3000));
    assert_eq!(server.sessions(), [known.session], "which stands still");

    // While the server does not serve, no session timeout runs.
    let local = RawClient::attach(&server, read_only).await;
    server.set_serving(false);
    tokio::time::sleep(MS(60_000)).await;
    assert_eq!(server.sessions(), [known.session, local.session]);
    server.set_serving(true);
    tokio::time::sleep(MS(2999)).await;
    assert_eq!(server.sessions(), [known.session, local.session]);
    tokio::time::sleep(MS(2)).await;
    assert_eq!(server.sessions(), [known.session]);
}

#[tokio::test(start_paused = true)]
async fn a_read_only_server_refuses_every_write_and_sync() {
    let server = Server::in_memory(read_only());
    let mut writer = RawClient::open(&server).await;
    writer.reply(&create("/a", CreateMode::PERSISTENT)).await;
    server.set_read_only(true);
    let read_only = ConnectRequest { read_only: Some(true), ..hello(MS(4000)) };
    let mut client = RawClient::attach(&server, read_only).await;
    let (path, null) = ("/b", Text::NULL);
    let acl = List::new(&[Acl::OPEN]);
    let node = create(path, CreateMode::PERSISTENT);
    let mode = CreateMode::PERSISTENT_WITH_TTL;
    let ops = [MultiOp::Check(CheckVersionRequest { path: "/a", version: 0 })];
    let reconfig = ReconfigRequest {
        joining_servers: null,
        leaving_servers: null,
        new_members: null,
        cur_config_id: -1,
    };
    for write in [
        request(1, OpCode::CREATE, &node),
        request(1, OpCode::CREATE2, &node),
        request(1, OpCode::CREATE_CONTAINER, &node),
        request(1, OpCode::CREATE_TTL, &CreateTtlRequest { path, data: None, acl, mode, ttl: 1 }),
        request(1, OpCode::DELETE, &delete("/a")),
        request(1, OpCode::SET_DATA, &set_data("/a")),
        request(1, OpCode::SET_ACL, &SetAclRequest { path: "/a", acl, version: -1 }),
        request(1, OpCode::MULTI, &MultiRequest::new(&ops)),
        request(1, OpCode::SYNC, &SyncRequest { path: Text::from("/a") }),
        request(1, OpCode::RECONFIG, &reconfig),
    ] {
        client.write(&write).await;
        assert_eq!(client.hear().await, "1 NotReadOnly", "{write:?}");
    }

    let reads = [MultiOp::GetData(get_data("/a", false))];
    let watch = AddWatchRequest { path: "/a", mode: AddWatchMode::PERSISTENT };
    for read in [
        request(1, OpCode::EXISTS, &exists("/a", true)),
        request(1, OpCode::GET_DATA, &get_data("/a", true)),
        request(1, OpCode::GET_CHILDREN, &get_children("/", true)),
        request(1, OpCode::GET_CHILDREN2, &get_children("/", true)),
        request(1, OpCode::GET_ACL, &GetAclRequest { path: "/a" }),
        request(1, OpCode::GET_EPHEMERALS, &GetEphemeralsRequest { prefix_path: null }),
        request(1, OpCode::GET_ALL_CHILDREN_NUMBER, &GetAllChildrenNumberRequest { path: "/" }),
        request(1, OpCode::WHO_AM_I, &()),
        request(1, OpCode::ADD_WATCH, &watch),
        request(1, OpCode::MULTI_READ, &MultiRequest::new(&reads)),
    ] {
        client.write(&read).await;
        assert_eq!(client.hear().await, "1 ok", "{read:?}");
    }
    assert_eq!(client.ping().await, "-2 ok");
    assert_eq!(server.children("/"), ["a", "zookeeper"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_no_session_ends_or_ages_and_no_transaction_happens() {
    let server = Server::in_memory(read_only());
    let mut client = RawClient::attach(&server, hello(MS(2000))).await;
    client.reply(&create("/mine", CreateMode::EPHEMERAL)).await;
    let start = Clock::start();
    tokio::time::sleep(MS(1500)).await;
    server.set_read_only(true);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let read_only = ConnectRequest { read_only: Some(true), ..hello(MS(4000)) };
    let mut local = RawClient::attach(&server, read_only).await;
    assert!(server.has_node("/mine"));
    let mut closing = RawClient::attach(&server, read_only).await;
    closing.reply(&CloseSessionRequest).await;
    assert_eq!(server.sessions(), [client.session, local.session]);
    local.send(&exists("/mine", false)).await;
    let frame = local.frame().await.unwrap();
    assert_eq!(ReplyHeader::decode(&mut Reader::new(&frame)).unwrap().zxid, Zxid(2));

    server.set_read_only(false);
    assert_eq!(local.hear().await, "closed");
    assert_eq!(server.sessions(), [client.session], "the other was never one of the ensemble");
    let mut watcher = RawClient::attach(&server, hello(MS(20_000))).await;
    watcher.reply(&exists("/mine", true)).await;
    assert_eq!(watcher.hear().await, "NodeDeleted /mine");
    assert_eq!(start.elapsed(), MS(64_000));
}
