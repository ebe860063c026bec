//! The kinds of locks that can be played, what each of them knows to do, and the nodes of all.

use serde::Serialize;

use crate::naive::{CASES, Case, Version};
use crate::script::{ACTIONS, Do, Mode};

/// The folder of every lock.
pub(crate) const FOLDER: &str = "/lock";

/// What a holder writes to.
pub(crate) const DATA: &str = "/data";

/// A kind of lock.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Textbook,
    Exclusive,
    ReadWrite,
    Reentrant,
    /// A program of the course.
    Case(&'static Case, Version),
}

/// What the page shows of a kind.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Description {
    pub(crate) kind: String,
    pub(crate) title: String,
    pub(crate) text: String,
    pub(crate) group: &'static str,
    pub(crate) modes: &'static [Mode],
    pub(crate) tasks: bool,
    pub(crate) pair: Option<String>,
    pub(crate) source: Option<&'static str>,
    pub(crate) writes: &'static [&'static str],
    pub(crate) actions: Vec<Do>,
}

/// All kinds, in the order in which they are offered.
pub(crate) fn kinds() -> Vec<Kind> {
    let mut kinds = vec![Kind::Exclusive, Kind::ReadWrite, Kind::Reentrant, Kind::Textbook];
    for case in CASES {
        kinds.extend([Kind::Case(case, Version::Broken), Kind::Case(case, Version::Repaired)]);
    }
    kinds
}

/// The kind of this name.
pub(crate) fn kind(name: &str) -> Option<Kind> {
    kinds().into_iter().find(|kind| kind.name() == name)
}

impl Kind {
    /// Its name in a script.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Textbook => "textbook".to_owned(),
            Self::Exclusive => "exclusive".to_owned(),
            Self::ReadWrite => "read_write".to_owned(),
            Self::Reentrant => "reentrant".to_owned(),
            Self::Case(case, Version::Broken) => case.folder.to_owned(),
            Self::Case(case, Version::Repaired) => format!("{}_repaired", case.folder),
        }
    }

    /// True if it is a program of this folder of the course.
    pub(crate) fn is_case(self, folder: &str) -> bool {
        matches!(self, Self::Case(case, _) if case.folder == folder)
    }

    /// How it can be held.
    pub(crate) fn modes(self) -> &'static [Mode] {
        match self {
            Self::ReadWrite => &[Mode::Write, Mode::Read],
            kind if kind.is_case("younger_writer") => &[Mode::Write, Mode::Read],
            _ => &[Mode::Write],
        }
    }

    /// True if several tasks of one process can want it.
    pub(crate) fn has_tasks(self) -> bool {
        matches!(self, Self::Reentrant)
    }

    /// True if the whole work under the lock is part of the program.
    pub(crate) fn is_whole(self) -> bool {
        self.is_case("no_deadline") || self.is_case("no_fence")
    }

    /// True if it is a lock of zk-recipes. Its folder is a container, which the server removes
    /// while it is empty.
    pub(crate) fn is_recipe(self) -> bool {
        !matches!(self, Self::Case(..) | Self::Textbook)
    }

    /// True if the scene begins with the folder.
    pub(crate) fn has_folder(self) -> bool {
        !self.is_case("check_then_create") && !self.is_case("release_by_name")
    }

    /// True if contenders of this kind can do this.
    pub(crate) fn can(self, what: Do) -> bool {
        match what {
            Do::Write => !self.is_whole(),
            Do::FencedWrite => !self.is_whole() && !matches!(self, Self::Case(..)),
            _ => true,
        }
    }

    pub(crate) fn describe(self) -> Description {
        let (title, text, group) = match self {
            Self::Textbook => (
                "The textbook lock",
                "The whole algorithm in one function on the client alone: create a node, list the \
                 folder, watch the one right ahead. It ignores what can go wrong.",
                "textbook",
            ),
            Self::Exclusive => (
                "The lock",
                "One holder at a time. Its guard knows until when the lock is surely held.",
                "recipes",
            ),
            Self::ReadWrite => (
                "The read/write lock",
                "Many readers or one writer, in the order in which they came.",
                "recipes",
            ),
            Self::Reentrant => (
                "The two-level lock, with linger",
                "The process keeps its node for five seconds after a release, so that it can \
                 acquire again without a request. If another wants the lock, it lets go at once. \
                 Its tasks hand the lock on among themselves.",
                "recipes",
            ),
            Self::Case(case, Version::Broken) => (case.title, case.story, "broken"),
            Self::Case(case, Version::Repaired) => (case.title, case.repair, "repaired"),
        };
        let title = match self {
            Self::Case(_, Version::Repaired) => format!("{title}: repaired"),
            _ => title.to_owned(),
        };
        let pair = match self {
            Self::Case(case, Version::Broken) => Some(Self::Case(case, Version::Repaired)),
            Self::Case(case, Version::Repaired) => Some(Self::Case(case, Version::Broken)),
            _ => None,
        };
        let source = match self {
            Self::Case(case, version) => Some(case.source(version)),
            _ => None,
        };
        let writes: &[&str] = match (self.can(Do::Write), self.can(Do::FencedWrite)) {
            (true, true) => &["plain", "fenced"],
            (true, false) => &["plain"],
            _ => &[],
        };
        let actions = ACTIONS.iter().map(|action| action.what);
        Description {
            kind: self.name(),
            title,
            text: text.to_owned(),
            group,
            modes: self.modes(),
            tasks: self.has_tasks(),
            pair: pair.map(Self::name),
            source,
            writes,
            actions: actions.filter(|what| self.can(*what)).collect(),
        }
    }
}
