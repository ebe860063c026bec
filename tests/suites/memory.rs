//! The memory that a client takes, counted by the allocator. It counts for the whole process, so
//! this is one test.
//!
//! Everything here runs on one thread and in virtual time, so that each run allocates the same.

use std::alloc::System;
use std::pin::Pin;
use std::time::Duration;

use bytes::BytesMut;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use zk_client::{Client, CreateOptions, ErrorKind, Stats, WatchMode, Watcher};
use zk_embedded::{Config, Server};
use zk_proto::{ErrorCode, EventType};
use zk_recipes::{TreeCache, TreeLimits};
use zk_test_support::explore::{in_virtual_time, settle};
use zk_test_support::peer::{Network, Peer, TIMEOUT, data, notification, reply};

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The size of the buffers that connections read into. One of them may exist or not.
const SLACK: isize = 2 * 64 * 1024 + 4096;

/// Runs `round` until queues and tables have grown to their full size, and then again. The memory
/// in use must not grow in the later rounds.
async fn stays<'a, C>(
    what: &str,
    context: &'a C,
    round: impl Fn(&'a C) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
) {
    for _ in 0..2 {
        round(context).await;
    }
    let region = Region::new(ALLOCATOR);
    for _ in 0..2 {
        round(context).await;
    }
    let change = region.change();
    let kept = change.bytes_allocated as isize - change.bytes_deallocated as isize;
    assert!(kept < SLACK, "{what}: {kept} bytes more, of {}", change.bytes_allocated);
}

/// Counts the bytes that `work` allocates, freed or not.
async fn takes<T>(work: impl Future<Output = T>) -> (T, usize) {
    let region = Region::new(ALLOCATOR);
    let done = work.await;
    (done, region.change().bytes_allocated)
}

async fn connect(server: &Server) -> Client {
    Client::builder().connector(server.connector()).connect("zk").await.unwrap()
}

async fn connected(network: &mut Network) -> (Client, Peer) {
    let builder = Client::builder().connector(network.dialer()).session_timeout(TIMEOUT).seed(1);
    let (client, peer) = tokio::join!(builder.connect("zk1:1"), network.attach());
    (client.unwrap(), peer)
}

#[test]
fn a_client_holds_what_is_held_and_sets_nothing_aside() {
    in_virtual_time(leaves_nothing_behind());
    in_virtual_time(a_lie_is_not_believed());
    in_virtual_time(a_flood_is_not_kept());
    in_virtual_time(a_node_of_a_tree_in_memory_is_small());
    in_virtual_time(a_look_costs_next_to_nothing());
    in_virtual_time(a_watcher_that_waits_is_small());
}

async fn leaves_nothing_behind() {
    let server = Server::in_memory(Config::new().max_connections_per_host(0));
    stays("1000 clients", &server, |server| {
        Box::pin(async move {
            for n in 0..1000 {
                let client = connect(server).await;
                let watching = client.exists_and_watch("/none").await.unwrap();
                if n % 2 == 0 {
                    client.close().await;
                }
                drop((client, watching));
                settle().await;
            }
            // Sessions end in the background.
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(server.sessions().len(), 0);
        })
    })
    .await;

    let client = connect(&server).await;
    client.create("/a", b"", &CreateOptions::persistent()).await.unwrap();
    stays("10,000 watchers", &client, |client| {
        Box::pin(async move {
            let mut watchers = Vec::new();
            for n in 0..10_000 {
                watchers.push(client.exists_and_watch(&format!("/none-{n}")).await.unwrap());
            }
            for n in 0..1000 {
                let path = format!("/none-{n}");
                let stream = client.watch(&path, WatchMode::PersistentRecursive).await.unwrap();
                drop(stream);
            }
            drop(watchers);
            client.sync("/").await.unwrap();
        })
    })
    .await;

    stays("100,000 calls", &client, |client| {
        Box::pin(async move {
            for n in 0..100_000 {
                match n % 100 {
                    0 => drop(client.create_owned("/a/own-", b"", &OWNED)),
                    1 => drop(client.get_data_and_watch("/a")),
                    _ => drop(client.get_data("/a")),
                }
                if n % 1000 == 0 {
                    client.sync("/").await.unwrap();
                }
            }
            client.sync("/").await.unwrap();
            client.sync("/").await.unwrap();
        })
    })
    .await;
    let stats = client.stats();
    assert_eq!((stats.watches, stats.streams, stats.owned_nodes, stats.in_flight), (0, 0, 0, 0));

    stays("100 reconnects", &(client, server), |(client, server)| {
        Box::pin(async move {
            for _ in 0..100 {
                server.disconnect_all();
                settle().await;
                client.sync("/").await.err();
            }
            client.sync("/").await.unwrap();
        })
    })
    .await;
}

