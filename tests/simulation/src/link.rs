//! One connection as the network sees it: the bytes in flight in each direction, and the faults set
//! for them.

use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::frames::Heard;
use super::inbox::Inbox;

/// The client of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party {
    Process(usize),
    /// Meets only the faults of the server.
    Operator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
}

/// One connection.
pub(super) struct Link {
    pub(super) party: Party,
    pub(super) up: Pipe,
    pub(super) down: Pipe,
    /// Bytes that arrived at the server, which do not make a whole frame yet.
    pub(super) input: BytesMut,
    pub(super) inbox: Inbox,
    pub(super) heard: Heard,
    /// Whether the client, or the server, still has the connection. If neither has, it is removed.
    pub(super) at_client: bool,
    pub(super) at_server: bool,
}

/// One direction.
pub(super) struct Pipe {
    /// Bytes that are sent now arrive no earlier than this.
    pub(super) clear: Instant,
    /// How many more bytes are accepted; the last one cuts the connection.
    pub(super) budget: Option<usize>,
    /// No more bytes are accepted.
    pub(super) is_shut: bool,
    /// Only the end of the connection still arrives.
    pub(super) is_cut: bool,
    /// Nothing arrives any more.
    pub(super) is_silent: bool,
    /// The next event does not arrive, as if its watch did not exist.
    pub(super) is_deaf: bool,
    /// What happens between the next two frames that are sent together.
    pub(super) tear: Option<Tear>,
    /// What is sent next arrives in small pieces, each so long behind the one before at most.
    pub(super) drip: Option<Duration>,
}

/// What happens between two frames.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tear {
    /// A pause of this time.
    Pause(Duration),
    /// The end of the connection.
    Cut,
}

impl Link {
    pub(super) fn new(party: Party, now: Instant) -> Self {
        Self {
            party,
            up: Pipe::new(now),
            down: Pipe::new(now),
            input: BytesMut::new(),
            inbox: Inbox::default(),
            heard: Heard::default(),
            at_client: true,
            at_server: true,
        }
    }

    pub(super) fn pipe(&mut self, way: Way) -> &mut Pipe {
        match way {
            Way::Up => &mut self.up,
            Way::Down => &mut self.down,
        }
    }

    /// Ends the possible faults from now on.
    pub(super) fn mend(&mut self) {
        for pipe in [&mut self.up, &mut self.down] {
            (pipe.budget, pipe.tear, pipe.is_deaf) = (None, None, false);
            pipe.drip = None;
        }
    }
}

impl Pipe {
    fn new(now: Instant) -> Self {
        Self {
            clear: now,
            budget: None,
            is_shut: false,
            is_cut: false,
            is_silent: false,
            is_deaf: false,
            tear: None,
            drip: None,
        }
    }
}
