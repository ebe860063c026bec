//! Fencing tokens and fenced transactions, the end of the sequence numbers, and children that are
//! not contenders.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use zk_client::{Committed, CreateOptions, Op};
use zk_embedded::{Fault, OpCode};
use zk_recipes::{ErrorKind, Lock, Loss, Options, Owner, ReentrantLock};
use zk_test_support::explore::{Script, explore, poll_once, settle};
use zk_test_support::locks::{LOCK, World};

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

#[tokio::test(start_paused = true)]
async fn tokens_grow_although_the_numbers_begin_again() {
    let world = World::new();
    let lock = world.lock().await;
    let admin = world.client().await;
    let mut last = None;
    for _ in 0..4 {
        let guard = lock.acquire().await.unwrap();
        assert!(guard.node().ends_with("0000000000"), "{}", guard.node());
        assert!(last.is_none_or(|last| guard.token() > last));
        last = Some(guard.token());
        guard.release().await.unwrap();
        admin.delete(LOCK, None).await.unwrap();
    }
}

#[test]
fn a_fenced_write_happens_exactly_if_the_node_is_there() {
    let runs = explore(|script: Script| async move {
        let world = World::new();
        let (lock, admin) = (world.lock().await, world.client().await);
        admin.create("/data", b"", &PERSISTENT).await.unwrap();
        let guard = lock.acquire().await.unwrap();
        let path = guard.node().to_owned();
        let (mut fenced, mut deleted) = (None, None);
        for _ in 0..4 {
            match script.choose(4) {
                0 => settle().await,
                1 => tokio::task::yield_now().await,
                2 if fenced.is_none() => {
                    let write = Op::set_data("/data", b"mine", None);
                    let mut asked = Box::pin(guard.fenced(write));
                    drop(poll_once(asked.as_mut()));
                    fenced = Some(asked);
                }
                _ if deleted.is_none() => deleted = Some(admin.delete(&path, None)),
                _ => {}
            }
        }
        settle().await;
        let history = world.server.history();
        let at = |path: &str, nth: usize| {
            history.iter().filter(|commit| commit.path == path).nth(nth).map(|commit| commit.zxid)
        };
        let (written, gone) = (at("/data", 1), at(&path, 1));
        if let (Some(written), Some(gone)) = (written, gone) {
            assert!(written < gone);
        }
        assert_eq!(gone.is_some(), deleted.is_some());
        if fenced.is_none() || deleted.is_none() {
            assert_eq!(written.is_some(), fenced.is_some());
        }
    });
    assert_eq!(runs, 256);
}

#[tokio::test(start_paused = true)]
async fn a_fenced_write_of_a_holder_that_has_lost_says_so() {
    let world = World::new();
    let (admin, (_, _, guard)) = (world.client().await, world.holder().await);
    admin.create("/data", b"", &PERSISTENT).await.unwrap();
    guard.fenced(Op::set_data("/data", b"1", None)).await.unwrap();
    // A refusal for another reason is not a loss.
    let refused = guard.fenced(Op::set_data("/nowhere", b"2", None)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Client);
    admin.delete(guard.node(), None).await.unwrap();
    let error = guard.fenced(Op::set_data("/data", b"3", None)).await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::NodeDeleted));
    assert_eq!(&admin.get_data("/data").await.unwrap().data[..], b"1");
}

