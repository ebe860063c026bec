//! Trees in memory: each change comes, nothing that was missed is missing, and a reader can tell
//! how far the tree has come.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use zk_client::{
    Client, ClientBuilder, CreateOptions, ErrorCode, ErrorKind, Op, OpCode, SessionKeeper, Zxid,
};
use zk_embedded::{Config, Fault, Server};
use zk_recipes::{Error, Freshness, TreeCache, TreeLimits};
use zk_test_support::explore::settle;
use zk_test_support::locks::{TIMEOUT, World};
use zk_test_support::old_server::OldServer;

const ROOT: &str = "/tree";
const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

struct Followed {
    keeper: SessionKeeper,
    tree: TreeCache,
    following: JoinHandle<Result<(), Error>>,
}

async fn follow_within(builder: ClientBuilder, limits: TreeLimits) -> Followed {
    let keeper = builder.keep("zk").await.unwrap();
    let (tree, following) = TreeCache::follow(&keeper, ROOT, limits).unwrap();
    Followed { keeper, tree, following: tokio::spawn(following) }
}

async fn follow(builder: ClientBuilder) -> Followed {
    follow_within(builder, TreeLimits::default()).await
}

fn limits(max_nodes: usize, max_bytes: usize) -> TreeLimits {
    let mut limits = TreeLimits::default();
    limits.max_nodes = max_nodes;
    limits.max_bytes = max_bytes;
    limits
}

/// All nodes of a tree with their data, as one line.
fn shown(tree: &TreeCache) -> String {
    tree.read(|tree| {
        let (mut line, mut to_show) = (Vec::new(), vec![ROOT.to_owned()]);
        while let Some(path) = to_show.pop() {
            let Some(node) = tree.get(&path) else { continue };
            line.push(format!("{path}={}", String::from_utf8_lossy(&node.data)));
            let names = tree.children(&path).unwrap().map(|name| format!("{path}/{name}"));
            to_show.extend(names.collect::<Vec<_>>().into_iter().rev());
        }
        line.join(" ")
    })
}

impl Followed {
    fn freshness(&self) -> Freshness {
        self.tree.status().borrow().freshness
    }

    fn error(&self) -> Option<Error> {
        self.tree.status().borrow().error.clone()
    }

    async fn session(&self) -> zk_client::SessionId {
        self.keeper.client().await.unwrap().session().unwrap().id
    }

    async fn is_current(&self) {
        let mut status = self.tree.status();
        let current = status.wait_for(|status| status.freshness == Freshness::Current);
        timeout(5 * TIMEOUT, current).await.expect("it becomes current").unwrap();
    }
}

async fn make(client: &Client, nodes: &[(&str, &str)]) {
    for (path, data) in nodes {
        client.create(path, data.as_bytes(), &PERSISTENT).await.unwrap();
    }
}

/// A server with these nodes, and the client that made them.
async fn with_nodes(nodes: &[(&str, &str)]) -> (World, Client) {
    let world = World::new();
    let raw = world.client().await;
    make(&raw, nodes).await;
    (world, raw)
}

#[tokio::test(start_paused = true)]
async fn a_write_is_in_the_tree_once_its_zxid_was_waited_for() {
    let (world, raw) = with_nodes(&[(ROOT, "")]).await;
    let followed = follow(world.builder()).await;
    for n in 0..50 {
        let path = format!("/tree/{n}");
        let (_, zxid) = raw.create(&path, b"", &PERSISTENT).with_zxid().await.unwrap();
        followed.tree.wait_for_zxid(zxid).await.unwrap();
        assert!(followed.tree.get(&path).is_some(), "{path}");
        // A write that is no change of the tree is waited for, too.
        let path = format!("/other-{n}");
        let (_, zxid) = raw.create(&path, b"", &PERSISTENT).with_zxid().await.unwrap();
        let reached = timeout(Duration::from_millis(100), followed.tree.wait_for_zxid(zxid)).await;
        reached.expect("it takes no time").unwrap();
        assert!(followed.tree.status().borrow().zxid >= zxid);
    }
    // Its own client has seen the zxid already.
    let own = followed.keeper.client().await.unwrap();
    let (_, zxid) = own.set_data(ROOT, b"own", None).with_zxid().await.unwrap();
    followed.tree.wait_for_zxid(zxid).await.unwrap();
    assert_eq!(&followed.tree.get(ROOT).unwrap().data[..], b"own");
    let never = followed.tree.wait_for_zxid(Zxid(zxid.0 + 1000)).await.unwrap_err();
    assert_eq!(never.client().unwrap().kind(), ErrorKind::Behind);
    assert_eq!(followed.freshness(), Freshness::Current);
}

