//! Handles the replies of an established connection.
//!
//! An invalid frame is an error, which ends its connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use tracing::{debug, trace, warn};
use zk_proto::{
    Decode, DecodeError, ErrorCode, EventType, ExistsResponse, MultiHeader, OpCode, Reader,
    ReplyHeader, Xid, Zxid,
};

use crate::auth::credentials::Credential;
use crate::auth::failure::{AuthFailure, Scheme};
use crate::error::{Ended, Failure, Hangup, ProtocolError};
use crate::model::event::{Change, SessionState, StreamEvent};
use crate::session::auths::AuthId;
use crate::session::event::{Event, RawReply};
use crate::session::pipeline::{PendingRequest, Priority};
use crate::session::requests::V3_5;
use crate::session::state::{Purpose, Session, valid_zxid};
use crate::session::timers::Timer;
use crate::session::watches::follow_up::FollowUp;
use crate::session::watches::path_watches::CallerHandle;
use crate::trace;

/// Bytes at the front of a reply that are needed to find its request.
pub const HEAD_BYTES: usize = 16;

/// Operations that servers can switch off: their refusal says nothing about the next server.
const OPTIONAL: [OpCode; 2] = [OpCode::CREATE_TTL, OpCode::RECONFIG];

impl<T, W, S: Clone> Session<T, W, S> {
    pub(super) fn handle_reply(&mut self, now: Instant, frame: Bytes) -> Result<(), ProtocolError> {
        let mut reader = Reader::new(&frame);
        let header = ReplyHeader::decode(&mut reader)?;
        let head = frame.len() - reader.remaining();
        match header.xid {
            Xid::NOTIFICATION => return self.handle_notification(&frame),
            Xid::PING => {
                let sent = self.pings.answered().ok_or(ProtocolError::Unasked(Xid::PING))?;
                if let Some(sent) = sent {
                    let took = now.saturating_duration_since(sent);
                    trace!(target: trace::REQUEST, latency_us = micros(took), "ping answered");
                    self.last_round_trip = Some(took);
                    if self.state != SessionState::ConnectedReadOnly {
                        self.leases.ping_answered(now, sent);
                    }
                }
                return Ok(());
            }
            _ => {}
        }
        let mut body = frame;
        body.advance(head);
        self.answered(now, header, Ok(body))
    }

    /// A reply of which only the head was kept. Events, and replies to pings, setWatches and auth
    /// requests, are never that long.
    pub(super) fn handle_head(
        &mut self,
        now: Instant,
        head: &[u8],
        len: usize,
    ) -> Result<(), ProtocolError> {
        let limit = self.config.limits.max_reply;
        let header = ReplyHeader::decode(&mut Reader::new(head))?;
        if [Xid::NOTIFICATION, Xid::PING, Xid::SET_WATCHES, Xid::AUTH].contains(&header.xid) {
            return Err(DecodeError::FrameTooLong { len, limit }.into());
        }
        self.answered(now, header, Err(Failure::ReplyTooLarge { len, limit }))
    }

    /// A request was answered. `body` is what follows the header, if that reports success.
    fn answered(
        &mut self,
        now: Instant,
        header: ReplyHeader,
        body: Result<Bytes, Failure>,
    ) -> Result<(), ProtocolError> {
        let request = self.pipeline.take_reply(header.xid, header.error)?;
        if let Some(kind) = request.large_kind() {
            self.lost_requests.remove(&kind);
        }
        self.totals.replies_too_large += u64::from(body.is_err());
        if self.timers.is_set(Timer::Close) {
            // A server that works through the earlier requests will get to the close.
            self.timers.set(Timer::Close, now + self.timeout);
        }
        self.last_zxid = self.last_zxid.max(header.zxid);
        let requested_at = request.sent_at.unwrap_or(now);
        let took = now.saturating_duration_since(requested_at);
        self.last_round_trip = Some(took);
        self.totals.latencies.record(took);
        // Servers answer an auth request without touching the session, and those that are read-only
        // touch none of the ensemble's.
        if request.op != OpCode::AUTH && self.state != SessionState::ConnectedReadOnly {
            self.leases.answered(now, requested_at, request.op, header.error);
        }
        trace!(
            target: trace::REQUEST,
            xid = request.xid.0,
            op = %request.op,
            path = request.path,
            error = %header.error,
            zxid = %header.zxid,
            latency_us = micros(took),
            bytes = body.as_ref().map(Bytes::len).ok(),
            "answered"
        );
        self.totals.count(request.op, |counts| match (header.error, &body) {
            (ErrorCode::OK, Ok(body)) if is_refused_multi(request.op, body) => counts.refused += 1,
            (ErrorCode::OK, Ok(_)) => counts.succeeded += 1,
            (ErrorCode::OK, Err(_)) => counts.too_large += 1,
            _ => counts.refused += 1,
        });
        let tells_czxid = self.config.dialect.tells_czxids()
            || ![OpCode::CREATE, OpCode::MULTI].contains(&request.op);
        let zxid = if tells_czxid { header.zxid } else { Zxid::default() };
        let result = match header.error {
            ErrorCode::OK => body.map(|body| RawReply { zxid, body, requested_at }),
            error => Err(Failure::Refused(error)),
        };
        self.conclude(request, result, valid_zxid(header.zxid))?;
        if header.error == ErrorCode::SESSION_EXPIRED && self.ended().is_none() {
            // A server says so in a reply if the session ends while its connection lives.
            self.end(Ended::Expired);
            return Ok(());
        }
        if self.owned_nodes.has_uncertain() && !self.timers.is_set(Timer::SearchLostNodes) {
            self.schedule_search(now);
        }
        self.schedule_deletes(now);
        self.detach_if_done();
        self.leave_if_done();
        Ok(())
    }

