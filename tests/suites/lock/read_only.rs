//! Servers without a quorum: no recipe that reads believes one.
//!
//! The server that is read-only lacks every node that the other one has, and says so when it is
//! asked. Each recipe must wait for the other one's word.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::task::{JoinHandle, spawn};
use tokio::time::{sleep, timeout};
use zk_client::{Client, ClientBuilder, SessionState};
use zk_embedded::Config;
use zk_recipes::{
    Barrier, Cached, Counter, Election, Freshness, Group, Lock, TreeCache, TreeLimits,
};
use zk_test_support::locks::{TIMEOUT, World};

/// Asks each recipe that reads, each in a task of its own. Behind a quorum each answer is true.
async fn ask_all(client: &Client, builder: ClientBuilder) -> Vec<(&'static str, JoinHandle<bool>)> {
    let barrier = Barrier::new(client, "/barrier").unwrap();
    let counter = Counter::new(client, "/counter").unwrap();
    let group = Group::new(client, "/group").unwrap();
    let mut views = group.watch();
    let election = Election::new(client, "/lock").unwrap();
    let mut leaders = election.observe();
    let lock = Lock::new(client, "/lock").unwrap();
    let keeper = builder.keep("zk1,zk2").await.unwrap();
    let (mut values, following) = Cached::follow(&keeper, "/barrier").unwrap();
    spawn(following);
    let (tree, following) = TreeCache::follow(&keeper, "/barrier", TreeLimits::default()).unwrap();
    spawn(following);
    let value = async move {
        let current = values.wait_for(|cached| cached.freshness == Freshness::Current).await;
        current.unwrap().node.is_some()
    };
    let nodes = async move {
        let mut status = tree.status();
        let current = status.wait_for(|status| status.freshness == Freshness::Current).await;
        current.unwrap().nodes == 1
    };
    vec![
        ("Barrier::is_open", spawn(async move { !barrier.is_open().await.unwrap() })),
        ("Counter::get", spawn(async move { counter.get().await.unwrap() == 1 })),
        ("Group::members", spawn(async move { group.members().await.unwrap().members.len() == 1 })),
        ("Members::next", spawn(async move { views.next().await.unwrap().members.len() == 1 })),
        ("Leaders::next", spawn(async move { leaders.next().await.unwrap().is_some() })),
        (
            "Election::candidates",
            spawn(async move { election.candidates().await.unwrap().len() == 1 }),
        ),
        ("Lock::contenders", spawn(async move { lock.contenders().await.unwrap().len() == 1 })),
        ("Cached", spawn(value)),
        ("TreeCache", spawn(nodes)),
    ]
}

#[tokio::test(start_paused = true)]
async fn no_recipe_that_reads_believes_a_server_without_a_quorum() {
    let member = || Arc::new(World::with(Config::new().local_sessions(true)));
    let (cut_off, other) = (member(), member());
    cut_off.server.set_read_only(true);
    let owner = other.client().await;
    let closed = Barrier::new(&owner, "/barrier").unwrap();
    closed.close().await.unwrap();
    Counter::new(&owner, "/counter").unwrap().add(1).await.unwrap();
    let group = Group::new(&owner, "/group").unwrap();
    let _member = group.join("one", "").await.unwrap();
    let _guard = Lock::new(&owner, "/lock").unwrap().acquire().await.unwrap();

    // The other one can be reached once it is open.
    let (builder, open) = cut_off.or(&other);
    let builder = builder.allow_read_only(true);
    let client = builder.clone().connect("zk1,zk2").await.unwrap();
    assert_eq!(client.state(), SessionState::ConnectedReadOnly);
    let asked = ask_all(&client, builder).await;
    let barrier = Barrier::new(&client, "/barrier").unwrap();
    let waiting = spawn(async move { barrier.wait().await.unwrap() });
    sleep(3 * TIMEOUT).await;
    let believed = asked.iter().filter(|(_, answer)| answer.is_finished());
    assert_eq!(believed.map(|(what, _)| *what).collect::<Vec<_>>(), [""; 0]);
    assert!(!waiting.is_finished(), "Barrier::wait goes on");
    let mut members = Group::new(&client, "/group").unwrap().watch();
    let viewed = timeout(TIMEOUT, members.next()).await;
    assert!(viewed.is_err() && members.may_be_outdated());

    open.store(true, Ordering::Relaxed);
    for (what, answer) in asked {
        assert!(timeout(10 * TIMEOUT, answer).await.expect(what).unwrap(), "{what}");
    }
    assert!(!waiting.is_finished(), "Barrier::wait goes on");
    closed.open().await.unwrap();
    timeout(TIMEOUT, waiting).await.unwrap().unwrap();
}
