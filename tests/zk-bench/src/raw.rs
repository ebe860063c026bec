//! The first floor: the cost of the same bytes without a client.
//!
//! A blocking loop on one socket writes pre-encoded getData frames in batches and only counts the
//! replies. So a batch of N compares to N tasks with a request in flight each.

use std::io::{self, Write};
use std::net::TcpStream;

use bytes::BytesMut;
use zk_proto::{
    ConnectRequest, Encode, GetDataRequest, MultiList, MultiOp, Operation, Password, RequestHeader,
    SessionId, SetDataRequest, Xid, Zxid, frame,
};

use crate::input::Input;
use crate::meter::{Latencies, Meter, Spent, now};
use crate::options::Options;

/// A session on a blocking socket.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    input: Input,
}

impl Connection {
    /// Opens a session.
    pub fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut connection = Self { stream, input: Input::default() };
        let hello = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout: 30_000,
            session_id: SessionId(0),
            password: Password::ZERO,
            read_only: Some(false),
        };
        let mut out = BytesMut::new();
        frame::encode(&mut out, frame::CLIENT_FRAME_LIMIT, |writer| hello.encode(writer))
            .expect("a short frame");
        connection.stream.write_all(&out)?;
        connection.skip(1)?;
        Ok(connection)
    }

    /// The socket, once the session is open.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Sends a request and waits for its reply.
    pub fn call(&mut self, request: &Request) -> io::Result<()> {
        self.stream.write_all(&request.0)?;
        self.skip(1)
    }

    /// Reads until so many frames have arrived.
    fn skip(&mut self, frames: usize) -> io::Result<()> {
        let mut come = 0;
        while come < frames {
            if !self.input.read(&mut self.stream)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            while self.input.next_frame()?.is_some() {
                come += 1;
            }
        }
        Ok(())
    }
}

/// An encoded request.
#[derive(Debug)]
pub struct Request(BytesMut);

impl Request {
    /// A transaction that writes to all of `paths`, so that their watches fire at once.
    pub fn set_all(paths: &[String]) -> Self {
        let set = |path| MultiOp::SetData(SetDataRequest { path, data: None, version: -1 });
        let ops = paths.iter().map(|path| set(path)).collect::<Vec<_>>();
        let mut out = BytesMut::new();
        put(&mut out, Xid::FIRST, &MultiList::new(&ops));
        Self(out)
    }
}

/// Reads `path` at the options' depth, for as long as they say.
///
/// Returns the number of reads, their cost, and the latency of each batch if that was asked for.
pub fn get(
    address: &str,
    path: &str,
    options: &Options,
) -> io::Result<(u64, Spent, Option<Latencies>)> {
    let mut connection = Connection::open(address)?;
    let mut batch = BytesMut::new();
    let mut xid = Xid::FIRST;
    for _ in 0..options.depth {
        put(&mut batch, xid, &GetDataRequest { path, watch: false });
        xid = xid.next();
    }
    let mut round_trip = |latencies: &mut Option<Latencies>| {
        let sent = latencies.is_some().then(now);
        connection.stream.write_all(&batch)?;
        connection.skip(options.depth)?;
        if let (Some(latencies), Some(sent)) = (latencies, sent) {
            latencies.record(sent.elapsed());
        }
        io::Result::Ok(())
    };
    let started = now();
    let mut round_trips = 0;
    while match options.ops {
        Some(ops) => round_trips * (options.depth as u64) < ops / 10,
        None => started.elapsed() < options.warm_up,
    } {
        round_trip(&mut None)?;
        round_trips += 1;
    }
    let mut latencies = options.latency.then(Latencies::default);
    let meter = Meter::start();
    let mut ops = 0;
    // At great depths, reading the clock for each request would cost more than the request; at
    // depth 1 the cost is negligible.
    while match options.ops {
        Some(wanted) => ops < wanted,
        None => meter.elapsed() < options.duration,
    } {
        round_trip(&mut latencies)?;
        ops += options.depth as u64;
    }
    Ok((ops, meter.stop(), latencies))
}

/// Appends a request.
pub(crate) fn put(out: &mut BytesMut, xid: Xid, request: &impl Operation) {
    frame::encode(out, frame::SERVER_FRAME_LIMIT, |writer| {
        RequestHeader { xid, op: request.op() }.encode(writer);
        request.encode(writer);
    })
    .expect("a request that a server takes");
}
