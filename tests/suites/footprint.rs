//! The memory that values and requests take, counted by the allocator. It counts for the whole
//! process, so this is one test.
//!
//! Everything here runs on one thread and in virtual time, so that each run allocates the same. The
//! server allocates nothing once it has begun to answer.

use std::alloc::System;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, BytesMut};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinSet;
use zk_client::{Children, Client, ErrorCode, Host, Node, OpCode, SessionId, Zxid};
use zk_proto::{
    Decode, Encode, GetChildren2Response, List, Reader, ReplyHeader, RequestHeader, Writer, frame,
};
use zk_test_support::explore::in_virtual_time;
use zk_test_support::peer::{TIMEOUT, data, stat_of, welcome};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The data of every node.
const DATA: &[u8] = &[7; 100];

/// The allocations that each getData may make once all buffers have grown: one, for the data that
/// its caller gets. Many replies share each buffer that they are read into.
const PER_GET: f64 = 1.02;

/// A connection to a server that has each reply ready when the client writes the request. Every
/// node exists, with the same data, and never changes.
#[derive(Debug, Default)]
struct Still {
    greeted: bool,
    asked: BytesMut,
    answers: BytesMut,
    /// The number of writes by the client.
    writes: Arc<AtomicUsize>,
    /// The client's waker, if it waits for a reply.
    waker: Option<Waker>,
}

