//! Whole trees: how they are created, walked and deleted, and the requests that this costs. In
//! virtual time.

use std::collections::BTreeSet;

use zk_client::{
    Acl, Client, ClientBuilder, CreateOptions, ErrorCode, ErrorKind, Id, Limits, Outcome, Perms,
    Walk,
};
use zk_embedded::{Change, Config, Fault, OpCode, Server};
use zk_proto::{GetChildren2Response, List};
use zk_test_support::explore::{in_virtual_time, settle, sweep};
use zk_test_support::peer::{Network, Peer, SESSION, TIMEOUT, created, stat_of};

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

async fn connected(network: &mut Network) -> (Client, Peer) {
    let builder = Client::builder().connector(network.dialer()).session_timeout(TIMEOUT).seed(1);
    let (client, peer) = tokio::join!(builder.connect("zk1:1"), network.attach());
    (client.unwrap(), peer)
}

fn builder(server: &Server) -> ClientBuilder {
    Client::builder().connector(server.connector()).seed(1)
}

async fn start() -> (Server, Client) {
    let server = Server::in_memory(Config::new().keep_history(true));
    let client = builder(&server).connect("zk").await.unwrap();
    (server, client)
}

/// Every path that the walk returns.
async fn visited(mut walk: Walk) -> Vec<String> {
    let mut paths = Vec::new();
    while let Some(node) = walk.next().await.unwrap() {
        paths.push(node.path);
    }
    paths
}

/// All nodes below the root except the server's own.
fn all(server: &Server) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for name in server.children(if folder.is_empty() { "/" } else { &folder }) {
            let path = format!("{folder}/{name}");
            if path != "/zookeeper" {
                found.insert(path.clone());
                folders.push(path);
            }
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn missing_parents_cost_one_more_round_trip_whatever_the_depth() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let making = client.create_all("/a/b/c/d", b"x", &PERSISTENT.container_parents());
    peer.expect("create2#1 /a/b/c/d").await;
    let writes = peer.writes();
    let answered = async {
        peer.refuse(ErrorCode::NO_NODE).await;
        for (xid, path) in [(2, "/a"), (3, "/a/b"), (4, "/a/b/c")] {
            peer.expect(&format!("createContainer#{xid} {path}")).await;
        }
        peer.expect("create2#5 /a/b/c/d").await;
        assert_eq!(peer.writes(), writes + 1, "one flush");
        peer.refuse(ErrorCode::NODE_EXISTS).await;
        for path in ["/a/b", "/a/b/c", "/a/b/c/d"] {
            peer.answer(&created(path)).await;
        }
    };
    let (made, ()) = tokio::join!(making, answered);
    assert_eq!(made.unwrap().path, "/a/b/c/d");
}

#[tokio::test(start_paused = true)]
async fn what_takes_several_requests_sends_the_first_by_the_call() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    drop(client.create_all("/a/b", b"", &PERSISTENT.container_parents()));
    drop(client.ensure("/a/b", &PERSISTENT));
    drop(client.delete_all("/a"));
    drop(client.delete_all("/"));
    drop(client.walk("/"));
    for request in
        ["create2#1 /a/b", "exists#2 /a/b", "delete#3 /a", "getChildren2#4 /", "getChildren2#5 /"]
    {
        peer.expect(request).await;
    }
}

#[tokio::test(start_paused = true)]
async fn parents_that_vanish_each_time_are_made_eight_times() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let making = tokio::spawn(client.create_all("/a/b", b"", &PERSISTENT));
    peer.expect("create2#1 /a/b").await;
    peer.refuse(ErrorCode::NO_NODE).await;
    for round in 0..8 {
        peer.expect(&format!("create2#{} /a", 2 * round + 2)).await;
        peer.expect(&format!("create2#{} /a/b", 2 * round + 3)).await;
        peer.answer(&created("/a")).await;
        peer.refuse(ErrorCode::NO_NODE).await;
    }
    assert!(making.await.unwrap().unwrap_err().is_no_node());
}

#[test]
fn nodes_are_made_with_their_parents() {
    in_virtual_time(async {
        let (server, client) = start().await;
        let job = CreateOptions::ephemeral().sequential();
        let made = client.create_all("/jobs/eu/", b"1", &job.container_parents()).await.unwrap();
        assert_eq!(made.path, "/jobs/eu/0000000000");
        let made = client.create_all("/jobs/us/j-", b"", &job).await.unwrap();
        assert_eq!(made.path, "/jobs/us/j-0000000000");
        assert_eq!(server.children("/jobs"), ["eu", "us"]);
        // A parent is persistent unless it is a container.
        client.close().await;
        server.reap();
        assert_eq!(all(&server), ["/jobs", "/jobs/us"].map(str::to_owned).into());
    });
}