#[tokio::test(start_paused = true)]
async fn near_the_end_of_the_numbers_an_acquire_fails_or_makes_the_folder_anew() {
    let world = World::new();
    world.make_folder().await;
    let lock = world.lock().await;
    for next in [i32::MAX - 10, i32::MAX - 65_535] {
        assert!(world.server.preset_sequence(LOCK, next));
        for _ in 0..3 {
            let (acquired, tried) = (lock.acquire().await, lock.try_acquire().await);
            assert_eq!(acquired.unwrap_err().kind(), ErrorKind::SequenceExhausted);
            assert_eq!(tried.unwrap_err().kind(), ErrorKind::SequenceExhausted);
        }
    }
    settle().await;
    assert_eq!(world.queue(), [""; 0]);
    assert!(world.server.preset_sequence(LOCK, i32::MAX - 65_536));
    let last = lock.acquire().await.unwrap();
    let options = Options::new().rotate(true);
    let rotating = Lock::with_options(&world.client().await, LOCK, options).unwrap();
    let waiting = tokio::spawn(async move { rotating.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished(), "{last:?} holds");
    let token = last.token();
    last.release().await.unwrap();
    let guard = waiting.await.unwrap();
    assert!(guard.node().ends_with("0000000000") && guard.token() > token);
    world.is_owner(&guard);
}

#[tokio::test(start_paused = true)]
async fn children_that_are_no_contenders_are_left_out_or_reported() {
    let world = World::new();
    let admin = world.client().await;
    world.make_folder().await;
    for name in ["config", "lock-x", "\u{e9}lock-\u{e9}00000001", "lock-12", "lock-+000000001"] {
        admin.create(&format!("{LOCK}/{name}"), b"", &PERSISTENT).await.unwrap();
    }
    admin.create(&format!("{LOCK}/config/part"), b"", &PERSISTENT).await.unwrap();
    let strict = Options::new().strict_foreign(true);
    for options in [Options::new(), strict.clone()] {
        let lock = Lock::with_options(&world.client().await, LOCK, options).unwrap();
        for _ in 0..4 {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
    }
    let foreign = format!("{LOCK}/x-72057594037927936-0000000001");
    admin.create(&foreign, b"", &PERSISTENT).await.unwrap();
    let lenient = world.lock().await;
    lenient.acquire().await.unwrap().release().await.unwrap();
    let lock = Lock::with_options(&world.client().await, LOCK, strict).unwrap();
    let error = lock.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ForeignContender);
    assert!(error.to_string().contains("a layout that is not known here"), "{error}");
    settle().await;
    assert_eq!(world.server.children(LOCK).len(), 6, "nobody of ours is left");
}

#[tokio::test(start_paused = true)]
async fn a_fenced_write_whose_reply_is_lost_finds_out_that_it_was_carried_out() {
    let world = World::new();
    let (client, _, guard) = world.holder().await;
    client.create("/data", b"", &PERSISTENT).await.unwrap();
    client.create("/m", b"", &PERSISTENT).await.unwrap();
    let options = CreateOptions::ephemeral().sequential();
    let node = client.create_owned("/m/mark-", b"", &options).await.unwrap();
    let mut marker = client.resolving().marker(node);
    for (fault, version) in [(Fault::lose_request(), 1), (Fault::lose_reply(), 2)] {
        world.server.inject(fault.op(OpCode::MULTI));
        let write = Op::set_data("/data", b"mine", None);
        let done = guard.fenced_resolving(&mut marker, write).await.unwrap();
        assert_eq!(matches!(done, Committed::Found(_)), version == 2, "{done:?}");
        assert_eq!(client.exists("/data").await.unwrap().unwrap().version, version);
    }
    world.client().await.delete(guard.node(), None).await.unwrap();
    let write = Op::set_data("/data", b"late", None);
    let error = guard.fenced_resolving(&mut marker, write).await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::NodeDeleted));
    assert_eq!(client.exists("/data").await.unwrap().unwrap().version, 2);
}

/// Two tasks share a guard of a lock that its process hands on without a request.
#[test]
fn a_fenced_write_comes_before_the_release_by_another_task_or_not_at_all() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::new();
        let client = world.client().await;
        client.create("/data", b"", &PERSISTENT).await.unwrap();
        let options = Options::new().linger(Duration::from_secs(60));
        let lock = ReentrantLock::with_options(&client, LOCK, options).unwrap();
        for round in 0..20 {
            let guard = Arc::new(lock.acquire(&Owner::new()).await.unwrap());
            let barrier = Arc::new(Barrier::new(2));
            let writing = std::thread::spawn({
                let (guard, barrier) = (Arc::clone(&guard), Arc::clone(&barrier));
                move || {
                    // Its encoding takes longer than all that the other thread does.
                    let checks = vec![Op::check("/data", None); 20_000];
                    let write = Op::set_data("/data", b"old", None);
                    barrier.wait();
                    guard.fenced((write, checks))
                }
            });
            barrier.wait();
            for _ in 0..round * 20 {
                std::thread::yield_now();
            }
            drop(guard.release());
            let next = lock.acquire(&Owner::new()).await.unwrap();
            client.set_data("/data", b"new", None).await.unwrap();
            match writing.join().unwrap().await {
                Ok(_) => {}
                Err(error) => assert_eq!(error.loss(), Some(Loss::Released), "{error}"),
            }
            let data = client.get_data("/data").await.unwrap().data;
            assert_eq!(&*data, b"new", "the next holder wrote last");
            drop(next);
        }
    });
}
