//! The chapters, in the order in which a student reads them.

use std::fmt::Write;
use std::pin::Pin;

use crate::Error;
use crate::chapters::{
    election, linger, lost_reply, lost_session, multi_lock, queue, requeue, revocation, sharing,
    textbook, ticket, two_levels, words,
};
use crate::naive::{CASES, Case};
use crate::world::Cast;

pub(crate) struct Chapter {
    pub(crate) title: &'static str,
    pub(crate) kind: Kind,
}

/// How a chapter is shown.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Clients play it on a server, and their frames are shown.
    Played(for<'c> fn(&'c Cast) -> Telling<'c>),
    /// A lock that breaks, and its repair. Its faults need the server in this process.
    Broken(&'static Case),
    Questions,
}

pub(crate) type Telling<'c> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'c>>;

/// The parts, each with the number of its first chapter.
const PARTS: [(usize, &str); 5] = [
    (1, "From zero"),
    (3, "Locks that are broken on purpose, and why each part is there"),
    (12, "The lock of zk-recipes"),
    (16, "More than one lock"),
    (23, "The end of the course"),
];

pub(crate) const CHAPTERS: [Chapter; 23] = [
    played("Nodes, sessions, watches, zxids, frames", |cast| Box::pin(words::tell(cast))),
    played("The textbook lock", |cast| Box::pin(textbook::tell(cast))),
    broken(0),
    broken(1),
    broken(2),
    broken(3),
    broken(4),
    broken(5),
    broken(6),
    broken(7),
    broken(8),
    played("The queue", |cast| Box::pin(queue::tell(cast))),
    played("A lost reply", |cast| Box::pin(lost_reply::tell(cast))),
    played("A session ends: fencing", |cast| Box::pin(lost_session::tell(cast))),
    played("To the end of the queue", |cast| Box::pin(requeue::tell(cast))),
    played("Readers and writers", |cast| Box::pin(sharing::tell(cast))),
    played("Two levels", |cast| Box::pin(two_levels::tell(cast))),
    played("Linger", |cast| Box::pin(linger::tell(cast))),
    played("Several locks at once", |cast| Box::pin(multi_lock::tell(cast))),
    played("A lock that outlives its process", |cast| Box::pin(ticket::tell(cast))),
    played("Asking for the lock back", |cast| Box::pin(revocation::tell(cast))),
    played("An election", |cast| Box::pin(election::tell(cast))),
    Chapter { title: "Questions and answers", kind: Kind::Questions },
];

const fn played(title: &'static str, tell: for<'c> fn(&'c Cast) -> Telling<'c>) -> Chapter {
    Chapter { title, kind: Kind::Played(tell) }
}

#[expect(clippy::indexing_slicing, reason = "computed when the tour is built")]
const fn broken(index: usize) -> Chapter {
    Chapter { title: CASES[index].title, kind: Kind::Broken(CASES[index]) }
}

/// The number of the chapter with this title.
pub(crate) fn number(title: &str) -> Option<usize> {
    CHAPTERS.iter().position(|chapter| chapter.title == title).map(|index| index + 1)
}

/// The list of chapters.
pub(crate) fn list() -> String {
    let mut list = String::new();
    for (number, chapter) in (1..).zip(&CHAPTERS) {
        if let Some((_, part)) = PARTS.iter().find(|(first, _)| *first == number) {
            // Writing to a string does not fail.
            writeln!(list, "\n{part}").ok();
        }
        writeln!(list, "  {number:>2}  {}", chapter.title).ok();
    }
    list.trim().to_owned()
}