async fn a_lie_is_not_believed() {
    // A few bytes that promise a frame of two GiB, and a list of as many items.
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let reading = client.get_data("/a");
    let request = peer.next().await.unwrap();
    let mut wire = BytesMut::from(&i32::MAX.to_be_bytes()[..]);
    wire.extend_from_slice(&reply(request.xid(), 1, ErrorCode::OK, &()));
    wire.resize(4096, 0);
    let (read, bytes) = takes(async {
        peer.raw(&wire).await;
        reading.await
    })
    .await;
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ReplyTooLarge);
    assert!(bytes < 500_000, "{bytes} bytes for a frame that never comes");
    drop(peer);

    let mut peer = network.attach().await;
    let listing = client.get_children("/a");
    let request = peer.next().await.unwrap();
    let mut answer = BytesMut::from(&reply(request.xid(), 1, ErrorCode::OK, &())[..]);
    answer.extend_from_slice(&i32::MAX.to_be_bytes());
    answer.resize(500, 0);
    let (listed, bytes) = takes(async {
        peer.send(&answer).await;
        listing.await
    })
    .await;
    assert_eq!(listed.unwrap_err().kind(), ErrorKind::Protocol);
    assert!(bytes < 500_000, "{bytes} bytes for a list that is not there");

    // A reply above the limit is read and discarded, and never stored.
    let reading = client.get_data("/a");
    peer.next().await.unwrap();
    let large = vec![7; 64 * 1024 * 1024];
    let head = reply(zk_proto::Xid(3), 1, ErrorCode::OK, &());
    let length = i32::try_from(head.len() + large.len()).unwrap();
    let (read, bytes) = takes(async {
        peer.raw(&[&length.to_be_bytes()[..], &head].concat()).await;
        for chunk in large.chunks(256 * 1024) {
            peer.raw(chunk).await;
        }
        reading.await
    })
    .await;
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ReplyTooLarge);
    assert!(bytes < 4_000_000, "{bytes} bytes for what is thrown away");
    drop(peer);
    drop(network.dial().await);
}

async fn a_flood_is_not_kept() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let watching = client.watch("/a", WatchMode::Persistent);
    peer.next().await.unwrap();
    peer.answer(&()).await;
    let stream = watching.await.unwrap();
    let mut events = BytesMut::new();
    for _ in 0..1000 {
        let event = notification(1, EventType::NODE_DATA_CHANGED, "/a");
        events.extend_from_slice(&(event.len() as u32).to_be_bytes());
        events.extend_from_slice(&event);
    }
    let flood = async |peer: &mut Peer| {
        for _ in 0..100 {
            peer.raw(&events).await;
        }
        settle().await;
    };
    flood(&mut peer).await;
    let region = Region::new(ALLOCATOR);
    flood(&mut peer).await;
    let change = region.change();
    let kept = change.bytes_allocated as isize - change.bytes_deallocated as isize;
    // The pipe sometimes holds a megabyte; the events would take ten.
    assert!(kept < 2_500_000, "{kept} bytes of 100,000 events that nobody reads");
    assert_eq!(client.stats().totals.events_received, 200_000);
    drop(stream);
    peer.next().await.unwrap();
    peer.answer(&data(b"")).await;
    drop(peer);
    drop(network.dial().await);
}

