//! The read/write lock: which contenders wait for which, how many are woken, and a downgrade from
//! writer to reader in every order and with every fault.

use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_embedded::Fault;
use zk_proto::{Acl, CreateMode, CreateRequest, List};
use zk_recipes::{ErrorKind, Owner, ReadGuard, ReentrantRwLock, RwLock, WriteGuard};
use zk_test_support::explore::{Script, actor, explore, poll_once, settle, sweep};
use zk_test_support::locks::{LOCK, World};
use zk_test_support::raw::RawClient;

async fn catalogue(world: &World) -> RwLock {
    let lock = RwLock::new(&world.client().await, LOCK).unwrap();
    for _ in 0..3 {
        drop(lock.try_read().await.unwrap());
    }
    settle().await;
    lock
}

async fn reads(lock: &RwLock) -> JoinHandle<ReadGuard> {
    let lock = lock.clone();
    let reading = tokio::spawn(async move { lock.read().await.unwrap() });
    settle().await;
    reading
}

async fn writes(lock: &RwLock) -> JoinHandle<WriteGuard> {
    let lock = lock.clone();
    let writing = tokio::spawn(async move { lock.write().await.unwrap() });
    settle().await;
    writing
}

#[tokio::test(start_paused = true)]
async fn a_reader_waits_for_the_writer_ahead_and_for_nobody_behind() {
    let world = World::new();
    let locks = [catalogue(&world).await, catalogue(&world).await, catalogue(&world).await];
    let first = locks[0].write().await.unwrap();
    let reader = reads(&locks[1]).await;
    let younger = writes(&locks[2]).await;
    assert!(!reader.is_finished() && !younger.is_finished());
    assert!(locks[0].try_read().await.unwrap().is_none());
    first.release().await.unwrap();
    let reader = reader.await.unwrap();
    settle().await;
    assert!(!younger.is_finished(), "it waits for the reader");
    reader.release().await.unwrap();
    world.is_owner(&younger.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn readers_are_woken_by_the_last_writer_ahead_alone() {
    let world = World::new();
    let (one, two) = (catalogue(&world).await, catalogue(&world).await);
    let first = writes(&one).await.await.unwrap();
    let second = writes(&two).await;
    let mut readers = Vec::new();
    let lock = catalogue(&world).await;
    for _ in 0..50 {
        readers.push(reads(&lock).await);
    }
    // Each reader watches both writers. After the deletion of the first, the reader knows without a
    // request that one writer is left.
    let (requests, second) = world
        .requests(async {
            first.release().await.unwrap();
            second.await.unwrap()
        })
        .await;
    assert!(requests <= 3, "{requests} requests");
    assert!(readers.iter().all(|reader| !reader.is_finished()));
    let (requests, guards) = world
        .requests(async {
            second.release().await.unwrap();
            let mut guards = Vec::new();
            for reader in readers {
                guards.push(reader.await.unwrap());
            }
            guards
        })
        .await;
    assert_eq!((requests, guards.len()), (1, 50), "the delete");
}

#[test]
fn a_writer_gets_in_when_the_last_reader_has_left_whoever_that_is() {
    let runs = explore(|script: Script| async move {
        let world = Rc::new(World::new());
        let lock = catalogue(&world).await;
        let writer = catalogue(&world).await;
        let mut guards = Vec::new();
        for _ in 0..3 {
            guards.push(lock.read().await.unwrap());
        }
        let writing = writes(&writer).await;
        let (requests, ()) = world
            .requests(async {
                while !guards.is_empty() {
                    assert!(!writing.is_finished());
                    drop(guards.remove(script.choose(guards.len())));
                    if script.choose(2) == 0 {
                        settle().await;
                    }
                }
                world.is_owner(&writing.await.unwrap());
            })
            .await;
        assert!(requests <= 4 + 3 * 2, "{requests} requests");
    });
    assert_eq!(runs, 3 * 2 * 2 * 2 * 2);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_another_client_puts_in_the_place_of_its_writer_is_waited_for() {
    let world = World::new();
    let lock = catalogue(&world).await;
    lock.read().await.unwrap().release().await.unwrap();
    // Curator downgrades in two steps: it creates the reader first.
    let mut foreign = RawClient::open(&world.server).await;
    let name = |role: &str| format!("{LOCK}/_c_0123-{role}");
    let acl = [Acl::OPEN];
    let acl = List::new(&acl);
    let mode = CreateMode::EPHEMERAL_SEQUENTIAL;
    let stem = name("__WRIT__");
    foreign.reply(&CreateRequest { path: &stem, data: None, acl, mode }).await;
    let writer = format!("{LOCK}/{}", world.queue().pop().unwrap());
    let waiting = writes(&lock).await;
    let reader = writer.replace("__WRIT__", "__READ__");
    let mode = CreateMode::EPHEMERAL;
    foreign.reply(&CreateRequest { path: &reader, data: None, acl, mode }).await;
    foreign.reply(&zk_test_support::raw::delete(&writer)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished(), "{reader} reads");
    foreign.reply(&zk_test_support::raw::delete(&reader)).await;
    world.is_owner(&waiting.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn readers_behind_a_writer_that_becomes_one_get_in() {
    let world = World::new();
    let (lock, other) = (catalogue(&world).await, catalogue(&world).await);
    let writer = lock.write().await.unwrap();
    let token = writer.token();
    let (reader, late) = (reads(&other).await, writes(&other).await);
    let mine = writer.downgrade().await.unwrap();
    assert!(mine.token() > token);
    let others = reader.await.unwrap();
    settle().await;
    assert!(!late.is_finished());
    drop((mine, others));
    world.is_owner(&late.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_asks_to_write_is_refused_at_once() {
    let world = World::new();
    let lock = ReentrantRwLock::new(&world.client().await, LOCK).unwrap();
    let me = Owner::new();
    let reading = lock.read(&me).await.unwrap();
    let (requests, refused) = world.requests(lock.write(&me)).await;
    assert_eq!((requests, refused.unwrap_err().kind()), (0, ErrorKind::WouldDeadlock));
    assert_eq!(lock.try_write(&me).await.unwrap_err().kind(), ErrorKind::WouldDeadlock);
    drop(reading);
    // A writer that also asks to read causes no deadlock.
    let writing = lock.write(&me).await.unwrap();
    drop((lock.read(&me).await.unwrap(), writing));
    settle().await;
    assert_eq!(world.queue(), [""; 0]);
}

#[test]
fn a_downgrade_may_be_dropped_at_any_moment() {
    let runs = explore(|script: Script| async move {
        let world = Rc::new(World::new());
        let (lock, other) = (catalogue(&world).await, catalogue(&world).await);
        let writer = lock.write().await.unwrap();
        let here = Rc::clone(&world);
        let patience = script.choose(4);
        let downgrades = actor(async move {
            let mut downgrading = Box::pin(writer.downgrade());
            for _ in 0..patience {
                if let Poll::Ready(reader) = poll_once(downgrading.as_mut()) {
                    assert!(here.queue()[0].contains("__READ__"));
                    drop(reader);
                    return;
                }
                tokio::task::yield_now().await;
            }
        });
        let (writing, here) = (other.clone(), Rc::clone(&world));
        let writes = actor(async move {
            let guard = writing.write().await.unwrap();
            here.is_owner(&guard);
        });
        script.interleave(4, vec![downgrades, writes]).await;
        drop((lock, other));
        world.is_empty().await;
    });
    assert!(runs > 500, "{runs} runs");
}

#[test]
fn a_writer_becomes_a_reader_and_nobody_gets_in_between_whatever_breaks() {
    for fault in [Fault::lose_reply, Fault::lose_request] {
        let places = sweep(|at| async move {
            let world = World::new();
            let lock = catalogue(&world).await;
            let other = catalogue(&world).await;
            let writer = lock.write().await.unwrap();
            let (waiting, follower) = (writes(&other).await, reads(&other).await);
            let session = world.server.sessions()[0];
            let before = world.server.history().len();
            world.server.inject(fault().session(session).after(at));
            let downgraded = writer.downgrade().await;
            let struck = world.server.pending_faults() == 0;
            world.server.clear_faults();
            // Whatever the result, one of the two nodes existed as long as the lock was held.
            match downgraded {
                Ok(reader) => {
                    settle().await;
                    assert!(!waiting.is_finished());
                    let place = &reader.node()[reader.node().len() - 10..];
                    assert!(world.queue()[0].ends_with(place), "at the writer's place");
                    let history = world.server.history();
                    let changes =
                        history[before..].iter().filter(|commit| commit.path.ends_with(place));
                    let zxids = changes.map(|commit| commit.zxid).collect::<Vec<_>>();
                    assert!(zxids.len() == 2 && zxids[0] == zxids[1], "one transaction");
                    reader.release().await.ok();
                }
                Err(refused) => drop(refused.guard),
            }
            waiting.await.unwrap().release().await.unwrap();
            follower.await.unwrap().release().await.unwrap();
            settle().await;
            assert_eq!(world.queue(), [""; 0]);
            struck
        });
        assert!(places >= 1, "{places} places");
    }
}
