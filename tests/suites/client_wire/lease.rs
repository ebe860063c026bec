//! Leases of a whole client, against a server that the test plays, on a paused clock: the state
//! changes that are reported, even if no caller polls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zk_client::{
    Client, ClientBuilder, CreateOptions, Deletion, Ended, Lapse, Lease, LeaseState, OwnedNode,
    SessionState,
};
use zk_test_support::peer::{Network, Peer, TIMEOUT, created};

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();

const STEM: &str = "/locks/x-";
const NODE: &str = "/locks/x-0000000003";

/// The session timeout of 12 s less the allowance for clock drift.
const TERM: Duration = Duration::from_millis(11_880);
const SECOND: Duration = Duration::from_secs(1);
const LATE: LeaseState = LeaseState::Lapsed(Lapse::Deadline);

fn builder(network: &Network) -> ClientBuilder {
    Client::builder().connector(network.dialer()).session_timeout(TIMEOUT).seed(1)
}

/// A connected client that owns a node, created as its first request.
async fn owner(network: &mut Network, builder: ClientBuilder) -> (Client, Peer, OwnedNode) {
    let (client, mut peer) = tokio::join!(builder.connect("zk1:1"), network.attach());
    let client = client.unwrap();
    let creating = client.create_owned(STEM, b"", &OWNED);
    peer.expect("create2#1 /locks/x-").await;
    peer.answer(&created(NODE)).await;
    let node = creating.await.unwrap();
    (client, peer, node)
}

fn is_suspended(state: LeaseState) -> bool {
    matches!(state, LeaseState::Suspended { .. })
}

/// Waits for the next change of the lease's state, as a caller that reacts to it would.
async fn next(lease: &Lease) -> LeaseState {
    lease.changed(lease.state()).await
}

