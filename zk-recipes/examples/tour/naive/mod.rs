//! Locks that are broken on purpose, each with the smallest change that repairs it.
//!
//! A case has a folder of its own: `broken.rs` and `repaired.rs` are short programs on the client
//! alone, to be read side by side, and `mod.rs` puts both to the same test. A test of the workspace
//! includes this module and checks each claim.

use std::pin::Pin;

use zk_client::Error;

pub(crate) mod diff;
pub(crate) mod queue;
pub(crate) mod scene;

pub(crate) mod check_then_create;
pub(crate) mod herd;
pub(crate) mod lost_reply;
pub(crate) mod no_deadline;
pub(crate) mod no_fence;
pub(crate) mod release_by_name;
pub(crate) mod whole_names;
pub(crate) mod wrong_wake_up;
pub(crate) mod younger_writer;

use scene::Report;

/// All cases, in the order of the course: each repairs what the one before has left broken.
pub(crate) const CASES: [&Case; 9] = [
    &check_then_create::CASE,
    &herd::CASE,
    &wrong_wake_up::CASE,
    &lost_reply::CASE,
    &whole_names::CASE,
    &release_by_name::CASE,
    &no_deadline::CASE,
    &no_fence::CASE,
    &younger_writer::CASE,
];

/// Which of the two programs of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Broken,
    Repaired,
}

/// A way to get a lock wrong.
pub(crate) struct Case {
    pub(crate) title: &'static str,
    /// The row of tests/CATALOGUE.md, if there is one: it has what libraries get wrong.
    pub(crate) hazard: Option<&'static str>,
    /// Where it was reported.
    pub(crate) reports: &'static str,
    /// What the program does, and what happens to it.
    pub(crate) story: &'static str,
    /// Why it breaks.
    pub(crate) lesson: &'static str,
    /// What the repaired program does instead.
    pub(crate) repair: &'static str,
    /// The file of the libraries that takes care of it.
    pub(crate) handled_in: &'static str,
    /// The folder beside this file that has both programs.
    pub(crate) folder: &'static str,
    sources: [&'static str; 2],
    run: fn(Version) -> Running,
}

type Running = Pin<Box<dyn Future<Output = Result<Report, Error>>>>;

impl Case {
    /// The whole program, without the head of its file.
    pub(crate) fn source(&self, version: Version) -> &'static str {
        let [broken, repaired] = self.sources;
        let source = match version {
            Version::Broken => broken,
            Version::Repaired => repaired,
        };
        // The imports end with the first line that begins an item or its documentation.
        let items = ["\nconst ", "\n/// "].map(|item| source.find(item));
        let start = items.into_iter().flatten().min().unwrap_or_default();
        source.get(start..).unwrap_or_default().trim()
    }

    /// Runs one of the programs under the fault of the case. Needs a runtime whose clock is paused.
    pub(crate) async fn run(&self, version: Version) -> Result<Report, Error> {
        (self.run)(version).await
    }
}
