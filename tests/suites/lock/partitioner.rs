//! Partitioners: one member works on a shard at a time, shards move one by one and when their work
//! has ended, each is with somebody in the end, and nothing is left behind.

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use zk_client::Client;
use zk_embedded::{Fault, OpCode};
use zk_recipes::{Error, FencingToken, LockState, Loss, Options, Partitioner, Shard};
use zk_test_support::explore::{poll_once, settle};
use zk_test_support::locks::{LOCK, TIMEOUT, World};

const SHARDS: [&str; 5] = ["s0", "s1", "s2", "s3", "s4"];

fn partitioner(client: &Client) -> Partitioner {
    Partitioner::new(client, LOCK, SHARDS).unwrap()
}

/// Who works on which shard, with what was seen of it before.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    now: BTreeMap<String, &'static str>,
    tokens: BTreeMap<String, FencingToken>,
    begun: usize,
}

/// The work on a shard, until it is dropped.
struct AtWork(Log, Shard, &'static str);

impl Log {
    fn begin(&self, who: &'static str, shard: Shard) -> AtWork {
        assert_eq!(shard.state(), LockState::Held);
        let mut entries = self.entries();
        let name = shard.name().to_owned();
        let other = entries.now.insert(name.clone(), who);
        assert_eq!(other, None, "{name}: {who} begins, and another one is at work");
        let last = entries.tokens.insert(name, shard.token());
        assert!(last < Some(shard.token()), "{last:?}, and then {shard:?}");
        entries.begun += 1;
        drop(entries);
        AtWork(self.clone(), shard, who)
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many shards each member works on.
    fn loads(&self) -> BTreeMap<&'static str, usize> {
        let mut loads = BTreeMap::new();
        for who in self.entries().now.values() {
            *loads.entry(*who).or_default() += 1;
        }
        loads
    }

    fn now(&self) -> BTreeMap<String, &'static str> {
        self.entries().now.clone()
    }

    fn begun(&self) -> usize {
        self.entries().begun
    }

    /// Waits until all shards are worked on, and as equally as can be by so many members.
    async fn is_even(&self, members: usize) {
        let is_even = || {
            let loads = self.loads();
            let counts = loads.values().copied();
            loads.values().sum::<usize>() == SHARDS.len()
                && loads.len() == members
                && counts.clone().max().unwrap_or(0) - counts.min().unwrap_or(0) <= 1
        };
        let even = async {
            while !is_even() {
                sleep(Duration::from_millis(7)).await;
            }
        };
        timeout(4 * TIMEOUT, even).await.unwrap_or_else(|_| panic!("{:?}", self.now()));
        let (now, begun) = (self.now(), self.begun());
        sleep(TIMEOUT).await;
        assert_eq!((self.now(), self.begun()), (now, begun), "it does not stay so");
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let Self(log, shard, who) = self;
        log.entries().now.retain(|name, worker| name != shard.name() || worker != who);
    }
}

/// A member that works until each shard is to move.
struct Worker {
    client: Client,
    running: JoinHandle<Result<(), Error>>,
    stop: Arc<Notify>,
}

impl Worker {
    async fn start(world: &World, log: &Log, id: &'static str) -> Self {
        Self::with(world, log, id, |partitioner| partitioner, async |shard| shard.stopping().await)
            .await
    }

    async fn with<W: Future<Output = ()> + Send>(
        world: &World,
        log: &Log,
        id: &'static str,
        set: impl FnOnce(Partitioner) -> Partitioner,
        work: impl Fn(Shard) -> W + Send + Sync + 'static,
    ) -> Self {
        let client = world.client().await;
        let (partitioner, log) = (set(partitioner(&client)), log.clone());
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let running = tokio::spawn(async move {
            let work = |shard: Shard| {
                let at_work = log.begin(id, shard.clone());
                let work = work(shard);
                async move {
                    work.await;
                    drop(at_work);
                }
            };
            partitioner.run_until(id, stopped.notified(), work).await
        });
        Self { client, running, stop }
    }

    async fn leave(self) {
        self.stop.notify_one();
        self.running.await.unwrap().unwrap();
    }
}

/// A server with two members, who have shared the shards.
async fn two_members() -> (World, Log, Worker, Worker) {
    let (world, log) = (World::new(), Log::default());
    let ana = Worker::start(&world, &log, "ana").await;
    let ben = Worker::start(&world, &log, "ben").await;
    log.is_even(2).await;
    (world, log, ana, ben)
}

/// Lets the last members leave, and checks that no node and no watch is left.
async fn is_empty_without<const N: usize>(world: &World, members: [Worker; N]) {
    for member in members {
        member.leave().await;
    }
    settle().await;
    assert_eq!(world.server.children(&format!("{LOCK}/members")), [""; 0]);
    for shard in world.server.children(&format!("{LOCK}/shards")) {
        assert_eq!(world.server.children(&format!("{LOCK}/shards/{shard}")), [""; 0], "{shard}");
    }
    assert_eq!(world.server.watch_count(), 0, "watches are left");
}