#[test]
fn a_parent_that_cannot_be_made_is_told() {
    in_virtual_time(async {
        let (server, client) = start().await;
        client.create("/closed", b"", &PERSISTENT.with_acl(Acl::READ_ONLY)).await.unwrap();
        let making = client.create_all("/closed/a/b", b"", &PERSISTENT);
        assert_eq!(making.await.unwrap_err().code(), Some(ErrorCode::NO_AUTH));
        // If the parent exists, the client needs no permission to create it.
        let making = client.ensure("/closed", &PERSISTENT);
        making.await.unwrap();

        // Nor does it need permission to read an existing node, or to create children of a node
        // above it.
        let blind = [Acl::new(Perms::CREATE, Id::ANYONE)];
        client.create("/hall", b"", &PERSISTENT).await.unwrap();
        client.create("/hall/blind", b"", &PERSISTENT.with_acl(&blind)).await.unwrap();
        client.set_acl("/hall", Acl::READ_ONLY, None).await.unwrap();
        for path in ["/hall/blind", "/hall/blind/a/b"] {
            client.ensure(path, &PERSISTENT).await.unwrap();
        }
        assert!(server.has_node("/hall/blind/a/b"));

        client.create("/mine", b"", &CreateOptions::ephemeral()).await.unwrap();
        let making = client.create_all("/mine/a", b"", &PERSISTENT);
        let error = making.await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS));

        // The root of a chroot is not created implicitly.
        let inside = builder(&server).connect_lazily("zk/shop").unwrap();
        for path in ["/", "/a", "/a/b"] {
            let making = inside.create_all(path, b"", &PERSISTENT);
            let made = making.await;
            assert_eq!(made.is_ok(), path == "/", "unless it is asked for: {path}");
            client.delete_all("/shop").await.unwrap();
        }
    });
}

#[test]
fn a_lost_create_is_not_repeated_and_its_outcome_is_that_of_the_node() {
    in_virtual_time(async {
        let (server, client) = start().await;
        for (fault, there) in [(Fault::lose_reply(), true), (Fault::lose_request(), false)] {
            // The fault hits after the first create and that of the parent.
            server.inject(fault.op(OpCode::CREATE2).after(2));
            let error = client.create_all("/a/b", b"", &PERSISTENT).await.unwrap_err();
            assert_eq!(error.outcome(), Outcome::Unknown);
            client.sync("/").await.unwrap();
            assert!(server.has_node("/a"));
            assert_eq!(server.has_node("/a/b"), there);
            client.delete_all("/a").await.unwrap();
        }
    });
}

#[test]
fn to_ensure_what_is_there_is_a_read() {
    in_virtual_time(async {
        let (server, client) = start().await;
        for path in ["/a/b/c", "/a/b/c", "/a/b", "/"] {
            client.ensure(path, &PERSISTENT).await.unwrap();
        }
        assert_eq!(server.history().len(), 3);
        // Several tasks ensure the node at once.
        let ensure = |_| tokio::spawn(client.ensure("/x/y", &CreateOptions::persistent()));
        for one in (0..5).map(ensure).collect::<Vec<_>>() {
            one.await.unwrap().unwrap();
        }
        assert_eq!(server.history().len(), 5);
    });
}

#[test]
fn a_walk_comes_by_every_node_level_by_level() {
    in_virtual_time(async {
        let (_server, client) = start().await;
        for path in ["/t/b/y", "/t/a/z", "/t/a/x/1", "/t/c"] {
            client.create_all(path, b"data", &PERSISTENT).await.unwrap();
        }
        let paths = ["/t", "/t/a", "/t/b", "/t/c", "/t/a/x", "/t/a/z", "/t/b/y", "/t/a/x/1"];
        assert_eq!(visited(client.walk("/t")).await, paths);
        let mut walk = client.walk("/t/c");
        let node = walk.next().await.unwrap().unwrap();
        assert_eq!((node.stat.data_length, node.stat.num_children), (4, 0));
        assert_eq!(walk.next().await.unwrap(), None);
        assert_eq!(walk.next().await.unwrap(), None);
        assert_eq!(visited(client.walk("/")).await[..3], ["/", "/t", "/zookeeper"]);

        let mut walk = client.walk("/none");
        assert!(walk.next().await.unwrap_err().is_no_node());
        assert_eq!(walk.next().await.unwrap(), None);
    });
}

