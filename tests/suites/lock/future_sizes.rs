//! The sizes of the futures of the public API in a debug build. Whoever awaits one has it inside a
//! future of its own, and often several times on the stack.

use std::collections::BTreeSet;
use std::future::Ready;

use zk_client::{
    Client, ClientBuilder, Clock, Lease, Marker, Op, Resolving, SessionKeeper, Sessions,
    StateStream, Walk, WatchStream, Watcher,
};
use zk_recipes::*;

const MOST: usize = 8 * 1024;

/// What may be twice as large: it runs whole recipes.
const LARGER: [&str; 3] = ["Election::lead", "Partitioner::run", "Partitioner::run_until"];

/// An argument for a call that is never made.
fn any<T>() -> T {
    unreachable!("only the type of the call's future is used")
}

fn size<F: Future>(_: impl FnOnce() -> F) -> usize {
    size_of::<F>()
}

/// The functions in a list of an API that return a future.
fn listed(list: &'static str) -> impl Iterator<Item = String> {
    let is_async = |line: &&str| {
        let (start, returned) = line.split_once(") -> ").unwrap_or((line, ""));
        let is_future = |name: &&str| returned.contains(*name);
        start.starts_with("pub async fn")
            || ["impl core::future", "Releasing"].iter().any(is_future)
    };
    list.lines().filter(is_async).map(|line| {
        let path = line.split_once("fn ").unwrap().1.split('(').next().unwrap();
        let mut name = path.split_once("::").unwrap().1.to_owned();
        while let Some(from) = name.find('<') {
            let to = name[from..].find(['>', ' ']).map_or(name.len(), |to| from + to + 1);
            name.replace_range(from..to, "");
            if !name[..from].ends_with("Guard") {
                name.truncate(from);
            }
        }
        name
    })
}

