//! A server with hardly any cost: it answers every request with the same bytes, so that only the
//! client is measured.
//!
//! A thread for each connection reads as much as there is, and answers all whole requests of one
//! read with one write. It knows no nodes, and fires a watch only on request: a setData of
//! `/burst/N` sends N events before its reply.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;

use bytes::BytesMut;
use zk_proto::{DecodeError, SessionId};

use crate::answers::{Answers, Then};
use crate::input::Input;

/// The contents of a [`NullServer`]'s replies.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many bytes of data every node has.
    pub data: usize,
    /// How many children every node has.
    pub children: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { data: 100, children: 10 }
    }
}

/// A server on 127.0.0.1 that answers at once. Its threads end with the process.
///
/// It accepts the four-letter word `srvr`, and answers how many requests it has received.
#[derive(Debug)]
pub struct NullServer {
    address: SocketAddr,
}

#[derive(Debug)]
struct Shared {
    answers: Answers,
    sessions: AtomicI64,
    received: AtomicU64,
}

impl NullServer {
    /// Starts a server on a free port.
    pub fn start(config: &Config) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            answers: Answers::new(config),
            sessions: AtomicI64::new(0x100),
            received: AtomicU64::new(0),
        });
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A client that disconnects or sends invalid bytes does not affect the others.
                thread::spawn(move || converse(stream, &shared));
            }
        });
        Ok(Self { address })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn converse(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    serve(stream, shared)
}

/// Serves one connection until either side closes it.
fn serve(mut stream: impl Read + Write, shared: &Shared) -> io::Result<()> {
    let mut input = Input::default();
    let mut out = BytesMut::new();
    let mut greeted = false;
    loop {
        if !input.read(&mut stream)? {
            return Ok(());
        }
        if !greeted && input.bytes().starts_with(b"srvr") {
            let received = shared.received.load(Ordering::Relaxed);
            return writeln!(stream, "Received: {received}");
        }
        let mut then = Then::GoOn;
        let mut requests = 0;
        while let Some(request) = input.next_frame()? {
            if greeted {
                requests += 1;
                then = shared.answers.answer(request, &mut out).map_err(invalid)?;
            } else {
                greeted = true;
                let fresh = SessionId(shared.sessions.fetch_add(1, Ordering::Relaxed));
                shared.answers.greet(request, fresh, &mut out).map_err(invalid)?;
            }
        }
        shared.received.fetch_add(requests, Ordering::Relaxed);
        stream.write_all(&out)?;
        out.clear();
        if then == Then::HangUp {
            return Ok(());
        }
    }
}

fn invalid(error: DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use zk_proto::{
        ConnectRequest, Encode, GetDataRequest, Operation, Password, PingRequest, RequestHeader,
        Xid, Zxid, frame,
    };

    use super::*;
    use crate::input::Input;

    /// A client that sends its bytes read by read, and keeps the replies write by write.
    #[derive(Default)]
    struct Script {
        says: VecDeque<Vec<u8>>,
        told: Vec<Vec<u8>>,
    }

    impl Read for &mut Script {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let mut bytes = self.says.pop_front().unwrap_or_default();
            let rest = bytes.split_off(bytes.len().min(buffer.len()));
            if !rest.is_empty() {
                self.says.push_front(rest);
            }
            buffer[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        }
    }

    impl Write for &mut Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.told.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn hello() -> Vec<u8> {
        let mut out = BytesMut::new();
        let hello = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout: 1000,
            session_id: SessionId(0),
            password: Password::ZERO,
            read_only: Some(false),
        };
        frame::encode(&mut out, 1000, |writer| hello.encode(writer)).unwrap();
        out.to_vec()
    }

    fn request(xid: Xid, request: &impl Operation) -> Vec<u8> {
        let mut out = BytesMut::new();
        frame::encode(&mut out, 1000, |writer| {
            RequestHeader { xid, op: request.op() }.encode(writer);
            request.encode(writer);
        })
        .unwrap();
        out.to_vec()
    }

    fn shared() -> Shared {
        let answers = Answers::new(&Config::default());
        Shared { answers, sessions: AtomicI64::new(1), received: AtomicU64::new(0) }
    }

    /// The xids of the frames in one write.
    fn xids(mut bytes: &[u8]) -> Vec<i32> {
        let mut input = Input::default();
        input.read(&mut bytes).unwrap();
        let mut xids = Vec::new();
        while let Some(reply) = input.next_frame().unwrap() {
            xids.push(i32::from_be_bytes(*reply.first_chunk().unwrap()));
        }
        assert_eq!(input.bytes(), b"");
        xids
    }

    #[test]
    fn what_one_read_brought_is_answered_by_one_write() {
        let get = |xid| request(Xid(xid), &GetDataRequest { path: "/a", watch: false });
        let ping = request(Xid::PING, &PingRequest);
        let two = get(2);
        let says = [
            [hello(), get(1), two[..7].to_vec()].concat(),
            two[7..9].to_vec(),
            [two[9..].to_vec(), ping, get(3), get(4)].concat(),
        ];
        let mut script = Script { says: says.into(), ..Script::default() };
        let shared = shared();
        serve(&mut script, &shared).unwrap();
        let [first, second] = &script.told[..] else {
            panic!("{} writes", script.told.len());
        };
        assert_eq!(xids(first), [0, 1], "the handshake's version, and a reply");
        assert_eq!(xids(second), [2, -2, 3, 4]);
        assert_eq!(shared.received.into_inner(), 5);
    }

    #[test]
    fn a_request_larger_than_a_read_is_waited_for() {
        let data = vec![b'x'; 700_000];
        let set = zk_proto::SetDataRequest { path: "/a", data: Some(&data), version: -1 };
        let mut out = BytesMut::new();
        frame::encode(&mut out, frame::SERVER_FRAME_LIMIT, |writer| {
            RequestHeader { xid: Xid(1), op: set.op() }.encode(writer);
            set.encode(writer);
        })
        .unwrap();
        let says = [hello()].into_iter().chain(out.chunks(100_000).map(<[u8]>::to_vec));
        let mut script = Script { says: says.collect(), ..Script::default() };
        serve(&mut script, &shared()).unwrap();
        assert_eq!(xids(script.told.last().unwrap()), [1]);
    }
}
