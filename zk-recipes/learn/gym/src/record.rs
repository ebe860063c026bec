//! What a run leaves: its frames and what the processes did, in order, and the first violation.
//!
//! Knows no locks. Everything here is data.

use std::time::Duration;

use bytes::Bytes;
use zk_simulation::net::Way;

use crate::fault::{Fault, Frame, Kind};

/// Something that happened. Times count from the begin of the run.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A frame arrived, or was lost.
    Frame(FrameEvent),
    /// A process did something, or came to know it.
    Note { at: Duration, process: usize, text: String, is_bad: bool },
}

#[derive(Clone, Debug)]
pub(crate) struct FrameEvent {
    /// The number at which faults strike, if they can.
    pub(crate) number: Option<usize>,
    pub(crate) at: Duration,
    pub(crate) sent: Duration,
    pub(crate) process: usize,
    pub(crate) way: Way,
    /// The number of the connection.
    pub(crate) connection: u64,
    /// Without its length.
    pub(crate) payload: Bytes,
    pub(crate) frame: Frame,
    pub(crate) is_lost: bool,
}

/// How a lock can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Break {
    /// Two hold the lock who exclude each other.
    TwoHolders,
    /// Somebody waits for ever.
    Stuck,
    /// One change wakes several who wait.
    Herd,
    /// Somebody who waits asks again and again while nothing changes.
    Polling,
    /// What one has written was overwritten.
    LostMoney,
    /// An error, although nothing has gone wrong, or one error after another.
    Error,
    /// The program panics.
    Panic,
    /// The program sends requests without end, or never lets time pass.
    Busy,
}

/// What was broken, and when.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) kind: Break,
    pub(crate) at: Duration,
    /// The processes that are meant.
    pub(crate) processes: Vec<usize>,
    pub(crate) text: String,
}

#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) events: Vec<Event>,
    pub(crate) violation: Option<Violation>,
    /// The frames that faults can strike at.
    pub(crate) frames: Vec<Frame>,
    /// The faults that have struck, by their places in the plan.
    pub(crate) struck: Vec<usize>,
    /// How many requests arrived or were lost.
    pub(crate) requests: usize,
    /// True if somebody has not written anything yet.
    pub(crate) is_unwritten: bool,
}

impl Record {
    pub(crate) fn note(&mut self, at: Duration, process: usize, is_bad: bool, text: String) {
        if self.violation.is_none() {
            self.events.push(Event::Note { at, process, text, is_bad });
        }
    }

    /// Records a frame. After a violation nothing more is of interest.
    pub(crate) fn frame(&mut self, event: FrameEvent) {
        if self.violation.is_some() {
            return;
        }
        self.requests += usize::from(event.frame.kind == Kind::Request);
        self.events.push(Event::Frame(event));
    }

    pub(crate) fn violate(&mut self, violation: Violation) {
        let Violation { at, text, processes, .. } = &violation;
        if let (None, Some(process)) = (&self.violation, processes.first()) {
            self.note(*at, *process, true, format!("*** {text}"));
            self.violation = Some(violation);
        }
    }

    pub(crate) fn has_struck(&mut self, at: Duration, process: usize, index: usize, fault: Fault) {
        self.struck.push(index);
        self.note(at, process, true, fault.words().to_owned());
    }
}
