//! Every guard reports a known loss as such, from each of its methods.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use zk_client::{Client, CreateOptions, Ended, Op, Outcome};
use zk_embedded::{Fault, OpCode};
use zk_recipes::{
    Error, ErrorKind, Guard, Lock, LockState, Loss, MultiGuard, MultiLock, Owner, ReadGuard,
    ReentrantGuard, ReentrantLock, ReentrantRwLock, Release, RwLock, WriteGuard,
};
use zk_test_support::explore::{poll_once, settle};
use zk_test_support::locks::{LOCK, TIMEOUT, World};

const DEADLINE: Loss = Loss::Deadline;

/// Any guard.
enum Held {
    Lock(Guard),
    Read(ReadGuard),
    Write(WriteGuard),
    Reentrant(ReentrantGuard),
    Multi(MultiGuard),
}

/// Does the same to any guard.
macro_rules! each {
    ($held:expr, |$guard:ident| $act:expr) => {
        match $held {
            Held::Lock($guard) => $act,
            Held::Read($guard) => $act,
            Held::Write($guard) => $act,
            Held::Reentrant($guard) => $act,
            Held::Multi($guard) => $act,
        }
    };
}

/// The number of kinds.
const KINDS: usize = 6;

impl Held {
    async fn of_kind(kind: usize, client: &Client) -> Self {
        let rw = RwLock::new(client, LOCK).unwrap();
        let owner = Owner::new();
        match kind {
            0 => Self::Lock(Lock::new(client, LOCK).unwrap().acquire().await.unwrap()),
            1 => Self::Read(rw.read().await.unwrap()),
            2 => Self::Write(rw.write().await.unwrap()),
            3 => {
                let lock = ReentrantLock::new(client, LOCK).unwrap();
                Self::Reentrant(lock.acquire(&owner).await.unwrap())
            }
            4 => {
                let lock = ReentrantRwLock::new(client, LOCK).unwrap();
                Self::Reentrant(lock.read(&owner).await.unwrap())
            }
            _ => {
                let lock = MultiLock::new(client, [LOCK, "/locks/two"]).unwrap();
                Self::Multi(lock.acquire().await.unwrap())
            }
        }
    }

    fn state(&self) -> LockState {
        each!(self, |guard| guard.state())
    }

    async fn verify(&self) -> Result<(), Error> {
        each!(self, |guard| guard.verify().await)
    }

    async fn write(&self, data: &[u8]) -> Result<(), Error> {
        let op = Op::set_data("/data", data, None);
        each!(self, |guard| guard.fenced(op).await.map(drop))
    }

    async fn run(&self, work: impl Future<Output = ()>) -> Result<(), Error> {
        each!(self, |guard| guard.run(work).await)
    }

    async fn release(self) -> Result<Release, Error> {
        each!(self, |guard| guard.release().await)
    }
}

fn is_lost(what: Result<(), Error>, loss: Loss) {
    let error = what.unwrap_err();
    assert_eq!((error.kind(), error.loss()), (ErrorKind::Lost, Some(loss)), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
}

/// A client, and the number of seconds by which its clock is ahead.
pub(crate) async fn jumping(world: &World) -> (Client, Arc<AtomicU64>) {
    let suspended = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&suspended);
    let told = move || Duration::from_secs(told.load(Ordering::Relaxed));
    let client: Client = world.builder().suspend_time(told).connect("zk").await.unwrap();
    client.create("/data", b"0", &CreateOptions::persistent()).await.ok();
    (client, suspended)
}

/// Suspends the process for longer than its session lives.
fn sleep(world: &World, client: &Client, suspended: &AtomicU64) {
    suspended.fetch_add(2 * TIMEOUT.as_secs(), Ordering::Relaxed);
    assert!(world.server.expire(client.session().unwrap().id));
}

