//! Until when the ensemble surely keeps the session, and when to ask for more evidence.
//!
//! Send times and replies go in, a deadline comes out. The server counts the session timeout from
//! when it saw a request, which is later than the request was sent, so every deadline counts from a
//! send. It is always safe to ignore a request, so the number of requests that are kept can be
//! bounded. [`DeadlineRule`] explains why a reply alone is no evidence.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use zk_proto::{ErrorCode, OpCode};

use crate::config::DeadlineRule;

/// What a reply is evidence of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// A server of the ensemble was there when it answered.
    Contact,
    /// A leader with a quorum was there after the request was sent.
    Quorum,
}

impl Evidence {
    /// Only a write that succeeded proves a quorum. Reads, pings and `sync` are answered without
    /// one, and so are some refusals: a follower with `zookeeper.enableEagerACLCheck` refuses
    /// `NO_AUTH` and `INVALID_ACL` by itself, and any server refuses what it throttles or does not
    /// know. Codes such as `NODE_EXISTS` come from the leader today, but nothing says that they
    /// always will. A transaction is answered with `OK` also if its operations were refused; that
    /// is the leader's decision and was agreed upon like a success.
    pub(crate) fn of(op: OpCode, code: ErrorCode) -> Self {
        if op.is_write() && code == ErrorCode::OK { Self::Quorum } else { Self::Contact }
    }
}

/// An answered request, by when it was sent and answered.
#[derive(Clone, Copy, Debug)]
struct Sample {
    sent: Instant,
    answered: Instant,
}

impl Sample {
    /// The earliest time to send a write that confirms this request.
    ///
    /// This counts from the answer and not from the send: the server has surely seen the request
    /// only when it answers it. On a path that stalls, a request and a write that was sent long
    /// after it arrive together, and the leader has not heard of the request when it serves the
    /// write.
    fn confirmable_from(&self, slack: Duration) -> Instant {
        self.answered + slack
    }
}

/// The deadline of one session, as far as it is known.
#[derive(Debug)]
pub(crate) struct SessionDeadline {
    rule: DeadlineRule,
    /// The least session timeout that a server has granted; `None` before the first
    /// handshake.
    timeout: Option<Duration>,
    /// Until when the session is surely kept. It stays across connections, since the leader does
    /// not forget what it has heard.
    until: Option<Instant>,
    /// When the last answered request of this connection was sent.
    contact: Option<Instant>,
    /// How late its reply was.
    round_trip: Duration,
    /// When the handshake of this connection was sent. `None` once a write has confirmed it.
    handshake: Option<Instant>,
    /// Answered requests of this connection that no write has confirmed, oldest first. Between two
    /// sends lies at least [`min_spacing`](Self::min_spacing), and none is older than the session
    /// timeout.
    samples: VecDeque<Sample>,
    /// When the last probe of this connection was sent.
    probed: Option<Instant>,
    /// What `until` becomes if that probe succeeds. `None` once the probe is answered.
    promised: Option<Instant>,
}

/// How many samples a session keeps at most. Requests that are sent closer together than this part
/// of the session timeout count as the first of them.
const MAX_SAMPLES: u32 = 128;

/// How many requests are sent in each session timeout while a lease is open: pings, if there is
/// nothing else. Each is a sample, and a write can confirm only samples.
///
/// With T as the session timeout, F as the slack and every reply late by up to R, the deadline that
/// a confirmed request gives is at least 0.99 T after its send, and a write confirms the next
/// request after at most T/15 (the next send) + R (its reply) + F (the slack) + R (the reply to the
/// write). With the default F = 0.3 T that leaves room for R = 0.3 T.
const SAMPLES: u32 = 15;

/// A reply that takes longer than this part of the session timeout comes over a slow path. With the
/// default slack F, and a ping in each third of T, a lease can begin on older requests if replies
/// take no longer than 0.99 T - F - T/3 = 0.36 T for two round trips.
const SLOW: u32 = 6;

impl SessionDeadline {
    pub(crate) fn new(rule: DeadlineRule) -> Self {
        Self {
            rule,
            timeout: None,
            until: None,
            contact: None,
            round_trip: Duration::ZERO,
            handshake: None,
            samples: VecDeque::new(),
            probed: None,
            promised: None,
        }
    }

