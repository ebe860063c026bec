//! What shall go wrong: one fault, and the request that it waits for.

use std::time::Duration;

use zk_proto::{ErrorCode, OpCode, SessionId};

use crate::config::MAX_TIME;

/// Something that goes wrong once, at the first request that fits it.
///
/// Without a condition, that is the next request but pings, of whichever session, also one that a
/// client makes by itself, such as setWatches behind a reconnect; [`Fault::op`],
/// [`Fault::path`], [`Fault::session`] and [`Fault::after`] narrow it down. Of several faults that
/// are due at one request, the first that was injected happens, and the others at the next.
///
/// ```
/// use std::time::Duration;
/// use zk_embedded::{Fault, OpCode};
///
/// // The third write to /config happens, and nobody hears of it.
/// let lost = Fault::lose_reply().op(OpCode::SET_DATA).path("/config").after(2);
/// // The next reply comes late, and all behind it.
/// let slow = Fault::delay(Duration::from_millis(300));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a fault does nothing until a server is told of it: inject it"]
pub struct Fault {
    pub(crate) effect: Effect,
    op: Option<OpCode>,
    path: Option<String>,
    session: Option<SessionId>,
    after: u32,
}

/// What happens to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    LoseRequest,
    ServeLate(Duration),
    /// Served, and the connection is cut after so many bytes of the reply's frame.
    CutReply(usize),
    GoSilent,
    Delay(Duration),
    Refuse(ErrorCode),
    SwapSession,
}

/// A request as faults see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting<'a> {
    pub(crate) op: OpCode,
    pub(crate) path: Option<&'a str>,
    pub(crate) session: SessionId,
}

impl Fault {
    fn new(effect: Effect) -> Self {
        Self { effect, op: None, path: None, session: None, after: 0 }
    }

    /// The connection is cut before the request is looked at, and behind the replies to those ahead
    /// of it.
    pub fn lose_request() -> Self {
        Self::new(Effect::LoseRequest)
    }

    /// The connection is cut like by [`lose_request`](Self::lose_request), and the request is
    /// served so much later all the same, but at most 24 days, if its session lives then: a server
    /// may have read it, and come to it only after the client has asked other things on another
    /// connection.
    pub fn serve_late(by: Duration) -> Self {
        Self::new(Effect::ServeLate(by.min(MAX_TIME)))
    }

    /// The request is served, and the connection is cut in front of its reply. Events that it
    /// fired are sent.
    pub fn lose_reply() -> Self {
        Self::cut_reply(0)
    }

    /// The request is served, and the connection is cut after `bytes` bytes of the reply's frame,
    /// of which the first four are its length; behind the reply if it has no more.
    pub fn cut_reply(bytes: usize) -> Self {
        Self::new(Effect::CutReply(bytes))
    }

    /// The request is served, and from its reply on the connection is silent in both directions
    /// without being cut, also when its session ends: a peer that lost its power, or a firewall
    /// that forgot.
    pub fn go_silent() -> Self {
        Self::new(Effect::GoSilent)
    }

    /// The request is served, and its reply and all behind it wait for so long, but at most for 24
    /// days.
    pub fn delay(by: Duration) -> Self {
        Self::new(Effect::Delay(by.min(MAX_TIME)))
    }

    /// The request is not served but answered with `code`, such as
    /// [`ErrorCode::THROTTLED_OP`]; `OK` makes a reply that no client can read.
    pub fn refuse(code: ErrorCode) -> Self {
        Self::new(Effect::Refuse(code))
    }

    /// The next client that wants its session back gets another one: what a proxy to the wrong
    /// ensemble does. It meets a handshake and no request, so of the conditions only
    /// [`Fault::session`] and [`Fault::after`] count.
    pub fn swap_session() -> Self {
        Self::new(Effect::SwapSession)
    }

