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
    /// The folder, as events name it.
    folder: String,
    /// What the names of this client's contenders begin with.
    own: String,
    present: BTreeMap<String, Entry>,
    /// The number that the next child must get; not known before one was told of.
    next: Option<i32>,
    /// Whether everybody who is there is present.
    complete: bool,
    /// How often track was lost. A list that was asked for before that is too old.
    doubts: u64,
    /// Lists that are under way, and who came and went since the first of them was asked for.
    lists: usize,
    came: BTreeSet<String>,
    gone: BTreeSet<String>,
}

/// A child of the folder.
#[derive(Debug)]
struct Entry {
    /// `None` for one that is no contender.
    contender: Option<Contender>,
    /// Whether its creation was told of: then so will be its end.
    told: bool,
    /// Whether the count was known when it was told of.
    counted: bool,
    /// Whether everybody before it is known: nobody came untold, or a list told since.
    in_step: bool,
    /// How often it was written to.
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
    pub(crate) fn new(names: Names, folder: &str, own: String) -> Self {
        Self {
            own,
            names,
            folder: folder.to_owned(),
            present: BTreeMap::new(),
            next: None,
            complete: false,
            doubts: 0,
            lists: 0,
            came: BTreeSet::new(),
            gone: BTreeSet::new(),
        }
    }

    /// Everybody who is there, as far as is known.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.present.keys().map(String::as_str)
    }

    /// How many contenders are there, as far as is known.
    pub(crate) fn contenders(&self) -> usize {
        self.present.values().filter(|entry| entry.contender.is_some()).count()
    }

    /// Whether somebody other than `own` may be in the queue: a stranger is also who came by another
    /// lock of this client, and waits like anybody.
    pub(crate) fn has_strangers(&self, own: &str) -> bool {
        let strangers = |(name, entry): (&String, &Entry)| entry.contender.is_some() && name != own;
        !self.complete || self.present.iter().any(strangers)
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
        // Lists that are under way are too old from here on.
        self.came.clear();
        self.gone.clear();
    }

    /// A change was told of.
    pub(crate) fn told(&mut self, kind: EventType, path: &str) {
        if path == self.folder {
            // The count begins anew, and names may come again.
            if matches!(kind, EventType::NODE_DELETED | EventType::NODE_CREATED) {
                self.present.clear();
                self.doubt();
            }
            return;
        }
        let Some(name) = self.child(path).map(str::to_owned) else {
            return;
        };
        match kind {
            EventType::NODE_CREATED => self.told_of(name),
            EventType::NODE_DELETED => {
                self.present.remove(&name);
                if self.lists > 0 {
                    self.came.remove(&name);
                    self.gone.insert(name);
                }
            }
            EventType::NODE_DATA_CHANGED => {
                if let Some(entry) = self.present.get_mut(&name) {
                    entry.writes += 1;
                }
            }
            _ => {}
        }
    }

    /// A child was created. Its number is the count, unless somebody put it at an old place on
    /// purpose, as is done when a writer becomes a reader.
    fn told_of(&mut self, name: String) {
        let contender = Contender::parse(&self.names, &name);
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
            self.came.insert(name.clone());
        }
        let (counted, in_step) = (self.next.is_some(), in_step && self.complete);
        self.present.insert(name, Entry { contender, told: true, counted, in_step, writes: 0 });
    }

    /// A list is about to be asked for.
    pub(crate) fn listing(&mut self) -> Listing {
        self.lists += 1;
        Listing { doubts: self.doubts, counted: self.next.is_some() }
    }

    /// The list was answered with these names, and all that was told of ahead of the answer has
    /// been entered, and maybe more. Names do not come again while the folder lives, so whoever came
    /// or went since the list was asked for did so for good.
    pub(crate) fn listed<'n>(
        &mut self,
        listing: &Listing,
        names: impl IntoIterator<Item = &'n str>,
    ) {
        if listing.doubts == self.doubts {
            let Self { present, came, gone, .. } = self;
            let listed = names.into_iter().filter(|name| !gone.contains(*name));
            let listed = listed.collect::<BTreeSet<_>>();
            present.retain(|name, _| listed.contains(name.as_str()) || came.contains(name));
            // Whoever came untold between the list and the first number that was told of is not
            // noticed by the count, so the list must be the newer of the two. That the count is
            // known by now does not show it: the answer may have waited to be looked at.
            let mut came = listed.iter().filter(|name| came.contains(**name));
            let counted = |name: &&str| present.get(*name).is_some_and(|entry| entry.counted);
            self.complete |= listing.counted || came.any(counted);
            for name in listed {
                match present.get_mut(name) {
                    // Whoever was before it came before the list, too.
                    Some(entry) => entry.in_step |= self.complete,
                    None => {
                        let contender = Contender::parse(&self.names, name);
                        let (told, counted, in_step) = (false, false, false);
                        let entry = Entry { contender, told, counted, in_step, writes: 0 };
                        present.insert(name.to_owned(), entry);
                    }
                }
            }
        }
        self.not_listed();
    }

    /// The list failed.
    pub(crate) fn not_listed(&mut self) {
        self.lists = self.lists.saturating_sub(1);
        if self.lists == 0 {
            self.came.clear();
            self.gone.clear();
        }
    }

    /// Whether it is the turn of `own`, whose create has been answered.
    pub(crate) fn turn(&self, own: &Contender) -> Turn {
        let Some(entry) = self.present.get(&own.name) else {
            return Turn::Absent;
        };
        if !(self.complete && entry.told && entry.in_step) {
            return Turn::Unknown;
        }
        let mut turn = Turn::First;
        for entry in self.present.values() {
            let Some(other) = entry.contender.as_ref().filter(|other| other.blocks(own)) else {
                continue;
            };
            if !entry.told {
                return Turn::Unknown;
            }
            let known = turn == Turn::Waiting { sibling: true };
            turn = Turn::Waiting { sibling: known || other.name.starts_with(&self.own) };
        }
        turn
    }

    /// Whether the creation of a child was told of; `None` if it is not there, or not any more.
    pub(crate) fn tells_of(&self, name: &str) -> Option<bool> {
        self.present.get(name).map(|entry| entry.told)
    }

    /// How often a child was written to since it was created; `None` if it is not there, or may be
    /// written to untold.
    pub(crate) fn writes(&self, name: &str) -> Option<u64> {
        let entry = self.present.get(name).filter(|entry| self.complete && entry.told);
        entry.map(|entry| entry.writes)
    }

    /// The name of a child from its path.
    fn child<'p>(&self, path: &'p str) -> Option<&'p str> {
        let folder = if self.folder == "/" { "" } else { &self.folder };
        let name = path.strip_prefix(folder)?.strip_prefix('/')?;
        (!name.is_empty() && !name.contains('/')).then_some(name)
    }
}

#[cfg(test)]
mod tests;
