//! Sessions and when they expire.
//!
//! A session is in a bucket of one tick. Every request of its client touches it, except auth and
//! SASL requests. A whole bucket expires at once: between one timeout and one tick more after the
//! last touch.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zk_proto::{Password, SessionId};

/// The server's id is the first byte of the ids of its sessions.
const SERVER_SHIFT: u32 = 56;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) password: Password,
    /// The timeout that was negotiated in the last handshake.
    pub(crate) timeout: Duration,
    /// True if a read-only server has opened it and keeps it to itself.
    pub(crate) is_local: bool,
    /// The number of the tick at whose start the session expires. `None` while its clock is
    /// stopped.
    bucket: Option<u64>,
}

/// All sessions. Time is counted from the server's start.
#[derive(Debug)]
pub(crate) struct Sessions {
    tick: Duration,
    next: i64,
    alive: BTreeMap<i64, Session>,
    buckets: BTreeMap<u64, BTreeSet<i64>>,
}

impl Sessions {
    /// Session ids start from the wall clock, as a real server's do.
    ///
    /// A real server does not share its clock. Servers of one process use `nth` so that their
    /// sessions have different ids.
    pub(crate) fn new(tick: Duration, millis: i64, nth: i64) -> Self {
        let clock = (millis.wrapping_add(nth).wrapping_shl(24) as u64) >> 8;
        let next = 1 << SERVER_SHIFT | clock as i64;
        Self { tick, next, alive: BTreeMap::new(), buckets: BTreeMap::new() }
    }

    pub(crate) fn open(&mut self, timeout: Duration, is_local: bool, now: Duration) -> SessionId {
        let id = self.next_id();
        let password = password(id);
        self.alive.insert(id.0, Session { password, timeout, is_local, bucket: None });
        self.touch(id, now);
        id
    }

    /// An id for a session of the ensemble that is about to be opened here.
    pub(crate) fn next_id(&mut self) -> SessionId {
        let id = SessionId(self.next);
        self.next += 1;
        id
    }

    /// Sets the id of this server in its ensemble, which begins the ids of its sessions.
    pub(crate) fn set_server_id(&mut self, server: u8) {
        let clock = self.next & ((1 << SERVER_SHIFT) - 1);
        self.next = i64::from(server) << SERVER_SHIFT | clock;
    }

    /// Adds a session of the ensemble, or gives it this timeout. Its clock does not run here.
    pub(crate) fn adopt(&mut self, id: SessionId, timeout: Duration) {
        let session = self.alive.entry(id.0);
        let (password, is_local, bucket) = (password(id), false, None);
        let session = session.or_insert(Session { password, timeout, is_local, bucket });
        session.timeout = timeout;
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.alive.get(&id.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.alive.len()
    }

    /// How many sessions are known only to a read-only server.
    pub(crate) fn local(&self) -> usize {
        self.alive.values().filter(|session| session.is_local).count()
    }

    /// The ids in the order in which the sessions were opened.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SessionId> {
        self.alive.keys().map(|id| SessionId(*id))
    }

    /// Resumes a session with the timeout that was negotiated now.
    pub(crate) fn renew(&mut self, id: SessionId, timeout: Duration, now: Duration) {
        if let Some(session) = self.alive.get_mut(&id.0) {
            session.timeout = timeout;
        }
        self.touch(id, now);
    }

    /// Starts the session's timeout anew, because its client has sent something.
    pub(crate) fn touch(&mut self, id: SessionId, now: Duration) {
        if let Some(session) = self.get(id) {
            self.touch_for(id, session.timeout, now);
        }
    }

    /// Like [`Sessions::touch`], with another time than the session's timeout.
    pub(crate) fn touch_for(&mut self, id: SessionId, time: Duration, now: Duration) {
        let tick = self.tick.as_millis().max(1);
        self.put(id, Some(((now + time).as_millis() / tick) as u64 + 1));
    }

    /// Stops the clocks of the sessions for which `runs` is false, because no server can end them,
    /// and restarts the stopped clocks of the others.
    pub(crate) fn run(&mut self, now: Duration, runs: impl Fn(&Session) -> bool) {
        let sessions = self.alive.iter();
        let changed = sessions.filter(|(_, it)| runs(it) != it.bucket.is_some());
        let changed: Vec<_> = changed.map(|(id, it)| (SessionId(*id), runs(it))).collect();
        for (id, runs) in changed {
            if runs { self.touch(id, now) } else { self.put(id, None) }
        }
    }

    fn put(&mut self, id: SessionId, bucket: Option<u64>) {
        let Some(session) = self.alive.get_mut(&id.0) else {
            return;
        };
        if bucket != session.bucket {
            let old = std::mem::replace(&mut session.bucket, bucket);
            self.leave(old, id);
            if let Some(bucket) = bucket {
                self.buckets.entry(bucket).or_default().insert(id.0);
            }
        }
    }

