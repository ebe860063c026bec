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
    /// The name of its scene in the playground, if there is one.
    scene: Option<&'static str>,
    /// The chapter of the book that explains it.
    book: usize,
}

/// The front page of the book, with the list of its chapters.
const BOOK: &str = include_str!("../../learn/book/src/lib.rs");

/// The page of the gym, with the table of its levels.
const GYM: &str = include_str!("../../learn/gym/README.md");

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
    played("Nodes, sessions, watches, zxids, frames", |cast| Box::pin(words::tell(cast)))
        .see(Some("hand_over"), 1),
    played("The textbook lock", |cast| Box::pin(textbook::tell(cast))).see(Some("textbook"), 4),
    broken(0, 4),
    broken(1, 4),
    broken(2, 3),
    broken(3, 5),
    broken(4, 5),
    broken(5, 5),
    broken(6, 6),
    broken(7, 6),
    broken(8, 7),
    played("The queue", |cast| Box::pin(queue::tell(cast))).see(Some("queue"), 10),
    played("A lost reply", |cast| Box::pin(lost_reply::tell(cast)))
        .see(Some("lost_reply_found"), 9),
    played("A session ends: fencing", |cast| Box::pin(lost_session::tell(cast)))
        .see(Some("stopped_holder"), 6),
    played("To the end of the queue", |cast| Box::pin(requeue::tell(cast))).see(None, 8),
    played("Readers and writers", |cast| Box::pin(sharing::tell(cast))).see(Some("read_write"), 7),
    played("Two levels", |cast| Box::pin(two_levels::tell(cast))).see(Some("tasks"), 7),
    played("Linger", |cast| Box::pin(linger::tell(cast))).see(Some("two_level"), 7),
    played("Several locks at once", |cast| Box::pin(multi_lock::tell(cast))).see(None, 7),
    played("A lock that outlives its process", |cast| Box::pin(ticket::tell(cast))).see(None, 8),
    played("Asking for the lock back", |cast| Box::pin(revocation::tell(cast))).see(None, 8),
    played("An election", |cast| Box::pin(election::tell(cast))).see(None, 8),
    Chapter { title: "Questions and answers", kind: Kind::Questions, scene: None, book: 12 },
];

const fn played(title: &'static str, tell: for<'c> fn(&'c Cast) -> Telling<'c>) -> Chapter {
    Chapter { title, kind: Kind::Played(tell), scene: None, book: 0 }
}

/// A broken lock, whose scene has the name of its folder.
#[expect(clippy::indexing_slicing, reason = "computed when the tour is built")]
const fn broken(index: usize, book: usize) -> Chapter {
    let case = CASES[index];
    Chapter { title: case.title, kind: Kind::Broken(case), scene: Some(case.folder), book }
}

impl Chapter {
    const fn see(self, scene: Option<&'static str>, book: usize) -> Self {
        Self { scene, book, ..self }
    }

    /// Where else this is shown and explained.
    pub(crate) fn elsewhere(&self) -> Result<String, Error> {
        let heading = format!("//! {}. [", self.book);
        let title = BOOK.lines().find_map(|line| line.strip_prefix(&heading)?.split_once(']'));
        let (title, _) = title.ok_or_else(|| format!("the book has no chapter {}", self.book))?;
        let mut elsewhere = format!("In the book: chapter {}, {title}.", self.book);
        let Some(id) = self.scene else { return Ok(elsewhere) };
        let scenes = zk_playground::catalogue::scenes();
        let scene = scenes.iter().find(|scene| scene.id == id);
        let scene = scene.ok_or_else(|| format!("the playground has no scene {id}"))?;
        // Writing to a string does not fail.
        write!(elsewhere, " In the playground: {} (#{id}).", scene.title).ok();
        if let Some(level) = level(id) {
            write!(elsewhere, " In the gym: level {level}.").ok();
        }
        Ok(elsewhere)
    }
}

/// The level of the gym that a scene belongs to, with its number.
fn level(scene: &str) -> Option<String> {
    let row = GYM.lines().find(|line| line.contains(&format!("(`#{scene}`)")))?;
    let (number, title) = row.split('|').nth(1)?.trim().split_once(' ')?;
    Some(format!("{number}, {title}"))
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
