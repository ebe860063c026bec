//! Watches on the wire: which events a server sends, in which order, and when it stops.

use std::time::Duration;

use zk_embedded::{Config, Server, ServerVersion};
use zk_proto::*;
use zk_test_support::raw::{
    RawClient, create, delete, exists, get_children, get_data, request, set_data,
};

const PERSISTENT: CreateMode = CreateMode::PERSISTENT;
const BOTH: [ServerVersion; 2] = [ServerVersion::V3_8, ServerVersion::V3_9];

fn server(version: ServerVersion) -> Server {
    Server::in_memory(Config::new().server_version(version))
}

fn add_watch(path: &str, mode: AddWatchMode) -> AddWatchRequest<'_> {
    AddWatchRequest { path, mode }
}

/// A server with a client that watches and a client that changes nodes.
async fn world(version: ServerVersion) -> (Server, RawClient, RawClient) {
    let server = server(version);
    let (watcher, other) = (RawClient::open(&server).await, RawClient::open(&server).await);
    (server, watcher, other)
}

#[tokio::test(start_paused = true)]
async fn a_one_shot_watch_tells_of_one_change() {
    for version in BOTH {
        let (server, mut watcher, mut other) = world(version).await;
        watcher.ask(&exists("/a", true)).await;
        watcher.ask(&exists("/a", true)).await;
        assert_eq!(server.watch_count(), 1, "twice the same is one");
        other.reply(&create("/a", PERSISTENT)).await;
        other.reply(&set_data("/a")).await;
        assert_eq!(watcher.heard().await, ["NodeCreated /a"]);

        watcher.reply(&get_data("/a", true)).await;
        other.reply(&create("/a/b", PERSISTENT)).await;
        other.reply(&set_data("/a")).await;
        other.reply(&set_data("/a")).await;
        assert_eq!(watcher.heard().await, ["NodeDataChanged /a"]);

        watcher.reply(&get_children("/a", true)).await;
        other.reply(&set_data("/a/b")).await;
        other.reply(&set_data("/a")).await;
        other.reply(&delete("/a/b")).await;
        other.reply(&create("/a/b", PERSISTENT)).await;
        assert_eq!(watcher.heard().await, ["NodeChildrenChanged /a"]);

        watcher.reply(&get_children("/a/b", true)).await;
        watcher.reply(&get_data("/a/b", true)).await;
        other.reply(&delete("/a/b")).await;
        assert_eq!(watcher.heard().await, ["NodeDeleted /a/b"], "once for both");
        assert_eq!(server.watch_count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_sets_no_watch_unless_it_is_exists() {
    let (server, mut watcher, _) = world(ServerVersion::V3_9).await;
    watcher.ask(&get_data("/a", true)).await;
    watcher.ask(&get_children("/a", true)).await;
    assert_eq!(server.watch_count(), 0);
    watcher.ask(&exists("/a", true)).await;
    assert_eq!(server.watch_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_persistent_watch_tells_of_every_change() {
    for version in BOTH {
        let (_server, mut watcher, mut other) = world(version).await;
        watcher.reply(&add_watch("/a", AddWatchMode::PERSISTENT)).await;
        for _ in 0..2 {
            other.reply(&create("/a", PERSISTENT)).await;
            other.reply(&set_data("/a")).await;
            other.reply(&create("/a/b", PERSISTENT)).await;
            other.reply(&set_data("/a/b")).await;
            other.reply(&delete("/a/b")).await;
            other.reply(&delete("/a")).await;
            let children = "NodeChildrenChanged /a";
            let events =
                ["NodeCreated /a", "NodeDataChanged /a", children, children, "NodeDeleted /a"];
            assert_eq!(watcher.heard().await, events);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_recursive_watch_tells_of_the_whole_subtree() {
    for version in BOTH {
        let (_server, mut watcher, mut other) = world(version).await;
        watcher.reply(&add_watch("/a", AddWatchMode::PERSISTENT_RECURSIVE)).await;
        for _ in 0..2 {
            for path in ["/a", "/ab", "/a/b", "/a/b/c"] {
                other.reply(&create(path, PERSISTENT)).await;
            }
            other.reply(&set_data("/a/b/c")).await;
            for path in ["/a/b/c", "/a/b", "/ab", "/a"] {
                other.reply(&delete(path)).await;
            }
            let events = [
                "NodeCreated /a",
                "NodeCreated /a/b",
                "NodeCreated /a/b/c",
                "NodeDataChanged /a/b/c",
                "NodeDeleted /a/b/c",
                "NodeDeleted /a/b",
                "NodeDeleted /a",
            ];
            assert_eq!(watcher.heard().await, events, "{version:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_an_own_write_are_ahead_of_its_reply() {
    for version in BOTH {
        let (_server, mut client, _) = world(version).await;
        client.ask(&exists("/a", true)).await;
        client.reply(&get_children("/", true)).await;
        let events = ["NodeCreated /a", "NodeChildrenChanged /"];
        assert_eq!(client.ask(&create("/a", PERSISTENT)).await, events);
        client.reply(&get_children("/a", true)).await;
        client.reply(&get_children("/", true)).await;
        client.reply(&add_watch("/a/b", AddWatchMode::PERSISTENT)).await;
        let ops = [
            MultiOp::Create(create("/a/b", PERSISTENT)),
            MultiOp::Delete(delete("/a/b")),
            MultiOp::Delete(delete("/a")),
        ];
        // The first of these events uses up the child watch on /a.
        let events = [
            "NodeCreated /a/b",
            "NodeChildrenChanged /a",
            "NodeDeleted /a/b",
            "NodeChildrenChanged /",
        ];
        assert_eq!(client.ask(&MultiRequest::new(&ops)).await, events);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_tells_nothing() {
    let (server, mut watcher, mut other) = world(ServerVersion::V3_9).await;
    watcher.ask(&exists("/a", true)).await;
    watcher.reply(&get_children("/", true)).await;
    let ops = [MultiOp::Create(create("/a", PERSISTENT)), MultiOp::Delete(delete("/none"))];
    other.reply(&MultiRequest::new(&ops)).await;
    other.ask(&delete("/a")).await;
    assert_eq!(watcher.heard().await, [""; 0]);
    assert_eq!(server.watch_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn notifications_carry_the_transaction_since_3_9() {
    for (version, expected) in [(ServerVersion::V3_8, Zxid(-1)), (ServerVersion::V3_9, Zxid(3))] {
        let (_server, mut watcher, mut other) = world(version).await;
        watcher.ask(&exists("/a", true)).await;
        other.reply(&create("/a", PERSISTENT)).await;
        let frame = watcher.frame().await.unwrap();
        assert_eq!(ReplyHeader::decode(&mut Reader::new(&frame)).unwrap().zxid, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn kinds_of_watches_on_a_path_are_independent_since_3_9() {
    for (version, again) in
        [(ServerVersion::V3_8, &[][..]), (ServerVersion::V3_9, &["NodeDataChanged /a"])]
    {
        let (_server, mut watcher, mut other) = world(version).await;
        other.reply(&create("/a", PERSISTENT)).await;
        watcher.reply(&add_watch("/a", AddWatchMode::PERSISTENT_RECURSIVE)).await;
        watcher.reply(&get_data("/a", true)).await;
        other.reply(&set_data("/a")).await;
        assert_eq!(watcher.heard().await, ["NodeDataChanged /a"], "one for both");
        other.reply(&set_data("/a")).await;
        assert_eq!(watcher.heard().await, again, "{version:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn removal_stops_events_and_tells_none() {
    let (server, mut watcher, mut other) = world(ServerVersion::V3_9).await;
    watcher.reply(&add_watch("/a", AddWatchMode::PERSISTENT)).await;
    watcher.ask(&exists("/b", true)).await;
    let remove = |path, kind| RemoveWatchesRequest { path, kind };
    let missing = watcher.ask(&remove("/a", WatcherType::DATA)).await;
    assert_eq!(missing, ["3 NoWatcher"], "it is of another kind");
    assert_eq!(other.ask(&remove("/b", WatcherType::ANY)).await, ["1 NoWatcher"], "of another");
    watcher.reply(&remove("/a", WatcherType::PERSISTENT)).await;
    watcher.reply(&remove("/b", WatcherType::DATA)).await;
    assert_eq!(server.watch_count(), 0);
    for path in ["/a", "/b"] {
        other.reply(&create(path, PERSISTENT)).await;
    }
    assert_eq!(watcher.heard().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn watches_set_again_tell_what_they_have_missed() {
    for version in BOTH {
        let (server, mut watcher, mut other) = world(version).await;
        for path in ["/changed", "/gone", "/kept", "/list", "/still"] {
            other.reply(&create(path, PERSISTENT)).await;
        }
        // Seven transactions: two sessions and five creates.
        let seen = Zxid(7);
        other.reply(&set_data("/changed")).await;
        other.reply(&delete("/gone")).await;
        other.reply(&create("/list/child", PERSISTENT)).await;
        other.reply(&create("/made", PERSISTENT)).await;
        let again = SetWatches {
            relative_zxid: seen,
            data: List::new(&["/changed", "/gone", "/kept", "/still"]),
            exist: List::new(&["/made", "/not"]),
            child: List::new(&["/gone", "/list", "/still"]),
        };
        watcher.write(&request(-8, OpCode::SET_WATCHES, &again)).await;
        let events = [
            "NodeDataChanged /changed",
            "NodeDeleted /gone",
            "NodeCreated /made",
            "NodeDeleted /gone",
            "NodeChildrenChanged /list",
        ];
        assert_eq!(watcher.heard().await, [&events[..], &["-8 ok"]].concat());
        assert_eq!(server.watch_count(), 4);
        other.reply(&set_data("/kept")).await;
        other.reply(&create("/not", PERSISTENT)).await;
        other.reply(&create("/still/child", PERSISTENT)).await;
        let events = ["NodeDataChanged /kept", "NodeCreated /not", "NodeChildrenChanged /still"];
        assert_eq!(watcher.heard().await, events);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_watch_set_again_has_missed_is_of_no_transaction() {
    let (_server, mut watcher, mut other) = world(ServerVersion::V3_9).await;
    other.reply(&create("/a", PERSISTENT)).await;
    let (none, made) = (List::new(&[]), List::new(&["/a"]));
    let again = SetWatches { relative_zxid: Zxid(2), data: none, exist: made, child: none };
    watcher.send(&again).await;
    let frame = watcher.frame().await.unwrap();
    assert_eq!(ReplyHeader::decode(&mut Reader::new(&frame)).unwrap().zxid, Zxid(-1));
}

#[tokio::test(start_paused = true)]
async fn persistent_watches_set_again_have_missed_nothing() {
    for version in BOTH {
        let (_server, mut watcher, mut other) = world(version).await;
        other.reply(&create("/a", PERSISTENT)).await;
        other.reply(&create("/b", PERSISTENT)).await;
        let none = List::new(&[]);
        let again = SetWatches2 {
            relative_zxid: Zxid(0),
            data: none,
            exist: none,
            child: none,
            persistent: List::new(&["/a"]),
            persistent_recursive: List::new(&["/b"]),
        };
        assert_eq!(watcher.ask(&again).await, [""; 0]);
        other.reply(&create("/a/c", PERSISTENT)).await;
        other.reply(&create("/b/c", PERSISTENT)).await;
        assert_eq!(watcher.heard().await, ["NodeChildrenChanged /a", "NodeCreated /b/c"]);
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_told_to_those_who_may_read_and_use_up_the_watches_of_others() {
    for version in BOTH {
        let (server, mut stranger, mut owner) = world(version).await;
        let auth = AuthPacket {
            kind: 0,
            scheme: Text::from("digest"),
            auth: Secret::new(Some(b"owner:secret")),
        };
        owner.reply(&auth).await;
        stranger.ask(&exists("/mine", true)).await;
        owner.ask(&exists("/mine", true)).await;
        stranger.reply(&add_watch("/mine", AddWatchMode::PERSISTENT_RECURSIVE)).await;
        let everything = Id { scheme: Text::from("auth"), id: Text::from("") };
        let acl = [Acl { perms: Acl::ALL, id: everything }];
        let mine = CreateRequest { acl: List::new(&acl), ..create("/mine", PERSISTENT) };
        assert_eq!(owner.ask(&mine).await, ["NodeCreated /mine"]);
        assert_eq!(stranger.heard().await, [""; 0]);

        // The one-shot watch is gone. The other waits for an event that its client may read.
        let open = create("/mine/open", PERSISTENT);
        owner.reply(&open).await;
        assert_eq!(stranger.heard().await, ["NodeCreated /mine/open"]);
        owner.reply(&set_data("/mine")).await;
        assert_eq!(stranger.heard().await, [""; 0]);
        assert!(server.watch_count() > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_expiry_tells_others_of_every_node_and_of_its_parent() {
    let (server, mut watcher, mut other) = world(ServerVersion::V3_9).await;
    other.reply(&create("/mine", CreateMode::EPHEMERAL)).await;
    watcher.reply(&exists("/mine", true)).await;
    watcher.reply(&get_children("/", true)).await;
    server.expire(other.session);
    assert_eq!(watcher.heard().await, ["NodeDeleted /mine", "NodeChildrenChanged /"]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(other.hear().await, "closed");
}