    /// Does what follows from the reply to a request.
    fn conclude(
        &mut self,
        request: PendingRequest<Purpose<T>>,
        result: Result<RawReply, Failure>,
        zxid: Option<Zxid>,
    ) -> Result<(), ProtocolError> {
        let mut understood = Ok(());
        if code(&result) == Some(ErrorCode::UNIMPLEMENTED) {
            self.note_unsupported(request.op);
        }
        match request.purpose {
            Purpose::Call { token, watch } => {
                if let Some(id) = watch {
                    let returned = match result {
                        Err(Failure::ReplyTooLarge { .. }) => self.watches.answered_unread(id),
                        _ => self.watches.answered(id, code(&result)),
                    };
                    self.return_caller(returned);
                }
                if self.owned_nodes.has_uncertain()
                    && [OpCode::GET_CHILDREN, OpCode::GET_CHILDREN2].contains(&request.op)
                    && let Ok(list) = &result
                {
                    self.owned_nodes.listed(list);
                }
                self.complete(token, result, zxid);
            }
            Purpose::Auth(id, tokens) => {
                let scheme = self.auths.get(id).map(Credential::scheme);
                match &result {
                    Ok(_) => debug!(target: trace::SESSION, scheme, "authenticated"),
                    Err(_) => warn!(target: trace::SESSION, scheme, "authentication refused"),
                }
                let result = result.map_err(|_| self.refused(id));
                tokens.into_iter().for_each(|token| self.complete(token, result.clone(), zxid));
                if let Err(Failure::Ended { ended, .. }) = result {
                    self.end(ended);
                }
            }
            Purpose::Create(node) => understood = self.owned_nodes.create_answered(node, result),
            Purpose::Multi(owned) => understood = self.owned_nodes.multi_answered(&owned, result),
            Purpose::Replace(delete, create) => {
                understood = self.owned_nodes.replace_answered(delete, create, result);
                // A delete that is repeated goes ahead of all requests that wait.
                self.do_housekeeping_after(zxid, Priority::Urgent);
            }
            Purpose::NodeRequest(request) => {
                let own = self.identity.map(|own| own.id);
                understood = self.owned_nodes.answered(request, result, own);
            }
            Purpose::Arm(token, armed) => {
                self.watches.end_arming(&armed);
                self.complete(token, result, zxid);
            }
            Purpose::ArmOne(token, path, since) => {
                understood = self.armed(&path, since, &result);
                let unknown =
                    |why: ProtocolError| Failure::ConnectionLoss { sent: true, why: why.into() };
                let result = match (understood, result, request.sent_at) {
                    (Err(why), ..) => Err(unknown(why)),
                    (_, Err(Failure::Refused(ErrorCode::NO_NODE)), Some(requested_at)) => {
                        Ok(RawReply { zxid: Zxid::default(), body: Bytes::new(), requested_at })
                    }
                    (_, result, _) => result,
                };
                token.into_iter().for_each(|token| self.complete(token, result.clone(), zxid));
            }
            Purpose::Rearm => {
                self.rearming = self.rearming.saturating_sub(1);
                // Watches that are not armed would wait for ever. The next connection may arm them.
                if let Err(Failure::Refused(code)) = result {
                    self.hang_up(Hangup::Rearm(code));
                } else if self.rearming == 0 {
                    debug!(target: trace::WATCH, "rearmed");
                    let event = |stream| Event::StreamEvent { stream, event: StreamEvent::Rearmed };
                    self.events.extend(self.watches.streams().into_iter().map(event));
                }
            }
            Purpose::FollowUp(follow_up) => self.conclude_follow_up(follow_up, &result),
            Purpose::Probe => {
                request.sent_at.into_iter().for_each(|at| self.leases.probe_answered(at))
            }
            Purpose::Close => self.end(Ended::Closed),
        }
        self.do_housekeeping_after(zxid, Priority::Normal);
        understood
    }

