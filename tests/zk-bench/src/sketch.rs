//! The second floor: the cost of the same requests in the plainest possible async client.
//!
//! Each task encodes its request into a buffer that all tasks share. One task writes that buffer,
//! and another passes every reply to the oldest request. There are no sessions, watches, deadlines
//! or errors: the cost of a client above this floor is the cost of those.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::hint::black_box;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, oneshot};
use zk_proto::{Decode, DecodeError, GetDataRequest, Reader, ReplyHeader, Xid, frame};

use crate::loops::{self, Outcome, Result, Work};
use crate::options::Options;
use crate::raw;
use crate::server::Server;

/// Reads `path` in closed loops, as the options say.
pub async fn get(server: &Server, path: &str, options: &Options) -> Result<Outcome> {
    let stream = raw::Connection::open(server.address())?.into_stream();
    stream.set_nonblocking(true)?;
    let (input, output) = TcpStream::from_std(stream)?.into_split();
    let shared = Arc::new(Shared::default());
    let reader = tokio::spawn(read(input, Arc::clone(&shared)));
    let writer = tokio::spawn(write(output, Arc::clone(&shared)));
    let task = |_| Get { shared: Arc::clone(&shared), path: path.to_owned() };
    tokio::select! {
        outcome = loops::run(task, server, options) => outcome,
        // If the reader or the writer ends, nothing else would wake the waiting tasks.
        end = reader => match end?? {},
        end = writer => match end?? {},
    }
}

/// The state that the callers, the writer and the reader share.
#[derive(Default)]
struct Shared {
    line: Mutex<Line>,
    asked: Notify,
}

struct Line {
    next: Xid,
    /// Encoded requests that are not written yet.
    out: BytesMut,
    /// The callers, in the order of their requests.
    waiting: VecDeque<oneshot::Sender<Bytes>>,
}

impl Default for Line {
    fn default() -> Self {
        Self { next: Xid::FIRST, out: BytesMut::new(), waiting: VecDeque::new() }
    }
}

impl Shared {
    fn with<T>(&self, f: impl FnOnce(&mut Line) -> T) -> T {
        f(&mut self.line.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A task that sends requests.
struct Get {
    shared: Arc<Shared>,
    path: String,
}

impl Work for Get {
    async fn operate(&self) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        self.shared.with(|line| {
            let request = GetDataRequest { path: &self.path, watch: false };
            raw::put(&mut line.out, line.next, &request);
            line.next = line.next.next();
            line.waiting.push_back(sender);
        });
        self.shared.asked.notify_one();
        let reply = receiver.await?;
        let mut reader = Reader::new(&reply);
        ReplyHeader::decode(&mut reader)?;
        // A copy, because a caller who keeps the data would otherwise keep the bytes of a whole
        // read.
        let data = Option::<&[u8]>::decode(&mut reader)?.map(Bytes::copy_from_slice);
        drop(black_box(data));
        Ok(())
    }
}

/// Writes all requests of the meantime in one write.
async fn write(mut output: OwnedWriteHalf, shared: Arc<Shared>) -> Result<Infallible> {
    let mut batch = BytesMut::new();
    loop {
        shared.asked.notified().await;
        shared.with(|line| mem::swap(&mut line.out, &mut batch));
        output.write_all(&batch).await?;
        batch.clear();
    }
}

/// The room for one read.
const READ_BYTES: usize = 64 * 1024;

/// Passes on the replies of each read.
async fn read(mut input: OwnedReadHalf, shared: Arc<Shared>) -> Result<Infallible> {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(READ_BYTES);
        if input.read_buf(&mut buffer).await? == 0 {
            return Err("the server has hung up".into());
        }
        shared.with(|line| {
            while let Some(reply) = frame::split(&mut buffer, frame::CLIENT_FRAME_LIMIT)? {
                if let Some(sender) = line.waiting.pop_front() {
                    // No caller leaves before the end.
                    drop(sender.send(reply));
                }
            }
            Ok::<_, DecodeError>(())
        })?;
    }
}
