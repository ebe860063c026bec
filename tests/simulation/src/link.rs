//! What the simulation keeps of one connection: the faults that are set for each direction, and
//! what its client has heard.

use std::time::Duration;

use super::frames::Heard;

/// The client of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party {
    Process(usize),
    /// Meets only the faults of the server.
    Operator,
}

/// What belongs to one connection.
#[derive(Default)]
pub(super) struct Own {
    /// Those of the direction to the server first.
    pub(super) faults: [Faults; 2],
    pub(super) heard: Heard,
}

/// The faults that are set for one direction.
#[derive(Default)]
pub(super) struct Faults {
    /// How many more bytes are accepted; the last one cuts the connection.
    pub(super) budget: Option<usize>,
    /// No more bytes are accepted.
    pub(super) is_shut: bool,
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
