//! One fault: what goes wrong, and the request that it waits for.

use std::time::Duration;

use zk_proto::{ErrorCode, OpCode, SessionId};

use crate::config::MAX_TIME;

/// A fault that happens once, at the first request that matches it.
///
/// Without a condition, that is the next request of any session except pings. It may also be one
/// that a client sends by itself, such as setWatches after a reconnect. [`Fault::op`],
/// [`Fault::path`], [`Fault::session`] and [`Fault::after`] narrow it down. If several faults match
/// one request, the one that was injected first happens, and the others wait for the next request.
///
/// ```
/// use std::time::Duration;
/// use zk_embedded::{Fault, OpCode};
///
/// // The third write to /config happens, but its reply is lost.
/// let lost = Fault::lose_reply().op(OpCode::SET_DATA).path("/config").after(2);
/// // The next reply comes late, and so does everything behind it.
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

/// The effect on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    LoseRequest,
    ServeLate(Duration),
    /// The request is served, and the connection is cut after so many bytes of the reply's frame.
    CutReply(usize),
    GoSilent,
    Delay(Duration),
    Refuse(ErrorCode),
    /// The request is served, and its reply has this code and no body.
    Disown(ErrorCode),
    ExpireSession,
    SwapSession,
    /// The request is served, and its reply is corrupted as this seed decides.
    Mutate(u64),
}

/// A request as faults see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestInfo<'a> {
    pub(crate) op: OpCode,
    pub(crate) path: Option<&'a str>,
    pub(crate) session: SessionId,
}

impl Fault {
    fn new(effect: Effect) -> Self {
        Self { effect, op: None, path: None, session: None, after: 0 }
    }

    /// Cuts the connection before the request is served.
    ///
    /// Replies to the requests ahead of it are sent first.
    pub fn lose_request() -> Self {
        Self::new(Effect::LoseRequest)
    }

    /// Cuts the connection before the request is served, and serves the request later all the same.
    ///
    /// The connection is cut as by [`lose_request`](Self::lose_request). The request is served
    /// after `by`, but after 24 days at most, if its session is still alive then. A real server may
    /// do the same: it has read the request, and serves it only after the client has sent other
    /// requests on another connection.
    pub fn serve_late(by: Duration) -> Self {
        Self::new(Effect::ServeLate(by.min(MAX_TIME)))
    }

    /// Serves the request, and cuts the connection in front of its reply.
    ///
    /// Events that the request fired are sent.
    pub fn lose_reply() -> Self {
        Self::cut_reply(0)
    }

    /// Serves the request, and cuts the connection after `bytes` bytes of the reply's frame.
    ///
    /// The first four bytes of the frame are its length. If the frame has no more than `bytes`
    /// bytes, the connection is cut behind it.
    pub fn cut_reply(bytes: usize) -> Self {
        Self::new(Effect::CutReply(bytes))
    }

    /// Serves the request, and from its reply on leaves the connection silent in both directions.
    ///
    /// The connection is not cut, even when its session ends. That is how a peer that lost its
    /// power looks, or a firewall that dropped its state.
    pub fn go_silent() -> Self {
        Self::new(Effect::GoSilent)
    }

    /// Serves the request, and delays its reply and everything behind it.
    ///
    /// The delay is 24 days at most.
    pub fn delay(by: Duration) -> Self {
        Self::new(Effect::Delay(by.min(MAX_TIME)))
    }

    /// Does not serve the request, and answers it with `code` instead.
    ///
    /// A typical code is [`ErrorCode::THROTTLED_OP`]. `OK` makes a reply that no client can decode.
    pub fn refuse(code: ErrorCode) -> Self {
        Self::new(Effect::Refuse(code))
    }

    /// Serves the request, and answers it with `code` all the same.
    ///
    /// A server does so if something fails behind the transaction. A typical code is
    /// [`ErrorCode::MARSHALLING_ERROR`].
    pub fn disown(code: ErrorCode) -> Self {
        Self::new(Effect::Disown(code))
    }

    /// Ends the session without serving the request, and answers it with
    /// [`ErrorCode::SESSION_EXPIRED`].
    ///
    /// The connection stays open, and what else comes on it is ignored. So the reply is all that
    /// the client hears of the end. A real server does the same with a write that comes while it
    /// ends the session, and drops the requests of a session that it no longer has.
    pub fn expire_session() -> Self {
        Self::new(Effect::ExpireSession)
    }

    /// Gives another session to the next client that wants to resume its own.
    ///
    /// A proxy to the wrong ensemble does that. The fault matches a handshake and not a request, so
    /// of the conditions only [`Fault::session`] and [`Fault::after`] apply.
    pub fn swap_session() -> Self {
        Self::new(Effect::SwapSession)
    }

