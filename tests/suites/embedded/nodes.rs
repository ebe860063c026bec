//! Nodes at the end of their sequence numbers, and nodes that the server deletes by itself.

use std::time::Duration;

use zk_client::{Client, CreateOptions, ErrorCode, Op};
use zk_embedded::{Config, Deviation, Manner, Server, ServerVersion};
use zk_proto::{Acl, CreateMode, CreateTtlRequest, List, Zxid};
use zk_test_support::peer::Clock;
use zk_test_support::raw::{RawClient, create, delete, exists, get_children, hello, set_data};

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();
const CONTAINER: CreateMode = CreateMode::CONTAINER;
const MS: fn(u64) -> Duration = Duration::from_millis;

async fn connect(server: &Server) -> Client {
    Client::builder().connector(server.connector()).connect("zk").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn sequence_numbers_stop_at_the_largest() {
    let server = Server::in_memory(Config::new());
    let client = connect(&server).await;
    client.create("/q", b"", &PERSISTENT).await.unwrap();
    assert!(server.preset_sequence("/q", i32::MAX - 1));
    let sequential = PERSISTENT.sequential();
    for expected in ["/q/n-2147483646", "/q/n-2147483647"] {
        assert_eq!(client.create("/q/n-", b"", &sequential).await.unwrap().path, expected);
    }
    let pzxid = client.exists("/q").await.unwrap().unwrap().pzxid;
    for _ in 0..2 {
        let error = client.create("/q/n-", b"", &sequential).await.unwrap_err();
        assert!(error.is_node_exists(), "{error}");
    }
    // Another prefix works, once.
    let other = client.create("/q/m-", b"", &sequential).await.unwrap();
    assert_eq!(other.path, "/q/m-2147483647");
    assert!(client.create("/q/m-", b"", &sequential).await.unwrap_err().is_node_exists());
    assert_eq!(client.exists("/q").await.unwrap().unwrap().pzxid, pzxid, "it moves no more");
    // When its node is deleted, a number is free again.
    client.delete("/q/n-2147483647", None).await.unwrap();
    let stat = client.exists("/q").await.unwrap().unwrap();
    assert!(stat.pzxid > pzxid, "but by deletions");
    let again = client.create("/q/n-", b"", &sequential).await.unwrap();
    assert_eq!(again.path, "/q/n-2147483647");
    // The value is twice the number of creates less three children, and wraps.
    assert_eq!(client.exists("/q").await.unwrap().unwrap().cversion, -2 - 3);
}

/// Real servers name all nodes of a multi before they create the first. The names go on beyond the
/// maximum at which the counter stays.
#[tokio::test(start_paused = true)]
async fn sequence_numbers_within_one_multi_go_on_below_zero() {
    for version in [ServerVersion::V3_8, ServerVersion::V3_9] {
        let server = Server::in_memory(Config::new().server_version(version));
        let client = connect(&server).await;
        client.create("/q", b"", &PERSISTENT).await.unwrap();
        assert!(server.preset_sequence("/q", i32::MAX - 1));
        let sequential = PERSISTENT.sequential();
        let create = |path| Op::create(path, b"", &sequential);
        let made =
            client.multi((create("/q/n-"), create("/q/n-"), create("/q/n-"), create("/q/n-")));
        let (a, b, c, d) = made.await.unwrap();
        let paths = [a, b, c, d].map(|created| created.path);
        let names = ["2147483646", "2147483647", "-2147483648", "-2147483647"];
        assert_eq!(paths, names.map(|name| format!("/q/n-{name}")));
        // The counter has not changed.
        let error = client.create("/q/n-", b"", &sequential).await.unwrap_err();
        assert!(error.is_node_exists(), "{error}");
        let error = client.multi((create("/q/n-"), create("/q/n-"))).await.unwrap_err();
        assert_eq!((error.failed_op(), error.is_node_exists()), (Some(0), true), "{error}");
        let (_, other) = client.multi((create("/q/m-"), create("/q/m-"))).await.unwrap();
        assert_eq!(other.path, "/q/m--2147483648");
    }
}

#[tokio::test(start_paused = true)]
async fn sequence_numbers_below_zero_are_ten_characters_too() {
    let server = Server::in_memory(Config::new());
    let client = connect(&server).await;
    assert!(server.preset_sequence("/", i32::MIN));
    let sequential = CreateOptions::ephemeral().sequential();
    let created = client.create("/n-", b"", &sequential).await.unwrap();
    assert_eq!(created.path, "/n--2147483648");
    assert!(server.preset_sequence("/", -3));
    for expected in ["/n--000000003", "/n--000000002", "/n--000000001", "/n-0000000000"] {
        assert_eq!(client.create("/n-", b"", &sequential).await.unwrap().path, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn versions_wrap_from_the_largest_to_the_smallest() {
    let server = Server::in_memory(Config::new());
    let client = connect(&server).await;
    client.create("/v", b"", &PERSISTENT).await.unwrap();
    assert!(server.preset_version("/v", i32::MAX));
    let stat = client.set_data("/v", b"", Some(i32::MAX)).await.unwrap();
    assert_eq!(stat.version, i32::MIN);
    let error = client.set_data("/v", b"", Some(i32::MAX)).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::BAD_VERSION));
    client.delete("/v", Some(i32::MIN)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_version_is_minus_one_in_the_manner_of_3_10() {
    for (manner, expected) in [(Manner::apache(), -1), (Manner::zookeeper_3_10(), 0)] {
        let server = Server::in_memory(Config::new().manner(manner));
        let client = connect(&server).await;
        client.create("/v", b"", &PERSISTENT).await.unwrap();
        assert!(server.preset_version("/v", -2));
        let write = Op::set_data("/v", b"", Some(-2));
        client.multi((write, Op::check("/none", None))).await.unwrap_err();
        assert_eq!(client.exists("/v").await.unwrap().unwrap().version, -2);
        assert_eq!(client.set_data("/v", b"", Some(-2)).await.unwrap().version, expected);
        assert_eq!(client.set_data("/v", b"", None).await.unwrap().version, expected + 1);
    }
}

/// As in ClickHouse Keeper.
#[tokio::test(start_paused = true)]
async fn a_parent_may_count_the_writes_of_its_children_and_pass_over_their_deletes() {
    let manner =
        Manner::apache().with(Deviation::WritesCountInParents).with(Deviation::DeletesLeavePzxid);
    let server = Server::in_memory(Config::new().manner(manner));
    let client = connect(&server).await;
    client.create("/p", b"", &PERSISTENT).await.unwrap();
    let child = client.create("/p/c", b"", &PERSISTENT).await.unwrap();
    client.set_data("/p/c", b"", None).await.unwrap();
    let (write, failing) = (Op::set_data("/p/c", b"", None), Op::check("/none", None));
    client.multi((write, Op::delete("/p/c", None), failing)).await.unwrap_err();
    let seen = async || client.exists("/p").await.unwrap().unwrap();
    let parent = seen().await;
    assert_eq!((parent.cversion, parent.pzxid), (2, child.czxid));
    client.delete("/p/c", None).await.unwrap();
    let parent = seen().await;
    assert_eq!((parent.cversion, parent.pzxid), (3, child.czxid));
}

#[tokio::test(start_paused = true)]
async fn presets_are_of_nodes_that_exist_and_no_transactions() {
    let server = Server::in_memory(Config::new().keep_history(true));
    let client = connect(&server).await;
    let created = client.create("/v", b"", &PERSISTENT).await.unwrap();
    let before = server.history().len();
    assert!(server.preset_version("/v", 7) && server.preset_sequence("/v", 7));
    assert!(!server.preset_version("/none", 7) && !server.preset_sequence("/none", 7));
    let stat = client.exists("/v").await.unwrap().unwrap();
    assert_eq!((stat.version, stat.mzxid), (7, created.czxid));
    assert_eq!(server.history().len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_was_never_used_goes_after_five_minutes_in_the_manner_of_3_10() {
    for (manner, stays) in [(Manner::apache(), true), (Manner::zookeeper_3_10(), false)] {
        let server = Server::in_memory(Config::new().manner(manner));
        let client = connect(&server).await;
        client.create("/c", b"", &CreateOptions::container()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(200)).await;
        client.set_data("/c", b"", None).await.unwrap();
        tokio::time::sleep(Duration::from_secs(290)).await;
        server.reap();
        assert!(server.has_node("/c"), "the time begins anew with each write");
        // The next check is a minute later at most.
        tokio::time::sleep(Duration::from_secs(71)).await;
        assert_eq!(server.has_node("/c"), stays, "{manner:?}");
    }
}

/// A createTTL request with `ttl` milliseconds to live.
fn create_ttl(path: &str, ttl: i64) -> CreateTtlRequest<'_> {
    let mode = CreateMode::PERSISTENT_WITH_TTL;
    CreateTtlRequest { path, data: None, acl: List::new(&[Acl::OPEN]), mode, ttl }
}

/// A server that supports nodes with a time to live and does not reap by itself for a day.
async fn mortal() -> (Server, RawClient) {
    let day = Duration::from_secs(86_400);
    let config = Config::new().extended_types(true).container_check_interval(day);
    let server = Server::in_memory(config.max_session_timeout(day));
    let client = RawClient::attach(&server, hello(day)).await;
    (server, client)
}

#[tokio::test(start_paused = true)]
async fn a_container_goes_when_it_was_used_and_is_empty() {
    let (server, mut client) = mortal().await;
    client.reply(&create("/c", CONTAINER)).await;
    server.reap();
    assert!(server.has_node("/c"), "never used");
    client.reply(&create("/c/child", CreateMode::PERSISTENT)).await;
    server.reap();
    assert!(server.has_node("/c"), "in use");
    client.reply(&exists("/c", true)).await;
    client.reply(&get_children("/", true)).await;
    client.reply(&delete("/c/child")).await;
    assert!(server.has_node("/c"), "not before somebody looks");
    server.reap();
    assert!(!server.has_node("/c"));
    assert_eq!(client.heard().await, ["NodeDeleted /c", "NodeChildrenChanged /"]);
    server.reap();
    assert_eq!(client.heard().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_is_reaped_is_nobodys_change_and_a_transaction_for_each() {
    let config = Config::new().keep_history(true);
    let server = Server::in_memory(config);
    let mut client = RawClient::open(&server).await;
    for path in ["/c", "/d"] {
        client.reply(&create(path, CONTAINER)).await;
        let child = format!("{path}/child");
        client.reply(&create(&child, CreateMode::EPHEMERAL)).await;
        client.reply(&delete(&child)).await;
    }
    server.reap();
    let [.., first, second] = &server.history()[..] else { panic!("two deletions") };
    assert_eq!(
        [(&*first.path, first.zxid), (&*second.path, second.zxid)],
        [("/c", Zxid(8)), ("/d", Zxid(9))]
    );
    assert_eq!([first.session, second.session], [None, None]);
}

#[tokio::test(start_paused = true)]
async fn nested_containers_go_one_after_the_other() {
    let (server, mut client) = mortal().await;
    for path in ["/a", "/a/b", "/a/b/c"] {
        client.reply(&create(path, CONTAINER)).await;
    }
    client.reply(&create("/a/b/c/d", CreateMode::PERSISTENT)).await;
    client.reply(&delete("/a/b/c/d")).await;
    for left in ["/a/b", "/a"] {
        server.reap();
        assert!(server.has_node(left));
    }
    server.reap();
    assert_eq!(server.children("/"), ["zookeeper"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_time_to_live_goes_after_it_unless_it_is_written_to_or_has_children() {
    let (server, mut client) = mortal().await;
    client.reply(&create_ttl("/t", 1000)).await;
    tokio::time::sleep(MS(1000)).await;
    server.reap();
    assert!(server.has_node("/t"), "it has lived so long and no longer");
    client.reply(&set_data("/t")).await;
    tokio::time::sleep(MS(1000)).await;
    server.reap();
    assert!(server.has_node("/t"), "from its last write on");
    client.reply(&create("/t/child", CreateMode::PERSISTENT)).await;
    tokio::time::sleep(MS(5000)).await;
    server.reap();
    assert!(server.has_node("/t"), "it has a child");
    // Its own time to live was over long ago.
    client.reply(&exists("/t", true)).await;
    client.reply(&delete("/t/child")).await;
    server.reap();
    assert!(!server.has_node("/t"));
    assert_eq!(client.heard().await, ["NodeDeleted /t"]);
}

#[tokio::test(start_paused = true)]
async fn there_is_no_time_to_live_unless_it_is_configured() {
    let server = Server::in_memory(Config::new());
    let mut client = RawClient::open(&server).await;
    assert_eq!(client.ask(&create_ttl("/t", 1000)).await, ["1 Unimplemented"]);
    let (_server, mut client) = mortal().await;
    for ttl in [0, -1, 1 << 40] {
        let refused = client.ask(&create_ttl("/t", ttl)).await;
        assert!(refused[0].ends_with("BadArguments"), "{ttl}: {refused:?}");
    }
    assert_eq!(client.ask(&create_ttl("/t", (1 << 40) - 1)).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_server_reaps_by_itself_at_every_interval() {
    let (server, clock) = (Server::in_memory(Config::new()), Clock::start());
    let mut client = RawClient::attach(&server, hello(MS(40_000))).await;
    for round in 1..=3 {
        client.reply(&create("/c", CONTAINER)).await;
        client.reply(&create("/c/child", CreateMode::PERSISTENT)).await;
        client.reply(&delete("/c/child")).await;
        client.reply(&exists("/c", true)).await;
        tokio::time::sleep(MS(30_000)).await;
        assert_eq!(client.ping().await, "-2 ok");
        assert_eq!(client.hear().await, "NodeDeleted /c");
        assert_eq!(clock.elapsed(), MS(60_000) * round);
    }
    let interval = MS(250);
    let server = Server::in_memory(Config::new().container_check_interval(interval));
    let (mut client, clock) = (RawClient::open(&server).await, Clock::start());
    client.reply(&create("/c", CONTAINER)).await;
    client.reply(&create("/c/child", CreateMode::PERSISTENT)).await;
    client.reply(&exists("/c", true)).await;
    client.reply(&delete("/c/child")).await;
    assert_eq!(client.hear().await, "NodeDeleted /c");
    assert_eq!(clock.elapsed(), interval);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reaped_while_nothing_can_be_written() {
    let (server, mut client) = mortal().await;
    client.reply(&create("/c", CONTAINER)).await;
    client.reply(&create("/c/child", CreateMode::PERSISTENT)).await;
    client.reply(&delete("/c/child")).await;
    server.set_read_only(true);
    server.reap();
    assert!(server.has_node("/c"));
    server.set_read_only(false);
    server.set_serving(false);
    server.reap();
    assert!(server.has_node("/c"));
    server.set_serving(true);
    server.reap();
    assert!(!server.has_node("/c"));
}
