//! The rule by which a client computes until when the ensemble certainly keeps its session.
//!
//! The rule and its assumptions are stated here; `session/deadline` applies it.

use std::time::Duration;

/// How the client computes until when the ensemble certainly keeps its session.
///
/// The nodes that the client owns live as long as the session: see
/// [`OwnedNode::lease`](crate::OwnedNode::lease).
///
/// A server ends a session that it has not heard from for the session timeout T. It hears from the
/// session when a request arrives, which is later than the request was sent. So T, less 1 % for
/// clocks that drift, counts from the *send* of a request that was answered. But only the leader
/// ends sessions, and the leader may not know yet what another server has received:
///
/// * Other servers note the sessions that they hear from, and report them to the leader in their
///   replies to its pings, which the leader sends twice in each tick. A server that is cut off from
///   the leader keeps answering pings and reads for up to `syncLimit` ticks (10 s by default),
///   while the session may expire without that server's knowledge.
/// * A write succeeds only if the leader has a quorum. So when a write is answered, the server
///   reached such a leader after the write had been sent. If the leader pinged the server between
///   the reply to an earlier request on the same connection and the write, the leader has heard of
///   that request.
///
/// # What it costs
///
/// While a lease is open, the default rule makes the client send at least 15 requests in each T:
/// pings, if there is nothing else. In each third of T one of them is a small write, a transaction
/// that only checks that `/` exists, unless the application writes itself. There are more of these
/// writes if replies are late: about 5 in each T when every reply takes 0.1 T, and 17 when it takes
/// 0.3 T.
///
/// So an idle holder stays valid even if every reply takes 0.3 T. It is not even
/// [`Suspended`](crate::LeaseState::Suspended), which begins when a reply is overdue for T/3. A
/// larger `slack` reduces that margin: it is half of the difference between 0.9 T and the slack.
///
/// The first lease of a session begins only when its newest evidence is young enough. If less than
/// 0.3 T is left, as after a long wait, the lease is suspended until the reply to a write that is
/// sent when it is opened. On a slow path, where replies take more than T/6, it begins when a
/// request that was sent since then is confirmed, which takes up to T. If replies become slow only
/// after that, by more than 0.1 T within the first 0.6 T of the lease, it may be lost: its newest
/// evidence may be a ping that was sent T/3 before it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadlineRule {
    /// T counts from the send of the last request that was answered at least `slack` before a
    /// successful write was sent. The handshake reaches the leader before it is answered, so any
    /// write after the handshake is enough.
    ///
    /// A write that is refused confirms nothing, since servers refuse some writes without the
    /// leader.
    ///
    /// # Assumptions
    ///
    /// * The leader pings on time, twice in each tick, and a ping reaches the server that this
    ///   client is connected to within `slack` minus that half of a tick. A link between the
    ///   servers that delays pings for longer, or a leader that pauses, can make the deadline too
    ///   late if the link then breaks.
    /// * All servers grant the same session timeout for the requested one. If they do not, the
    ///   client uses the shortest that it has been granted; but a server that it has not met before
    ///   may report a shorter one to the leader, with a handshake whose reply is lost.
    /// * The clocks of client and servers drift apart by no more than 1 %.
    Quorum {
        /// The time within which the leader has pinged every server: half a tick, plus some time
        /// for the link. `None` is 0.3 T: half a tick is at most 0.25 T, as T is at least two ticks
        /// unless the servers' `minSessionTimeout` is set to less. For observers that follow
        /// another observer or a follower (`observerMasterPort`), the leader's pings pass one more
        /// link: set 0.6 T.
        slack: Option<Duration>,
    },
    /// T counts from the last request that was answered, whatever it was: a little later.
    ///
    /// This is correct with a standalone server, and where T is far above `syncLimit` ticks.
    /// Elsewhere a client that is connected to a server that was cut off relies on a session that
    /// is over.
    Contact,
}

impl Default for DeadlineRule {
    /// [`Quorum`](Self::Quorum), with the default slack.
    fn default() -> Self {
        Self::Quorum { slack: None }
    }
}