    /// Serves the request, and sends corrupted bytes in place of its reply, as `seed` decides.
    ///
    /// It is for fuzzing a client. The same seed makes the same bytes of the same reply:
    ///
    /// * Up to four bytes behind the length of the frame are changed.
    /// * Up to eight bytes are inserted or removed. The length of the frame is that of the new
    ///   bytes.
    /// * The length of the frame is wrong, or four bytes somewhere in it are replaced by a number
    ///   that is likely to be wrong as a length or a count.
    /// * The frame is cut. The connection stays open, and the client takes what comes next for the
    ///   rest of the frame.
    /// * The frame is sent twice.
    ///
    /// Only the reply is corrupted: events that the request fired are sent as they are.
    /// [`Server::mutations`](crate::Server::mutations) returns what was sent in its place.
    ///
    /// The reply to a handshake is corrupted only if [`Fault::op`] names `CREATE_SESSION`.
    pub fn mutate(seed: u64) -> Self {
        Self::new(Effect::Mutate(seed))
    }

    /// Matches only requests of this operation. A fault hits pings only if it names them.
    ///
    /// A client's method need not send the operation of the same name. Those of `zk_client` send:
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
    /// A fault that no request matches never happens.
    /// [`Server::pending_faults`](crate::Server::pending_faults) counts such faults, so a test can
    /// end by asserting that there are none.
    pub fn op(mut self, op: OpCode) -> Self {
        self.op = Some(op);
        self
    }

    /// Matches only requests whose path starts with `prefix`: `/a` fits `/a`, `/a/b` and `/ab`.
    ///
    /// Some requests have no path, such as a multi: see [`Fault::op`].
    pub fn path(mut self, prefix: impl Into<String>) -> Self {
        self.path = Some(prefix.into());
        self
    }

    /// Matches only requests of this session.
    pub fn session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// Lets so many matching requests pass first, whatever other faults do to them.
    pub fn after(mut self, requests: u32) -> Self {
        self.after = requests;
        self
    }

    fn fits(&self, seen: RequestInfo<'_>) -> bool {
        let path =
            |prefix: &String| seen.path.is_some_and(|path| path.starts_with(prefix.as_str()));
        let handshake = seen.op == OpCode::CREATE_SESSION;
        let fits_handshake = match self.effect {
            // A client that wants a new session has none that it could be given another for.
            Effect::SwapSession => seen.session != SessionId(0),
            Effect::Mutate(_) => self.op == Some(OpCode::CREATE_SESSION),
            _ => false,
        };
        handshake == fits_handshake
            && (seen.op != OpCode::PING || self.op == Some(OpCode::PING))
            && self.session.is_none_or(|session| session == seen.session)
            && (handshake
                || self.op.is_none_or(|op| op == seen.op) && self.path.as_ref().is_none_or(path))
    }
}

/// The faults that have not happened yet, in the order in which they were injected.
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

    /// Returns what happens to a request. At most one fault strikes: the first that matches and has
    /// let enough requests pass. All other matching faults count the request.
    pub(crate) fn strike(&mut self, seen: RequestInfo<'_>) -> Option<Effect> {
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

    const SEEN: RequestInfo<'_> =
        RequestInfo { op: OpCode::SET_DATA, path: Some("/a/b"), session: SessionId(1) };

    #[test]
    fn a_fault_strikes_once_at_what_fits() {
        let mut faults = Faults::default();
        faults.add(Fault::lose_reply().op(OpCode::DELETE));
        faults.add(Fault::lose_request().path("/a").session(SessionId(1)).after(1));
        assert_eq!(faults.strike(SEEN), None);
        assert_eq!(faults.strike(RequestInfo { session: SessionId(2), ..SEEN }), None);
        assert_eq!(faults.strike(SEEN), Some(Effect::LoseRequest));
        assert_eq!(faults.strike(SEEN), None);
        assert_eq!(
            faults.strike(RequestInfo { path: None, op: OpCode::DELETE, ..SEEN }),
            Some(Effect::CutReply(0))
        );
        assert_eq!(faults.len(), 0);
    }

    #[test]
    fn handshakes_meet_swaps_alone() {
        let mut faults = Faults::default();
        faults.add(Fault::delay(Duration::ZERO));
        faults.add(Fault::swap_session());
        let handshake = RequestInfo { op: OpCode::CREATE_SESSION, path: None, ..SEEN };
        assert_eq!(faults.strike(handshake), Some(Effect::SwapSession));
        assert_eq!(faults.strike(handshake), None);
        assert_eq!(faults.strike(SEEN), Some(Effect::Delay(Duration::ZERO)));
    }
}
