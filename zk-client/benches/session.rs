//! What the session itself costs, without a socket, a clock or a task; and lists of children.
//!
//! ```text
//! cargo bench -p zk-client
//! ```
//!
//! The other end is a few bytes that are written anew with the next xid, and split into frames as
//! the driver does: some tens of nanoseconds for each reply that are counted here, too.

#![expect(clippy::unwrap_used, reason = "a bench")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use zk_client::session::{Event, Session, Watch, WatchKind};
use zk_client::{Children, ErrorCode, EventType, Password, SessionConfig, SessionId, Stat, Zxid};
use zk_proto::{
    ConnectResponse, Decode, Encode, GetChildren2Response, GetDataRequest, GetDataResponse,
    KeeperState, List, ReplyHeader, WatcherEvent, Writer, Xid, frame,
};

const PATH: &str = "/services/orders/instance-0000000042";
const TIMEOUT: Duration = Duration::from_secs(10);

/// A session and what is on its way to it and from it.
struct Connection {
    session: Session<u32, u32>,
    now: Instant,
    /// Of the next request.
    xid: Xid,
    sent: BytesMut,
    received: BytesMut,
    /// The answer to getData, and the event of its watch, as frames.
    answer: Bytes,
    event: Bytes,
}

/// A reply as a frame.
fn reply(xid: Xid, record: &impl Encode) -> Bytes {
    let mut out = BytesMut::new();
    let header = ReplyHeader { xid, zxid: Zxid(9), error: ErrorCode::OK };
    let write = |writer: &mut Writer<'_>| {
        header.encode(writer);
        record.encode(writer);
    };
    frame::encode(&mut out, 1024, write).unwrap();
    out.freeze()
}

impl Connection {
    #[expect(clippy::disallowed_methods, reason = "there is no other way to an instant")]
    fn new() -> Self {
        let stat = Stat::decode_exact(&[0; 68]).unwrap();
        let (kind, state) = (EventType::NODE_DATA_CHANGED, KeeperState::SYNC_CONNECTED);
        let mut connection = Self {
            session: Session::new(SessionConfig::new(TIMEOUT, 1)),
            now: Instant::now(),
            xid: Xid::FIRST,
            sent: BytesMut::new(),
            received: BytesMut::new(),
            answer: reply(Xid(0), &GetDataResponse { data: Some(&[7; 100]), stat }),
            event: reply(Xid::NOTIFICATION, &WatcherEvent { kind, state, path: PATH }),
        };
        let welcome = ConnectResponse {
            protocol_version: 0,
            timeout: TIMEOUT.as_millis() as i32,
            session_id: SessionId(1),
            password: Password::new(&[7; 16]).unwrap(),
            read_only: Some(false),
        };
        let Connection { session, now, received, .. } = &mut connection;
        session.handle_connecting(*now);
        session.handle_connected(*now);
        frame::encode(received, 1024, |writer| welcome.encode(writer)).unwrap();
        connection.transmit();
        assert_eq!(connection.receive(), 1, "the session is connected");
        connection
    }

    fn get(&mut self, token: u32) {
        let request = GetDataRequest { path: black_box(PATH), watch: false };
        self.session.submit(&request, token).unwrap();
    }

    fn get_and_watch(&mut self, path: &str) {
        let request = GetDataRequest { path, watch: true };
        let watch = Watch { kind: WatchKind::Data, path: path.into(), watcher: 0 };
        self.session.submit_watching(&request, 0, watch).unwrap();
    }

    fn transmit(&mut self) {
        self.sent.clear();
        assert!(self.session.poll_transmit(self.now, &mut self.sent));
        black_box(&self.sent);
    }

    /// The server's part: so many answers.
    fn answer(&mut self, count: usize) {
        for _ in 0..count {
            let (before, behind) = self.answer.split_at(frame::PREFIX);
            self.received.extend_from_slice(before);
            self.received.extend_from_slice(&self.xid.0.to_be_bytes());
            self.received.extend_from_slice(behind.split_at(size_of::<Xid>()).1);
            self.xid = self.xid.next();
        }
    }

    /// Hands over what has come. Says how much the session had to say to that.
    fn receive(&mut self) -> usize {
        while let Some(frame) = frame::split(&mut self.received, 1024).unwrap() {
            self.session.handle_frame(self.now, frame);
        }
        let mut events = 0;
        while let Some(event) = self.session.poll_event() {
            assert!(!matches!(event, Event::Hangup(_) | Event::WatchRemoved { .. }), "{event:?}");
            events += 1;
        }
        events
    }
}

/// So many requests are written together, and answered together.
fn requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("getData");
    for in_flight in [1, 16, 256] {
        group.throughput(Throughput::Elements(in_flight));
        let id = BenchmarkId::new("in flight", in_flight);
        group.bench_with_input(id, &(in_flight as usize), |bencher, &in_flight| {
            let mut connection = Connection::new();
            bencher.iter(|| {
                (0..in_flight as u32).for_each(|token| connection.get(token));
                connection.transmit();
                connection.answer(in_flight);
                assert_eq!(connection.receive(), in_flight);
            });
        });
    }
    group.finish();
}

/// A watch is set and fires, while others stand.
fn watches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a watch and its event");
    for others in [0, 100_000] {
        group.throughput(Throughput::Elements(1));
        group.bench_with_input(BenchmarkId::new("others", others), &others, |bencher, &others| {
            let mut connection = Connection::new();
            for n in 0..others {
                connection.get_and_watch(&format!("/services/orders/instance-{n:010}-"));
                connection.transmit();
                connection.answer(1);
                assert_eq!(connection.receive(), 1);
            }
            bencher.iter(|| {
                connection.get_and_watch(black_box(PATH));
                connection.transmit();
                connection.answer(1);
                connection.received.extend_from_slice(&connection.event);
                assert_eq!(connection.receive(), 2);
            });
        });
    }
    group.finish();
}

/// The answer to getChildren, as its caller gets it.
fn children(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("children");
    for count in [10, 10_000, 100_000] {
        let names: Vec<String> = (0..count).map(|n| format!("lock-{n:010}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let stat = Stat::decode_exact(&[0; 68]).unwrap();
        let response = GetChildren2Response { children: List::new(&names), stat };
        let mut wire = BytesMut::new();
        response.encode(&mut Writer::new(&mut wire, usize::MAX));
        group.throughput(Throughput::Elements(count));
        group.bench_with_input(BenchmarkId::new("names", count), &wire, |bencher, wire| {
            bencher.iter(|| Children::decode_exact(black_box(wire)).unwrap());
        });
    }
    group.finish();
}

criterion_group! {
    name = session;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = requests, watches, children
}
criterion_main!(session);
