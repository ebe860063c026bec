//! The queue as a recursive watch on its folder tells it, so that neither an acquire nor a hand-over
//! needs a list.
//!
//! A server tells of all changes in order, and ahead of the answers that reflect them: when a create
//! is answered, every older contender has been told of. What makes that safe to rely on is a count.
//! The number of a sequential child is the number of children that its parent ever had, so each
//! child that is told of raises what the next number must be; if ours is another one, somebody
//! came untold (a dead watch, a lost event, a contender that we may not read), and the mirror says
//! that it does not know. Pure: knows no client and no time.

use std::collections::{BTreeMap, BTreeSet};

use zk_client::EventType;

use crate::contender::Contender;
use crate::folder::Folder;
use crate::layout::Names;

/// What the mirror says of a contender's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nobody is left whom it must wait for.
    First,
    /// Somebody is ahead, and the end of each of them will be told. Whether one of them is this
    /// client's own: the end of the session takes both, in no order.
    Waiting { sibling: bool },
    /// Its creation was not told of, or its end was.
    Absent,
    /// A list must tell.
    Unknown,
}

/// What is known of a queue.
#[derive(Debug)]
pub(crate) struct Mirror {
    names: Names,
    folder: Folder,
    /// What the names of this client's contenders begin with.
    own: String,
    /// The contenders that are there: few, or whoever keeps this puts it away.
    present: Vec<Entry>,
    /// The other children.
    others: BTreeSet<String>,
    /// The number that the next child must get; not known before one was told of.
    next: Option<i32>,
    /// Whether everybody who is there is present.
    complete: bool,
    /// How often track was lost. A list that was asked for before that is too old.
    doubts: u64,
    /// Lists that are under way, and who came and went since the first of them was asked for. Of who
    /// came also whether the count was known then.
    lists: usize,
    came: BTreeMap<String, bool>,
    gone: BTreeSet<String>,
}

/// A contender that is there.
#[derive(Debug)]
struct Entry {
    contender: Contender,
    /// Whether its creation was told of: then so will be its end.
    told: bool,
    /// Whether everybody before it is known: nobody came untold, or a list told since.
    in_step: bool,
    /// How often it was written to, or may have been untold.
    writes: u64,
}

/// A list that is under way.
#[derive(Debug)]
pub(crate) struct Listing {
    doubts: u64,
    /// Whether the count was known by then.
    counted: bool,
}

impl Mirror {
    /// A mirror that knows nothing yet. `own` is what the names of this client's contenders
    /// begin with.
    pub(crate) fn new(names: Names, folder: Folder, own: String) -> Self {
        Self {
            own,
            names,
            folder,
            present: Vec::new(),
            others: BTreeSet::new(),
            next: None,
            complete: false,
            doubts: 0,
            lists: 0,
            came: BTreeMap::new(),
            gone: BTreeSet::new(),
        }
    }

    /// The children that are no contenders, as far as is known.
    pub(crate) fn others(&self) -> impl Iterator<Item = &str> {
        self.others.iter().map(String::as_str)
    }

    /// How many contenders are there, as far as is known.
    pub(crate) fn contenders(&self) -> usize {
        self.present.len()
    }

    /// Whether somebody other than `own` may be in the queue: a stranger is also who came by another
    /// lock of this client, and waits like anybody.
    pub(crate) fn has_strangers(&self, own: &str) -> bool {
        !self.complete || self.present.iter().any(|entry| entry.contender.name != own)
    }

    /// Whether everybody who is in the queue is known.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Something may have gone untold.
    pub(crate) fn doubt(&mut self) {
        self.complete = false;
        self.next = None;
        self.doubts += 1;
        // A list makes complete again who is there, but tells nothing of what was written.
        self.present.iter_mut().for_each(|entry| entry.writes += 1);
        // Lists that are under way are too old from here on.
        self.came.clear();
        self.gone.clear();
    }

    /// A change was told of.
    pub(crate) fn told(&mut self, kind: EventType, path: &str) {
        if path == self.folder.path() {
            // The count begins anew, and names may come again.
            if matches!(kind, EventType::NODE_DELETED | EventType::NODE_CREATED) {
                self.present.clear();
                self.others.clear();
                self.doubt();
            }
            return;
        }
        let Some(name) = self.folder.name(path) else {
            return;
        };
        match kind {
            EventType::NODE_CREATED => self.told_of(name),
            EventType::NODE_DELETED => {
                self.present.retain(|entry| entry.contender.name != name);
                self.others.remove(name);
                if self.lists > 0 {
                    self.came.remove(name);
                    self.gone.insert(name.to_owned());
                }
            }
            EventType::NODE_DATA_CHANGED => {
                if let Some(entry) = self.present.iter_mut().find(|one| one.contender.name == name)
                {
                    entry.writes += 1;
                }
            }
            _ => {}
        }
    }

