//! What is told of a run, in words and in frames.

use std::fmt;
use std::time::Duration;

use zk_embedded::ConnectionId;

/// What is told of a run, in order, each with the time since its begin. It shows the words.
#[derive(Debug, Default)]
pub struct Trace(pub Vec<(Duration, Told)>);

/// Something that happened in a run.
#[derive(Debug)]
pub enum Told {
    /// In words.
    Line(String),
    /// A frame that arrived whole. A line tells of it, too.
    Frame {
        /// Its connection.
        connection: ConnectionId,
        /// Whether the client has sent it.
        is_request: bool,
        /// Without its length.
        payload: Vec<u8>,
    },
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, told) in &self.0 {
            if let Told::Line(line) = told {
                writeln!(f, "{:>6} {line}", at.as_millis())?;
            }
        }
        Ok(())
    }
}
