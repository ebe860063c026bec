//! The timers of a session, and what part of the session timeout each is.
//!
//! A ping is due after the client has sent nothing for a third of the session timeout, at most 10
//! s. If the server sends nothing for two thirds, the connection counts as dead, which leaves a
//! third to reach another server. The bytes of an unfinished frame count as well, if they come fast
//! enough. After four thirds the session counts as dead. While a lease is open, pings are more
//! frequent: see `session/deadline`.

use std::time::{Duration, Instant};

/// The longest time between pings. Servers need a sign of life only within the session timeout, but
/// devices that track connections on the way may drop one that is silent for longer than this. The
/// Java client does the same.
const MAX_PING_INTERVAL: Duration = Duration::from_secs(10);

/// The least rate, in bytes per second, at which a frame must arrive to count as a sign of life.
/// The slowest links are many times faster, and at this rate the largest reply of
/// [`Limits`](crate::Limits) takes less than five hours.
const LEAST_RATE: u128 = 1024;

/// How long a server may be silent before its connection counts as dead.
pub(crate) fn silence(timeout: Duration) -> Duration {
    timeout * 2 / 3
}

/// What a session waits for, each with a time of its own.
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
    /// The session has waited long enough for replies before it leaves the connection.
    Leave,
    /// Nodes that were looked for and not found are looked for again.
    SearchLostNodes,
    /// Deletes that were refused are repeated.
    RepeatDeletes,
    /// Leases need a probe, to confirm that the session is kept.
    Probe,
    /// A request or ping has had no reply for so long that leases count as suspended.
    LeaseAtRisk,
    /// A lease lapses.
    Lapse,
}

impl Timer {
    const ALL: [Self; 11] = [
        Self::Attempt,
        Self::Ping,
        Self::Silence,
        Self::Expiry,
        Self::Close,
        Self::Leave,
        Self::SearchLostNodes,
        Self::RepeatDeletes,
        Self::Probe,
        Self::LeaseAtRisk,
        Self::Lapse,
    ];
}

/// When each timer fires, if it is set.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    at: [Option<Instant>; Timer::ALL.len()],
    /// No timer is due before this. Setting a timer makes it earlier, and only a search of all
    /// timers makes it later. Most frames move timers to a later time, and need not find out which
    /// is the next.
    lower_bound: Option<Instant>,
    /// When the last frame came, unless one of the timers that it set was stopped since.
    last_received: Option<Instant>,
    /// The frame that is arriving: when its bytes last counted as a sign of life, and how many came
    /// since. `None` if no byte of it has come.
    unfinished: Option<(Instant, u128)>,
    intervals: Intervals,
}

/// The parts of a session timeout, which every frame needs.
#[derive(Clone, Copy, Debug, Default)]
struct Intervals {
    timeout: Duration,
    ping: Duration,
    silence: Duration,
    expiry: Duration,
}