impl Still {
    fn answer(&mut self) {
        while let Some((prefix, rest)) = self.asked.split_first_chunk::<{ frame::PREFIX }>()
            && let Some(request) = rest.get(..u32::from_be_bytes(*prefix) as usize)
        {
            let header = RequestHeader::decode(&mut Reader::new(request)).unwrap();
            let reply = |writer: &mut Writer<'_>| {
                if !self.greeted {
                    return welcome(TIMEOUT).encode(writer);
                }
                ReplyHeader { xid: header.xid, zxid: Zxid(1), error: ErrorCode::OK }.encode(writer);
                if header.op == OpCode::GET_DATA {
                    data(DATA).encode(writer);
                }
            };
            frame::encode(&mut self.answers, 1024, reply).unwrap();
            self.greeted = true;
            let len = frame::PREFIX + request.len();
            self.asked.advance(len);
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl AsyncRead for Still {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let len = self.answers.len().min(buf.remaining());
        if len == 0 {
            self.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        buf.put_slice(&self.answers[..len]);
        self.answers.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Still {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.asked.extend_from_slice(bytes);
        self.answer();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

async fn connect() -> Client {
    let connector = |_: &Host| Ok(Still::default());
    Client::builder().connector(connector).session_timeout(TIMEOUT).connect("zk").await.unwrap()
}

/// Counts what `work` allocates, freed or not.
fn takes<T>(work: impl FnOnce() -> T) -> (T, Stats) {
    let region = Region::new(ALLOCATOR);
    let done = work();
    (done, region.change())
}

/// The number of allocations and reallocations.
fn allocations(stats: Stats) -> usize {
    stats.allocations + stats.reallocations
}

/// The bytes that are held at the end of the region and were not at its beginning.
fn kept(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.checked_sub(change.bytes_deallocated).unwrap()
}

#[test]
fn memory_goes_to_what_is_kept() {
    names_are_not_allocated_one_by_one();
    in_virtual_time(a_watcher_that_waits_is_small());
    in_virtual_time(data_that_is_kept_keeps_nothing_else());
    in_virtual_time(a_request_allocates_next_to_nothing());
    in_virtual_time(what_many_tasks_ask_leaves_in_one_write());
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
    assert_eq!(allocations(stats), 2);
    // The 68 bytes are those of the stat behind the names.
    assert_eq!(stats.bytes_allocated, text + 4 * names.len() + 68);

    let none = &[&[0; 4][..], &[0; 68]].concat();
    let (children, stats) = takes(|| Children::decode_exact(none));
    assert_eq!((children.unwrap().names.len(), allocations(stats)), (0, 0));
}

async fn a_watcher_that_waits_is_small() {
    const COUNT: usize = 100_000;
    let client = connect().await;
    let mut path = String::new();
    let mut text = 0;
    let region = Region::new(ALLOCATOR);
    let mut watchers = Vec::with_capacity(COUNT);
    for n in 0..COUNT {
        path.clear();
        std::fmt::write(&mut path, format_args!("/services/orders/instance-{n:010}")).unwrap();
        text += path.len();
        watchers.push(client.get_data_and_watch(&path).await.unwrap().1);
    }
    assert_eq!(client.stats().watches, COUNT);
    let each = kept(&region).saturating_sub(text) / COUNT;
    println!("{each} bytes for each watcher, besides its path");
    assert!(each <= 300, "{each} bytes for each watcher");
}

async fn data_that_is_kept_keeps_nothing_else() {
    const COUNT: usize = 100_000;
    const ROUND: usize = 100;
    let client = connect().await;
    let mut asked = Vec::with_capacity(ROUND);
    let region = Region::new(ALLOCATOR);
    let mut nodes = Vec::with_capacity(COUNT);
    while nodes.len() < COUNT {
        asked.extend((0..ROUND).map(|_| client.get_data("/a")));
        for reply in asked.drain(..) {
            nodes.push(reply.await.unwrap());
        }
    }
    let each = kept(&region) / COUNT;
    let handle = size_of::<Node>();
    println!("{each} bytes for each node that is kept, {handle} of them for its handle");
    assert!(nodes.iter().all(|node| node.data == DATA));
    assert!(2 * (each - handle) <= 5 * DATA.len(), "{each} bytes for each node");
}

async fn a_request_allocates_next_to_nothing() {
    const ROUNDS: usize = 1000;
    for (root, depth) in [("/", 1), ("/", 16), ("/", 256), ("/app", 1), ("/app", 256)] {
        let client = connect().await.chroot(root).unwrap();
        let mut asked = Vec::with_capacity(depth);
        let mut round = async || {
            let ask = || asked.extend((0..depth).map(|_| client.get_data("/services/orders")));
            let ((), asking) = takes(ask);
            for reply in asked.drain(..) {
                assert_eq!(reply.await.unwrap().data, DATA);
            }
            allocations(asking)
        };
        // These rounds let the queues grow to their full size.
        for _ in 0..ROUNDS {
            round().await;
        }
        let region = Region::new(ALLOCATOR);
        let mut asking = 0;
        for _ in 0..ROUNDS {
            asking += round().await;
        }
        let each = allocations(region.change()) as f64 / (ROUNDS * depth) as f64;
        println!(
            "{depth} at a time below {root}: {asking} allocations to ask, {each} for each get in \
             all"
        );
        assert_eq!(asking, 0, "allocations to ask, {depth} at a time");
        assert!(each <= PER_GET, "{each} allocations for each get, {depth} at a time");
    }
}

async fn what_many_tasks_ask_leaves_in_one_write() {
    const ROUNDS: usize = 100;
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&writes);
    let connector = move |_: &Host| Ok(Still { writes: Arc::clone(&counted), ..Still::default() });
    let client = Client::builder().connector(connector).session_timeout(TIMEOUT);
    let client = client.connect("zk").await.unwrap();
    for tasks in [1, 16, 256] {
        let before = writes.load(Ordering::Relaxed);
        let mut asking = JoinSet::new();
        for _ in 0..tasks {
            let client = client.clone();
            asking.spawn(async move {
                for _ in 0..ROUNDS {
                    client.get_data("/a").await.unwrap();
                }
            });
        }
        asking.join_all().await;
        let writes = writes.load(Ordering::Relaxed) - before;
        assert_eq!(writes, ROUNDS, "{tasks} tasks");
    }
}
