//! A ZooKeeper 3.4, as far as a client can tell: the embedded server behind a filter.
//!
//! It answers requests that came with 3.5 or later with `Unimplemented`, at once, and closes the
//! connection, as 3.4.14 does. Everything else passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use zk_client::{Connecting, Connector, Host, Transport};
use zk_embedded::Server;
use zk_proto::{ErrorCode, OpCode, RequestHeader};

use crate::fault::{Passing, pass};
use crate::peer::{frame_of, reply};

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
        let (client, here) = tokio::io::duplex(64 * 1024);
        self.connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(pass(here, self.server.connect(), |passing| match passing {
            Passing::Request(RequestHeader { xid, op }) if is_newer(op) => {
                Some(frame_of(&reply(xid, -1, ErrorCode::UNIMPLEMENTED, &())))
            }
            _ => None,
        }));
        Box::pin(async { Ok(Box::new(client) as Box<dyn Transport>) })
    }
}

/// True if 3.4 does not know this operation.
fn is_newer(op: OpCode) -> bool {
    op.info().is_none_or(|info| info.since > (3, 4, 0))
}
