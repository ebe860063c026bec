//! A server as a member of a modelled ensemble: it carries out writes that others have ordered.
//!
//! In an ensemble the leader puts the writes of all clients in one order, and every server carries
//! them out in that order. Most of them come from clients of other servers, so this server may have
//! no connection to answer on.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use bytes::Bytes;
use zk_proto::SessionId;

use crate::connection::{ConnectionId, Phase};
use crate::core::Core;

/// The address that the clients of other servers seem to have.
const ELSEWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Core {
    /// Carries out one request of a session, given as the payload of a frame.
    ///
    /// The reply goes to `connection`, if one is given and still exists.
    ///
    /// This is for models of ensembles, in which every server is a `Core` and all of them carry out
    /// the same writes. The caller decides when sessions expire, so `now` may stand still.
    pub fn execute(
        &mut self,
        now: Instant,
        session: SessionId,
        connection: Option<ConnectionId>,
        request: &Bytes,
    ) {
        let time = self.since_start(now);
        let here = connection.filter(|id| {
            self.state.connections.get(*id).is_some_and(|one| one.session == Some(session))
        });
        match here {
            Some(id) => self.state.request(time, id, session, request),
            None => {
                // Use a connection for this request alone. It is not attached to the session, so
                // that the client keeps its own connection.
                let id = self.state.open(time, ELSEWHERE);
                if let Some(one) = self.state.connections.get_mut(id) {
                    (one.phase, one.session) = (Phase::Serving, Some(session));
                }
                self.state.request(time, id, session, request);
                self.state.forget(id);
            }
        }
        if self.state.sessions.get(session).is_none()
            && let Some(id) = self.state.attached.get(&session).copied()
        {
            self.state.hang_up(id);
        }
    }
}
