//! What values and requests take of memory, counted by the allocator. It counts for the whole
//! process, so this is one test.
//!
//! Everything here runs on one thread and in virtual time, so that it allocates the same each time.

use std::alloc::System;

use bytes::BytesMut;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};
use zk_client::{Children, SessionId};
use zk_proto::{Decode, Encode, GetChildren2Response, List, Writer};
use zk_tests::peer::stat_of;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What is allocated while this is done, freed or not.
fn takes<T>(work: impl FnOnce() -> T) -> (T, Stats) {
    let region = Region::new(ALLOCATOR);
    let done = work();
    (done, region.change())
}

#[test]
fn memory_goes_to_what_is_kept() {
    names_are_not_allocated_one_by_one();
}

fn names_are_not_allocated_one_by_one() {
    let names: Vec<String> = (0..100_000).map(|n| format!("lock-\u{e9}-{n:010}")).collect();
    let texts: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut wire = BytesMut::new();
    let response =
        GetChildren2Response { children: List::new(&texts), stat: stat_of(SessionId(0)) };
    response.encode(&mut Writer::new(&mut wire, usize::MAX));

    let (children, stats) = takes(|| Children::decode_exact(&wire));
    let children = children.unwrap();
    assert_eq!(children.names, names);
    let text: usize = names.iter().map(String::len).sum();
    assert_eq!((stats.allocations, stats.reallocations), (2, 0));
    // And 68 of the state behind them.
    assert_eq!(stats.bytes_allocated, text + 4 * names.len() + 68);

    let none = &[&[0; 4][..], &[0; 68]].concat();
    let (children, stats) = takes(|| Children::decode_exact(none));
    assert_eq!((children.unwrap().names.len(), stats.allocations), (0, 0));
}
