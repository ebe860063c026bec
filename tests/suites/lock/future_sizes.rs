//! The sizes of the futures of the public API in a debug build. Whoever awaits one has it inside a
//! future of its own, and often several times on the stack.

use std::collections::BTreeSet;
use std::future::Ready;

use regex::Regex;
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
    let is_async = Regex::new(r"^pub async fn|\) -> .*(?:impl core::future|Releasing)").unwrap();
    let name = r"^pub (?:async )?fn [a-z_]+::([A-Za-z_]+)(?:<[A-Za-z_:]+>)?((?:::[a-z_]+)?)[<(]";
    let name = Regex::new(name).unwrap();
    list.lines().filter(move |line| is_async.is_match(line)).map(move |line| {
        let found = name.captures(line).expect("a path");
        format!("{}{}", &found[1], &found[2])
    })
}

#[test]
fn no_future_of_the_public_api_is_large() {
    type Work = Ready<()>;
    type Tries = Ready<Result<(), Error>>;
    type Ops = Vec<Op<'static>>;
    // The name of each function, and the size of its future. Each argument is `_`.
    macro_rules! sizes {
        ($($type:ident: $($function:ident $(::<$generic:ty>)? ($($argument:tt),*)),*;)*) => {
            [$($((
                concat!(stringify!($type), "::", stringify!($function)),
                size(|| $type::$function$(::<$generic>)?($(sizes!($argument)),*)),
            )),*),*]
        };
        (_) => { any() };
    }
    let plain = sizes! {
        Client: close(_), create_all(_, _, _, _), delete_all(_, _), delete_quota(_, _), detach(_);
        Client: connect(_), ensure(_, _, _), get_quota(_, _), keeper_dialect(_), set_quota(_, _, _);
        Client: wait_for_zxid(_, _);
        ClientBuilder: connect(_, _), four_letter_word(_, _, _), keep(_, _);
        Clock: sleep_until(_, _);
        Lease: changed(_, _), lapsed(_);
        Marker: multi::<Ops>(_, _);
        Resolving: create(_, _, _, _), delete(_, _, _), set_data(_, _, _, _);
        SessionKeeper: client(_), close(_);
        Sessions: next(_);
        StateStream: next(_);
        Walk: next(_);
        WatchStream: next(_);
        Watcher: changed(_);
        Barrier: close(_), is_open(_), open(_), wait(_);
        Counter: add(_, _), compare_and_set(_, _, _), get(_), get_latest(_), reserve(_, _);
        DoubleBarrier: enter(_);
        Election: campaign(_), candidates(_);
        Group: members(_);
        Guard: requeue(_);
        Hold: fenced_resolving::<Ops>(_, _, _), lost(_), revoke_requested(_), run::<Work>(_, _);
        Hold: running_out(_, _), verify(_);
        Leaders: next(_);
        Lock: acquire(_), acquire_within(_, _), try_acquire(_), resume(_, _);
        LockFolder: contenders(_), revoke(_);
        Members: next(_);
        Membership: leave(_);
        MultiGuard: fenced::<Ops>(_, _), lost(_), release(_), run::<Work>(_, _);
        MultiGuard: running_out(_, _), verify(_);
        MultiLock: acquire(_), acquire_within(_, _), try_acquire(_);
        Permit: release(_);
        ReentrantGuard: release(_);
        ReentrantLock: acquire(_, _), try_acquire(_, _);
        ReentrantRwLock: read(_, _), try_read(_, _), try_write(_, _), write(_, _);
        Round: leave(_);
        RwLock: read(_), try_read(_), try_write(_), write(_);
        Semaphore: acquire(_), acquire_many(_, _), acquire_many_within(_, _, _);
        Semaphore: acquire_within(_, _), try_acquire(_), try_acquire_many(_, _);
        Shard: stopping(_);
        TreeCache: wait_for_zxid(_, _);
    };
    let others = [
        ("ClientBuilder::split", size(|| ClientBuilder::split(any(), any()).unwrap().1)),
        ("ClientBuilder::keep_split", size(|| ClientBuilder::keep_split(any(), any()).unwrap().1)),
        ("SessionKeeper::run_each", size(|| SessionKeeper::run_each(any(), |_| any::<Tries>()))),
        ("Cached::follow", size(|| Cached::follow(any(), any()).unwrap().1)),
        ("Election::lead", size(|| Election::lead(any(), |_| any::<Work>()))),
        ("Group::join", size(|| Group::join(any(), any(), any::<Vec<u8>>()))),
        ("Group::take_over", size(|| Group::take_over(any(), any(), any::<Vec<u8>>()))),
        ("Group::try_join", size(|| Group::try_join(any(), any(), any::<Vec<u8>>()))),
        ("Guard::downgrade", size(|| WriteGuard::downgrade(any()))),
        ("Guard::release", size(|| Guard::<Exclusive>::release(any()))),
        ("Guard::release_with", size(|| Guard::<Exclusive>::release_with::<Ops>(any(), any()))),
        ("LockFolder::within", size(|| LockFolder::within(any(), any(), any::<Tries>()))),
        ("Membership::set_data", size(|| Membership::set_data(any(), any::<Vec<u8>>()))),
        ("Partitioner::run", size(|| Partitioner::run(any(), any(), |_| any::<Work>()))),
        (
            "Partitioner::run_until",
            size(|| Partitioner::run_until(any(), any(), any::<Work>(), |_| any::<Work>())),
        ),
        ("TreeCache::follow", size(|| TreeCache::follow(any(), any(), any()).unwrap().1)),
        ("retry", size(|| retry(any::<Tries>))),
        ("retry_if", size(|| retry_if(|_: &Error| any(), any::<Tries>))),
    ];
    let sizes = plain.into_iter().chain(others).collect::<Vec<_>>();
    let lists = [include_str!("../../api/zk-client.txt"), include_str!("../../api/zk-recipes.txt")];
    let listed = lists.into_iter().flat_map(listed).collect::<BTreeSet<_>>();
    let measured = sizes.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(listed, measured, "each public function that returns a future is measured");
    let most = |name| if LARGER.contains(&name) { 2 * MOST } else { MOST };
    let large = sizes.into_iter().filter(|&(name, size)| size > most(name)).collect::<Vec<_>>();
    assert!(large.is_empty(), "{large:?}");
}
