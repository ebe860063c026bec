//! Scenes of the locks that are broken on purpose: the same script for each lock and its repair.

use crate::catalogue::ready::{Ready, script};
use crate::kind::Kind;
use crate::naive::{CASES, Version};
use crate::scene::VerdictKind;
use crate::script::Do::{
    self, Acquire, Drop, Expire, Isolate, LoseReply, Release, Restart, Resume, Stop, Work,
};

/// What is played with a broken lock and with its repair.
struct Plot {
    /// The folder of the course.
    folder: &'static str,
    /// The names of both scenes.
    ids: [&'static str; 2],
    titles: [&'static str; 2],
    looks: [&'static str; 2],
    readers: &'static [&'static str],
    actions: &'static [(u64, &'static str, Do)],
    until_ms: u64,
    /// How the broken lock breaks.
    claim: VerdictKind,
}

pub(super) fn scenes() -> Vec<Ready> {
    PLOTS.iter().flat_map(Plot::scenes).collect()
}

impl Plot {
    fn scenes(&self) -> Vec<Ready> {
        let case = CASES.into_iter().find(|case| case.folder == self.folder);
        let versions = [Version::Broken, Version::Repaired];
        let scenes = case.into_iter().flat_map(|case| versions.map(|version| (case, version)));
        let scenes = scenes.map(|(case, version)| {
            let [broken, repaired] = self.ids;
            let [look_broken, look_repaired] = self.looks;
            let [title_broken, title_repaired] = self.titles;
            let lock = Kind::Case(case, version).name();
            let (id, pair, title, look, claim) = match version {
                Version::Broken => (broken, repaired, title_broken, look_broken, self.claim),
                Version::Repaired => {
                    (repaired, broken, title_repaired, look_repaired, VerdictKind::Holds)
                }
            };
            let (text, lesson) = match version {
                Version::Broken => (case.story.to_owned(), case.lesson),
                Version::Repaired => (case.repair.to_owned(), ""),
            };
            let group = if version == Version::Broken { "broken" } else { "repaired" };
            let script = script(&lock, self.until_ms, self.readers, self.actions);
            Ready { id, title, text, lesson, look, group, pair: Some(pair), script, claim }
        });
        scenes.collect()
    }
}