#[tokio::test(start_paused = true)]
async fn a_walk_has_so_many_questions_on_their_way_and_leaves_out_what_is_gone() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let mut walk = client.walk("/");
    peer.expect("getChildren2#1 /").await;
    let names = (100..300).map(|n| n.to_string()).collect::<Vec<_>>();
    let names = names.iter().map(String::as_str).collect::<Vec<_>>();
    let list = |names| GetChildren2Response { children: List::new(names), stat: stat_of(SESSION) };
    peer.answer(&list(&names)).await;
    assert_eq!(walk.next().await.unwrap().unwrap().path, "/");
    let first = tokio::spawn(async move {
        // The first call is dropped, and the next one waits again.
        assert!(tokio::time::timeout(TIMEOUT / 4, walk.next()).await.is_err());
        let first = walk.next().await;
        (walk, first)
    });
    for n in 0..64 {
        peer.expect(&format!("getChildren2#{} /{}", n + 2, n + 100)).await;
    }
    let writes = peer.writes();
    tokio::time::sleep(TIMEOUT / 4).await;
    assert!(peer.writes() <= writes + 1, "a ping at most");
    peer.refuse(ErrorCode::NO_NODE).await;
    peer.expect("getChildren2#66 /164").await;
    peer.answer(&list(&[])).await;
    let (_walk, first) = first.await.unwrap();
    assert_eq!(first.unwrap().unwrap().path, "/101");
}

#[test]
fn a_walk_goes_on_behind_a_loss_and_behind_a_refusal() {
    let places = sweep(|at| async move {
        let (server, client) = start().await;
        for path in ["/t/a/x", "/t/a/y", "/t/b/z", "/t/c"] {
            client.create_all(path, b"", &PERSISTENT).await.unwrap();
        }
        server.inject(Fault::lose_reply().after(at));
        let mut walk = client.walk("/t");
        let (mut paths, mut losses) = (Vec::new(), 0);
        loop {
            match walk.next().await {
                Ok(Some(node)) => paths.push(node.path),
                Ok(None) => break,
                Err(error) => {
                    assert!(error.is_connection_loss());
                    losses += 1;
                }
            }
        }
        assert_eq!(paths, ["/t", "/t/a", "/t/b", "/t/c", "/t/a/x", "/t/a/y", "/t/b/z"]);
        assert_eq!(losses, 1 - server.pending_faults());
        server.pending_faults() == 0
    });
    assert_eq!(places, 7);

    in_virtual_time(async {
        let (server, client) = start().await;
        for path in ["/t/a/x", "/t/b"] {
            client.create_all(path, b"", &PERSISTENT).await.unwrap();
        }
        server.inject(Fault::refuse(ErrorCode::NO_AUTH).path("/t/a"));
        let mut walk = client.walk("/t");
        assert_eq!(walk.next().await.unwrap().unwrap().path, "/t");
        assert_eq!(walk.next().await.unwrap_err().code(), Some(ErrorCode::NO_AUTH));
        assert_eq!(walk.next().await.unwrap().unwrap().path, "/t/b");
        assert_eq!(walk.next().await.unwrap(), None);

        let mut walk = client.walk("/t");
        client.close().await;
        while walk.next().await.is_ok() {}
        assert!(walk.next().await.unwrap_err().is_session_over());
    });
}

#[test]
fn a_tree_goes_with_everything_below_it_and_nothing_else() {
    in_virtual_time(async {
        let (server, client) = start().await;
        assert_eq!(client.delete_all("/none").await.unwrap(), 0);
        client.create("/leaf", b"", &PERSISTENT).await.unwrap();
        assert_eq!(client.delete_all("/leaf").await.unwrap(), 1);
        for path in ["/t/a/x/1/2/3", "/t/a/y", "/t/b/z", "/t/c", "/tt/a"] {
            client.create_all(path, b"", &PERSISTENT).await.unwrap();
        }
        client.create("/t/e", b"", &CreateOptions::ephemeral()).await.unwrap();
        assert_eq!(client.delete_all("/t").await.unwrap(), 11);
        assert_eq!(all(&server), ["/tt", "/tt/a"].map(str::to_owned).into());
    });
}

#[test]
fn a_root_stays_and_what_is_the_servers_own() {
    in_virtual_time(async {
        let (server, client) = start().await;
        for path in ["/app/a/b", "/app/zookeeper/x", "/other"] {
            client.create_all(path, b"", &PERSISTENT).await.unwrap();
        }
        let inside = builder(&server).connect("zk/app").await.unwrap();
        assert_eq!(inside.delete_all("/").await.unwrap(), 4);
        assert_eq!(all(&server), ["/app", "/other"].map(str::to_owned).into());
        assert_eq!(client.delete_all("/").await.unwrap(), 2);
        assert_eq!(server.children("/"), ["zookeeper"]);
        assert!(!server.children("/zookeeper").is_empty());
    });
}