#[tokio::test(start_paused = true)]
async fn a_term_counts_from_the_send_and_takes_the_node_with_it() {
    let mut network = Network::new();
    let (client, mut peer) = {
        let (client, peer) = tokio::join!(builder(&network).connect("zk1:1"), network.attach());
        (client.unwrap(), peer)
    };
    let asked = client.clock().now();
    let creating = client.create_owned(STEM, b"", &OWNED);
    peer.expect("create2#1 /locks/x-").await;
    tokio::time::sleep(SECOND).await;
    peer.answer(&created(NODE)).await;
    let node = creating.await.unwrap();
    assert_eq!(node.requested_at(), asked);

    let lease = node.lease(Some(3 * SECOND));
    assert_eq!(lease.state(), LeaseState::Valid { until: asked + 3 * SECOND });
    // The client deletes the node, although no caller looks at the lease.
    peer.expect("delete#2 /locks/x-0000000003").await;
    assert_eq!(client.clock().now() - asked, 3 * SECOND);
    assert_eq!(lease.state(), LeaseState::Lapsed(Lapse::MaxDuration));
    assert_eq!(lease.lapsed().await, Lapse::MaxDuration);

    let deleting = node.delete();
    peer.answer(&()).await;
    assert_eq!(deleting.await.unwrap(), Deletion::Deleted, "by that delete");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_comes_too_late_finds_the_node_gone() {
    let mut network = Network::new();
    let builder = builder(&network);
    let (_client, mut peer, node) = owner(&mut network, builder).await;
    let lease = node.lease(Some(SECOND));
    peer.expect("delete#2 /locks/x-0000000003").await;
    peer.answer(&()).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(node.lease(None).state(), LATE);
    drop(lease);
    assert_eq!(node.delete().await.unwrap(), Deletion::AlreadyGone);
}

#[tokio::test(start_paused = true)]
async fn a_lease_outlives_a_reconnect_in_time() {
    let mut network = Network::new();
    let builder = builder(&network);
    let (client, peer, node) = owner(&mut network, builder).await;
    let lease = node.lease(None);
    let before = lease.state();
    assert!(matches!(before, LeaseState::Valid { .. }), "{before:?}");
    drop(peer);
    assert!(is_suspended(next(&lease).await));
    let mut peer = network.attach().await;
    assert_eq!(next(&lease).await, before, "the node is the same");
    peer.expect("multi#2 check /").await;
    let asked = client.clock().now();
    peer.answer(&()).await;
    tokio::time::sleep(SECOND).await;
    let LeaseState::Valid { until } = lease.state() else {
        panic!("{lease:?}");
    };
    assert!(until >= asked + TERM - SECOND, "the handshake was just before");
    assert!(until <= asked + TERM);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_lapsed_stays_so_after_a_reconnect() {
    let mut network = Network::new();
    let builder = builder(&network);
    let (client, peer, node) = owner(&mut network, builder).await;
    let start = node.requested_at();
    let lease = node.lease(None);
    drop(peer);
    let refusing = tokio::spawn(async move {
        // Servers refuse the client until the deadline is over, and let it in before it gives up
        // the session.
        loop {
            let dial = network.dial().await;
            if client.clock().now() < start + TERM {
                dial.refuse(std::io::ErrorKind::ConnectionRefused);
            } else {
                let mut peer = dial.accept();
                peer.attach().await;
                return (network, client, peer);
            }
        }
    });
    // Any number of callers may wait, in any way.
    let (one, other) = tokio::join!(lease.lapsed(), lease.lapsed());
    assert_eq!((one, other), (Lapse::Deadline, Lapse::Deadline));
    let (_network, client, mut peer) = refusing.await.unwrap();
    peer.expect("delete#2 /locks/x-0000000003").await;
    peer.answer(&()).await;
    assert_eq!(client.state(), SessionState::Connected);
    assert_eq!(lease.state(), LATE);

    let creating = client.create_owned(STEM, b"", &OWNED);
    peer.expect("create2#3 /locks/x-").await;
    peer.answer(&created("/locks/x-0000000004")).await;
    let new = creating.await.unwrap();
    let next = new.lease(None);
    assert!(matches!(next.state(), LeaseState::Valid { .. }), "{next:?}");
    assert_eq!(lease.state(), LATE);
    drop((next, new));
    peer.expect("delete#4 /locks/x-0000000004").await;
}

#[tokio::test(start_paused = true)]
async fn the_first_look_after_a_suspension_says_that_it_lapsed() {
    let mut network = Network::new();
    let suspended = Arc::new(AtomicU64::new(1000));
    let told = Arc::clone(&suspended);
    let builder =
        builder(&network).suspend_time(move || Duration::from_secs(told.load(Ordering::Relaxed)));
    let (client, mut peer, node) = owner(&mut network, builder).await;
    let lease = node.lease(None);
    let before = client.clock().now();
    assert!(matches!(lease.state(), LeaseState::Valid { .. }));

    suspended.fetch_add(2 * TIMEOUT.as_secs(), Ordering::Relaxed);
    assert_eq!(lease.state(), LATE, "nothing else has run");
    assert_eq!(client.clock().now() - before, 2 * TIMEOUT);
    assert_eq!(lease.lapsed().await, Lapse::Deadline);
    peer.expect_hangup().await;
}

#[tokio::test(start_paused = true)]
async fn probes_go_on_while_somebody_holds_a_lease() {
    let mut network = Network::new();
    let builder = builder(&network);
    let (client, peer, node) = owner(&mut network, builder).await;
    let serving = peer.serve();
    let leases = [node.lease(None), node.lease(None)];
    tokio::time::sleep(TIMEOUT + SECOND).await;
    drop(leases);
    tokio::time::sleep(TIMEOUT * 10).await;
    client.close().await;
    let log = serving.await.unwrap();
    // The first probe is sent one third before the deadline and then one in each third, besides the
    // pings.
    assert_eq!(log, ["multi#2 check /", "multi#3 check /", "closeSession#4"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_session_is_told() {
    let mut network = Network::new();
    let builder = builder(&network);
    let (client, peer, node) = owner(&mut network, builder).await;
    let serving = peer.serve();
    let lease = node.lease(None);
    let (lapse, ()) = tokio::join!(lease.lapsed(), client.close());
    assert_eq!(lapse, Lapse::Ended(Ended::Closed));
    serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_is_dropped_ends_leases() {
    let mut network = Network::new();
    let (client, driver) = builder(&network).split("zk1:1").unwrap();
    let driving = tokio::spawn(driver);
    let mut peer = network.attach().await;
    let creating = client.create_owned(STEM, b"", &OWNED);
    peer.expect("create2#1 /locks/x-").await;
    peer.answer(&created(NODE)).await;
    let node = creating.await.unwrap();
    let lease = node.lease(None);
    driving.abort();
    assert_eq!(lease.lapsed().await, Lapse::Ended(Ended::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_dropped_misses_nothing() {
    let mut network = Network::new();
    let builder = builder(&network);
    let (_client, peer, node) = owner(&mut network, builder).await;
    let lease = node.lease(None);
    let valid = lease.state();
    assert!(tokio::time::timeout(SECOND, lease.changed(valid)).await.is_err());
    drop(peer);
    let mut peer = network.dial().await.accept();
    // No caller waited meanwhile. The change that was missed is reported at once.
    assert!(is_suspended(lease.changed(valid).await));
    peer.handshake().await;
}