#[test]
fn no_future_of_the_public_api_is_large() {
    type Work = Ready<()>;
    type Tries = Ready<Result<(), Error>>;
    type Ops = Vec<Op<'static>>;
    macro_rules! sizes {
        ($($name:literal => $call:expr,)*) => { [$(($name, size(|| $call))),*] };
    }
    let sizes = sizes! {
        "Client::connect" => Client::connect(any()),
        "Client::close" => Client::close(any()),
        "Client::detach" => Client::detach(any()),
        "Client::create_all" => Client::create_all(any(), any(), any(), any()),
        "Client::ensure" => Client::ensure(any(), any(), any()),
        "Client::delete_all" => Client::delete_all(any(), any()),
        "Client::delete_quota" => Client::delete_quota(any(), any()),
        "Client::get_quota" => Client::get_quota(any(), any()),
        "Client::set_quota" => Client::set_quota(any(), any(), any()),
        "Client::wait_for_zxid" => Client::wait_for_zxid(any(), any()),
        "Client::keeper_dialect" => Client::keeper_dialect(any()),
        "ClientBuilder::connect" => ClientBuilder::connect(any(), any()),
        "ClientBuilder::split" => ClientBuilder::split(any(), any()).unwrap().1,
        "ClientBuilder::four_letter_word" => {
            ClientBuilder::four_letter_word(any(), any(), any())
        },
        "ClientBuilder::keep" => ClientBuilder::keep(any(), any()),
        "ClientBuilder::keep_split" => ClientBuilder::keep_split(any(), any()).unwrap().1,
        "Clock::sleep_until" => Clock::sleep_until(any(), any()),
        "Lease::changed" => Lease::changed(any(), any()),
        "Lease::lapsed" => Lease::lapsed(any()),
        "Marker::multi" => Marker::multi::<Ops>(any(), any()),
        "Resolving::create" => Resolving::create(any(), any(), any(), any()),
        "Resolving::delete" => Resolving::delete(any(), any(), any()),
        "Resolving::set_data" => Resolving::set_data(any(), any(), any(), any()),
        "SessionKeeper::client" => SessionKeeper::client(any()),
        "SessionKeeper::close" => SessionKeeper::close(any()),
        "SessionKeeper::run_each" => {
            SessionKeeper::run_each(any(), |_| any::<Ready<Result<(), zk_client::Error>>>())
        },
        "Sessions::next" => Sessions::next(any()),
        "StateStream::next" => StateStream::next(any()),
        "Walk::next" => Walk::next(any()),
        "WatchStream::next" => WatchStream::next(any()),
        "Watcher::changed" => Watcher::changed(any()),
        "Barrier::close" => Barrier::close(any()),
        "Barrier::is_open" => Barrier::is_open(any()),
        "Barrier::open" => Barrier::open(any()),
        "Barrier::wait" => Barrier::wait(any()),
        "Cached::follow" => Cached::follow(any(), any()).unwrap().1,
        "Counter::add" => Counter::add(any(), any()),
        "Counter::compare_and_set" => Counter::compare_and_set(any(), any(), any()),
        "Counter::get" => Counter::get(any()),
        "Counter::get_latest" => Counter::get_latest(any()),
        "Counter::reserve" => Counter::reserve(any(), any()),
        "DoubleBarrier::enter" => DoubleBarrier::enter(any()),
        "Election::campaign" => Election::campaign(any()),
        "Election::candidates" => Election::candidates(any()),
        "Election::lead" => Election::lead(any(), |_| any::<Work>()),
        "Group::join" => Group::join(any(), any(), any::<Vec<u8>>()),
        "Group::members" => Group::members(any()),
        "Group::take_over" => Group::take_over(any(), any(), any::<Vec<u8>>()),
        "Group::try_join" => Group::try_join(any(), any(), any::<Vec<u8>>()),
        "Guard::requeue" => Guard::requeue(any()),
        "Guard::downgrade" => WriteGuard::downgrade(any()),
        "Guard::release" => Guard::<Exclusive>::release(any()),
        "Guard::release_with" => Guard::<Exclusive>::release_with::<Ops>(any(), any()),
        "Hold::fenced_resolving" => Hold::fenced_resolving::<Ops>(any(), any(), any()),
        "Hold::verify" => Hold::verify(any()),
        "Hold::lost" => Hold::lost(any()),
        "Hold::revoke_requested" => Hold::revoke_requested(any()),
        "Hold::running_out" => Hold::running_out(any(), any()),
        "Hold::run" => Hold::run::<Work>(any(), any()),
        "Leaders::next" => Leaders::next(any()),
        "Lock::acquire" => Lock::acquire(any()),
        "Lock::acquire_within" => Lock::acquire_within(any(), any()),
        "Lock::try_acquire" => Lock::try_acquire(any()),
        "Lock::resume" => Lock::resume(any(), any()),
        "LockFolder::contenders" => LockFolder::contenders(any()),
        "LockFolder::revoke" => LockFolder::revoke(any()),
        "LockFolder::within" => LockFolder::within(any(), any(), any::<Tries>()),
        "Members::next" => Members::next(any()),
        "Membership::leave" => Membership::leave(any()),
        "Membership::set_data" => Membership::set_data(any(), any::<Vec<u8>>()),
        "MultiGuard::fenced" => MultiGuard::fenced::<Ops>(any(), any()),
        "MultiGuard::lost" => MultiGuard::lost(any()),
        "MultiGuard::running_out" => MultiGuard::running_out(any(), any()),
        "MultiGuard::release" => MultiGuard::release(any()),
        "MultiGuard::run" => MultiGuard::run::<Work>(any(), any()),
        "MultiGuard::verify" => MultiGuard::verify(any()),
        "MultiLock::acquire" => MultiLock::acquire(any()),
        "MultiLock::acquire_within" => MultiLock::acquire_within(any(), any()),
        "MultiLock::try_acquire" => MultiLock::try_acquire(any()),
        "Partitioner::run" => Partitioner::run(any(), any(), |_| any::<Work>()),
        "Partitioner::run_until" => {
            Partitioner::run_until(any(), any(), any::<Work>(), |_| any::<Work>())
        },
        "Permit::release" => Permit::release(any()),
        "ReentrantGuard::release" => ReentrantGuard::release(any()),
        "ReentrantLock::acquire" => ReentrantLock::acquire(any(), any()),
        "ReentrantLock::try_acquire" => ReentrantLock::try_acquire(any(), any()),
        "ReentrantRwLock::read" => ReentrantRwLock::read(any(), any()),
        "ReentrantRwLock::try_read" => ReentrantRwLock::try_read(any(), any()),
        "ReentrantRwLock::try_write" => ReentrantRwLock::try_write(any(), any()),
        "ReentrantRwLock::write" => ReentrantRwLock::write(any(), any()),
        "Round::leave" => Round::leave(any()),
        "RwLock::read" => RwLock::read(any()),
        "RwLock::try_read" => RwLock::try_read(any()),
        "RwLock::try_write" => RwLock::try_write(any()),
        "RwLock::write" => RwLock::write(any()),
        "Semaphore::acquire" => Semaphore::acquire(any()),
        "Semaphore::acquire_many" => Semaphore::acquire_many(any(), any()),
        "Semaphore::acquire_many_within" => {
            Semaphore::acquire_many_within(any(), any(), any())
        },
        "Semaphore::acquire_within" => Semaphore::acquire_within(any(), any()),
        "Semaphore::try_acquire" => Semaphore::try_acquire(any()),
        "Semaphore::try_acquire_many" => Semaphore::try_acquire_many(any(), any()),
        "Shard::stopping" => Shard::stopping(any()),
        "TreeCache::follow" => TreeCache::follow(any(), any(), any()).unwrap().1,
        "TreeCache::wait_for_zxid" => TreeCache::wait_for_zxid(any(), any()),
        "retry" => retry(any::<Tries>),
        "retry_if" => retry_if(|_: &Error| any(), any::<Tries>),
    };
    let lists = [include_str!("../../api/zk-client.txt"), include_str!("../../api/zk-recipes.txt")];
    let listed = lists.into_iter().flat_map(listed).collect::<BTreeSet<_>>();
    let measured = sizes.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(listed, measured, "each public function that returns a future is measured");
    let most = |name| if LARGER.contains(&name) { 2 * MOST } else { MOST };
    let large = sizes.into_iter().filter(|&(name, size)| size > most(name)).collect::<Vec<_>>();
    assert!(large.is_empty(), "{large:?}");
}