    /// A child was created. Its number is the count, unless somebody put it at an old place on
    /// purpose, as is done when a writer becomes a reader.
    fn told_of(&mut self, name: &str) {
        let contender = Contender::parse(&self.names, name);
        let number = contender.as_ref().map(|contender| contender.sequence);
        let in_step = number.is_some() && number == self.next;
        if let (Some(number), Some(next)) = (number, self.next)
            && number > next
        {
            // Somebody came untold.
            self.doubt();
        }
        let count = self.next.or(number);
        self.next = count.and_then(|count| count.checked_add(1));
        if self.lists > 0 {
            self.came.insert(name.to_owned(), self.next.is_some());
        }
        let Some(contender) = contender else {
            self.others.insert(name.to_owned());
            return;
        };
        let in_step = in_step && self.complete;
        let entry = Entry { contender, told: true, in_step, writes: 0 };
        // A list may have told of it before.
        match self.present.iter_mut().find(|one| one.contender == entry.contender) {
            Some(listed) => *listed = entry,
            None => self.present.push(entry),
        }
    }

    /// A list is about to be asked for.
    pub(crate) fn listing(&mut self) -> Listing {
        self.lists += 1;
        Listing { doubts: self.doubts, counted: self.next.is_some() }
    }

    /// The list was answered with these names, and all that was told of ahead of the answer has
    /// been entered, and maybe more. Names do not come again while the folder lives, so whoever came
    /// or went since the list was asked for did so for good. Says whether the list was of use: one that
    /// is too old is not.
    pub(crate) fn listed<'n>(
        &mut self,
        listing: &Listing,
        names: impl IntoIterator<Item = &'n str>,
    ) -> bool {
        let of_use = listing.doubts == self.doubts;
        if of_use {
            let Self { present, others, came, gone, .. } = self;
            let listed = names.into_iter().filter(|name| !gone.contains(*name));
            let mut listed = listed.collect::<BTreeSet<_>>();
            // Whoever came untold between the list and the first number that was told of is not
            // noticed by the count, so the list must be the newer of the two. That the count is
            // known by now does not show it: the answer may have waited to be looked at.
            let mut counted = listed.iter().filter_map(|name| came.get(*name));
            self.complete |= listing.counted || counted.any(|counted| *counted);
            present.retain_mut(|entry| {
                let name = entry.contender.name.as_str();
                let is_listed = listed.remove(name);
                // Whoever was before it came before the list, too.
                entry.in_step |= is_listed && self.complete;
                is_listed || came.contains_key(name)
            });
            others.retain(|name| listed.remove(name.as_str()) || came.contains_key(name));
            for name in listed {
                match Contender::parse(&self.names, name) {
                    Some(contender) => {
                        let (told, in_step) = (false, false);
                        present.push(Entry { contender, told, in_step, writes: 0 });
                    }
                    None => {
                        others.insert(name.to_owned());
                    }
                }
            }
        }
        self.not_listed();
        of_use
    }

    /// The list failed.
    pub(crate) fn not_listed(&mut self) {
        self.lists = self.lists.saturating_sub(1);
        if self.lists == 0 {
            self.came.clear();
            self.gone.clear();
        }
    }

    /// The nearest one whom `own` must wait for, as far as is known.
    pub(crate) fn nearest(&self, own: &Contender) -> Option<&Contender> {
        let present = self.present.iter().map(|entry| &entry.contender);
        present.filter(|one| one.blocks(own)).max()
    }

    /// Whether it is the turn of `own`, whose create has been answered.
    pub(crate) fn turn(&self, own: &Contender) -> Turn {
        let Some(entry) = self.present.iter().find(|entry| entry.contender == *own) else {
            return Turn::Absent;
        };
        if !(self.complete && entry.told && entry.in_step) {
            return Turn::Unknown;
        }
        let mut turn = Turn::First;
        for ahead in self.present.iter().filter(|entry| entry.contender.blocks(own)) {
            if !ahead.told {
                return Turn::Unknown;
            }
            let known = turn == Turn::Waiting { sibling: true };
            turn = Turn::Waiting { sibling: known || ahead.contender.name.starts_with(&self.own) };
        }
        turn
    }

    /// Whether the creation of a contender was told of; `None` if it is not there, or not any more.
    pub(crate) fn tells_of(&self, name: &str) -> Option<bool> {
        self.entry(name).map(|entry| entry.told)
    }

    /// How often a contender was written to since it was created, or may have been; `None` if it is
    /// not there, or may be written to untold.
    pub(crate) fn writes(&self, name: &str) -> Option<u64> {
        let entry = self.entry(name).filter(|entry| self.complete && entry.told);
        entry.map(|entry| entry.writes)
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.present.iter().find(|entry| entry.contender.name == name)
    }
}

#[cfg(test)]
mod tests;
