//! Counts how often in a row a server has hung up on the same request.
//!
//! A server closes the connection on a request that is above its `jute.maxbuffer`, without a reply.
//! If such a request is repeated for ever, it takes all other requests of the session with it each
//! time. Knows no frames and no clock.

use zk_proto::OpCode;

/// How many times in a row a server may hang up on a request: the last time it fails for good.
pub(crate) const MAX_HANG_UPS: u32 = 3;

/// The smallest frame, in bytes, that counts. No server runs with a `jute.maxbuffer` below this. In
/// a network that breaks often, a small request is lost several times in a row by chance.
const MIN_LEN: usize = 1024;

/// How many requests are remembered. The one that was lost longest ago is forgotten first.
const MAX_REMEMBERED: usize = 8;

/// The requests on which a server has hung up and that have had no reply since.
#[derive(Debug, Default)]
pub(crate) struct LostRequests(Vec<LostRequest>);

#[derive(Debug)]
struct LostRequest {
    op: OpCode,
    len: usize,
    /// Unknown after the first loss, since only then the paths of requests are kept.
    path: Option<Box<str>>,
    times: u32,
}

/// What a repetition has in common with an earlier request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestKind<'a> {
    pub(crate) op: OpCode,
    /// The length of the frame in bytes.
    pub(crate) len: usize,
    /// The path if it is known; of a node under a unique name, its folder.
    pub(crate) path: Option<&'a str>,
}

impl LostRequests {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A server has hung up while these requests of callers had no reply. The largest of them may
    /// be why, since any larger one would be refused as well. Returns its index, and how often in a
    /// row it was that, once this is too often.
    pub(crate) fn lost<'a>(
        &mut self,
        requests: impl DoubleEndedIterator<Item = (usize, RequestKind<'a>)>,
    ) -> Option<(usize, u32)> {
        // Of several of that size, the oldest.
        let large = requests.filter(|(_, kind)| kind.len >= MIN_LEN);
        let (index, largest) = large.rev().max_by_key(|(_, kind)| kind.len)?;
        let earlier = self.forget(largest).map_or(0, |lost| lost.times);
        if self.0.len() == MAX_REMEMBERED {
            self.0.remove(0);
        }
        let RequestKind { op, len, path } = largest;
        let times = earlier.saturating_add(1);
        self.0.push(LostRequest { op, len, path: path.map(Box::from), times });
        (times >= MAX_HANG_UPS).then_some((index, times))
    }

    /// A request was answered.
    pub(crate) fn answered(&mut self, kind: RequestKind<'_>) {
        self.forget(kind);
    }

    fn forget(&mut self, kind: RequestKind<'_>) -> Option<LostRequest> {
        let is_same = |lost: &LostRequest| {
            let paths = (lost.path.as_deref(), kind.path);
            let same_path = !matches!(paths, (Some(one), Some(other)) if one != other);
            (lost.op, lost.len) == (kind.op, kind.len) && same_path
        };
        let index = self.0.iter().position(is_same)?;
        Some(self.0.remove(index))
    }
}
