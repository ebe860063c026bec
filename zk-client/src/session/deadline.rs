//! Until when the ensemble surely keeps the session: send times and answers go in, a deadline
//! comes out.
//!
//! The server counts the session timeout from when it saw a request, which is later than it was
//! sent: so every deadline counts from a send. Using an older send in place of a newer one is
//! always safe, which bounds what is kept. [`DeadlineRule`] says why an answer alone does not do.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use zk_proto::{ErrorCode, OpCode};

use crate::config::DeadlineRule;

/// What an answer tells of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// A server of the ensemble was there.
    Contact,
    /// A leader with a quorum was there.
    Quorum,
}

impl Proof {
    /// Only the leader carries out a write, and a refusal that it decides on is agreed upon like a
    /// success. Other refusals a server may give alone, and so it answers whatever does not write.
    pub(crate) fn of(op: OpCode, answer: ErrorCode) -> Self {
        if asks_for_quorum(op)
            && matches!(
                answer,
                ErrorCode::OK
                    | ErrorCode::NO_NODE
                    | ErrorCode::NO_AUTH
                    | ErrorCode::BAD_VERSION
                    | ErrorCode::NO_CHILDREN_FOR_EPHEMERALS
                    | ErrorCode::NODE_EXISTS
                    | ErrorCode::NOT_EMPTY
                    | ErrorCode::INVALID_ACL
                    | ErrorCode::QUOTA_EXCEEDED
            )
        {
            Self::Quorum
        } else {
            Self::Contact
        }
    }
}

/// Whether the answer to this may be a proof of a quorum.
pub(crate) fn asks_for_quorum(op: OpCode) -> bool {
    matches!(
        op,
        OpCode::CREATE
            | OpCode::CREATE2
            | OpCode::CREATE_CONTAINER
            | OpCode::CREATE_TTL
            | OpCode::DELETE
            | OpCode::SET_DATA
            | OpCode::SET_ACL
            | OpCode::MULTI
            | OpCode::RECONFIG
    )
}

/// The deadline of one session, as far as it is known.
#[derive(Debug)]
pub(crate) struct Deadline {
    rule: DeadlineRule,
    timeout: Duration,
    /// By rule and timeout.
    slack: Duration,
    /// Samples are at least this far apart.
    grain: Duration,
    /// Until when the session is surely kept. Stays across connections: what the leader has heard
    /// it has heard.
    until: Option<Instant>,
    /// The last answered send of this connection.
    contact: Option<Instant>,
    /// The last answered send that asked for a quorum, of this connection.
    quorum: Option<Instant>,
    /// When the handshake of this connection was sent.
    handshake: Option<Instant>,
    /// Answered sends that no quorum has vouched for yet, oldest first and at least a grain apart.
    samples: VecDeque<Instant>,
}

/// Sends that are closer together than this part of the slack count as the first of them.
const GRAINS: u32 = 32;

/// How much older a send must be than one that asked for a quorum to be vouched for by it.
fn slack(rule: DeadlineRule, timeout: Duration) -> Duration {
    match rule {
        DeadlineRule::Contact => Duration::ZERO,
        DeadlineRule::Quorum { slack } => slack.unwrap_or(timeout * 3 / 10),
    }
}

impl Deadline {
    pub(crate) fn new(rule: DeadlineRule, timeout: Duration) -> Self {
        let (until, contact, quorum, handshake) = (None, None, None, None);
        let samples = VecDeque::new();
        let slack = slack(rule, timeout);
        let grain = slack / GRAINS;
        Self { rule, timeout, slack, grain, until, contact, quorum, handshake, samples }
    }

    /// Until when the session is surely kept. May have passed, or not be known yet.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// What [`until`](Self::until) becomes at best, if a proof comes now.
    pub(crate) fn hope(&self) -> Option<Instant> {
        self.contact.map(|sent| sent + self.term())
    }

    /// The connection is gone: what it has not proved it never will.
    pub(crate) fn disconnected(&mut self) {
        (self.contact, self.quorum, self.handshake) = (None, None, None);
        self.samples.clear();
    }

