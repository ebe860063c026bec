//! One connection as the network sees it, and the frames that are on their way.

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use zk_embedded::ConnectionId;
use zk_simulation::inbox::Inbox;

use crate::frames::Dialogue;
use crate::scene::Content;

/// The client of a connection: a contender, or the one that sets the scene.
pub(crate) type Party = Option<usize>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Up,
    Down,
}

/// One connection.
pub(crate) struct Link {
    pub(crate) party: Party,
    pub(crate) dialogue: Dialogue,
    pub(crate) up: Pipe,
    pub(crate) down: Pipe,
    /// Bytes that arrived at the server and make no whole frame yet.
    pub(crate) input: BytesMut,
    pub(crate) inbox: Inbox,
    pub(crate) at_client: bool,
    pub(crate) at_server: bool,
    /// It leads to a server that is drawn apart from the others.
    pub(crate) is_apart: bool,
}

/// One direction.
#[derive(Default)]
pub(crate) struct Pipe {
    /// Bytes that make no whole frame yet.
    pub(crate) rest: BytesMut,
    /// What is sent now arrives no earlier than this.
    pub(crate) clear: Option<Instant>,
}

pub(crate) enum Due {
    Frame(ConnectionId, Way, Flight),
    End(ConnectionId, Way),
    /// A reply that the server held back.
    Reply(ConnectionId),
    /// The server of this connection notices that it is cut off from the others.
    Alone(ConnectionId),
}

/// A frame on its way.
pub(crate) struct Flight {
    /// With its length.
    pub(crate) bytes: Bytes,
    pub(crate) sent_us: u64,
    pub(crate) content: Content,
    pub(crate) request_us: Option<u64>,
}

impl Link {
    pub(crate) fn new(party: Party, is_apart: bool) -> Self {
        Self {
            party,
            is_apart,
            dialogue: Dialogue::default(),
            up: Pipe::default(),
            down: Pipe::default(),
            input: BytesMut::new(),
            inbox: Inbox::default(),
            at_client: true,
            at_server: true,
        }
    }

    pub(crate) fn pipe(&mut self, way: Way) -> &mut Pipe {
        match way {
            Way::Up => &mut self.up,
            Way::Down => &mut self.down,
        }
    }
}
