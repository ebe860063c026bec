//! A ZooKeeper 3.4, as far as a client can tell: the embedded server behind a filter.
//!
//! It answers requests that came with 3.5 or later with `Unimplemented`, at once, and closes the
//! connection, as 3.4.14 does. Everything else passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use zk_client::{Connecting, Connector, Host, Transport};
use zk_embedded::Server;
use zk_proto::{Decode, ErrorCode, OpCode, Reader, RequestHeader, frame};

use crate::peer::reply;

/// The server, as a connector for clients.
#[derive(Clone, Debug)]
pub struct OldServer {
    server: Arc<Server>,
    connections: Arc<AtomicUsize>,
}

impl OldServer {
    /// Makes this server look old.
    pub fn new(server: Server) -> Self {
        Self { server: Arc::new(server), connections: Arc::default() }
    }

    /// How many connections clients have made.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Connector for OldServer {
    fn connect<'a>(&'a self, _: &'a Host) -> Connecting<'a> {
        let (here, there) = tokio::io::duplex(64 * 1024);
        self.connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(serve(there, self.server.connect()));
        Box::pin(async { Ok(Box::new(here) as Box<dyn Transport>) })
    }
}

/// Moves bytes between the two until either closes the connection, or the client sends a request
/// that is too new.
async fn serve(mut client: DuplexStream, mut server: impl Transport) {
    let (mut asked, mut answered) = (BytesMut::new(), BytesMut::new());
    let mut has_session = false;
    loop {
        while let Ok(Some(request)) = frame::split(&mut asked, usize::MAX) {
            let header = RequestHeader::decode(&mut Reader::new(&request));
            if let Some(header) = header.ok().filter(|header| has_session && is_newer(header.op)) {
                let refusal = reply(header.xid, -1, ErrorCode::UNIMPLEMENTED, &());
                client.write_all(&framed(&refusal)).await.ok();
                return;
            }
            has_session = true;
            if server.write_all(&framed(&request)).await.is_err() {
                return;
            }
        }
        let moved = tokio::select! {
            read = client.read_buf(&mut asked) => read,
            read = server.read_buf(&mut answered) => match read {
                Ok(1..) => client.write_all(&answered.split()).await.map(|()| 1),
                end => end,
            },
        };
        if !matches!(moved, Ok(1..)) {
            return;
        }
    }
}

/// True if 3.4 does not know this operation.
fn is_newer(op: OpCode) -> bool {
    op.info().is_none_or(|info| info.since > (3, 4, 0))
}

fn framed(payload: &[u8]) -> BytesMut {
    let mut wire = BytesMut::new();
    frame::encode(&mut wire, usize::MAX, |writer| writer.put(payload)).expect("a frame");
    wire
}