    /// Removes the sessions that only this server knows.
    pub(crate) fn close_local(&mut self) {
        let local = self.alive.iter().filter(|(_, session)| session.is_local);
        let local: Vec<i64> = local.map(|(id, _)| *id).collect();
        for id in local {
            self.close(SessionId(id));
        }
    }

    pub(crate) fn close(&mut self, id: SessionId) -> Option<Session> {
        let session = self.alive.remove(&id.0)?;
        self.leave(session.bucket, id);
        Some(session)
    }

    /// The next session whose timeout has passed. It stays until it is closed.
    pub(crate) fn expired(&self, now: Duration) -> Option<SessionId> {
        let (bucket, sessions) = self.buckets.first_key_value()?;
        let due = self.due(*bucket) <= now;
        sessions.first().filter(|_| due).map(|id| SessionId(*id))
    }

    /// When the next session expires, unless it is touched.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.buckets.first_key_value().map(|(bucket, _)| self.due(*bucket))
    }

    /// When this session expires, unless it is touched.
    pub(crate) fn deadline_of(&self, id: SessionId) -> Option<Duration> {
        self.get(id)?.bucket.map(|bucket| self.due(bucket))
    }

    /// Each bucket's time with the sessions that expire then.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (Duration, &BTreeSet<i64>)> {
        self.buckets.iter().map(|(bucket, sessions)| (self.due(*bucket), sessions))
    }

    /// Checks what must always hold: each session whose clock runs is in one bucket, its own.
    pub(crate) fn audit(&self) {
        let mut buckets = BTreeMap::<u64, BTreeSet<i64>>::new();
        for (id, session) in &self.alive {
            let is_own = *id >> SERVER_SHIFT == self.next >> SERVER_SHIFT;
            assert!(*id != 0 && (!is_own || *id < self.next));
            if let Some(bucket) = session.bucket {
                buckets.entry(bucket).or_default().insert(*id);
            }
        }
        assert_eq!(buckets, self.buckets);
    }

    fn due(&self, bucket: u64) -> Duration {
        let tick = self.tick.as_millis().max(1) as u64;
        Duration::from_millis(bucket.saturating_mul(tick))
    }

    fn leave(&mut self, bucket: Option<u64>, id: SessionId) {
        if let Some(bucket) = bucket
            && let Some(sessions) = self.buckets.get_mut(&bucket)
        {
            sessions.remove(&id.0);
            if sessions.is_empty() {
                self.buckets.remove(&bucket);
            }
        }
    }
}

/// The password that a real server derives from a session id: `java.util.Random`, seeded with the
/// id. It is no secret.
pub(crate) fn password(id: SessionId) -> Password {
    const MASK: u64 = (1 << 48) - 1;
    let seed = (id.0 ^ 0xb341_5c00) as u64;
    let mut state = (seed ^ 0x5_deec_e66d) & MASK;
    let mut bytes = [0; Password::LEN];
    for chunk in bytes.chunks_exact_mut(4) {
        state = state.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & MASK;
        chunk.copy_from_slice(&((state >> 16) as u32).to_le_bytes());
    }
    Password::new(&bytes).unwrap_or(Password::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// As measured on a real server with a tick of 1 s.
    #[test]
    fn a_session_expires_within_a_tick_after_its_timeout() {
        for (timeout, touched, expires) in
            [(2000, 0, 3000), (2999, 999, 4000), (4321, 500, 5000), (2000, 1000, 4000)]
        {
            let mut sessions = Sessions::new(MS(1000), 0, 0);
            let id = sessions.open(MS(timeout), false, MS(touched));
            assert_eq!(sessions.deadline(), Some(MS(expires)), "{timeout} {touched}");
            assert_eq!(sessions.expired(MS(expires - 1)), None);
            assert_eq!(sessions.expired(MS(expires)), Some(id));
        }
    }

    #[test]
    fn a_touch_moves_the_deadline_and_a_close_removes_it() {
        let mut sessions = Sessions::new(MS(1000), 0, 0);
        let id = sessions.open(MS(2000), false, MS(0));
        sessions.touch(id, MS(1500));
        assert_eq!(sessions.deadline(), Some(MS(4000)));
        assert!(sessions.close(id).is_some());
        assert_eq!(sessions.deadline(), None);
        assert!(sessions.close(id).is_none());
    }

    /// Captured from a real server.
    #[test]
    fn passwords_are_those_of_real_servers() {
        let expected = [
            0x1f, 0x56, 0xc1, 0x17, 0xf6, 0x91, 0xb3, 0x68, 0x93, 0xd4, 0xae, 0x05, 0x65, 0x83,
            0x4e, 0xf0,
        ];
        assert_eq!(password(SessionId(0x0100_0006_61d9_000a)).expose(), expected);
    }

    #[test]
    fn ids_carry_the_server_in_the_top_byte() {
        let sessions = Sessions::new(MS(1000), 1_790_000_000_000, 0);
        assert_eq!(sessions.next >> 56, 1);
        assert_eq!(sessions.next & 0xffff, 0);
    }
}
