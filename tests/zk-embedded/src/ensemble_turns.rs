//! What the members of an ensemble do for each other, until nothing is due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::debug;
use zk_proto::{Decode, OpCode, Reader, RequestHeader, SessionId, Zxid};

use crate::calls::Call;
use crate::core::Core;
use crate::ensemble_core::EnsembleCore;
use crate::member::Message;
use crate::seat::Seat;
use crate::store::SessionChange;

impl EnsembleCore {
    pub(crate) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.start)
    }

    pub(crate) fn lead(&mut self) -> Option<&mut Seat> {
        self.members.get_mut(self.leader)
    }

    /// True if more than half of the members reach each other.
    pub(crate) fn has_majority(&self) -> bool {
        2 * self.members.iter().filter(|seat| seat.is_up()).count() > self.members.len()
    }

    /// True if a member and the leader reach each other, and have a quorum.
    pub(crate) fn has_quorum(&self, member: usize) -> bool {
        let is_up = |member| self.members.get(member).is_some_and(Seat::is_up);
        // A leader that has given up must be elected again.
        let leads = self.members.get(self.leader).is_some_and(|seat| !seat.is_stale);
        self.has_majority() && is_up(self.leader) && is_up(member) && leads
    }

    /// Does everything that is due, until nothing is left to do.
    pub(crate) fn settle(&mut self, now: Instant) {
        let time = self.elapsed(now);
        self.notice(now);
        self.distribute(time);
        loop {
            let mut is_done = true;
            for member in 0..self.members.len() {
                let has_quorum = self.has_quorum(member);
                let Some(seat) = self.members.get_mut(member) else {
                    continue;
                };
                seat.send_calls(time);
                if !has_quorum {
                    continue;
                }
                let lag = seat.lag;
                is_done &= !self.deliver(time, member, lag);
                while let Some(call) = self.next_call(time, member) {
                    is_done = false;
                    self.handle_call(time, member, call);
                }
            }
            if is_done {
                return;
            }
        }
    }

    /// Lets the members tell the leader which sessions they have heard, if half a tick has passed.
    /// Called before they hear anything else.
    pub(crate) fn report(&mut self, now: Instant) {
        let time = self.elapsed(now);
        if self.next_report <= time {
            let past = time.as_nanos() % self.report_interval.as_nanos();
            self.next_report = time + self.report_interval - Duration::from_nanos(past as u64);
            self.members.iter_mut().for_each(|seat| seat.core.state.report());
        }
    }

    /// Notices which members have a quorum, since when others have none, and who is back.
    pub(crate) fn notice(&mut self, now: Instant) {
        let time = self.elapsed(now);
        let up = self.members.iter().filter(|seat| seat.is_up()).count();
        for member in 0..self.members.len() {
            let (has_quorum, leads) = (self.has_quorum(member), member == self.leader);
            let Some(seat) = self.members.get_mut(member) else {
                continue;
            };
            let since = (!has_quorum).then(|| seat.lost_since.unwrap_or(time));
            seat.lost_since = since;
            let at = since.and_then(|since| since.checked_add(self.give_up_after));
            if at.is_some_and(|at| at <= time) && seat.is_serving() {
                debug!(member, "gives up");
                seat.is_stale = true;
                seat.forget_calls();
                match self.read_only_mode {
                    true => seat.core.set_read_only(now, true),
                    false => seat.core.set_serving(now, false),
                }
            }
            let leads = leads && has_quorum;
            seat.member().followers = up.saturating_sub(1);
            if std::mem::replace(&mut seat.member().leads, leads) != leads {
                seat.core.state.run_clocks(time);
            }
            if has_quorum && seat.is_stale {
                self.rejoin(now, member);
            }
        }
    }

    /// Lets a member begin anew: without connections, and with all transactions.
    pub(crate) fn rejoin(&mut self, now: Instant, member: usize) {
        let time = self.elapsed(now);
        let zxid = self.member(self.leader).map_or(Zxid(0), Core::last_zxid);
        let Some(seat) = self.members.get_mut(member) else {
            return;
        };
        seat.core.disconnect_all();
        seat.forget_calls();
        for (_, message) in std::mem::take(&mut seat.queue) {
            if matches!(message, Message::Commit(_)) {
                seat.core.state.handle_message(time, message);
            }
        }
        seat.core.state.set_zxid(zxid.max(seat.core.last_zxid()));
        if seat.core.state.read_only {
            seat.core.set_read_only(now, false);
        }
        seat.core.set_serving(now, true);
        (seat.is_stale, seat.lost_since) = (false, None);
    }

    /// Gives a member what the leader has sent to it longer ago than `lag`. Returns whether there
    /// was anything.
    pub(crate) fn deliver(&mut self, time: Duration, member: usize, lag: Duration) -> bool {
        let mut any = false;
        if let Some(seat) = self.members.get_mut(member) {
            let is_due = |sent: Duration| sent.checked_add(lag).is_some_and(|due| due <= time);
            while seat.queue.front().is_some_and(|(sent, _)| is_due(*sent))
                && let Some((_, message)) = seat.queue.pop_front()
            {
                seat.core.state.handle_message(time, message);
                any = true;
            }
        }
        any
    }

    /// Takes the next call of a member that the leader gets now.
    fn next_call(&mut self, time: Duration, member: usize) -> Option<Call> {
        let leads = member == self.leader;
        let seat = self.members.get_mut(member)?;
        seat.next_call(time, if leads { Duration::ZERO } else { seat.call_lag })
    }

    /// Handles what a member asks the leader for.
    pub(crate) fn handle_call(&mut self, time: Duration, member: usize, call: Call) {
        match call {
            Call::Open { connection, timeout } => {
                let Some(seat) = self.members.get_mut(member) else {
                    return;
                };
                let session = seat.core.state.sessions.next_id();
                if let Some(leader) = self.lead() {
                    leader.core.state.lead_open(time, session, timeout);
                }
                self.owners.insert(session, member);
                self.distribute(time);
                self.tell(time, member, Message::Opened(connection, session));
            }
            Call::Resume { connection, session, timeout } => {
                let sessions = self.lead().map(|seat| &mut seat.core.state.sessions);
                let known = sessions.filter(|sessions| sessions.get(session).is_some());
                let is_alive = known.is_some();
                if let Some(sessions) = known {
                    sessions.renew(session, timeout, time);
                    self.owners.insert(session, member);
                }
                // Real members answer this ahead of the transactions that wait to be applied.
                if let Some(seat) = self.members.get_mut(member) {
                    let state = &mut seat.core.state;
                    if is_alive {
                        state.sessions.adopt(session, timeout);
                    }
                    state.enter(time, connection, is_alive.then_some(session));
                }
            }
            Call::Request { connection, session, caller, frame } => {
                let mut reader = Reader::new(&frame);
                let op = RequestHeader::decode(&mut reader).map_or(OpCode::PING, |it| it.op);
                let Some(leader) = self.members.get_mut(self.leader) else {
                    return;
                };
                let state = &mut leader.core.state;
                let is_closing = op == OpCode::CLOSE_SESSION;
                if state.sessions.get(session).is_none() && !is_closing {
                    // The end of the session is on its way to the member.
                    return;
                }
                if op == OpCode::SYNC {
                    return self.tell(time, member, Message::Synced(connection, session, frame));
                }
                let owner = *self.owners.entry(session).or_insert(member);
                if owner != member && !is_closing {
                    state.lead_failure(time);
                    self.moved_writes += 1;
                    self.distribute(time);
                    return self.tell(time, member, Message::Moved(connection));
                }
                let done = state.lead_request(time, session, *caller, &frame);
                self.distribute(time);
                for member in 0..self.members.len() {
                    self.tell(time, member, Message::Done(session, done.clone()));
                }
            }
            Call::Touch(sessions) => {
                if let Some(leader) = self.lead() {
                    let known = &mut leader.core.state.sessions;
                    sessions.into_iter().for_each(|session| known.touch(SessionId(session), time));
                }
            }
            Call::End(session) => {
                if let Some(leader) = self.lead() {
                    leader.core.state.end_session(time, session);
                }
                self.distribute(time);
            }
        }
    }

    /// Sends a message to a member. The leader gets it at once.
    pub(crate) fn tell(&mut self, time: Duration, member: usize, message: Message) {
        let leads = member == self.leader;
        if let Some(seat) = self.members.get_mut(member) {
            match leads {
                true => seat.core.state.handle_message(time, message),
                false => seat.queue.push_back((time, message)),
            }
        }
    }

    /// Sends the leader's new transactions to all other members.
    pub(crate) fn distribute(&mut self, time: Duration) {
        let Some(leader) = self.lead() else {
            return;
        };
        for txn in leader.core.state.store.take_log().into_iter().map(Arc::new) {
            if let Some(SessionChange::Closed(session)) = txn.session {
                self.owners.remove(&session);
                if let Some(leader) = self.lead() {
                    leader.core.state.leave_ended(session);
                }
            }
            for (member, seat) in self.members.iter_mut().enumerate() {
                if member != self.leader {
                    seat.queue.push_back((time, Message::Commit(Arc::clone(&txn))));
                }
            }
        }
    }
}