    /// A handshake that was sent then was answered, and the session lives this long.
    pub(crate) fn established(&mut self, sent: Instant, timeout: Duration) {
        if timeout < self.timeout {
            // From this handshake on the servers count less.
            self.timeout = timeout;
            let least = sent + self.term();
            self.until = self.until.map(|until| until.min(least));
        }
        self.timeout = timeout;
        self.slack = slack(self.rule, timeout);
        self.grain = self.slack / GRAINS;
        self.handshake = Some(sent);
        self.contact = Some(sent);
        if self.rule == DeadlineRule::Contact {
            self.prove(sent);
        }
    }

    /// A request of this connection that was sent then was answered.
    #[inline]
    pub(crate) fn answered(&mut self, sent: Instant, proof: Proof) {
        if self.contact == Some(sent) && proof == Proof::Contact {
            // It left with the one that was answered before, and proves as much.
            return;
        }
        let contact = self.contact.map_or(sent, |contact| contact.max(sent));
        self.contact = Some(contact);
        if self.rule == DeadlineRule::Contact {
            return self.prove(sent);
        }
        if self.samples.back().is_none_or(|last| sent >= *last + self.grain) {
            self.samples.push_back(sent);
        } else if proof == Proof::Contact {
            // It stands for no more than the last sample does.
            return;
        }
        if proof == Proof::Quorum {
            self.quorum = self.quorum.max(Some(sent));
            // The handshake reaches the leader itself, so any write behind it vouches for it.
            if let Some(handshake) = self.handshake.take() {
                self.prove(handshake);
            }
        }
        let slack = self.slack;
        let before = |at: Instant, sample: &Instant| *sample + slack <= at;
        while let Some(sample) = self.samples.front().copied()
            && self.quorum.is_some_and(|quorum| before(quorum, &sample))
        {
            self.samples.pop_front();
            self.prove(sample);
        }
        // What the next proof vouches for is at least this, so nothing older matters.
        while self.samples.get(1).is_some_and(|second| before(contact, second)) {
            self.samples.pop_front();
        }
    }

    /// The leader has heard of the session since this was sent.
    fn prove(&mut self, sent: Instant) {
        self.until = self.until.max(Some(sent + self.term()));
    }