const PLOTS: &[Plot] = &[
    Plot {
        folder: "check_then_create",
        ids: ["check_then_create", "check_then_create_repaired"],
        titles: ["Check, then create", "Check, then create: repaired"],
        looks: [
            "Both looks arrive before either create.",
            "There is no look: the server refuses the second create.",
        ],
        readers: &[],
        actions: &[(100, "Ana", Acquire), (100, "Ben", Acquire)],
        until_ms: 2000,
        claim: VerdictKind::TwoOwners,
    },
    Plot {
        folder: "herd",
        ids: ["herd", "herd_repaired"],
        titles: ["Everybody watches the lock", "Everybody watches the lock: repaired"],
        looks: [
            "How many notifications each release sends, and how many creates come back.",
            "Each release sends one notification.",
        ],
        readers: &[],
        actions: &[
            (100, "Ana", Acquire),
            (100, "Ana", Work),
            (100, "Ana", Release),
            (110, "Ben", Acquire),
            (110, "Ben", Work),
            (110, "Ben", Release),
            (120, "Cho", Acquire),
            (120, "Cho", Work),
            (120, "Cho", Release),
            (130, "Dan", Acquire),
            (130, "Dan", Work),
            (130, "Dan", Release),
            (140, "Eve", Acquire),
            (140, "Eve", Work),
            (140, "Eve", Release),
            (150, "Fay", Acquire),
            (150, "Fay", Work),
            (150, "Fay", Release),
            (160, "Gus", Acquire),
            (160, "Gus", Work),
            (160, "Gus", Release),
            (170, "Hal", Acquire),
            (170, "Hal", Work),
            (170, "Hal", Release),
        ],
        until_ms: 2000,
        claim: VerdictKind::Herd,
    },
    Plot {
        folder: "wrong_wake_up",
        ids: ["wrong_wake_up", "wrong_wake_up_repaired"],
        titles: ["Every wake-up is taken for the lock", "Every wake-up: repaired"],
        looks: [
            "Cho is notified because Ben's node is gone, and goes in without a look.",
            "Cho lists the folder again, finds Ana, and watches her node.",
        ],
        readers: &[],
        actions: &[
            (100, "Ana", Acquire),
            (300, "Ben", Acquire),
            (500, "Cho", Acquire),
            (1500, "Ben", Drop),
        ],
        until_ms: 4000,
        claim: VerdictKind::TwoOwners,
    },
    Plot {
        folder: "lost_reply",
        ids: ["lost_reply", "lost_reply_repaired"],
        titles: ["The reply to a create is lost", "The reply to a create is lost: repaired"],
        looks: [
            "Ana owns two nodes, and her second one watches her first one.",
            "Ana finds her node by its name, and there is no second one.",
        ],
        readers: &[],
        actions: &[(100, "Ana", LoseReply), (200, "Ana", Acquire)],
        until_ms: 25_000,
        claim: VerdictKind::Stuck,
    },
    Plot {
        folder: "whole_names",
        ids: ["whole_names", "whole_names_repaired"],
        titles: ["The list is sorted by whole names", "Sorted by whole names: repaired"],
        looks: [
            "Ana's node has the higher number, and its name sorts first.",
            "Ana compares only the numbers, and watches Ben's node.",
        ],
        readers: &[],
        actions: &[(100, "Ben", Acquire), (1000, "Ana", Acquire)],
        until_ms: 4000,
        claim: VerdictKind::TwoOwners,
    },
    Plot {
        folder: "release_by_name",
        ids: ["release_by_name", "release_by_name_repaired"],
        titles: ["The lock is released by name", "Released by name: repaired"],
        looks: [
            "The folder is removed and made again, so that Ben's node has the name of Ana's. Her \
             late release deletes it.",
            "Ana's late release finds no node of that name.",
        ],
        readers: &[],
        actions: &[
            (100, "Ana", Acquire),
            (1000, "Ana", Expire),
            (14_000, "Ben", Acquire),
            (15_000, "Ana", Restart),
            (16_000, "Ana", Release),
            (17_000, "Cho", Acquire),
        ],
        until_ms: 20_000,
        claim: VerdictKind::TwoOwners,
    },
    Plot {
        folder: "no_deadline",
        ids: ["no_deadline", "no_deadline_repaired"],
        titles: ["No deadline", "No deadline: repaired"],
        looks: [
            "Two lanes of servers, with a cut between them. For ten seconds Ana's server answers \
             her pings, and does not know that the majority has ended her session. Then it notices \
             that it is alone, and closes its connections.",
            "Ana stops when the last proof is a session timeout old. Her server notices later, and \
             Ben gets the lock once she has deleted her node by another one.",
        ],
        readers: &[],
        actions: &[(100, "Ana", Acquire), (500, "Ben", Acquire), (6500, "Ana", Isolate)],
        until_ms: 30_000,
        claim: VerdictKind::TwoOwners,
    },
    Plot {
        folder: "no_fence",
        ids: ["no_fence", "no_fence_repaired"],
        titles: ["No fence", "No fence: repaired"],
        looks: [
            "The balance that Ana writes after she goes on is computed from the one that she has \
             read before she was stopped.",
            "The store has seen Ben's token, which is greater than Ana's, and refuses her.",
        ],
        readers: &[],
        actions: &[
            (100, "Ana", Acquire),
            (1000, "Ana", Stop),
            (2000, "Ben", Acquire),
            (31_000, "Ana", Resume),
        ],
        until_ms: 40_000,
        claim: VerdictKind::LostUpdate,
    },
    Plot {
        folder: "younger_writer",
        ids: ["younger_writer", "younger_writer_repaired"],
        titles: ["A reader waits for a younger writer", "A younger writer: repaired"],
        looks: [
            "Ana watches Ben's node, and Ben watches Ana's. The lock is free.",
            "Ana waits only for Cho, and Ben for Ana.",
        ],
        readers: &["Ana"],
        actions: &[
            (100, "Cho", Acquire),
            (300, "Ana", Acquire),
            (500, "Ben", Acquire),
            (1500, "Cho", Release),
            (2500, "Ana", Release),
            (3500, "Ben", Release),
        ],
        until_ms: 25_000,
        claim: VerdictKind::Stuck,
    },
];
