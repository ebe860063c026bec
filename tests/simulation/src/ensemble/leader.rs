//! The leader: it puts the writes of all clients in one order, and decides when sessions are over.
//!
//! It always has a quorum: imagine more followers, without clients, that are never cut off from it.

use std::sync::Arc;
use std::time::Duration;

use zk_embedded::{OpCode, SessionId};

use super::TICK;
use super::message::{Entry, LEADER, ServerId, ToFollower, ToLeader};
use super::server::header;
use super::world::World;

/// What the leader knows of a session. Nobody else decides when it expires.
pub(super) struct Tracked {
    timeout: Duration,
    /// When it expires, from the start of the simulation.
    expires: Duration,
    /// The server at which the client attached last. Writes through another one are refused.
    owner: ServerId,
}

impl Tracked {
    /// A server has seen the session, of which the leader learns only now. Sessions expire at whole
    /// ticks, at least one timeout after that.
    fn touch(&mut self, now: Duration) {
        let ticks = (now + self.timeout).as_millis() / TICK.as_millis() + 1;
        self.expires = self.expires.max(TICK * ticks as u32);
    }
}

impl World {
    /// Handles a message to the leader.
    pub(super) fn lead(&mut self, from: ServerId, message: ToLeader) {
        let now = self.journal.elapsed();
        match message {
            ToLeader::Ask(entry @ Entry::Open { timeout, .. }) => {
                self.commit(entry);
                let session = self.servers[LEADER].core.sessions().last().copied().unwrap();
                let mut tracked = Tracked { timeout, expires: Duration::ZERO, owner: from };
                tracked.touch(now);
                self.sessions.insert(session.0, tracked);
            }
            ToLeader::Ask(Entry::Request { link, session, request }) => {
                match self.sessions.get(&session.0).map(|tracked| tracked.owner) {
                    // The follower will be notified that the session is over.
                    None => {}
                    Some(owner) if owner != from => {
                        self.journal.count("writes refused because the session had moved");
                        self.tell(from, ToFollower::Moved { link });
                    }
                    Some(_) if header(&request).op == OpCode::SYNC => {
                        self.tell(from, ToFollower::Synced { link });
                    }
                    Some(_) => {
                        if header(&request).op == OpCode::CLOSE_SESSION {
                            self.sessions.remove(&session.0);
                        }
                        self.commit(Entry::Request { link, session, request });
                    }
                }
            }
            ToLeader::Ask(Entry::Expire(session)) => {
                self.journal.count("sessions expired");
                self.sessions.remove(&session.0);
                self.commit(Entry::Expire(session));
            }
            ToLeader::Validate { link, session } => {
                if let Some(tracked) = self.sessions.get_mut(&session.0) {
                    tracked.owner = from;
                    tracked.touch(now);
                }
                self.tell(from, ToFollower::Validated { link });
            }
            ToLeader::Touched(seen) => {
                for session in seen {
                    self.sessions.entry(session.0).and_modify(|tracked| tracked.touch(now));
                }
            }
            ToLeader::Join { applied } => {
                self.peers[from].is_joined = true;
                for place in applied..self.log.len() {
                    self.tell(from, ToFollower::Commit(place, Arc::clone(&self.log[place])));
                }
                self.tell(from, ToFollower::UpToDate);
            }
        }
    }

    /// Runs twice in a tick: asks the servers for the sessions that they have seen, and ends the
    /// sessions whose timeout has passed.
    pub(super) fn lead_on(&mut self) {
        for server in self.joined() {
            self.tell(server, ToFollower::Ping);
        }
        let now = self.journal.elapsed();
        let expired = self.sessions.iter().filter(|(_, tracked)| tracked.expires <= now);
        let expired = expired.map(|(session, _)| SessionId(*session)).collect::<Vec<_>>();
        for session in expired {
            self.lead(LEADER, ToLeader::Ask(Entry::Expire(session)));
        }
    }

    /// Appends an entry to the log. The leader itself carries it out at once.
    fn commit(&mut self, entry: Entry) {
        let entry = Arc::new(entry);
        let place = self.log.len();
        self.log.push(Arc::clone(&entry));
        self.journal.note(|| format!("zk0 commits entry {place}: {entry}"));
        for server in self.joined() {
            self.tell(server, ToFollower::Commit(place, Arc::clone(&entry)));
        }
        self.judge();
    }
}