    /// The session timeout, on a clock of ours that may run slow against the servers' by 1 %.
    fn term(&self) -> Duration {
        self.timeout * 99 / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_leaders_answers_prove_a_quorum() {
        let quorum = |op, answer| Proof::of(op, answer) == Proof::Quorum;
        for op in [OpCode::CREATE2, OpCode::DELETE, OpCode::SET_DATA, OpCode::MULTI] {
            assert!(quorum(op, ErrorCode::OK) && quorum(op, ErrorCode::NO_NODE), "{op}");
            for alone in [
                ErrorCode::THROTTLED_OP,
                ErrorCode::UNIMPLEMENTED,
                ErrorCode::NOT_READ_ONLY,
                ErrorCode::MARSHALLING_ERROR,
                ErrorCode::EPHEMERAL_ON_LOCAL_SESSION,
                ErrorCode::SESSION_MOVED,
                ErrorCode(-9999),
            ] {
                assert!(!quorum(op, alone), "{op} {alone}");
            }
        }
        for op in [OpCode::SYNC, OpCode::GET_DATA, OpCode::SET_WATCHES, OpCode::ADD_WATCH] {
            assert!(!quorum(op, ErrorCode::OK), "{op}");
        }
    }

    #[test]
    fn a_hundred_thousand_answers_leave_few_samples() {
        for (slack, proofs) in [(None, 0), (None, 1000), (Some(Duration::ZERO), 7)] {
            let timeout = Duration::from_secs(12);
            let mut deadline = Deadline::new(DeadlineRule::Quorum { slack }, timeout);
            let start = start();
            deadline.established(start, timeout);
            for n in 1..=100_000_u32 {
                let quorum = n.checked_rem(proofs).is_some_and(|rest| rest == 0);
                let proof = if quorum { Proof::Quorum } else { Proof::Contact };
                deadline.answered(start + Duration::from_micros(500) * n, proof);
                let kept = deadline.samples.len();
                assert!(kept <= GRAINS as usize + 2, "{kept} samples after {n} answers");
            }
            assert!(deadline.samples.capacity() <= 2 * GRAINS as usize + 4);
        }
    }

    /// The rule as it is defined, over all that was sent and answered on each connection.
    fn naive(
        connections: &[Vec<(Instant, Proof)>],
        slack: Duration,
        term: Duration,
    ) -> Option<Instant> {
        let mut until = None;
        for answered in connections {
            let (handshake, requests) = answered.split_first().unwrap();
            for (q, proof) in requests {
                if *proof == Proof::Quorum {
                    until = until.max(Some(handshake.0 + term));
                    for (p, _) in requests.iter().filter(|(p, _)| *p + slack <= *q) {
                        until = until.max(Some(*p + term));
                    }
                }
            }
        }
        until
    }

    /// Random sends, each answered or not and in order, over several connections.
    #[test]
    fn the_deadline_is_the_defined_one_or_a_grain_earlier() {
        let mut seed = 1_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            (seed >> 33) % below
        };
        let timeout = Duration::from_millis(1000);
        let term = Duration::from_millis(990);
        for run in 0..3000 {
            let slack = Duration::from_millis([0, 10, 300, 600][random(4) as usize]);
            let mut deadline = Deadline::new(DeadlineRule::Quorum { slack: Some(slack) }, timeout);
            let mut now = start();
            let mut connections = Vec::new();
            let pace = [5, 60, 400][random(3) as usize];
            for _ in 0..=random(3) {
                deadline.disconnected();
                deadline.established(now, timeout);
                connections.push(vec![(now, Proof::Contact)]);
                // Pings and requests, each answered in order; but not in one order.
                let mut sent = [VecDeque::new(), VecDeque::new()];
                for _ in 0..random(60) {
                    now += Duration::from_millis(random(pace));
                    let proof = if random(4) == 0 { Proof::Quorum } else { Proof::Contact };
                    sent[usize::from(proof == Proof::Quorum || random(2) == 0)]
                        .push_back((now, proof));
                    while random(3) > 0
                        && let Some((at, proof)) = sent[random(2) as usize].pop_front()
                    {
                        deadline.answered(at, proof);
                        connections.last_mut().unwrap().push((at, proof));
                        let exact = naive(&connections, slack, term);
                        let until = deadline.until();
                        assert!(until <= exact, "run {run}: later than the rule");
                        assert_eq!(until.is_some(), exact.is_some(), "run {run}");
                    }
                }
            }
        }
    }

    /// In order, as servers answer, nothing but the grain is lost.
    #[test]
    fn answers_in_order_lose_no_more_than_a_grain() {
        let mut seed = 7_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            (seed >> 33) % below
        };
        let timeout = Duration::from_millis(1000);
        let term = Duration::from_millis(990);
        for run in 0..3000 {
            let slack = Duration::from_millis([0, 10, 300, 600][random(4) as usize]);
            let mut deadline = Deadline::new(DeadlineRule::Quorum { slack: Some(slack) }, timeout);
            let mut now = start();
            deadline.established(now, timeout);
            let mut answered = vec![(now, Proof::Contact)];
            let pace = [5, 60, 400][random(3) as usize];
            for _ in 0..random(80) {
                now += Duration::from_millis(random(pace));
                let proof = if random(4) == 0 { Proof::Quorum } else { Proof::Contact };
                deadline.answered(now, proof);
                answered.push((now, proof));
                let exact = naive(std::slice::from_ref(&answered), slack, term);
                let until = deadline.until();
                assert!(until <= exact, "run {run}: later than the rule");
                let least = exact.map(|exact| exact - slack / GRAINS);
                assert!(until >= least, "run {run}: {:?} lost", exact.unwrap() - until.unwrap());
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
    fn start() -> Instant {
        Instant::now()
    }
}