#[tokio::test(start_paused = true)]
async fn whoever_stood_still_for_too_long_is_told_so_by_every_guard() {
    for kind in 0..KINDS {
        for first in 0..4 {
            let world = World::new();
            let (client, suspended) = jumping(&world).await;
            let held = Held::of_kind(kind, &client).await;
            sleep(&world, &client, &suspended);
            match first {
                0 => is_lost(held.verify().await, DEADLINE),
                1 => is_lost(held.write(b"1").await, DEADLINE),
                2 => assert_eq!(held.state(), LockState::Lost(DEADLINE)),
                _ => settle().await,
            }
            is_lost(held.write(b"2").await, DEADLINE);
            is_lost(held.verify().await, DEADLINE);
            assert_eq!(held.state(), LockState::Lost(DEADLINE));
            assert_eq!(held.release().await.unwrap(), Release::AlreadyLost);
            let data = world.client().await.get_data("/data").await.unwrap();
            assert_eq!(&data.data[..], b"0");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn work_under_a_guard_does_not_go_on_after_a_stop_that_was_too_long() {
    for kind in 0..KINDS {
        let world = World::new();
        let (client, suspended) = jumping(&world).await;
        let held = Held::of_kind(kind, &client).await;
        let (steps, wakes) = (AtomicU64::new(0), Notify::new());
        let mut working = Box::pin(held.run(async {
            while steps.fetch_add(1, Ordering::Relaxed) < 9 {
                wakes.notified().await;
            }
        }));
        for _ in 0..3 {
            wakes.notify_one();
            assert!(poll_once(working.as_mut()).is_pending());
            settle().await;
        }
        assert_eq!(steps.load(Ordering::Relaxed), 4);
        sleep(&world, &client, &suspended);
        wakes.notify_one();
        // Nothing else has run when the work would be polled.
        let Poll::Ready(ended) = poll_once(working.as_mut()) else { panic!("it works on") };
        is_lost(ended, DEADLINE);
        assert_eq!(steps.load(Ordering::Relaxed), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_in_doubt_fails_for_the_loss_that_came_of_it() {
    for kind in 0..KINDS {
        for expires in [false, true] {
            let world = World::new();
            let (client, _) = jumping(&world).await;
            let held = Held::of_kind(kind, &client).await;
            world.server.set_serving(false);
            client.states().wait_for(|state| !state.is_connected()).await.unwrap();
            let (mut write, mut verify) = (Box::pin(held.write(b"1")), Box::pin(held.verify()));
            assert!(poll_once(write.as_mut()).is_pending());
            assert!(poll_once(verify.as_mut()).is_pending());
            tokio::time::sleep(TIMEOUT).await;
            // A known loss is reported without the server.
            let Poll::Ready(known) = poll_once(pin!(held.verify())) else { panic!("waits") };
            is_lost(known, DEADLINE);
            if expires {
                assert!(world.server.expire(client.session().unwrap().id));
            }
            world.server.set_serving(true);
            if expires {
                is_lost(write.await, DEADLINE);
                is_lost(verify.await, DEADLINE);
            } else {
                // The node still existed, so no other contender can have had the lock.
                write.await.unwrap();
                verify.await.unwrap();
            }
            is_lost(held.verify().await, DEADLINE);
            assert_eq!(held.state(), LockState::Lost(DEADLINE));
            assert_eq!(held.release().await.unwrap(), Release::AlreadyLost);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_carried_out_is_left_open_and_what_was_refused_is_told() {
    let world = World::new();
    let (client, suspended) = jumping(&world).await;
    let guard = Lock::new(&client, LOCK).unwrap().acquire().await.unwrap();
    // The write is carried out, and its reply is lost while the process is suspended.
    world.server.inject(Fault::lose_reply().op(OpCode::MULTI));
    let mut write = pin!(guard.fenced(Op::set_data("/data", b"1", None)));
    assert!(poll_once(write.as_mut()).is_pending());
    tokio::task::yield_now().await;
    settle().await;
    sleep(&world, &client, &suspended);
    let error = write.await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Client, Outcome::Unknown), "{error}");
    assert_eq!(guard.state(), LockState::Lost(DEADLINE));

    let world = World::new();
    let (client, suspended) = jumping(&world).await;
    let guard = Lock::new(&client, LOCK).unwrap().acquire().await.unwrap();
    let mut write = pin!(guard.fenced(Op::set_data("/nowhere", b"1", None)));
    assert!(poll_once(write.as_mut()).is_pending());
    settle().await;
    suspended.store(2 * TIMEOUT.as_secs(), Ordering::Relaxed);
    let error = write.await.unwrap_err();
    assert_eq!(error.client().and_then(zk_client::Error::failed_op), Some(1), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_ends_a_guard_tells_the_loss_too() {
    let world = World::new();
    let (client, suspended) = jumping(&world).await;
    let guard = Lock::new(&client, LOCK).unwrap().acquire().await.unwrap();
    sleep(&world, &client, &suspended);
    let refused = guard.release_with(Op::set_data("/data", b"1", None)).await.unwrap_err();
    assert!(refused.guard.is_none());
    is_lost(Err(refused.into()), DEADLINE);

    let (client, suspended) = jumping(&world).await;
    let guard = RwLock::new(&client, LOCK).unwrap().write().await.unwrap();
    sleep(&world, &client, &suspended);
    let refused = guard.downgrade().await.unwrap_err();
    assert!(refused.guard.is_none());
    is_lost(Err(refused.into()), DEADLINE);

    let (client, suspended) = jumping(&world).await;
    let guard = Lock::new(&client, LOCK).unwrap().acquire().await.unwrap();
    sleep(&world, &client, &suspended);
    is_lost(guard.run(std::future::pending::<()>()).await, DEADLINE);
    is_lost(guard.revoke_requested().await, DEADLINE);
    is_lost(guard.into_ticket().map(drop), DEADLINE);
}

#[tokio::test(start_paused = true)]
async fn a_set_of_locks_knows_of_the_loss_of_any_of_them() {
    let world = World::new();
    let (client, admin) = (world.client().await, world.client().await);
    let lock = MultiLock::new(&client, [LOCK, "/locks/two"]).unwrap();
    let guard = lock.acquire().await.unwrap();
    guard.state();
    settle().await;
    admin.delete(guard.locks()[1].node(), None).await.unwrap();
    settle().await;
    world.server.set_serving(false);
    let Poll::Ready(known) = poll_once(pin!(guard.fenced(()))) else { panic!("waits") };
    is_lost(known, Loss::NodeDeleted);
}

#[tokio::test(start_paused = true)]
async fn a_release_of_what_was_lost_by_then_is_no_open_question() {
    let world = World::new();
    let (client, _) = jumping(&world).await;
    let guard = Lock::new(&client, LOCK).unwrap().acquire().await.unwrap();
    let admin = world.client().await;
    guard.state();
    settle().await;
    admin.delete(guard.node(), None).await.unwrap();
    settle().await;
    world.server.inject(Fault::lose_reply().op(OpCode::DELETE));
    assert_eq!(guard.release().await.unwrap(), Release::AlreadyLost);
    assert_eq!(world.server.pending_faults(), 0);

    let guard = Lock::new(&client, LOCK).unwrap().acquire().await.unwrap();
    client.close().await;
    let closed = Loss::SessionOver(Ended::Closed);
    is_lost(guard.verify().await, closed);
    assert_eq!(guard.state(), LockState::Lost(closed));
}

/// Another handle of the same client waits behind the node, and hears of its end by its own watch.
#[tokio::test(start_paused = true)]
async fn what_a_client_hears_of_a_node_all_its_handles_know() {
    let world = World::new();
    let (client, admin) = (world.client().await, world.client().await);
    let lock = ReentrantLock::new(&client, LOCK).unwrap();
    for hands_on in [false, true] {
        let other = Lock::new(&client, LOCK).unwrap();
        let held = lock.acquire(&Owner::new()).await.unwrap();
        let behind = tokio::spawn(async move { other.acquire().await.unwrap() });
        settle().await;
        admin.delete(held.node(), None).await.unwrap();
        let behind = behind.await.unwrap();
        // Nobody has looked at the state of this guard, so it has no watch of its own.
        if hands_on {
            let me = Owner::new();
            let mut next = pin!(lock.acquire(&me));
            assert!(poll_once(next.as_mut()).is_pending());
            drop(held);
            assert!(poll_once(next.as_mut()).is_pending(), "let in by a deleted node");
            drop(behind);
            world.is_owner(&next.await.unwrap());
        } else {
            assert_eq!(held.state(), LockState::Lost(Loss::NodeDeleted));
        }
    }
}
