//! Zxids as tokens: which replies carry one, and how long a client waits for one, in virtual time.

use std::time::Duration;

use zk_client::{Client, ClientBuilder, CreateOptions, ErrorCode, ErrorKind, Outcome, Read, Zxid};
use zk_embedded::{Config, Server};
use zk_proto::SyncResponse;
use zk_test_support::explore::in_virtual_time;
use zk_test_support::peer::{Clock, Network, Peer, TIMEOUT, there};

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

fn builder(network: &Network) -> ClientBuilder {
    Client::builder().connector(network.dialer()).session_timeout(TIMEOUT).seed(1)
}

async fn connected(network: &mut Network) -> (Client, Peer) {
    let (client, peer) = tokio::join!(builder(network).connect("zk1:1"), network.attach());
    (client.unwrap(), peer)
}

/// Answers the syncs with these xids, each with the next zxid.
async fn sync(peer: &mut Peer, xids: impl IntoIterator<Item = i32>) {
    for xid in xids {
        peer.expect(&format!("sync#{xid} /")).await;
        peer.answer(&SyncResponse { path: "/".into() }).await;
    }
}

#[test]
fn every_answer_tells_its_zxid_also_no_and_nothing() {
    in_virtual_time(async {
        let server = Server::in_memory(Config::new());
        let client = Client::builder().connector(server.connector()).connect("zk").await.unwrap();
        assert_eq!(client.last_zxid(), Zxid(0));
        let (created, zxid) = client.create("/a", b"", &PERSISTENT).with_zxid().await.unwrap();
        assert_eq!(created.czxid, zxid);
        let (stat, set) = client.set_data("/a", b"1", None).with_zxid().await.unwrap();
        assert_eq!((stat.mzxid, set), (set, Zxid(zxid.0 + 1)));
        let (none, read) = client.exists("/none").with_zxid().await.unwrap();
        assert_eq!((none, read), (None, set), "a read changes nothing");

        // A refused read carries the same zxid. A refused write is a transaction of its own.
        let error = client.get_data("/none").with_zxid().await.unwrap_err();
        assert_eq!((error.is_no_node(), error.zxid()), (true, Some(set)));
        let error = client.delete("/a", Some(7)).await.unwrap_err();
        assert_eq!(
            (error.code(), error.zxid()),
            (Some(ErrorCode::BAD_VERSION), Some(Zxid(set.0 + 1)))
        );
        let ops = [zk_client::Op::check("/none", None)];
        let error = client.multi(&ops).await.unwrap_err();
        assert_eq!((error.failed_op(), error.zxid()), (Some(0), Some(Zxid(set.0 + 2))));
        assert_eq!(client.last_zxid(), Zxid(set.0 + 2));
        let (none, read) = client.multi_read(Read::get_data("/none")).with_zxid().await.unwrap();
        assert_eq!((none.unwrap_err().zxid(), read), (Some(read), client.last_zxid()));

        // No server has answered these.
        assert_eq!(client.get_data("a").await.unwrap_err().zxid(), None);
        server.inject(zk_embedded::Fault::lose_reply());
        assert_eq!(client.get_data("/a").await.unwrap_err().zxid(), None);
        let (_, watch) = client.get_data_and_watch("/a").with_zxid().await.unwrap();
        assert_eq!(watch, Zxid(set.0 + 2));
    });
}

#[tokio::test(start_paused = true)]
async fn what_was_seen_is_not_asked_for() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let asked = client.sync("/");
    sync(&mut peer, [1]).await;
    asked.await.unwrap();
    let writes = peer.writes();
    client.wait_for_zxid(Zxid(1)).await.unwrap();
    client.wait_for_zxid(Zxid(0)).await.unwrap();
    assert_eq!(peer.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn the_first_sync_is_sent_by_the_call() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    drop(client.wait_for_zxid(Zxid(1)));
    let read = client.get_data("/a");
    peer.expect("sync#1 /").await;
    peer.expect("getData#2 /a").await;
    drop(read);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_behind_is_asked_again_in_growing_pauses() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let clock = Clock::start();
    let waiting = tokio::spawn(client.wait_for_zxid(Zxid(5)));
    sync(&mut peer, 1..=4).await;
    assert!(!waiting.is_finished());
    sync(&mut peer, [5]).await;
    waiting.await.unwrap().unwrap();
    assert_eq!(clock.elapsed().as_millis() / 5, 1 + 2 + 4 + 8, "in steps of 5 ms");
}

#[tokio::test(start_paused = true)]
async fn a_refused_sync_counts_if_it_comes_from_far_enough() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let waiting = tokio::spawn(client.wait_for_zxid(Zxid(2)));
    peer.expect("sync#1 /").await;
    peer.refuse(ErrorCode::THROTTLED_OP).await;
    peer.expect("sync#2 /").await;
    peer.refuse(ErrorCode::NOT_READ_ONLY).await;
    waiting.await.unwrap().unwrap();

    let waiting = tokio::spawn(client.wait_for_zxid(Zxid(9)));
    peer.expect("sync#3 /").await;
    peer.refuse(ErrorCode::NO_AUTH).await;
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NO_AUTH), "that will not pass");
}

#[tokio::test(start_paused = true)]
async fn it_goes_on_at_the_next_server() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let waiting = tokio::spawn(client.wait_for_zxid(Zxid(2)));
    sync(&mut peer, [1]).await;
    peer.expect("sync#2 /").await;
    drop(peer);
    let mut peer = network.dial().await.accept();
    let request = peer.attach().await;
    assert_eq!(request.last_zxid_seen, Zxid(1), "servers that are further behind refuse");
    sync(&mut peer, [3]).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waiting.is_finished(), "1, as before");
    sync(&mut peer, [4]).await;
    waiting.await.unwrap().unwrap();
}

/// Not only the reply to a sync shows how far the server has come.
#[tokio::test(start_paused = true)]
async fn what_another_reply_has_shown_is_reached_although_the_time_is_over() {
    let mut network = Network::new();
    let (client, mut peer) = connected(&mut network).await;
    let waiting = tokio::spawn(client.wait_for_zxid(Zxid(31)));
    // The pause behind the last of them is longer than the time that is left.
    sync(&mut peer, 1..=30).await;
    let read = client.exists("/a");
    peer.expect("exists#31 /a").await;
    peer.answer(&there()).await;
    read.await.unwrap();
    assert_eq!(client.last_zxid(), Zxid(31));
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_zxid_that_never_comes_is_waited_for_one_session_timeout() {
    let mut network = Network::new();
    let (client, peer) = connected(&mut network).await;
    let served = peer.serve();
    let clock = Clock::start();
    let error = client.wait_for_zxid(Zxid(1 << 40)).await.unwrap_err();
    assert_eq!(clock.elapsed().as_secs(), TIMEOUT.as_secs());
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Behind, Outcome::NotApplied));
    let seen = client.last_zxid();
    let expected =
        format!("the servers reached within 12s are at zxid {seen}, behind 0x10000000000");
    assert_eq!(error.to_string(), expected);
    client.close().await;
    let syncs = served.await.unwrap().len();
    assert!((25..40).contains(&syncs), "{syncs}");

    let error = client.wait_for_zxid(Zxid(1 << 40)).await.unwrap_err();
    assert!(error.is_session_over());
}
