//! The leader: it puts the writes of all clients in one order, and decides when sessions are over.
//!
//! It always has a quorum: imagine more followers, without clients, that are never cut off from it.

use std::sync::Arc;

use zk_embedded::OpCode;

use super::message::{Entry, LEADER, ServerId, ToFollower, ToLeader};
use super::server::op_of;
use super::world::World;

impl World {
    /// Handles a message to the leader.
    pub(super) fn lead(&mut self, from: ServerId, message: ToLeader) {
        let now = self.elapsed();
        match message {
            ToLeader::Open { link, handshake, timeout } => {
                self.commit(Entry::Open { link, handshake });
                let session = self.servers[LEADER].core().sessions().last().copied();
                self.tracker.attach(session.unwrap(), from, timeout, now);
            }
            ToLeader::Validate { link, session, timeout } => {
                if self.tracker.owner(session).is_some() {
                    self.tracker.attach(session, from, timeout, now);
                }
                self.tell(from, ToFollower::Validated { link });
            }
            ToLeader::Request { link, session, request } => match self.tracker.owner(session) {
                // The follower will be notified that the session is over.
                None => {}
                Some(owner) if owner != from => {
                    self.journal.count("writes refused because the session had moved");
                    self.tell(from, ToFollower::Moved { link });
                }
                Some(_) if op_of(&request) == OpCode::SYNC => {
                    self.tell(from, ToFollower::Synced { link });
                }
                Some(_) => {
                    if op_of(&request) == OpCode::CLOSE_SESSION {
                        self.tracker.close(session);
                    }
                    self.commit(Entry::Request { link, session, request });
                }
            },
            ToLeader::Touched(sessions) => {
                for (session, timeout) in sessions {
                    self.tracker.touch(session, timeout, now);
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

    /// Runs twice in a tick: asks the followers for the sessions that they have seen, and ends the
    /// sessions whose timeout has passed.
    pub(super) fn lead_on(&mut self) {
        for follower in self.followers() {
            self.tell(follower, ToFollower::Ping);
        }
        for session in self.tracker.expired(self.elapsed()) {
            self.journal.count("sessions expired");
            self.tracker.close(session);
            self.commit(Entry::Expire(session));
        }
    }

    /// Appends an entry to the log. The leader itself carries it out at once.
    fn commit(&mut self, entry: Entry) {
        let entry = Arc::new(entry);
        let place = self.log.len();
        self.log.push(Arc::clone(&entry));
        self.journal.note(|| format!("zk0 commits entry {place}: {entry}"));
        self.tell(LEADER, ToFollower::Commit(place, Arc::clone(&entry)));
        for follower in self.followers() {
            self.tell(follower, ToFollower::Commit(place, Arc::clone(&entry)));
        }
        self.judge();
    }
}
