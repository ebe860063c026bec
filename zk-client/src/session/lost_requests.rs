//! Counts how often in a row a server has hung up on the same request.
//!
//! A server closes the connection on a request that is above its `jute.maxbuffer`, without a reply,
//! and servers of other makers do so at an operation that they do not know. If such a request is
//! repeated for ever, it takes all other requests of the session with it each time. Knows no frames
//! and no clock.

use std::sync::{Arc, Mutex, PoisonError};

use zk_proto::OpCode;

/// How many times in a row a server may hang up on a request: the last time it fails for good.
pub(crate) const MAX_HANG_UPS: u32 = 3;

/// How many requests are remembered. The one that was lost longest ago is forgotten first.
const MAX_REMEMBERED: usize = 8;

/// What a repetition has in common with an earlier request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestKind<P = Box<str>> {
    pub(crate) op: OpCode,
    /// In bytes.
    pub(crate) size: usize,
    /// Of a node under a unique name, its folder. `None` for a multi.
    pub(crate) path: Option<P>,
}

/// The requests on which a server has hung up and that have had no reply since. They outlive the
/// session: where a session ends with its connection, only so a row can be counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostRequests {
    /// The large ones, each with how often that was.
    lost: Vec<(RequestKind, u32)>,
    /// The operation, which no server has answered, that the last connections have ended on, and
    /// how many they were.
    unknown: Option<(OpCode, u32)>,
    /// Operations that a server has answered in an earlier session.
    answered: Vec<OpCode>,
}

/// What the sessions of one builder have learnt, one after another.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedLosses(Arc<Mutex<LostRequests>>);

impl SharedLosses {
    pub(crate) fn get(&self) -> LostRequests {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, losses: LostRequests) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = losses;
    }
}

impl LostRequests {
    /// A server has hung up while these requests had no reply. The largest of them may be why,
    /// since any larger one would be refused as well. Returns its index, and how often in a row it
    /// was that.
    pub(crate) fn lost<'a>(
        &mut self,
        requests: impl DoubleEndedIterator<Item = (usize, RequestKind<&'a str>)>,
    ) -> Option<(usize, u32)> {
        // Of several of that size, the oldest.
        let (index, largest) = requests.rev().max_by_key(|(_, kind)| kind.size)?;
        let times = self.remove(&largest).saturating_add(1);
        if self.lost.len() == MAX_REMEMBERED {
            self.lost.remove(0);
        }
        let RequestKind { op, size, path } = largest;
        self.lost.push((RequestKind { op, size, path: path.map(Box::from) }, times));
        Some((index, times))
    }

    /// A connection has ended while a request of this operation, which no server has ever answered,
    /// had no reply; or while there was none. Returns how many connections in a row have ended on
    /// it.
    pub(crate) fn ended_on(&mut self, op: Option<OpCode>) -> u32 {
        let before = self.unknown.filter(|(earlier, _)| Some(*earlier) == op);
        let times = before.map_or(1, |(_, times)| times.saturating_add(1));
        self.unknown = op.map(|op| (op, times));
        times
    }

    /// Whether a server has answered this operation in an earlier session.
    pub(crate) fn was_answered(&self, op: OpCode) -> bool {
        self.answered.contains(&op)
    }

    /// Notes operations that a server has answered.
    pub(crate) fn note_answered(&mut self, ops: impl Iterator<Item = OpCode>) {
        for op in ops {
            if !self.answered.contains(&op) {
                self.answered.push(op);
            }
        }
    }

    /// Removes a request, since it was answered. Returns how often in a row it was lost.
    pub(crate) fn remove(&mut self, kind: &RequestKind<&str>) -> u32 {
        let is_same = |(lost, _): &(RequestKind, u32)| {
            let RequestKind { op, size, path } = lost;
            (*op, *size, path.as_deref()) == (kind.op, kind.size, kind.path)
        };
        let index = self.lost.iter().position(is_same);
        index.map_or(0, |index| self.lost.remove(index).1)
    }
}