/// Reading the statistics allocates only the name of the server, and the counts of each operation.
async fn a_look_costs_next_to_nothing() {
    let server = Server::in_memory(Config::new());
    let client = connect(&server).await;
    let watchers = {
        let mut watchers = Vec::new();
        for n in 0..1000 {
            watchers.push(client.exists_and_watch(&format!("/none-{n}")).await.unwrap());
        }
        watchers
    };
    let region = Region::new(ALLOCATOR);
    let Stats { watches, .. } = client.stats();
    let change = region.change();
    assert_eq!(watches, 1000);
    assert!(change.allocations <= 2 && change.bytes_allocated <= 64, "{change:?}");
    drop(watchers);
    client.close().await;
}

/// A waiting watcher takes little memory besides its path.
async fn a_watcher_that_waits_is_small() {
    const WATCHERS: usize = 100_000;
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let mut watchers = Vec::with_capacity(WATCHERS);
    let (region, mut paths) = (Region::new(ALLOCATOR), 0);
    while watchers.len() < WATCHERS {
        let path = |n| format!("/watched/by/many/n-{n:06}");
        let asked = (0..1000).map(|n| path(watchers.len() + n));
        let replies = asked.map(|path| (client.get_data_and_watch(&path), path));
        for (reply, path) in replies.collect::<Vec<_>>() {
            peer.next().await.unwrap();
            peer.answer(&data(b"")).await;
            paths += path.len();
            watchers.push(reply.await.unwrap().1);
        }
    }
    let change = region.change();
    let held = change.bytes_allocated - change.bytes_deallocated;
    let each = (held + WATCHERS * size_of::<Watcher>() - paths) / WATCHERS;
    assert!(each <= 300, "{each} bytes for a watcher");
    drop((client, watchers, peer));
    drop(network.dial().await);
}

/// A node takes little memory besides its path and data, whether it has siblings or children.
async fn a_node_of_a_tree_in_memory_is_small() {
    const NODES: usize = 100_000;
    const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();
    let server = Server::in_memory(Config::new());
    let client = connect(&server).await;
    client.create("/tree", b"", &PERSISTENT).await.unwrap();
    let (mut made, mut named) = (1, "/tree".len());
    while made < NODES {
        let group = format!("/tree/group-{made}");
        client.create(&group, b"", &PERSISTENT).await.unwrap();
        named += group.len();
        // Groups of 10 and of 10,000, in the order of their names and in another.
        let size = if made < NODES / 2 { 10_000 } else { 10 };
        let names = (0..size).map(|n| format!("node-{:05}", n * 7919 % size));
        let nodes = names.map(|name| {
            let path = format!("{group}/{name}");
            named += path.len() + b"some data".len();
            client.create(&path, b"some data", &PERSISTENT)
        });
        for reply in nodes.collect::<Vec<_>>() {
            reply.await.unwrap();
        }
        made += 1 + size;
    }
    let builder = Client::builder().connector(server.connector());
    let keeper = builder.keep("zk").await.unwrap();
    settle().await;
    let region = Region::new(ALLOCATOR);
    let (tree, following) = TreeCache::follow(&keeper, "/tree", TreeLimits::default()).unwrap();
    tokio::spawn(following);
    settle().await;
    let change = region.change();
    let status = tree.status().borrow().clone();
    assert_eq!(status.nodes, made);
    let kept = change.bytes_allocated as isize - change.bytes_deallocated as isize;
    let each = (kept - SLACK - named as isize) / made as isize;
    assert!(each <= 150, "{each} bytes for a node");
    assert!(status.bytes as isize >= kept - SLACK, "{} counted, {kept} kept", status.bytes);
}
