//! What it costs to write and to read the records that travel most.
//!
//! ```text
//! cargo bench -p zk-proto
//! ```
//!
//! Requests are written as a client does, and replies as a server does: whole frames into a buffer
//! that is used again. Reading begins behind the length of a frame.

#![expect(clippy::unwrap_used, reason = "a bench")]

use std::hint::black_box;
use std::time::Duration;

use bytes::BytesMut;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use zk_proto::*;

const PATH: &str = "/services/orders/instance-0000000042";
const LIMIT: usize = frame::CLIENT_FRAME_LIMIT;

fn stat() -> Stat {
    Stat::decode_exact(&[1; 68]).unwrap()
}

/// A message: the record behind its header.
struct Message<H, R>(H, R);

impl<H: Encode, R: Encode> Encode for Message<H, R> {
    fn encode(&self, writer: &mut Writer<'_>) {
        let Self(header, record) = self;
        header.encode(writer);
        record.encode(writer);
    }
}

impl<'a, H: Decode<'a>, R: Decode<'a>> Decode<'a> for Message<H, R> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self(H::decode(reader)?, R::decode(reader)?))
    }
}

fn request<R: Operation>(record: R) -> Message<RequestHeader, R> {
    Message(RequestHeader { xid: Xid(7), op: record.op() }, record)
}

fn reply<R>(record: R) -> Message<ReplyHeader, R> {
    Message(ReplyHeader { xid: Xid(7), zxid: Zxid(9), error: ErrorCode::OK }, record)
}

fn event(path: &str) -> Message<ReplyHeader, WatcherEvent<'_>> {
    let (kind, state) = (EventType::NODE_DATA_CHANGED, KeeperState::SYNC_CONNECTED);
    let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid: Zxid(9), error: ErrorCode::OK };
    Message(header, WatcherEvent { kind, state, path })
}

fn encoded(message: &impl Encode) -> BytesMut {
    let mut wire = BytesMut::new();
    message.encode(&mut Writer::new(&mut wire, LIMIT));
    wire
}

/// Writes a message of this length.
fn writes(group: &mut BenchmarkGroup<'_, WallTime>, message: &impl Encode, len: usize) {
    group.bench_function("encode", |bencher| {
        let mut out = BytesMut::with_capacity(len + frame::PREFIX);
        bencher.iter(|| {
            out.clear();
            frame::encode(&mut out, LIMIT, |writer| black_box(message).encode(writer)).unwrap();
            black_box(out.len())
        });
    });
}

/// Writes a message, and reads it as an `R`.
macro_rules! both_ways {
    ($criterion:ident, $name:literal, $message:expr, $read_as:ty) => {
        let message = $message;
        let wire = encoded(&message);
        let mut group = $criterion.benchmark_group($name);
        group.throughput(Throughput::Bytes(wire.len() as u64));
        writes(&mut group, &message, wire.len());
        group.bench_function("decode", |bencher| {
            bencher.iter(|| {
                black_box(<$read_as>::decode(&mut Reader::new(black_box(&wire))).unwrap());
            });
        });
        group.finish();
    };
}

type Request<R> = Message<RequestHeader, R>;
type Reply<R> = Message<ReplyHeader, R>;

fn requests(criterion: &mut Criterion) {
    let read = GetDataRequest { path: PATH, watch: false };
    both_ways!(criterion, "getData request", request(read), Request<GetDataRequest<'_>>);
    let acl = List::new(&[Acl::OPEN]);
    let data = Some(&[7; 100][..]);
    let create = CreateRequest { path: PATH, data, acl, mode: CreateMode::PERSISTENT };
    both_ways!(criterion, "create request", request(create), Request<CreateRequest<'_>>);
    let write = SetDataRequest { path: PATH, data, version: -1 };
    both_ways!(criterion, "setData request", request(write), Request<SetDataRequest<'_>>);
}

fn replies(criterion: &mut Criterion) {
    let node = GetDataResponse { data: Some(&[7; 100]), stat: stat() };
    both_ways!(criterion, "getData reply", reply(node), Reply<GetDataResponse<'_>>);
    let created = Create2Response { path: PATH, stat: stat() };
    both_ways!(criterion, "create reply", reply(created), Reply<Create2Response<'_>>);
    both_ways!(
        criterion,
        "exists reply",
        reply(ExistsResponse { stat: stat() }),
        Reply<ExistsResponse>
    );
    both_ways!(criterion, "notification", event(PATH), Reply<WatcherEvent<'_>>);
}

/// Lists are decoded when they are walked, so that is a part of reading them.
fn children(criterion: &mut Criterion) {
    for count in [10_000, 100_000] {
        let names: Vec<String> = (0..count).map(|n| format!("lock-{n:010}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let message = reply(GetChildren2Response { children: List::new(&names), stat: stat() });
        let wire = encoded(&message);
        let mut group = criterion.benchmark_group(format!("{count} children"));
        group.throughput(Throughput::Elements(count));
        writes(&mut group, &message, wire.len());
        group.bench_function("decode", |bencher| {
            bencher.iter(|| {
                let mut reader = Reader::new(black_box(&wire));
                let Message(_, list) =
                    Reply::<GetChildren2Response<'_>>::decode(&mut reader).unwrap();
                list.children.iter().map(str::len).sum::<usize>()
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = codec;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = requests, replies, children
}
criterion_main!(codec);