    /// Only a request of this operation. Pings have to be named to be hit.
    ///
    /// A client's method need not send what it is called like. Those of `zk_client`:
    ///
    /// | a call of | sends |
    /// |---|---|
    /// | `create`, and the acquire of a lock | `CREATE2` |
    /// | `create` of a container, with a time to live | `CREATE_CONTAINER`, `CREATE_TTL` |
    /// | `delete`, and the release of a lock | `DELETE` |
    /// | `multi`, `fenced`, and a lock that is taken again at once | `MULTI`, without a path |
    /// | `exists`, `get_data`, `set_data`, `sync` | `EXISTS`, `GET_DATA`, `SET_DATA`, `SYNC` |
    /// | `get_children` | `GET_CHILDREN2` |
    /// | `multi_read` | `MULTI_READ`, without a path |
    /// | `watch` | `ADD_WATCH` |
    /// | `close` | `CLOSE_SESSION`, without a path |
    ///
    /// A fault that nothing fits never happens:
    /// [`Server::pending_faults`](crate::Server::pending_faults) tells of it, so a test may well
    /// end by asserting that there is none.
    pub fn op(mut self, op: OpCode) -> Self {
        self.op = Some(op);
        self
    }

    /// Only a request whose path starts with this: `/a` fits `/a`, `/a/b` and `/ab`. Some have
    /// none, such as a multi: see [`Fault::op`].
    pub fn path(mut self, prefix: impl Into<String>) -> Self {
        self.path = Some(prefix.into());
        self
    }

    /// Only a request of this session.
    pub fn session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// Lets so many requests that fit pass first, whatever other faults do to them.
    pub fn after(mut self, requests: u32) -> Self {
        self.after = requests;
        self
    }

    fn fits(&self, seen: Sighting<'_>) -> bool {
        let path =
            |prefix: &String| seen.path.is_some_and(|path| path.starts_with(prefix.as_str()));
        let handshake = seen.op == OpCode::CREATE_SESSION;
        handshake == (self.effect == Effect::SwapSession)
            && (seen.op != OpCode::PING || self.op == Some(OpCode::PING))
            && self.session.is_none_or(|session| session == seen.session)
            && (handshake
                || self.op.is_none_or(|op| op == seen.op) && self.path.as_ref().is_none_or(path))
    }
}

/// The faults that have not happened yet, in the order in which they were set.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What happens to a request: at most one fault does, the first that fits and has let enough
    /// of them pass. All others that fit count it.
    pub(crate) fn strike(&mut self, seen: Sighting<'_>) -> Option<Effect> {
        let mut struck = None;
        for (index, fault) in self.0.iter_mut().enumerate().filter(|(_, fault)| fault.fits(seen)) {
            match fault.after.checked_sub(1) {
                Some(left) => fault.after = left,
                None => struck = struck.or(Some(index)),
            }
        }
        struck.map(|index| self.0.remove(index).effect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Sighting<'_> =
        Sighting { op: OpCode::SET_DATA, path: Some("/a/b"), session: SessionId(1) };

    #[test]
    fn a_fault_strikes_once_at_what_fits() {
        let mut faults = Faults::default();
        faults.add(Fault::lose_reply().op(OpCode::DELETE));
        faults.add(Fault::lose_request().path("/a").session(SessionId(1)).after(1));
        assert_eq!(faults.strike(SEEN), None);
        assert_eq!(faults.strike(Sighting { session: SessionId(2), ..SEEN }), None);
        assert_eq!(faults.strike(SEEN), Some(Effect::LoseRequest));
        assert_eq!(faults.strike(SEEN), None);
        assert_eq!(
            faults.strike(Sighting { path: None, op: OpCode::DELETE, ..SEEN }),
            Some(Effect::CutReply(0))
        );
        assert_eq!(faults.len(), 0);
    }

    #[test]
    fn handshakes_meet_swaps_alone() {
        let mut faults = Faults::default();
        faults.add(Fault::delay(Duration::ZERO));
        faults.add(Fault::swap_session());
        let handshake = Sighting { op: OpCode::CREATE_SESSION, path: None, ..SEEN };
        assert_eq!(faults.strike(handshake), Some(Effect::SwapSession));
        assert_eq!(faults.strike(handshake), None);
        assert_eq!(faults.strike(SEEN), Some(Effect::Delay(Duration::ZERO)));
    }
}