    /// Until when the session is surely kept. May have passed, or not be known yet.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// True if a request of this connection was answered, so that a write may confirm the session.
    pub(crate) fn has_contact(&self) -> bool {
        self.contact.is_some()
    }

    /// How far apart requests may be sent while a lease is open. `None` if no request need be sent
    /// for that.
    pub(crate) fn sample_interval(&self) -> Option<Duration> {
        (self.rule != DeadlineRule::Contact).then(|| self.timeout() / SAMPLES)
    }

    /// When to send the next probe, a write that may confirm the session. `None` if there is
    /// nothing that it could confirm.
    ///
    /// A new connection is probed at once. A later probe is sent one [margin](Self::margin) before
    /// the deadline, since a later probe confirms later requests. It is never sent before there
    /// is a request that the last probe could not confirm, so there is at most one probe for each
    /// sample.
    pub(crate) fn next_probe(&self) -> Option<Instant> {
        if self.rule == DeadlineRule::Contact {
            return None;
        }
        if self.probed.is_none() && self.handshake.is_some() {
            return self.handshake;
        }
        let fresh = self.probed.map_or(0, |probed| self.confirmable_by(probed));
        let confirmable = self.samples.get(fresh)?.confirmable_from(self.slack());
        let wanted = self.until.max(self.promised).and_then(|at| at.checked_sub(self.margin()));
        Some(wanted.map_or(confirmable, |wanted| wanted.max(confirmable)))
    }

    /// The connection is gone: its requests will confirm no more than they have confirmed.
    pub(crate) fn disconnected(&mut self) {
        (self.contact, self.handshake, self.probed, self.promised) = (None, None, None, None);
        self.samples.clear();
    }

    /// The handshake that was sent at `sent` was answered, with this session timeout.
    ///
    /// If servers grant different timeouts, the least counts from then on. Each server reports its
    /// own timeout to the leader whenever it has heard of the session: with a handshake whose reply
    /// is lost, and with its answers to the leader's pings, even shortly after the session has
    /// moved on.
    pub(crate) fn established(&mut self, sent: Instant, timeout: Duration) {
        self.timeout = Some(self.timeout.map_or(timeout, |least| least.min(timeout)));
        let least = sent + self.safe_timeout();
        self.until = self.until.map(|until| until.min(least));
        self.handshake = Some(sent);
        self.contact = Some(sent);
        if self.rule == DeadlineRule::Contact {
            self.confirm(sent);
        }
    }

    /// A request of this connection that was sent at `sent` was answered.
    #[inline]
    pub(crate) fn answered(&mut self, now: Instant, sent: Instant, evidence: Evidence) {
        if self.contact == Some(sent) && evidence == Evidence::Contact {
            // It was sent together with the request that was answered before, and confirms the
            // same.
            return;
        }
        self.contact = self.contact.max(Some(sent));
        self.round_trip = now.saturating_duration_since(sent);
        if self.rule == DeadlineRule::Contact {
            return self.confirm(sent);
        }
        if self.samples.back().is_none_or(|last| sent >= last.sent + self.min_spacing()) {
            let safe_timeout = self.safe_timeout();
            while self.samples.front().is_some_and(|oldest| oldest.sent + safe_timeout <= now) {
                self.samples.pop_front();
            }
            self.samples.push_back(Sample { sent, answered: now });
        }
        if evidence == Evidence::Quorum {
            self.confirm_samples(sent);
        }
    }

    /// A probe was handed to the transport.
    pub(crate) fn probe_sent(&mut self, now: Instant) {
        let newest =
            self.confirmable_by(now).checked_sub(1).and_then(|index| self.samples.get(index));
        let sent = newest.map(|sample| sample.sent).max(self.handshake);
        self.probed = Some(now);
        self.promised = sent.map(|sent| sent + self.safe_timeout());
    }

    /// The probe that was sent at `sent` was answered. [`answered`](Self::answered) has noted
    /// what it confirms; if that was nothing, the next probe need not wait.
    pub(crate) fn probe_answered(&mut self, sent: Instant) {
        if self.probed == Some(sent) {
            self.promised = None;
        }
    }

    /// A leader with a quorum was there after a write was sent at `written`.
    fn confirm_samples(&mut self, written: Instant) {
        // The leader hears of a handshake before it is answered, so any later write confirms it.
        if let Some(handshake) = self.handshake.take() {
            self.confirm(handshake);
        }
        while let Some(sample) = self.samples.front().copied()
            && sample.confirmable_from(self.slack()) <= written
        {
            self.samples.pop_front();
            self.confirm(sample.sent);
        }
    }

