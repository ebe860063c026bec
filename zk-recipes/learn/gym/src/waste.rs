//! What may not be wasted while the lock is held: wake-ups, and questions.
//!
//! One change may wake one of those who wait. And whoever waits may not go on asking while nothing
//! changes: then its requests grow with the time for which the lock is held.

use zk_embedded::OpCode;

use crate::contender::FOLDER;
use crate::fault::{Frame, Kind};
use crate::record::Break;
use crate::world::{Actor, Party, World, name};

/// So many requests a waiter may send while nothing changes in the folder. The textbook lock needs
/// three: a create, a list and a watch.
const MOST_ASKED: usize = 8;

impl World {
    /// Judges a change that notifies these.
    pub(crate) fn judge_wakes(&mut self, told: &[Party]) {
        let told = told.iter().flatten().map(|one| (*one, name(*one))).collect::<Vec<_>>();
        if let (true, [(first, _), _, ..]) = (self.forbids_waste, &told[..]) {
            let names = told.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(" and ");
            let text = format!("One change wakes {} who wait: {names}", told.len());
            self.violate(Break::Herd, vec![*first], text);
        }
    }

    /// Counts a request of a process that waits.
    pub(crate) fn judge_request(&mut self, party: Party, frame: &Frame) {
        // A transaction may be a proof for a lease, which the client sends by itself.
        let is_counted = frame.kind == Kind::Request && frame.op != Some(OpCode::MULTI);
        let Some(process) = party.filter(|_| is_counted) else {
            return;
        };
        let actor = self.actors.get_mut(process).filter(|actor| actor.is_acquiring);
        let asked = actor.map_or(0, |actor| {
            actor.asked += 1;
            actor.asked
        });
        if self.forbids_waste && asked > MOST_ASKED {
            let text = format!("{} sends {asked} requests while nothing changes", name(process));
            self.violate(Break::Polling, vec![process], text);
        }
    }

    /// Lets everybody ask again when another one has changed something in the folder.
    pub(crate) fn note_changes(&mut self) {
        let history = self.net.core.history();
        let new = history.get(self.changes..).unwrap_or_default();
        for commit in new.iter().filter(|one| one.path.starts_with(FOLDER)) {
            let by = |actor: &Actor| commit.session.is_some_and(|it| actor.sessions.contains(&it));
            let others = self.actors.iter_mut().filter(|actor| !by(actor));
            others.for_each(|actor| actor.asked = 0);
        }
        self.changes = history.len();
    }
}
