//! Cached values: the last change is always seen, no older value follows a newer one, and a reader
//! can tell whether the value may be outdated.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch::Receiver;
use tokio::time::{sleep, timeout};
use zk_client::{Client, ClientBuilder, CreateOptions, ErrorCode, ErrorKind, SessionKeeper};
use zk_embedded::{Fault, OpCode};
use zk_recipes::{Cached, Freshness};
use zk_test_support::locks::{TIMEOUT, World};

const PATH: &str = "/config";
const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

struct Followed {
    keeper: SessionKeeper,
    values: Receiver<Cached>,
}

async fn follow(builder: ClientBuilder) -> Followed {
    let keeper = builder.keep("zk").await.unwrap();
    let (values, following) = Cached::follow(&keeper, PATH).unwrap();
    tokio::spawn(following);
    Followed { keeper, values }
}

/// A server with a node, the client that made it, and its value as it is followed.
async fn followed(text: &str) -> (World, Client, Followed) {
    let world = World::new();
    let raw = world.client().await;
    raw.create(PATH, text.as_bytes(), &PERSISTENT).await.unwrap();
    let mut cached = follow(world.builder()).await;
    cached.becomes(Some(text)).await;
    (world, raw, cached)
}

impl Followed {
    fn text(&self) -> (Freshness, Option<String>) {
        shown(&self.values.borrow())
    }

    async fn session(&self) -> zk_client::SessionId {
        self.keeper.client().await.unwrap().session().unwrap().id
    }

    /// Waits until the value is this one, and current.
    async fn becomes(&mut self, expected: Option<&str>) {
        let expected = (Freshness::Current, expected.map(str::to_owned));
        let came = self.values.wait_for(|cached| shown(cached) == expected);
        let came = timeout(5 * TIMEOUT, came).await.map(drop);
        assert!(came.is_ok(), "{:?} is not {expected:?}", self.text());
    }
}

fn shown(cached: &Cached) -> (Freshness, Option<String>) {
    let text = cached.node.as_ref().map(|node| String::from_utf8_lossy(&node.data).into_owned());
    (cached.freshness, text)
}

fn is(freshness: Freshness, text: Option<&str>) -> (Freshness, Option<String>) {
    (freshness, text.map(str::to_owned))
}

#[tokio::test(start_paused = true)]
async fn a_change_costs_one_read_and_a_quiet_session_timeout_another() {
    let (world, raw, _cached) = followed("").await;
    let change = async { raw.set_data(PATH, b"1", None).await.unwrap() };
    let (requests, _) = world.requests(change).await;
    assert_eq!(requests, 2, "the write and a read");
    let (quiet, ()) = world.requests(sleep(10 * TIMEOUT)).await;
    let pings = 2 * 10 * 3;
    assert!(quiet <= pings + 11, "{quiet} requests");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lags_shows_nothing_older_in_the_next_session() {
    let (ahead, behind) = (Arc::new(World::new()), Arc::new(World::new()));
    let writers = [ahead.client().await, behind.client().await];
    for (writer, text) in writers.iter().zip(["new", "old"]) {
        writer.create(PATH, text.as_bytes(), &PERSISTENT).await.unwrap();
    }
    for _ in 0..20 {
        writers[0].create_all("/else", b"", &PERSISTENT).await.ok();
        writers[0].set_data("/else", b"", None).await.unwrap();
    }
    writers[0].set_data(PATH, b"newer", None).await.unwrap();
    behind.refuse_transactions();
    let (builder, moved) = ahead.or(&behind);
    let mut cached = follow(builder).await;
    cached.becomes(Some("newer")).await;
    moved.store(true, Ordering::Relaxed);
    ahead.server.expire(cached.session().await);
    for _ in 0..20 {
        sleep(TIMEOUT).await;
        assert_eq!(cached.text(), is(Freshness::Stale, Some("newer")));
    }
    let behind_for = cached.values.borrow().error.clone().expect("it is told why");
    assert_eq!(behind_for.client().unwrap().kind(), ErrorKind::Behind);
    for n in 0..60 {
        writers[1].set_data(PATH, n.to_string().as_bytes(), None).await.unwrap();
    }
    cached.becomes(Some("59")).await;
    assert!(cached.values.borrow().error.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_and_asked_again_seldom() {
    let (world, raw, mut cached) = followed("one").await;
    world.hide(PATH).await;
    // Changing the access list sends no event.
    let refused = |cached: &Cached| cached.error.is_some();
    timeout(2 * TIMEOUT, cached.values.wait_for(refused)).await.unwrap().unwrap();
    assert_eq!(cached.text(), is(Freshness::Stale, Some("one")));
    let code = cached.values.borrow().error.as_ref().unwrap().client().unwrap().code();
    assert_eq!(code, Some(ErrorCode::NO_AUTH));
    cached.values.mark_unchanged();
    let (quiet, ()) = world.requests(sleep(10 * TIMEOUT)).await;
    let pings = 2 * 10 * 3;
    assert!(quiet <= pings + 11, "{quiet} requests");
    assert!(!cached.values.has_changed().unwrap(), "it is told once");

    // A node that may be read again.
    raw.delete(PATH, None).await.unwrap();
    raw.create(PATH, b"two", &PERSISTENT).await.unwrap();
    cached.becomes(Some("two")).await;
    assert!(cached.values.borrow().error.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_read_that_breaks_each_connection_is_made_seldom() {
    let (world, raw, mut cached) = followed("one").await;
    let session = cached.session().await;
    world.inject(1000, &Fault::lose_request().op(OpCode::GET_DATA).session(session));
    raw.set_data(PATH, b"two", None).await.unwrap();
    sleep(4 * TIMEOUT).await;
    let broken = 1000 - world.server.pending_faults();
    // Six in a row, and one in each session timeout from then on.
    assert!((6..=12).contains(&broken), "{broken} connections are broken");
    assert_eq!(cached.text(), is(Freshness::Stale, Some("one")));
    world.server.clear_faults();
    cached.becomes(Some("two")).await;
}
