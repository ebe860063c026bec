//! A server that costs nothing: it answers whatever is asked with the same bytes, so that what is
//! measured is the client.
//!
//! A thread for each connection reads as much as there is, and answers all whole requests of one
//! read with one write. It knows no nodes, and never fires a watch but when told to: a setData of
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

/// What a [`NullServer`] answers with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes of data of every node.
    pub data: usize,
    /// Children of every node.
    pub children: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { data: 100, children: 10 }
    }
}

/// A server on 127.0.0.1 that answers at once. Its threads end with the process.
///
/// It takes the four-letter word `srvr`, and tells how many requests it has received.
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
    /// Listens on a free port.
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
                // A client that hangs up or talks nonsense is none of the others' business.
                thread::spawn(move || converse(stream, &shared));
            }
        });
        Ok(Self { address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn converse(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    serve(stream, shared)
}

/// Serves one connection until either side hangs up.
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
