//! One connection as the network has it: what is under way in each direction, and what is to become
//! of it.

use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::frames::Heard;

/// Who connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party {
    Process(usize),
    /// Meets no fault but those of the server.
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
    /// Arrived at the server, where a frame is still incomplete.
    pub(super) input: BytesMut,
    /// Arrived at the client, which has not read it.
    pub(super) inbox: BytesMut,
    /// Behind the inbox.
    pub(super) is_over: bool,
    pub(super) heard: Heard,
    pub(super) reader: Option<Waker>,
    /// Neither side has it any more when both are false.
    pub(super) at_client: bool,
    pub(super) at_server: bool,
}

/// One direction.
pub(super) struct Pipe {
    /// What is sent later arrives later.
    pub(super) clear: Instant,
    /// Bytes that are still let in; the last one cuts the connection.
    pub(super) budget: Option<usize>,
    /// Nothing is let in any more.
    pub(super) is_shut: bool,
    /// Nothing arrives any more but the end.
    pub(super) is_cut: bool,
    /// Nothing arrives any more.
    pub(super) is_silent: bool,
    /// The next event does not arrive, as if its watch were not there.
    pub(super) is_deaf: bool,
    /// What comes between the next two frames that are sent together.
    pub(super) tear: Option<Tear>,
}

/// What comes between two frames.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tear {
    /// So much time.
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
            inbox: BytesMut::new(),
            is_over: false,
            heard: Heard::default(),
            reader: None,
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

    /// Ends what may go wrong from now on.
    pub(super) fn mend(&mut self) {
        for pipe in [&mut self.up, &mut self.down] {
            (pipe.budget, pipe.tear, pipe.is_deaf) = (None, None, false);
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
        }
    }
}