/// The node of the member, or of the holder of a shard.
fn node(world: &World, folder: &str) -> String {
    let names = world.server.children(&format!("{LOCK}/{folder}"));
    let first = names.iter().min_by_key(|name| name[name.len() - 10..].to_owned()).unwrap();
    format!("{LOCK}/{folder}/{first}")
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_has_stopped_before_others_begin() {
    let (world, log, ana, ben) = two_members().await;
    // Pings are answered all the same, and `begin` looks that nobody else is at work.
    world.server.partition(ana.client.session().unwrap().id);
    log.is_even(1).await;
    assert_eq!(log.loads().keys().collect::<Vec<_>>(), [&"ben"]);
    world.server.heal();
    assert!(ana.running.await.unwrap().unwrap_err().is_session_over());
    is_empty_without(&world, [ben]).await;
}

#[tokio::test(start_paused = true)]
async fn the_next_member_begins_when_the_work_has_ended() {
    const LAST_STEP: Duration = Duration::from_secs(3);
    let (world, log) = (World::new(), Log::default());
    let work = async |shard: Shard| {
        assert!(!shard.is_stopping());
        shard.stopping().await;
        assert!(shard.is_stopping());
        shard.run(sleep(LAST_STEP)).await.unwrap();
    };
    let ana = Worker::with(&world, &log, "ana", |it| it, work).await;
    log.is_even(1).await;
    let clock = world.client().await;
    let begins = clock.clock().now();
    let ben = Worker::start(&world, &log, "ben").await;
    sleep(LAST_STEP - Duration::from_millis(100)).await;
    assert_eq!(log.loads(), [("ana", 5)].into());
    log.is_even(2).await;
    let since = |time| clock.clock().now() - time;
    assert!(since(begins) < LAST_STEP + TIMEOUT + Duration::from_secs(1), "it took longer");
    let left = clock.clock().now();
    ana.leave().await;
    assert!((LAST_STEP..2 * LAST_STEP).contains(&since(left)), "{:?}", since(left));
    log.is_even(1).await;
    is_empty_without(&world, [ben]).await;
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_stop_is_dropped_after_the_time_it_has() {
    for grace in [Duration::ZERO, Duration::from_secs(2)] {
        let (world, log) = (World::new(), Log::default());
        let set = move |it: Partitioner| it.grace(grace);
        let ana = Worker::with(&world, &log, "ana", set, async |_| pending().await).await;
        log.is_even(1).await;
        let ben = Worker::start(&world, &log, "ben").await;
        sleep(grace.saturating_sub(Duration::from_millis(100))).await;
        assert_eq!(log.loads().get("ben"), None);
        sleep(Duration::from_millis(200)).await;
        assert!(log.loads().contains_key("ben"), "{:?}", log.now());
        log.is_even(2).await;
        is_empty_without(&world, [ana, ben]).await;
    }
}

/// Only the view of the group, in which it is missing, tells the member of its loss.
#[tokio::test(start_paused = true)]
async fn a_member_whose_node_is_deleted_without_an_event_joins_again() {
    let (world, log, ana, ben) = two_members().await;
    let node = node(&world, "members");
    // Servers send no event about a node that the client may not read.
    world.hide(&node).await;
    world.client().await.delete(&node, None).await.unwrap();
    sleep(TIMEOUT).await;
    log.is_even(2).await;
    assert_eq!(world.server.children(&format!("{LOCK}/members")).len(), 2);
    is_empty_without(&world, [ana, ben]).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_within_the_delay_moves_no_shards_of_others() {
    const DELAY: Duration = Duration::from_secs(4);
    let (world, log) = (World::new(), Log::default());
    let set = |it: Partitioner| it.delay(DELAY);
    let work = async |shard: Shard| shard.stopping().await;
    let ana = Worker::with(&world, &log, "ana", set, work).await;
    sleep(DELAY / 2).await;
    assert_eq!(log.begun(), 0);
    let ben = Worker::with(&world, &log, "ben", set, work).await;
    log.is_even(2).await;
    assert_eq!(log.begun(), 5, "both have begun together");
    let (before, of_ben) = (log.now(), log.loads()["ben"]);
    ben.leave().await;
    sleep(DELAY / 2).await;
    let ben = Worker::with(&world, &log, "ben", set, work).await;
    log.is_even(2).await;
    assert_eq!(log.now(), before);
    assert_eq!(log.begun(), 5 + of_ben);
    // A member that does not come again is replaced.
    ben.leave().await;
    sleep(DELAY / 2).await;
    assert_eq!(log.loads().len(), 1);
    assert!(log.now().len() < 5);
    log.is_even(1).await;
    is_empty_without(&world, [ana]).await;
}

/// The member has seen the other one come, and has not planned for it yet.
#[tokio::test(start_paused = true)]
async fn a_change_within_the_delay_is_planned_for_although_the_group_cannot_be_seen_then() {
    const DELAY: Duration = Duration::from_secs(60);
    let (world, log) = (World::new(), Log::default());
    let work = async |shard: Shard| shard.stopping().await;
    let ana = Worker::with(&world, &log, "ana", |it| it.delay(DELAY), work).await;
    sleep(2 * DELAY).await;
    assert_eq!(log.loads(), [("ana", 5)].into());
    let ben = Worker::start(&world, &log, "ben").await;
    sleep(Duration::from_secs(1)).await;
    // The list after the reconnect, and each that follows until it is given up.
    let session = ana.client.session().unwrap().id;
    world.inject(6, &Fault::lose_reply().op(OpCode::GET_CHILDREN2).session(session));
    world.server.disconnect(session);
    sleep(DELAY / 2).await;
    assert_eq!(world.server.pending_faults(), 0, "it has not seen the group");
    assert_eq!(log.loads(), [("ana", 5)].into());
    sleep(2 * DELAY).await;
    log.is_even(2).await;
    is_empty_without(&world, [ana, ben]).await;
}

#[tokio::test(start_paused = true)]
async fn an_error_or_the_end_of_the_future_drops_all_work_and_releases_all() {
    let (world, log) = (World::new(), Log::default());
    let client = world.client().await;
    let (of_spawned, told) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU32::new(0)));
    {
        let partitioner = partitioner(&client);
        let work = |shard: Shard| {
            let (at_work, told) = (log.begin("ana", shard.clone()), Arc::clone(&told));
            of_spawned.lock().unwrap().push(tokio::spawn(async move {
                let lost = shard.run(pending::<()>()).await.unwrap_err().loss();
                assert_eq!(lost, Some(Loss::Released));
                assert!(shard.is_stopping());
                shard.stopping().await;
                told.fetch_add(1, Ordering::Relaxed);
                shard
            }));
            async move {
                pending::<()>().await;
                drop(at_work);
            }
        };
        let mut running = Box::pin(partitioner.run("ana", work));
        while log.loads().get("ana") != Some(&5) {
            assert!(poll_once(running.as_mut()).is_pending());
            settle().await;
        }
        drop(running);
        assert_eq!(log.loads(), BTreeMap::new(), "all work is dropped by now");
    }
    // Their clones of the guards are alive.
    let mut shards = Vec::new();
    let spawned = std::mem::take(&mut *of_spawned.lock().unwrap());
    for spawned in spawned {
        shards.push(spawned.await.unwrap());
    }
    assert_eq!(told.load(Ordering::Relaxed), 5);
    is_empty_without(&world, []).await;
    drop(shards);
}

#[tokio::test(start_paused = true)]
async fn the_data_of_a_member_and_of_its_locks_is_there_for_observers() {
    let world = World::new();
    let client = world.client().await;
    let options = Options::new().data("10.0.0.7").max_hold(TIMEOUT);
    let partitioner = Partitioner::with_options(&client, LOCK, ["one"], options).unwrap();
    let (log, begun) = (Log::default(), client.clock().now());
    let work = async |shard: Shard| {
        let _at_work = log.begin("ana", shard.clone());
        let data = client.get_data(shard.node()).await.unwrap().data;
        assert_eq!(&data[..], b"10.0.0.7");
        pending().await
    };
    let mut members = partitioner.group().watch();
    let running = partitioner.run("ana", work);
    let watching = async {
        assert_eq!(members.next().await.unwrap().members.len(), 0);
        assert_eq!(members.next().await.unwrap().members[0].data, b"10.0.0.7");
        // The longest time is for the shards, and not for the membership.
        assert!(timeout(4 * TIMEOUT, members.next()).await.is_err());
    };
    tokio::select! {
        biased;
        () = watching => {}
        _ = running => unreachable!(),
    }
    let rounds = (client.clock().now() - begun).as_secs() / TIMEOUT.as_secs();
    assert!((rounds as usize - 1..rounds as usize + 2).contains(&log.begun()), "{}", log.begun());
}

#[tokio::test(start_paused = true)]
async fn work_is_polled_only_when_it_was_woken() {
    let world = World::new();
    let client = world.client().await;
    let partitioner = partitioner(&client);
    let polls = [const { AtomicU32::new(0) }; 5];
    let work = |shard: Shard| {
        let at = shard.name()[1..].parse::<usize>().unwrap();
        let polls = &polls;
        let mut ticking = Box::pin(async move {
            loop {
                // Only the first one wakes again and again.
                sleep(if at == 0 { Duration::from_millis(1) } else { 100 * TIMEOUT }).await;
            }
        });
        std::future::poll_fn(move |cx| {
            polls[at].fetch_add(1, Ordering::Relaxed);
            ticking.as_mut().poll(cx)
        })
    };
    let ran = timeout(Duration::from_secs(1), partitioner.run("ana", work)).await;
    assert!(ran.is_err());
    let polls = polls.map(AtomicU32::into_inner);
    assert!(polls[0] > 900 && polls[1..].iter().all(|polls| *polls < 10), "{polls:?}");
}