#[tokio::test(start_paused = true)]
async fn each_node_costs_one_read_and_one_more_if_it_has_children() {
    let (world, raw) = with_nodes(&[(ROOT, ""), ("/tree/a", ""), ("/tree/a/b", "")]).await;
    for n in 0..300 {
        raw.create(&format!("/tree/a/{n}"), b"", &PERSISTENT).await.unwrap();
    }
    let keeper = world.builder().keep("zk").await.unwrap();
    let (tree, following) = TreeCache::follow(&keeper, ROOT, TreeLimits::default()).unwrap();
    let (requests, ()) = world.requests(async { drop(tokio::spawn(following)) }).await;
    assert_eq!(tree.status().borrow().nodes, 303);
    assert_eq!(requests, 1 + 303 + 2, "the watch, the nodes and the lists");
    let change = async { raw.set_data("/tree/a/7", b"1", None).await.unwrap() };
    assert_eq!(world.requests(change).await.0, 2, "the write and a read");
    let change = async { raw.delete("/tree/a/7", None).await.unwrap() };
    assert_eq!(world.requests(change).await.0, 2, "the write and a read");
    let (quiet, ()) = world.requests(sleep(10 * TIMEOUT)).await;
    let pings = 2 * 10 * 3;
    assert!(quiet <= pings + 11, "{quiet} requests");
}

/// Makes more changes than the queue of a watch can hold. Returns the zxid of the last one.
async fn change_much(raw: &Client) -> Zxid {
    for n in 0..10_000 {
        drop(raw.set_data("/tree/x", n.to_string().as_bytes(), None));
        drop(raw.create(&format!("/tree/{n}"), b"", &PERSISTENT));
        drop(raw.delete(&format!("/tree/{n}"), None));
        if n % 100 == 0 {
            raw.exists(ROOT).await.unwrap();
        }
    }
    raw.create("/tree/last", b"", &PERSISTENT).await.unwrap().czxid
}

#[tokio::test(start_paused = true)]
async fn more_changes_than_the_watch_can_hold_are_all_seen() {
    let (world, raw) = with_nodes(&[(ROOT, ""), ("/tree/x", "")]).await;
    let keeper = world.builder().keep("zk").await.unwrap();
    let (tree, following) = TreeCache::follow(&keeper, ROOT, TreeLimits::default()).unwrap();
    let mut following = Box::pin(following);
    timeout(Duration::from_millis(10), &mut following).await.unwrap_err();
    assert_eq!(shown(&tree), "/tree= /tree/x=");
    // Nobody polls the future meanwhile, so its watch runs over.
    let zxid = change_much(&raw).await;
    tokio::spawn(following);
    tree.wait_for_zxid(zxid).await.unwrap();
    assert_eq!(shown(&tree), "/tree= /tree/last= /tree/x=9999");
}