impl Intervals {
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
        let Intervals { ping, .. } = self.intervals(timeout);
        self.set(Timer::Ping, now + ping);
    }

    /// A frame came: connection and session are alive.
    #[inline]
    pub(crate) fn received(&mut self, now: Instant, timeout: Duration) {
        if self.last_received == Some(now) {
            // It came together with the frame before.
            return;
        }
        (self.last_received, self.unfinished) = (Some(now), None);
        let Intervals { silence, expiry, .. } = self.intervals(timeout);
        self.set(Timer::Silence, now + silence);
        self.set(Timer::Expiry, now + expiry);
    }

    /// This many bytes came of a frame that is not complete yet. They are signs of life if they are
    /// the first of the frame, or if it has arrived at the least rate since it last gave one.
    pub(crate) fn received_part(&mut self, now: Instant, timeout: Duration, bytes: usize) {
        if let Some((since, earlier)) = self.unfinished {
            let bytes = earlier + bytes as u128;
            let elapsed = now.saturating_duration_since(since);
            if bytes * 1000 < LEAST_RATE * elapsed.as_millis() {
                self.unfinished = Some((since, bytes));
                return;
            }
        }
        self.received(now, timeout);
        self.unfinished = Some((now, 0));
    }

    #[inline]
    fn intervals(&mut self, timeout: Duration) -> Intervals {
        if self.intervals.timeout != timeout {
            self.intervals = Intervals::new(timeout);
        }
        self.intervals
    }

    /// Sets a timer, or stops it.
    pub(crate) fn reset(&mut self, timer: Timer, at: Option<Instant>) {
        self.put(timer, at);
    }

    /// The connection is gone, and the session lives on.
    pub(crate) fn hung_up(&mut self) {
        let of_connection = [
            Timer::Attempt,
            Timer::Ping,
            Timer::Silence,
            Timer::Leave,
            Timer::SearchLostNodes,
            Timer::RepeatDeletes,
        ];
        of_connection.into_iter().for_each(|timer| self.stop(timer));
    }

    /// Makes a timer that is set fire at this time, unless it fires before.
    pub(crate) fn set_earlier(&mut self, timer: Timer, at: Instant) {
        let set = self.at.get(timer as usize).copied().flatten();
        if set.is_some_and(|set| at < set) {
            self.set(timer, at);
        }
    }

    pub(crate) fn stop_all(&mut self) {
        *self = Self::default();
    }

    #[inline]
    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.at.get(timer as usize).copied().flatten().is_some()
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.at.iter().copied().flatten().min()
    }

    /// No later than the earliest deadline, and known without a search.
    #[inline]
    pub(crate) fn lower_bound(&self) -> Option<Instant> {
        self.lower_bound
    }

    /// Stops and returns a timer that is due.
    #[inline]
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Timer> {
        if self.lower_bound.is_none_or(|lower_bound| lower_bound > now) {
            None
        } else {
            self.find_due(now)
        }
    }

    fn find_due(&mut self, now: Instant) -> Option<Timer> {
        let due = |timer: &Timer| {
            self.at.get(*timer as usize).copied().flatten().is_some_and(|at| at <= now)
        };
        let timer = Timer::ALL.into_iter().find(due);
        match timer {
            Some(timer) => self.stop(timer),
            None => self.lower_bound = self.next(),
        }
        timer
    }

    #[inline]
    fn put(&mut self, timer: Timer, at: Option<Instant>) {
        if let Some(entry) = self.at.get_mut(timer as usize) {
            *entry = at;
        }
        match at {
            Some(at) if self.lower_bound.is_none_or(|lower_bound| at < lower_bound) => {
                self.lower_bound = Some(at)
            }
            Some(_) => {}
            None if matches!(timer, Timer::Silence | Timer::Expiry) => self.last_received = None,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
    fn each_timer_fires_when_it_is_due_and_none_before_it_is_said_to_be() {
        let mut seed = 1_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            (seed >> 33) % below
        };
        let mut timers = Timers::default();
        let mut now = Instant::now();
        for _ in 0..20_000 {
            let timer = Timer::ALL[random(Timer::ALL.len() as u64) as usize];
            let at = (random(3) > 0).then(|| now + Duration::from_millis(random(50)));
            timers.reset(timer, at);
            now += Duration::from_millis(random(10));
            let next = timers.next();
            assert!(timers.lower_bound() <= next || next.is_none());
            assert!(next.is_none() || timers.lower_bound().is_some());
            let due = std::iter::from_fn(|| timers.take_due(now)).count();
            assert_eq!(due > 0, next.is_some_and(|next| next <= now));
            assert!(timers.next().is_none_or(|next| next > now), "none is left");
            assert!(
                timers.lower_bound().is_none_or(|lower_bound| lower_bound > now),
                "or nobody would sleep"
            );
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
    fn a_frame_sets_again_what_was_stopped_at_the_same_moment() {
        let (now, timeout) = (Instant::now(), Duration::from_secs(3));
        let mut timers = Timers::default();
        let silence: fn(&mut Timers) = |timers| timers.stop(Timer::Silence);
        let expiry: fn(&mut Timers) = |timers| timers.stop(Timer::Expiry);
        for stop in [Timers::hung_up, Timers::stop_all, silence, expiry] {
            timers.received(now, timeout);
            // As happens between any two frames while a lease is open.
            timers.reset(Timer::LeaseAtRisk, None);
            assert_eq!(timers.last_received, Some(now));
            stop(&mut timers);
            timers.received(now, timeout);
            assert!(timers.is_set(Timer::Silence) && timers.is_set(Timer::Expiry));
        }
    }
}
