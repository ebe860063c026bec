//! The deadlines of a session: one table, one `next`, and what part of the session timeout each is.
//!
//! A third of silence from us asks for a ping, two thirds from the server are a dead connection,
//! and four thirds a dead session. That leaves a third to reach another server.

use std::time::{Duration, Instant};

/// Servers ask for a sign of life within the session timeout; more than this between two is
/// unkind to whatever tracks connections in between. The Java client does the same.
const MAX_PING_INTERVAL: Duration = Duration::from_secs(10);

/// How long a server may be silent before its connection counts as dead.
pub(crate) fn silence(timeout: Duration) -> Duration {
    timeout * 2 / 3
}

/// What a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The handshake must be done.
    Attempt,
    /// Nothing was sent for so long that a ping is due.
    Ping,
    /// Nothing was received for so long that the connection counts as dead.
    Silence,
    /// Nothing was received for so long that the session counts as dead.
    Expiry,
    /// The close has waited long enough for a server.
    Close,
    /// Enough was waited for answers before the connection is left.
    Leave,
    /// Leases need a proof that the session is kept.
    Probe,
    /// Something sent has had no answer for so long that leases count as suspended.
    Suspend,
    /// A lease lapses.
    Lapse,
}

impl Timer {
    const ALL: [Self; 9] = [
        Self::Attempt,
        Self::Ping,
        Self::Silence,
        Self::Expiry,
        Self::Close,
        Self::Leave,
        Self::Probe,
        Self::Suspend,
        Self::Lapse,
    ];
}

/// When each timer fires, if it is set.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    at: [Option<Instant>; Timer::ALL.len()],
    terms: Terms,
}

/// The parts of a session timeout, which every frame needs.
#[derive(Clone, Copy, Debug, Default)]
struct Terms {
    timeout: Duration,
    ping: Duration,
    silence: Duration,
    expiry: Duration,
}

impl Terms {
    fn new(timeout: Duration) -> Self {
        let ping = (timeout / 3).min(MAX_PING_INTERVAL);
        Self { timeout, ping, silence: silence(timeout), expiry: timeout * 4 / 3 }
    }
}

impl Timers {
    #[inline]
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        self.put(timer, Some(at));
    }

    pub(crate) fn stop(&mut self, timer: Timer) {
        self.put(timer, None);
    }

    /// Something was sent.
    pub(crate) fn sent(&mut self, now: Instant, timeout: Duration) {
        let Terms { ping, .. } = self.terms(timeout);
        self.set(Timer::Ping, now + ping);
    }

    /// A frame came: connection and session are alive.
    #[inline]
    pub(crate) fn heard(&mut self, now: Instant, timeout: Duration) {
        let Terms { silence, expiry, .. } = self.terms(timeout);
        self.set(Timer::Silence, now + silence);
        self.set(Timer::Expiry, now + expiry);
    }

    #[inline]
    fn terms(&mut self, timeout: Duration) -> Terms {
        if self.terms.timeout != timeout {
            self.terms = Terms::new(timeout);
        }
        self.terms
    }

    /// Sets a timer, or stops it.
    pub(crate) fn reset(&mut self, timer: Timer, at: Option<Instant>) {
        self.put(timer, at);
    }

    /// The connection is gone, and the session lives on.
    pub(crate) fn hung_up(&mut self) {
        for timer in [Timer::Attempt, Timer::Ping, Timer::Silence, Timer::Leave] {
            self.stop(timer);
        }
    }

    pub(crate) fn stop_all(&mut self) {
        self.at = Default::default();
    }

    #[inline]
    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.at.get(timer as usize).copied().flatten().is_some()
    }

    /// The earliest deadline.
    #[inline]
    pub(crate) fn next(&self) -> Option<Instant> {
        self.at.iter().copied().flatten().min()
    }

    /// Stops and returns a timer that is due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Timer> {
        let due = |timer: &Timer| {
            self.at.get(*timer as usize).copied().flatten().is_some_and(|at| at <= now)
        };
        let timer = Timer::ALL.into_iter().find(due)?;
        self.stop(timer);
        Some(timer)
    }

    #[inline]
    fn put(&mut self, timer: Timer, at: Option<Instant>) {
        if let Some(slot) = self.at.get_mut(timer as usize) {
            *slot = at;
        }
    }
}