#[tokio::test(start_paused = true)]
async fn changes_that_come_while_a_read_is_late_leave_the_tree_current() {
    let (world, raw) = with_nodes(&[(ROOT, ""), ("/tree/x", "")]).await;
    let followed = follow(world.builder()).await;
    followed.is_current().await;
    let mut status = followed.tree.status();
    let seen = tokio::spawn(async move {
        let stale = status.wait_for(|status| status.freshness != Freshness::Current).await;
        stale.map(|stale| stale.clone())
    });
    let session = followed.session().await;
    let slow = Fault::delay(Duration::from_millis(50)).op(OpCode::GET_DATA).session(session);
    world.server.inject(slow);
    let zxid = change_much(&raw).await;
    followed.tree.wait_for_zxid(zxid).await.unwrap();
    assert_eq!(shown(&followed.tree), "/tree= /tree/last= /tree/x=9999");
    assert!(!seen.is_finished(), "it was stale");
}

#[tokio::test(start_paused = true)]
async fn a_tree_above_its_limits_ends_its_future_with_an_error() {
    // Three nodes with paths and data of 20 bytes.
    let three = 3 * 150 + 20;
    for (limits, fits) in [
        (limits(3, usize::MAX), true),
        (limits(2, usize::MAX), false),
        (limits(usize::MAX, three), true),
        (limits(usize::MAX, three - 1), false),
    ] {
        for is_there in [true, false] {
            let world = World::new();
            let raw = world.client().await;
            let nodes = [(ROOT, ""), ("/tree/a", "1"), ("/tree/b", "")];
            if is_there {
                make(&raw, &nodes).await;
            }
            let followed = follow_within(world.builder(), limits).await;
            settle().await;
            if !is_there {
                make(&raw, &nodes).await;
                settle().await;
            }
            assert_eq!(followed.following.is_finished(), !fits, "{limits:?}");
            if fits {
                assert_eq!(followed.freshness(), Freshness::Current);
                assert_eq!(followed.tree.status().borrow().bytes, three);
                // What takes the place of others fits.
                raw.delete("/tree/b", None).await.unwrap();
                make(&raw, &[("/tree/0", "")]).await;
                settle().await;
                assert_eq!(shown(&followed.tree), "/tree= /tree/0= /tree/a=1");
                // One more does not.
                make(&raw, &[("/tree/1", "")]).await;
                settle().await;
                assert!(followed.following.is_finished(), "{limits:?}");
                continue;
            }
            let kind = zk_recipes::ErrorKind::TreeTooLarge;
            assert_eq!(followed.error().unwrap().kind(), kind);
            assert_ne!(followed.freshness(), Freshness::Current);
            let waited = followed.tree.wait_for_zxid(raw.last_zxid()).await.unwrap_err();
            assert_eq!(waited.kind(), kind);
            assert_eq!(followed.following.await.unwrap().unwrap_err().kind(), kind);
            settle().await;
            assert_eq!(world.server.watch_count(), 0);
            assert_eq!(followed.tree.get(ROOT).is_some(), !is_there, "no part of a tree is shown");
        }
    }
}