    /// A node that was to be watched was asked for. Its watchers are told what they have missed.
    fn armed(
        &mut self,
        path: &Arc<str>,
        since: Zxid,
        result: &Result<RawReply, Failure>,
    ) -> Result<(), ProtocolError> {
        self.watches.end_arming([path]);
        let missed = match result {
            Ok(answer) => {
                let ExistsResponse { stat } = Decode::decode(&mut Reader::new(&answer.body))?;
                (stat.mzxid > since).then_some(EventType::NODE_DATA_CHANGED)
            }
            Err(Failure::Refused(ErrorCode::NO_NODE)) => Some(EventType::NODE_DELETED),
            Err(_) => Some(EventType::NODE_DATA_CHANGED),
        };
        if let Some(kind) = missed {
            self.dispatch(path, Change { kind, zxid: None, missed: true });
        }
        Ok(())
    }

    /// A server does not know this operation, so it is not sent again.
    pub(super) fn note_unsupported(&mut self, op: OpCode) {
        let since = op.info().map(|info| info.since);
        // Many requests of one kind may be refused so, and every request looks through this list.
        let is_noted = self.unsupported_ops.contains(&op);
        if is_noted || since < Some(V3_5) || OPTIONAL.contains(&op) {
            return;
        }
        self.unsupported_ops.push(op);
        if op == OpCode::CREATE2 {
            warn!(target: trace::SESSION, "the server is older than 3.5");
            self.watches.cannot_remove();
        }
        if op == OpCode::REMOVE_WATCHES {
            self.watches.cannot_remove();
        }
        // A server without a create of 3.5 is taken for one without getEphemerals of 3.6, too. Any
        // other operation that it lacks says nothing about that.
        if [OpCode::CREATE2, OpCode::CREATE_CONTAINER, OpCode::GET_EPHEMERALS].contains(&op) {
            self.owned_nodes.search_by_listing();
        }
    }

    fn refused(&self, id: AuthId) -> Failure {
        let scheme = self.auths.get(id).map(Credential::scheme).unwrap_or_default();
        let ended = Ended::AuthFailed(AuthFailure::Credential(Scheme::new(scheme)));
        Failure::Ended { sent: false, ended }
    }

    fn conclude_follow_up(&mut self, follow_up: FollowUp, result: &Result<RawReply, Failure>) {
        match (follow_up, code(result)) {
            (FollowUp::Restore(mode, path), Some(ErrorCode::OK)) => {
                let Self { watches, events, .. } = self;
                watches.restored(mode, &path, |who| {
                    events.push_back(match who {
                        CallerHandle::Once(watcher) => {
                            let kind = EventType::NODE_CHILDREN_CHANGED;
                            let change = Change { kind, zxid: None, missed: true };
                            Event::WatchFired { watcher, path: Arc::clone(&path), change }
                        }
                        CallerHandle::Stream(stream) => {
                            Event::StreamEvent { stream, event: StreamEvent::Rearmed }
                        }
                    });
                });
            }
            (FollowUp::Restore(..), Some(code)) => self.hang_up(Hangup::Rearm(code)),
            (FollowUp::Remove(_), Some(ErrorCode::UNIMPLEMENTED)) => self.watches.cannot_remove(),
            // There may be nothing left to remove, if an event came first.
            (FollowUp::Remove(_), _) | (FollowUp::Restore(..), None) => {}
        }
    }
}

/// True if the server has refused a multi. The header of the reply reports success then; each of
/// its results is an error, also of the operations that had nothing wrong with them.
fn is_refused_multi(op: OpCode, body: &[u8]) -> bool {
    let first = || MultiHeader::decode(&mut Reader::new(body));
    op == OpCode::MULTI && first().is_ok_and(|first| !first.done && first.op == OpCode::ERROR)
}

fn micros(took: Duration) -> u64 {
    took.as_micros() as u64
}

/// The code of the reply, if the server answered.
fn code(result: &Result<RawReply, Failure>) -> Option<ErrorCode> {
    match result {
        Ok(_) => Some(ErrorCode::OK),
        Err(Failure::Refused(code)) => Some(*code),
        Err(_) => None,
    }
}
