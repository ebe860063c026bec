//! The two-level locks: the tasks of one process share one node, and other processes must still get
//! their turn.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_client::{Acl, Id, Perms};
use zk_embedded::{ErrorCode, Fault, OpCode};
use zk_recipes::{
    Error, ErrorKind, LockState, Loss, OfTwoLevelLock, Options, Owner, ReentrantGuard,
    ReentrantLock, ReentrantRwLock, Release,
};
use zk_test_support::explore::{poll_once, settle};
use zk_test_support::locks::{LOCK, World};

async fn stock(world: &World, options: Options<OfTwoLevelLock>) -> ReentrantLock {
    ReentrantLock::with_options(&world.client().await, LOCK, options).unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_owner_has_one_node_until_its_last_guard() {
    let world = World::new();
    let (lock, me) = (stock(&world, Options::new()).await, Owner::new());
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0], [0, 2, 1], [2, 0, 1]] {
        let first = lock.acquire(&me).await.unwrap();
        let (requests, rest) =
            world.requests(async { (lock.acquire(&me).await, lock.acquire(&me).await) }).await;
        assert_eq!(requests, 0);
        let mut guards = [Some(first), Some(rest.0.unwrap()), Some(rest.1.unwrap())];
        let depths = guards.each_ref().map(|guard| guard.as_ref().unwrap().depth());
        assert_eq!(depths, [1, 2, 3]);
        let tokens = guards.each_ref().map(|guard| guard.as_ref().unwrap().token());
        assert!(tokens.iter().all(|token| *token == tokens[0]));
        for (left, at) in [2, 1, 0].into_iter().zip(order) {
            assert_eq!(world.queue().len(), 1);
            drop(guards[at].take());
            settle().await;
            assert_eq!(world.queue().len(), usize::from(left > 0), "{left} are left");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_branches_of_one_task_are_two_owners() {
    let world = World::new();
    let lock = stock(&world, Options::new()).await;
    let inside = RefCell::new(0);
    let branch = || async {
        let me = Owner::new();
        let guard = lock.acquire(&me).await.unwrap();
        assert_eq!(*inside.borrow(), 0);
        *inside.borrow_mut() += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
        *inside.borrow_mut() -= 1;
        guard.token()
    };
    let (one, two, three) = tokio::join!(branch(), branch(), branch());
    assert!(one < two && two < three, "passes order those who share a node");
    let mine = Owner::new();
    tokio::select! {
        biased;
        guard = lock.acquire(&mine) => drop(guard.unwrap()),
        _ = branch() => panic!("the first branch asked first"),
    }
    is_free(&world, &lock).await;
}

/// Checks that the lock is free and that its release leaves no node.
async fn is_free(world: &World, lock: &ReentrantLock) {
    let guard = lock.try_acquire(&Owner::new()).await.unwrap().expect("it is free");
    world.is_owner(&guard);
    drop(guard);
    settle().await;
    assert_eq!(world.queue(), [""; 0]);
}

/// A task of another owner that has queued up.
async fn queued(lock: &ReentrantLock) -> JoinHandle<Result<ReentrantGuard, Error>> {
    let lock = lock.clone();
    let waiting = tokio::spawn(async move { lock.acquire(&Owner::new()).await });
    settle().await;
    waiting
}

#[tokio::test(start_paused = true)]
async fn the_first_release_of_two_does_not_let_anybody_in() {
    let world = World::new();
    let (lock, other) = (stock(&world, Options::new()).await, world.lock().await);
    let me = Owner::new();
    let (outer, inner) = (lock.acquire(&me).await.unwrap(), lock.acquire(&me).await.unwrap());
    let foreign = World::queued(&other).await;
    assert_eq!(inner.release().await.unwrap(), Release::Released);
    settle().await;
    assert!(!foreign.is_finished());
    world.is_owner(&outer);
    assert_eq!(outer.release().await.unwrap(), Release::Released);
    world.is_owner(&foreign.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn another_process_gets_its_turn_after_the_passes() {
    let world = World::new();
    let bounds = Options::new().local_handoffs(8).local_handoff_time(Duration::MAX);
    let lock = stock(&world, bounds).await;
    is_free(&world, &lock).await;
    is_free(&world, &lock).await;
    let first = Owner::new();
    let held = lock.acquire(&first).await.unwrap();
    let turns = Rc::new(RefCell::new(0));
    let set = tokio::task::LocalSet::new();
    let mut local = Vec::new();
    for _ in 0..100 {
        let (lock, turns) = (lock.clone(), Rc::clone(&turns));
        local.push(set.spawn_local(async move {
            let me = Owner::new();
            let guard = lock.acquire(&me).await.unwrap();
            *turns.borrow_mut() += 1;
            tokio::task::yield_now().await;
            drop(guard);
        }));
    }
    let remote = world.lock().await;
    let seen = Rc::clone(&turns);
    let remote = set.spawn_local(async move {
        let guard = remote.acquire().await.unwrap();
        let turns = *seen.borrow();
        assert!((1..=8).contains(&turns), "after {turns} local turns");
        drop(guard);
    });
    set.run_until(async {
        settle().await;
        drop(held);
        remote.await.unwrap();
        for task in local {
            task.await.unwrap();
        }
    })
    .await;
    assert_eq!(*turns.borrow(), 100);
}

#[tokio::test(start_paused = true)]
async fn another_process_gets_its_turn_after_the_time() {
    let world = World::new();
    let bounds = Options::new().local_handoffs(1000).local_handoff_time(Duration::from_secs(1));
    let (lock, remote) = (stock(&world, bounds).await, world.lock().await);
    let owners = [Owner::new(), Owner::new(), Owner::new()];
    let held = lock.acquire(&owners[0]).await.unwrap();
    let remote = tokio::spawn(async move { remote.acquire().await.unwrap() });
    let pass = async |owner: &Owner, time: u64| {
        let guard = lock.acquire(owner).await.unwrap();
        tokio::time::sleep(Duration::from_millis(time)).await;
        guard.token()
    };
    let first = held.token();
    let (second, third, ()) = tokio::join!(pass(&owners[1], 900), pass(&owners[2], 1), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(held);
        let guard = remote.await.unwrap();
        world.is_owner(&guard);
    });
    assert_eq!(first.czxid(), second.czxid(), "passed on in time");
    assert!(third.czxid() > second.czxid(), "queued up again behind the other process");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_comes_late_in_the_term_gets_one_of_its_own() {
    let seconds = Duration::from_secs;
    for (first, shared) in [(4, true), (6, false)] {
        let world = World::new();
        let bounds = Options::new().max_hold(seconds(10)).local_handoff_time(Duration::MAX);
        let lock = stock(&world, bounds).await;
        let guard = lock.acquire(&Owner::new()).await.unwrap();
        let (node, token) = (guard.node().to_owned(), guard.token());
        let next = queued(&lock).await;
        tokio::time::sleep(seconds(first)).await;
        drop(guard);
        let guard = next.await.unwrap().unwrap();
        assert_eq!(guard.node() == node, shared, "after {first} s");
        assert!(guard.token() > token);
        // At least half of the term is left.
        assert!(tokio::time::timeout(seconds(5), guard.lost()).await.is_err());
        assert_eq!(guard.lost().await, Loss::TermOver);
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_one_inherits_the_place_in_the_queue() {
    let world = World::new();
    let (lock, other) = (stock(&world, Options::new()).await, world.lock().await);
    let held = other.acquire().await.unwrap();
    let (head, next) = (queued(&lock).await, queued(&lock).await);
    let queue = world.queue();
    head.abort();
    let (requests, ()) = world.requests(settle()).await;
    assert_eq!((requests, world.queue()), (0, queue));
    held.release().await.unwrap();
    world.is_owner(&next.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_session_is_told_to_the_holder_and_to_all_who_wait() {
    let world = World::new();
    let client = world.client().await;
    let lock = ReentrantLock::new(&client, LOCK).unwrap();
    let me = Owner::new();
    let held = lock.acquire(&me).await.unwrap();
    let waiting = [queued(&lock).await, queued(&lock).await, queued(&lock).await];
    world.server.expire(client.session().unwrap().id);
    assert!(matches!(held.lost().await, Loss::SessionOver(_)));
    assert_eq!(held.release().await.unwrap(), Release::AlreadyLost);
    for waiting in waiting {
        let error = waiting.await.unwrap().unwrap_err();
        assert!(error.client().is_some_and(zk_client::Error::is_session_over), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_is_not_passed_on() {
    let world = World::new();
    let lock = stock(&world, Options::new()).await;
    is_free(&world, &lock).await;
    is_free(&world, &lock).await;
    let me = Owner::new();
    let held = lock.acquire(&me).await.unwrap();
    let next = queued(&lock).await;
    world.client().await.delete(held.node(), None).await.unwrap();
    settle().await;
    // No task has looked at the guard's state.
    drop(held);
    let guard = next.await.unwrap().unwrap();
    world.is_owner(&guard);
    assert_eq!(guard.state(), LockState::Held);
}

#[tokio::test(start_paused = true)]
async fn of_those_who_join_under_a_deleted_node_only_the_first_gets_in() {
    let world = World::new();
    let client = world.client().await;
    let lock = ReentrantRwLock::with_options(&client, LOCK, Options::new()).unwrap();
    let first = lock.read(&Owner::new()).await.unwrap();
    settle().await;
    world.client().await.delete(first.node(), None).await.unwrap();
    settle().await;
    // No task has looked at a guard's state. The second reader is let in, and watches the node.
    let second = lock.read(&Owner::new()).await.unwrap();
    settle().await;
    let me = Owner::new();
    let mut third = Box::pin(lock.read(&me));
    assert!(poll_once(third.as_mut()).is_pending(), "the lock is lost");
    assert_eq!(second.lost().await, Loss::NodeDeleted);
    drop((first, second));
    world.is_owner(&third.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_acquire_frees_the_local_level() {
    let world = World::new();
    let lock = stock(&world, Options::new()).await;
    is_free(&world, &lock).await;
    world.server.inject(Fault::refuse(ErrorCode::NO_AUTH).op(OpCode::CREATE2));
    let (me, other) = (Owner::new(), Owner::new());
    let (one, two) = tokio::join!(lock.acquire(&me), lock.acquire(&other));
    // One of them gets the error, and the other tries again.
    let (refused, guard) = if one.is_err() { (one, two) } else { (two, one) };
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Client);
    world.is_owner(&guard.unwrap());
    settle().await;
    world.server.inject(Fault::refuse(ErrorCode::NO_AUTH).op(OpCode::CREATE2));
    assert!(lock.try_acquire(&me).await.is_err());
    is_free(&world, &lock).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_on_several_threads_get_in_one_by_one_whoever_leaves() {
    let world = World::new();
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for process in 0..2 {
        let lock = stock(&world, Options::new()).await;
        for task in 0..6 {
            let (lock, inside) = (lock.clone(), Arc::clone(&inside));
            tasks.push(tokio::spawn(async move {
                let mut chance = fastrand::Rng::with_seed(process << 8 | task);
                let me = Owner::new();
                for _ in 0..200 {
                    match chance.u32(0..6) {
                        0 => {
                            let mut acquire = Box::pin(lock.acquire(&me));
                            for _ in 0..chance.u32(1..4) {
                                if poll_once(acquire.as_mut()).is_ready() {
                                    break;
                                }
                                tokio::task::yield_now().await;
                            }
                        }
                        1 => drop(lock.try_acquire(&me).await.unwrap()),
                        _ => {
                            let guard = lock.acquire(&me).await.unwrap();
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            tokio::task::yield_now().await;
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(guard);
                        }
                    }
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// Servers do not tell a client of the end of a node that it may not read.
#[tokio::test(start_paused = true)]
async fn a_node_whose_end_cannot_be_seen_is_not_handed_on() {
    let world = World::new();
    let hidden = [Acl::new(Perms::ALL.without(Perms::READ), Id::ANYONE)];
    let (client, remote) = (world.client().await, world.lock().await);
    let options = Options::new().acl(&hidden);
    let lock = ReentrantLock::with_options(&client, LOCK, options).unwrap();
    let (one, other) = (Owner::new(), Owner::new());
    let guard = lock.acquire(&one).await.unwrap();
    let node = guard.node().to_owned();
    let waiting = tokio::spawn(async move { lock.acquire(&other).await.unwrap() });
    settle().await;
    world.client().await.delete(&node, None).await.unwrap();
    let held = remote.acquire().await.unwrap();
    drop(guard);
    settle().await;
    assert!(!waiting.is_finished(), "another process has it");
    drop(held);
    let guard = waiting.await.unwrap();
    assert_ne!(guard.node(), node);
    world.is_owner(&guard);
}