/// Follows a tree of six nodes. Between the read of `/tree/p/x` and the list of what is below
/// `/tree/q/r`, that node is deleted, and `new` is created.
async fn change_in_the_first_read(limits: TreeLimits, new: &str) -> (World, Followed) {
    let (world, raw) =
        with_nodes(&[(ROOT, ""), ("/tree/p", ""), ("/tree/p/x", "data"), ("/tree/q", "")]).await;
    make(&raw, &[("/tree/q/r", ""), ("/tree/q/r/y", "")]).await;
    let slow = Fault::delay(Duration::from_millis(50));
    world.server.inject(slow.op(OpCode::GET_DATA).path("/tree/q/r"));
    let followed = follow_within(world.builder(), limits).await;
    settle().await;
    assert_eq!(followed.freshness(), Freshness::Unknown);
    let moved = (Op::delete("/tree/p/x", None), Op::create(new, b"data", &PERSISTENT));
    raw.multi(moved).await.unwrap();
    (world, followed)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_moves_or_is_replaced_in_the_first_read_counts_once() {
    // Six nodes with paths and data of 54 bytes.
    let six = 6 * 150 + 54;
    for new in ["/tree/q/r/x", "/tree/q/r/z"] {
        for limits in [limits(6, usize::MAX), limits(usize::MAX, six)] {
            let (_world, followed) = change_in_the_first_read(limits, new).await;
            followed.is_current().await;
            settle().await;
            assert!(!followed.following.is_finished(), "{new} within {limits:?}");
            assert_eq!(followed.tree.status().borrow().nodes, 6);
            assert_eq!(followed.tree.status().borrow().bytes, six);
            assert!(followed.tree.get(new).is_some());
        }
        // One that does not fit fails all the same.
        for limits in [limits(5, usize::MAX), limits(usize::MAX, six - 1)] {
            let (_world, followed) = change_in_the_first_read(limits, new).await;
            let ended = timeout(TIMEOUT, followed.following).await.expect("it ends").unwrap();
            assert_eq!(ended.unwrap_err().kind(), zk_recipes::ErrorKind::TreeTooLarge);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_is_too_large_is_not_read_to_its_end() {
    let (world, raw) = with_nodes(&[(ROOT, "")]).await;
    for n in 0..2_000 {
        raw.create(&format!("/tree/{n}"), b"", &PERSISTENT).await.unwrap();
    }
    let keeper = world.builder().keep("zk").await.unwrap();
    let (_tree, following) = TreeCache::follow(&keeper, ROOT, limits(100, usize::MAX)).unwrap();
    let (requests, ended) = world.requests(following).await;
    assert_eq!(ended.unwrap_err().kind(), zk_recipes::ErrorKind::TreeTooLarge);
    assert!(requests < 400, "{requests} requests");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_recursive_watches_is_told_of_and_asked_seldom() {
    let server = OldServer::new(Server::in_memory(Config::new().max_connections_per_host(0)));
    let builder = Client::builder().session_timeout(TIMEOUT).connector(server.clone());
    let Followed { tree, keeper: _keeper, .. } = follow(builder).await;
    let mut status = tree.status();
    let told = timeout(TIMEOUT, status.wait_for(|status| status.error.is_some())).await;
    let error = told.unwrap().unwrap().error.clone().unwrap();
    assert_eq!(error.client().unwrap().code(), Some(ErrorCode::UNIMPLEMENTED));
    assert_eq!(tree.status().borrow().freshness, Freshness::Unknown);
    let waited = tree.wait_for_zxid(Zxid(1)).await.unwrap_err();
    assert_eq!(waited.client().unwrap().code(), Some(ErrorCode::UNIMPLEMENTED));
    let before = server.connections();
    sleep(10 * TIMEOUT).await;
    assert!(server.connections() < before + 15, "{} connections", server.connections() - before);
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_left_out_and_a_root_that_may_not_be_is_an_error() {
    let (world, _raw) =
        with_nodes(&[(ROOT, ""), ("/tree/a", ""), ("/tree/a/b", ""), ("/tree/c", "")]).await;
    world.hide("/tree/a").await;
    let followed = follow(world.builder()).await;
    followed.is_current().await;
    assert_eq!(shown(&followed.tree), "/tree= /tree/c=");
    assert!(followed.error().is_none());
    world.hide(ROOT).await;
    let mut status = followed.tree.status();
    let told = timeout(2 * TIMEOUT, status.wait_for(|status| status.error.is_some())).await;
    told.unwrap().unwrap();
    assert_eq!(followed.freshness(), Freshness::Stale);
    assert_eq!(followed.error().unwrap().client().unwrap().code(), Some(ErrorCode::NO_AUTH));
    assert_eq!(shown(&followed.tree), "/tree= /tree/c=");
    status.mark_unchanged();
    sleep(10 * TIMEOUT).await;
    assert!(!status.has_changed().unwrap(), "it is told once");
}
