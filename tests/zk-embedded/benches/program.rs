//! What the program takes: the time until it serves, and memory for nodes and for connections.
//!
//! ```text
//! ulimit -n 20000; cargo bench -p zk-embedded --bench program
//! ```
//!
//! The memory is that of the whole process as Linux counts it (`VmRSS`), so that everything is in
//! it: the allocator, free places in tables, and what the kernel has given and not got back.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use zk_client::{Client, CreateOptions};
use zk_proto::{ConnectRequest, Encode, Password, SessionId, Zxid, frame};

const STARTS: usize = 51;
const NODES: usize = 1_000_000;
const PARENTS: usize = 100;
const DATA: [u8; 100] = [7; 100];
/// Requests in flight at once.
const DEPTH: usize = 1000;
const CONNECTIONS: usize = 10_000;

/// A program that runs until it is dropped.
struct Program {
    child: Child,
    address: String,
}

impl Program {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zk-embedded"));
        command.args(["--port", "0", "--stdin", "--max-connections", "0"]);
        command.args(["--max-session-timeout", "1000000000"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, address }
    }

    /// The memory of the process, in bytes.
    fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

fn main() {
    starts();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(nodes(&[]));
    runtime.block_on(nodes(&DATA));
    connections();
}

/// Sends a client's handshake, and waits for the answer.
fn handshake(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut bytes = BytesMut::new();
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout: i32::MAX,
        session_id: SessionId(0),
        password: Password::ZERO,
        read_only: Some(false),
    };
    frame::encode(&mut bytes, usize::MAX, |writer| request.encode(writer)).unwrap();
    stream.write_all(&bytes).unwrap();
    stream.read_exact(&mut [0; 41]).unwrap();
    stream
}

/// From the start of the process to the answer to a handshake, which opens a session.
fn starts() {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let start = now();
        let program = Program::start();
        let stream = handshake(&program.address);
        times.push(start.elapsed());
        drop(stream);
    }
    times.sort();
    let (median, longest) = (times[STARTS / 2], times[STARTS - 1]);
    println!("start to first session, {STARTS} times: median {median:.1?}, longest {longest:.1?}");
}

async fn nodes(data: &[u8]) {
    let program = Program::start();
    let client = Client::connect(&program.address).await.unwrap();
    let options = CreateOptions::persistent();
    for parent in 0..PARENTS {
        client.create(&format!("/{parent:02}"), b"", &options).await.unwrap();
    }
    let before = program.memory();
    let start = now();
    let path = |index| format!("/{:02}/n-{:08}", index % PARENTS, index / PARENTS);
    for first in (0..NODES).step_by(DEPTH) {
        let mut replies = Vec::with_capacity(DEPTH);
        client.batch(|| {
            let indices = first..first + DEPTH;
            replies.extend(indices.map(|index| client.create(&path(index), data, &options)));
        });
        for reply in replies {
            reply.await.unwrap();
        }
    }
    let took = start.elapsed();
    let each = (program.memory() - before) as f64 / NODES as f64;
    let name = path(0).rsplit('/').next().unwrap().len();
    println!(
        "{NODES} nodes with {} bytes of data: {each:.0} bytes each, {:.0} beside name and data \
         ({took:.1?})",
        data.len(),
        each - (name + data.len()) as f64,
    );
    client.close().await;
}

fn connections() {
    let program = Program::start();
    drop(handshake(&program.address));
    let before = program.memory();
    let start = now();
    let streams: Vec<_> = (0..CONNECTIONS).map(|_| handshake(&program.address)).collect();
    let took = start.elapsed();
    let each = (program.memory() - before) / streams.len();
    println!("{CONNECTIONS} idle connections: {each} bytes each ({took:.1?})");
    // The server still answers.
    let asked = now();
    drop(handshake(&program.address));
    assert!(asked.elapsed() < Duration::from_secs(1), "one more connection");
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}
