//! Caches behind servers whose data was replaced by older data: each begins anew by itself, and
//! tells what differs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch::Receiver;
use tokio::time::timeout;
use zk_client::{CreateOptions, ErrorKind, OpCode, SessionKeeper, Zxid};
use zk_embedded::Fault;
use zk_recipes::{Cached, Freshness, TreeCache, TreeLimits, TreeStatus};
use zk_test_support::explore::settle;
use zk_test_support::locks::{TIMEOUT, World};

const ROOT: &str = "/tree";
const A: &str = "/tree/a";
const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

/// The client ends its session by itself, and then waits for a server that might lag.
const SOON: Duration = TIMEOUT.saturating_mul(3);

/// A server with clients, and one that was set up from an older backup of it.
struct Servers {
    now: Arc<World>,
    backup: Arc<World>,
    keeper: SessionKeeper,
    moved: Arc<AtomicBool>,
}

impl Servers {
    /// The backup has `a` and `lost`, and the server has another `a`, and `made`.
    async fn new() -> Self {
        let (now, backup) = (Arc::new(World::new()), Arc::new(World::new()));
        let raw = now.client().await;
        for (path, data) in [(ROOT, "r"), (A, "old"), ("/tree/lost", "")] {
            raw.create(path, data.as_bytes(), &PERSISTENT).await.unwrap();
        }
        backup.server.restore(&now.server.snapshot()).unwrap();
        raw.delete("/tree/lost", None).await.unwrap();
        raw.create("/tree/made", b"", &PERSISTENT).await.unwrap();
        for _ in 0..40 {
            raw.set_data(A, b"new", None).await.unwrap();
        }
        let (builder, moved) = now.or(&backup);
        let keeper = builder.keep("zk").await.unwrap();
        Self { now, backup, keeper, moved }
    }

    /// From now on there is the backup, which knows no session of the server.
    async fn replace(&self) {
        let session = self.keeper.client().await.unwrap().session().unwrap().id;
        self.moved.store(true, Ordering::Relaxed);
        self.now.server.expire(session);
        settle().await;
    }

    /// These servers, and a tree that is current, with its status.
    async fn with_tree() -> (Self, TreeCache, Receiver<TreeStatus>, TreeStatus) {
        let this = Self::new().await;
        let limits = TreeLimits::default();
        let (tree, following) = TreeCache::follow(&this.keeper, ROOT, limits).unwrap();
        tokio::spawn(following);
        let mut status = tree.status();
        let current = is_current(&mut status).await;
        (this, tree, status, current)
    }
}

fn shown(tree: &TreeCache) -> String {
    let names = tree.children(ROOT).unwrap_or_default().join(" ");
    let data = tree.get(A).map(|node| String::from_utf8_lossy(&node.data).into_owned());
    format!("{names}: {}", data.unwrap_or_default())
}

async fn is_current(status: &mut Receiver<TreeStatus>) -> TreeStatus {
    let current = status.wait_for(|status| status.freshness == Freshness::Current);
    timeout(SOON, current).await.expect("it becomes current").unwrap().clone()
}

/// Nothing is told any more: what is seen stays current.
async fn stays<T>(seen: &mut Receiver<T>) {
    seen.mark_unchanged();
    timeout(5 * TIMEOUT, seen.changed()).await.expect_err("it stays current");
}

#[tokio::test(start_paused = true)]
async fn a_tree_begins_anew_when_older_data_took_the_place_of_its_own() {
    let (servers, tree, mut status, before) = Servers::with_tree().await;
    assert_eq!(shown(&tree), "a made: new");
    servers.replace().await;
    assert_eq!((status.borrow().freshness, &*shown(&tree)), (Freshness::Stale, "a made: new"));
    let after = is_current(&mut status).await;
    assert_eq!(shown(&tree), "a lost: old");
    assert!(after.error.is_none());
    assert!(after.epoch > before.epoch, "the differences are told");
    assert!(after.zxid < before.zxid && after.zxid > Zxid(0), "{after:?} after {before:?}");

    let raw = servers.backup.client().await;
    let (_, zxid) = raw.set_data(A, b"next", None).with_zxid().await.unwrap();
    assert!(zxid < before.zxid);
    timeout(TIMEOUT / 6, tree.wait_for_zxid(zxid)).await.expect("it follows").unwrap();
    assert_eq!(shown(&tree), "a lost: next");
    stays(&mut status).await;
}

#[tokio::test(start_paused = true)]
async fn a_cached_value_begins_anew_when_older_data_took_the_place_of_its_own() {
    let servers = Servers::new().await;
    let (mut value, following) = Cached::follow(&servers.keeper, A).unwrap();
    tokio::spawn(following);
    let is = |text: &'static str| {
        move |cached: &Cached| {
            let data = cached.node.as_ref().map(|node| &node.data[..]);
            cached.freshness == Freshness::Current && data == Some(text.as_bytes())
        }
    };
    timeout(TIMEOUT, value.wait_for(is("new"))).await.expect("it is read").unwrap();
    servers.replace().await;
    assert_eq!(value.borrow().freshness, Freshness::Stale);
    let old = timeout(SOON, value.wait_for(is("old"))).await.expect("it begins anew");
    assert!(old.unwrap().error.is_none());

    let raw = servers.backup.client().await;
    raw.set_data(A, b"next", None).await.unwrap();
    timeout(TIMEOUT / 6, value.wait_for(is("next"))).await.expect("it follows").unwrap();
    stays(&mut value).await;
}

#[tokio::test(start_paused = true)]
async fn a_zxid_that_was_lost_with_its_data_is_waited_for_no_longer() {
    // The task of the caller may also have no turn before the tree is current again.
    for has_turns in [true, false] {
        let (servers, tree, mut status, _) = Servers::with_tree().await;
        // The write is about to be read when the data is replaced.
        servers.now.server.inject(Fault::delay(TIMEOUT / 3).op(OpCode::GET_DATA).path(A));
        let own = servers.keeper.client().await.unwrap();
        let (_, zxid) = own.set_data(A, b"newest", None).with_zxid().await.unwrap();
        let mut waiting = Box::pin(tree.wait_for_zxid(zxid));
        timeout(TIMEOUT / 100, &mut waiting).await.unwrap_err();
        assert_eq!(shown(&tree), "a made: new");
        servers.replace().await;
        if !has_turns {
            is_current(&mut status).await;
        }
        // One session timeout more, if it waits for the zxid among those of the new data.
        let told = timeout(SOON + TIMEOUT, waiting).await.expect("it is told");
        let error = told.unwrap_err();
        assert_eq!(error.client().unwrap().kind(), ErrorKind::Behind);
        is_current(&mut status).await;
        assert_eq!(shown(&tree), "a lost: old");
        stays(&mut status).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_zxid_that_comes_twice_hides_no_other_data() {
    let (servers, tree, mut status, before) = Servers::with_tree().await;
    let last = tree.get(A).unwrap().mzxid;
    let raw = servers.backup.client().await;
    while raw.set_data(A, b"other", None).await.unwrap().mzxid < last {}
    raw.create_all("/else", b"", &PERSISTENT).await.unwrap();
    while raw.last_zxid() < before.zxid {
        raw.set_data("/else", b"", None).await.unwrap();
    }
    servers.replace().await;
    is_current(&mut status).await;
    assert_eq!((shown(&tree), tree.get(A).unwrap().mzxid), ("a lost: other".to_owned(), last));
}
