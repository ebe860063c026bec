//! The faults of the gym, and at which frames each of them can strike.
//!
//! They have the names and the meaning of the faults of `zk-simulation`. A fault is set at the
//! number of a frame: frames are numbered as they arrive, handshakes too, pings not.

use std::fmt;

use zk_proto::OpCode;

/// What goes wrong at a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The connection ends in front of the frame, which is lost.
    Cut,
    /// The connection ends behind the frame.
    CutBehind,
    /// Nothing arrives any more on the connection, from the frame on.
    Silence,
    /// What is sent in the direction of the frame after it arrives in 2 s at the earliest.
    Late,
    /// The server refuses the request without carrying it out.
    Refuse,
    /// The server carries the request out, and answers with an error that proves nothing.
    Disown,
    /// The connection ends, and the server carries the request out a second later all the same.
    ServeLate,
    /// The server ends the session.
    Expire,
    /// The caller gives up waiting: the future is dropped.
    GiveUp,
    /// The process stands still, for half of its session timeout.
    Pause,
    /// The process stands still, for twice its session timeout.
    Stop,
    /// The process dies, and another one takes its place.
    Crash,
    /// The process closes its session, whatever it was doing, and begins anew.
    Close,
    /// An operator deletes a node of the process's session.
    Delete,
    /// An operator deletes the nodes of everybody.
    Purge,
    /// An operator writes to the nodes of everybody.
    Write,
    /// The server removes the folder, if nothing is in it.
    Reap,
    /// The server serves nobody for a second.
    Restart,
    /// The server of the process is cut off from the other servers. It notices 10 s later, and
    /// closes the connection.
    Isolate,
}

impl Fault {
    /// What happens to a process, in words that follow its name.
    pub fn words(self) -> &'static str {
        match self {
            Self::Cut => "loses the connection in front of this frame",
            Self::CutBehind => "loses the connection behind this frame",
            Self::Silence => "hears nothing any more on this connection, and is not heard",
            Self::Late => "has a connection on which nothing arrives for 2 s",
            Self::Refuse => "is refused this request: the server is too busy",
            Self::Disown => "gets an error for this request, although it is carried out",
            Self::ServeLate => "loses the connection, and the request is carried out 1 s later",
            Self::Expire => "has a session that the server ends now",
            Self::GiveUp => "gives up: the future of its acquire is dropped",
            Self::Pause => "stands still for 3 s",
            Self::Stop => "stands still for 12 s",
            Self::Crash => "crashes: its session lives until it times out",
            Self::Close => "closes its session, and begins anew",
            Self::Delete => "loses its node: an operator deletes it",
            Self::Purge => "sees an operator delete the nodes of everybody",
            Self::Write => "sees an operator write to the nodes of everybody",
            Self::Reap => "sees the server remove the empty folder",
            Self::Restart => "has a server that serves nobody for a second",
            Self::Isolate => "is on a server that is cut off from the others, and does not notice",
        }
    }

    /// True if this fault can strike at such a frame.
    pub(crate) fn suits(self, frame: &Frame) -> bool {
        match self {
            Self::Refuse | Self::Disown | Self::ServeLate => frame.kind == Kind::Request,
            _ => true,
        }
    }
}

/// A fault at the frame with a number. The first frame is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Strike {
    /// What goes wrong.
    pub fault: Fault,
    /// The number of the frame.
    pub frame: usize,
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{}", self.fault, self.frame)
    }
}

/// The kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Handshake,
    Ping,
    Request,
    Reply,
    Notification,
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    /// The operation of the request, or of the one that is answered.
    pub(crate) op: Option<OpCode>,
}

impl Frame {
    /// True for the reply to the create of a node.
    pub(crate) fn is_created(&self) -> bool {
        let is_create = matches!(
            self.op,
            Some(OpCode::CREATE | OpCode::CREATE2 | OpCode::MULTI | OpCode::CREATE_CONTAINER)
        );
        self.kind == Kind::Reply && is_create
    }
}
