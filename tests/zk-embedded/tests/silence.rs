//! A connection that goes silent is silent to the end: no request is served, and nothing shows that
//! the session is over.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, Instant};

use bytes::BytesMut;
use zk_embedded::{Config, Core, Fault, OpCode};
use zk_proto::{
    CloseSessionRequest, ConnectRequest, CreateMode, CreateRequest, Encode, List, Operation,
    Password, RequestHeader, SessionId, Xid, Zxid, frame,
};

/// A server with one session, on a clock that stands still.
struct World {
    core: Core,
    now: Instant,
    client: zk_embedded::ConnectionId,
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
    fn new() -> Self {
        let now = Instant::now();
        let mut core = Core::new(Config::new(), now, Duration::ZERO);
        let client = core.handle_connection(now, ([127, 0, 0, 1], 50_000).into());
        let mut world = Self { core, now, client };
        world.send(|writer| {
            let request = ConnectRequest {
                protocol_version: 0,
                last_zxid_seen: Zxid(0),
                timeout: 6000,
                session_id: SessionId(0),
                password: Password::ZERO,
                read_only: Some(false),
            };
            request.encode(writer);
        });
        assert_eq!(world.receive(), (41, false));
        world
    }

    fn send(&mut self, body: impl FnOnce(&mut zk_proto::Writer<'_>)) {
        let mut bytes = BytesMut::new();
        frame::encode(&mut bytes, usize::MAX, body).unwrap();
        self.core.handle_input(self.now, self.client, &mut bytes);
        assert!(bytes.is_empty());
    }

    fn ask(&mut self, request: &impl Operation) {
        self.send(|writer| {
            RequestHeader { xid: Xid(1), op: request.op() }.encode(writer);
            request.encode(writer);
        });
    }

    fn create(&mut self, path: &str) {
        let (acl, mode) = (&[zk_proto::Acl::OPEN], CreateMode::PERSISTENT);
        self.ask(&CreateRequest { path, data: None, acl: List::new(acl), mode });
    }

    /// Receives what is due: the number of bytes, and whether the connection is closed behind them.
    fn receive(&mut self) -> (usize, bool) {
        let mut out = BytesMut::new();
        let closed = self.core.poll_transmit(self.now, self.client, &mut out);
        (out.len(), closed)
    }
}

#[test]
fn requests_held_back_behind_the_silence_are_not_served() {
    let mut world = World::new();
    let session = world.core.sessions()[0];
    world.core.inject(Fault::go_silent().path("/a"));
    assert!(world.core.partition(session));
    world.create("/a");
    world.create("/b");
    world.core.heal(world.now);
    assert!(world.core.has_node("/a"));
    assert!(!world.core.has_node("/b"));
    assert_eq!(world.receive(), (0, false));
}

#[test]
fn a_session_that_ends_in_silence_is_not_hung_up_on() {
    let mut world = World::new();
    world.core.inject(Fault::go_silent().op(OpCode::CLOSE_SESSION));
    world.ask(&CloseSessionRequest);
    assert!(world.core.sessions().is_empty());
    assert_eq!(world.receive(), (0, false));
    world.core.disconnect_all();
    assert_eq!(world.receive(), (0, true));
}
