//! Servers that carry out requests of other servers' clients, like the servers of an ensemble.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use zk_embedded::{Config, ConnectionId, Core};
use zk_proto::{CreateMode, OpCode, SessionId};
use zk_test_support::raw::{create, exists, framed, hello, request};

/// A server with one client.
struct Replica {
    core: Core,
    start: Instant,
    client: ConnectionId,
    session: SessionId,
}

impl Replica {
    #[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
    fn new() -> Self {
        let start = Instant::now();
        let mut core = Core::new(Config::new(), start, Duration::ZERO);
        let client = core.handle_connection(start, ([127, 0, 0, 1], 50_000).into());
        let mut handshake = BytesMut::from(&framed(&hello(Duration::from_secs(4)))[..]);
        core.handle_input(start, client, &mut handshake);
        let session = core.sessions()[0];
        let mut replica = Self { core, start, client, session };
        assert!(!replica.said().0.is_empty());
        replica
    }

    /// The bytes that the client gets, and true if the connection ends after them.
    fn said(&mut self) -> (Bytes, bool) {
        let mut out = BytesMut::new();
        let is_over = self.core.poll_transmit(self.start, self.client, &mut out);
        (out.freeze(), is_over)
    }

    /// Executes a request of the session, whose client is at this server or at another.
    fn execute(&mut self, is_here: bool, frame: &Bytes) {
        let client = is_here.then_some(self.client);
        self.core.execute(self.start, self.session, client, &frame.slice(4..));
    }
}

#[test]
fn servers_that_execute_the_same_writes_agree_and_one_of_them_answers() {
    let (mut here, mut there) = (Replica::new(), Replica::new());
    let write = request(1, OpCode::CREATE2, &create("/a", CreateMode::EPHEMERAL));
    here.execute(true, &write);
    there.execute(false, &write);
    assert!(here.core.has_node("/a") && there.core.has_node("/a"));
    assert_eq!(here.core.last_zxid(), there.core.last_zxid());
    assert!(!here.said().0.is_empty());
    assert_eq!(there.said(), (Bytes::new(), false));
}

#[test]
fn watches_fire_for_writes_of_other_servers_clients() {
    let mut replica = Replica::new();
    replica.execute(true, &request(1, OpCode::EXISTS, &exists("/a", true)));
    assert!(!replica.said().0.is_empty());
    replica.execute(false, &request(1, OpCode::CREATE2, &create("/a", CreateMode::PERSISTENT)));
    let (event, is_over) = replica.said();
    assert!(event.windows(2).any(|bytes| bytes == b"/a") && !is_over, "{event:?}");
}

#[test]
fn a_session_that_ends_elsewhere_loses_its_client_here() {
    let mut replica = Replica::new();
    replica.execute(false, &request(1, OpCode::CLOSE_SESSION, &()));
    assert_eq!(replica.core.sessions(), []);
    assert_eq!(replica.said(), (Bytes::new(), true));
}