    /// The leader has heard of the session after `sent`.
    fn confirm(&mut self, sent: Instant) {
        self.until = self.until.max(Some(sent + self.safe_timeout()));
    }

    /// How many samples a write that is sent at `written` may confirm.
    fn confirmable_by(&self, written: Instant) -> usize {
        self.samples.partition_point(|sample| sample.confirmable_from(self.slack()) <= written)
    }

    fn timeout(&self) -> Duration {
        self.timeout.unwrap_or_default()
    }

    /// The session timeout, on a clock of ours that may run slow against the servers' by 1 %.
    pub(crate) fn safe_timeout(&self) -> Duration {
        self.timeout() * 99 / 100
    }

    /// How long before a write a request must have been answered for the write to confirm it.
    fn slack(&self) -> Duration {
        match self.rule {
            DeadlineRule::Contact => Duration::ZERO,
            DeadlineRule::Quorum { slack } => slack.unwrap_or(self.timeout() * 3 / 10),
        }
    }

    /// How long before the deadline a probe is sent. A holder keeps its lease if replies are no
    /// later than this. It is at most half of the [safe timeout](Self::safe_timeout) without the
    /// slack.
    fn margin(&self) -> Duration {
        let left = self.safe_timeout().saturating_sub(self.slack());
        (self.timeout() / 3).min(left / 2)
    }

    /// How far away the deadline must be when a lease begins: then the next proof comes in time,
    /// even if its reply is late by 0.3 T. A probe is due before the deadline is as near as this.
    ///
    /// On a slow path the next proof may still not come in time, since it needs a sample, and a
    /// session without a lease has few of them. Then no distance is enough.
    pub(crate) fn needed(&self) -> Duration {
        let is_slow = self.round_trip > self.timeout() / SLOW;
        match is_slow && self.rule != DeadlineRule::Contact {
            true => self.timeout(),
            false => self.margin().min(self.timeout() * 3 / 10),
        }
    }