#[test]
fn leaves_go_by_hundreds_in_one_transaction() {
    in_virtual_time(async {
        let (server, client) = start().await;
        client.create("/t", b"", &PERSISTENT).await.unwrap();
        let paths = (0..2000).map(|n| format!("/t/{n:04}")).collect::<Vec<_>>();
        let creates =
            paths.iter().map(|path| client.create(path, b"", &PERSISTENT)).collect::<Vec<_>>();
        for create in creates {
            create.await.unwrap();
        }
        assert_eq!(client.delete_all("/t").await.unwrap(), 2001);
        let history = server.history();
        let deletes = history.iter().filter(|commit| commit.change == Change::Deleted);
        let transactions = deletes.map(|commit| commit.zxid).collect::<BTreeSet<_>>();
        assert_eq!(transactions.len(), 2000_usize.div_ceil(256) + 1);
    });
}

#[test]
fn many_folders_among_the_leaves_go_as_well_also_if_requests_are_small() {
    for max_request in [0xf_ffff, 512] {
        in_virtual_time(async {
            let (server, _) = start().await;
            let mut limits = Limits::default();
            limits.max_request = max_request;
            let client = builder(&server).limits(limits).connect("zk").await.unwrap();
            for n in 0..700 {
                let depth = n % 4;
                let path = format!("/t/{n}{}", "/x".repeat(depth));
                client.create_all(&path, b"", &PERSISTENT).await.unwrap();
            }
            let expected = all(&server).len() as u64;
            assert_eq!(expected, 1 + 700 + 175 * (1 + 2 + 3));
            assert_eq!(client.delete_all("/t").await.unwrap(), expected);
            assert_eq!(all(&server), BTreeSet::new());
        });
    }
}

#[test]
fn what_appears_meanwhile_goes_too() {
    for turns in 0..60 {
        in_virtual_time(async {
            let (server, client) = start().await;
            let other = builder(&server).connect("zk").await.unwrap();
            for path in ["/t/a/x", "/t/b", "/t/c"] {
                client.create_all(path, b"", &PERSISTENT).await.unwrap();
            }
            let deleting = client.delete_all("/t");
            let meanwhile = async {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                let mut made = 0;
                for path in ["/t/new", "/t/a/new", "/t/b/new", "/t/a"] {
                    made += u64::from(other.create(path, b"", &PERSISTENT).await.is_ok());
                }
                made
            };
            let (deleted, made) = tokio::join!(deleting, meanwhile);
            assert_eq!(deleted.unwrap(), 5 + made, "after {turns} turns");
            assert_eq!(all(&server), BTreeSet::new());
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_filled_again_and_again_is_given_up() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let deleting = tokio::spawn(client.delete_all("/t"));
    let mut xid = 0;
    let mut next = || {
        xid += 1;
        xid
    };
    peer.expect(&format!("delete#{} /t", next())).await;
    for _ in 0..8 {
        peer.refuse(ErrorCode::NOT_EMPTY).await;
        peer.expect(&format!("getChildren2#{} /t", next())).await;
        let children = List::new(&["a"]);
        peer.answer(&GetChildren2Response { children, stat: stat_of(SESSION) }).await;
        peer.expect(&format!("delete#{} /t/a", next())).await;
        peer.answer(&()).await;
        peer.expect(&format!("delete#{} /t", next())).await;
    }
    peer.refuse(ErrorCode::NOT_EMPTY).await;
    let error = deleting.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NOT_EMPTY));
}

#[test]
fn whatever_is_lost_it_can_be_called_again() {
    for lose_reply in [false, true] {
        let places = sweep(|at| async move {
            let (server, client) = start().await;
            for path in ["/t/a/x/1", "/t/a/y", "/t/b/z", "/t/c"] {
                client.create_all(path, b"", &PERSISTENT).await.unwrap();
            }
            let fault = if lose_reply { Fault::lose_reply() } else { Fault::lose_request() };
            server.inject(fault.after(at));
            match client.delete_all("/t").await {
                Ok(deleted) => assert_eq!(deleted, 8),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::ConnectionLoss);
                    settle().await;
                    client.delete_all("/t").await.unwrap();
                }
            }
            assert_eq!(all(&server), BTreeSet::new());
            server.pending_faults() == 0
        });
        assert!((8..30).contains(&places), "{places}");
    }
}