    /// Requests that are sent closer together than this count as the first of them.
    fn min_spacing(&self) -> Duration {
        self.timeout() / MAX_SAMPLES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(1000);
    const SAFE_TIMEOUT: Duration = Duration::from_millis(990);

    #[test]
    fn only_a_write_that_succeeded_proves_a_quorum() {
        let quorum = |op, answer| Evidence::of(op, answer) == Evidence::Quorum;
        for op in [OpCode::CREATE2, OpCode::DELETE, OpCode::SET_DATA, OpCode::MULTI] {
            assert!(quorum(op, ErrorCode::OK), "{op}");
            for refusal in [
                ErrorCode::NO_AUTH,
                ErrorCode::INVALID_ACL,
                ErrorCode::NO_NODE,
                ErrorCode::NODE_EXISTS,
                ErrorCode::BAD_VERSION,
                ErrorCode::NOT_EMPTY,
                ErrorCode::THROTTLED_OP,
                ErrorCode::UNIMPLEMENTED,
                ErrorCode::NOT_READ_ONLY,
                ErrorCode::SESSION_MOVED,
                ErrorCode(-9999),
            ] {
                assert!(!quorum(op, refusal), "{op} {refusal}");
            }
        }
        for op in [OpCode::SYNC, OpCode::GET_DATA, OpCode::SET_WATCHES, OpCode::ADD_WATCH] {
            assert!(!quorum(op, ErrorCode::OK), "{op}");
        }
    }

    /// For any replies, however late.
    #[test]
    fn a_hundred_thousand_answers_leave_few_samples() {
        for (slack, writes_every) in [(None, 0), (None, 1000), (Some(Duration::ZERO), 7)] {
            for late in [0, 5, 400, 5000] {
                let mut deadline = SessionDeadline::new(DeadlineRule::Quorum { slack });
                let start = start();
                deadline.established(start, TIMEOUT);
                for n in 1..=100_000_u32 {
                    let quorum = n.checked_rem(writes_every).is_some_and(|rest| rest == 0);
                    let evidence = if quorum { Evidence::Quorum } else { Evidence::Contact };
                    let sent = start + Duration::from_micros(50) * n;
                    deadline.answered(sent + Duration::from_millis(late), sent, evidence);
                    let kept = deadline.samples.len();
                    assert!(kept <= MAX_SAMPLES as usize, "{kept} samples after {n} answers");
                }
                assert!(deadline.samples.capacity() <= 2 * MAX_SAMPLES as usize);
            }
        }
    }

    /// A request, by when it was sent and answered, and what the answer is evidence of.
    type Answered = (Instant, Instant, Evidence);

    /// The rule as it is defined, over all requests of each connection. The handshake is the first.
    fn naive(connections: &[Vec<Answered>], slack: Duration) -> Option<Instant> {
        let mut until = None;
        for answered in connections {
            let (handshake, requests) = answered.split_first().unwrap();
            for (written, _, _) in requests.iter().filter(|it| it.2 == Evidence::Quorum) {
                until = until.max(Some(handshake.0 + SAFE_TIMEOUT));
                for (sent, ..) in requests.iter().filter(|it| it.1 + slack <= *written) {
                    until = until.max(Some(*sent + SAFE_TIMEOUT));
                }
            }
        }
        until
    }

    fn random(seed: &mut u64, below: u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (*seed >> 33) % below
    }

    /// Random sends over several connections, some of which stall; each is answered or not. Pings
    /// and requests are each answered in order, but not in one order.
    #[test]
    fn the_deadline_is_never_later_than_the_rule() {
        let seed = &mut 1_u64;
        for run in 0..3000 {
            let slack = Duration::from_millis([0, 10, 300, 600][random(seed, 4) as usize]);
            let mut deadline = SessionDeadline::new(DeadlineRule::Quorum { slack: Some(slack) });
            let mut now = start();
            let mut connections = Vec::new();
            let pace = [5, 60, 400][random(seed, 3) as usize];
            for _ in 0..=random(seed, 3) {
                deadline.disconnected();
                deadline.established(now, TIMEOUT);
                connections.push(vec![(now, now, Evidence::Contact)]);
                let mut sent = [VecDeque::new(), VecDeque::new()];
                for _ in 0..random(seed, 60) {
                    now += Duration::from_millis(random(seed, pace));
                    let evidence =
                        if random(seed, 4) == 0 { Evidence::Quorum } else { Evidence::Contact };
                    sent[usize::from(evidence == Evidence::Quorum || random(seed, 2) == 0)]
                        .push_back((now, evidence));
                    while random(seed, 3) > 0
                        && let Some((at, evidence)) = sent[random(seed, 2) as usize].pop_front()
                    {
                        deadline.answered(now, at, evidence);
                        connections.last_mut().unwrap().push((at, now, evidence));
                        let exact = naive(&connections, slack);
                        let until = deadline.until();
                        assert!(until <= exact, "run {run}: later than the rule");
                        assert_eq!(until.is_some(), exact.is_some(), "run {run}");
                    }
                }
            }
        }
    }

    /// If replies come in order, as servers send them, nothing but the spacing is lost.
    #[test]
    fn answers_in_order_lose_no_more_than_a_spacing() {
        let seed = &mut 7_u64;
        for run in 0..3000 {
            let slack = Duration::from_millis([0, 10, 300, 600][random(seed, 4) as usize]);
            let mut deadline = SessionDeadline::new(DeadlineRule::Quorum { slack: Some(slack) });
            let mut now = start();
            deadline.established(now, TIMEOUT);
            let mut answered = vec![(now, now, Evidence::Contact)];
            let mut sent = VecDeque::new();
            let pace = [5, 60, 400][random(seed, 3) as usize];
            for _ in 0..random(seed, 80) {
                now += Duration::from_millis(random(seed, pace));
                let evidence =
                    if random(seed, 4) == 0 { Evidence::Quorum } else { Evidence::Contact };
                sent.push_back((now, evidence));
                while random(seed, 3) > 0
                    && let Some((at, evidence)) = sent.pop_front()
                {
                    deadline.answered(now, at, evidence);
                    answered.push((at, now, evidence));
                    let exact = naive(std::slice::from_ref(&answered), slack);
                    let until = deadline.until();
                    assert!(until <= exact, "run {run}: later than the rule");
                    // A deadline that has passed need not be known.
                    let least =
                        exact.filter(|exact| *exact > now).map(|it| it - deadline.min_spacing());
                    assert!(until >= least, "run {run}: {exact:?} and not {until:?}");
                }
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
    fn start() -> Instant {
        Instant::now()
    }
}
