//! Claims as they are written in the files of the folder `claims`, one file for each chapter.
//!
//! A claim is a number, a sentence, and steps: what a client does, and what the server answers. The
//! README describes the form.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail, ensure};

use super::release::{Release, Since};

/// The chapters, in the order in which a report has them.
const FILES: &[&str] = &[
    include_str!("claims/01-handshake.txt"),
    include_str!("claims/02-sessions.txt"),
    include_str!("claims/03-requests.txt"),
    include_str!("claims/04-create.txt"),
    include_str!("claims/05-delete.txt"),
    include_str!("claims/06-data.txt"),
    include_str!("claims/07-children.txt"),
    include_str!("claims/08-stat.txt"),
    include_str!("claims/09-paths.txt"),
    include_str!("claims/10-watches.txt"),
    include_str!("claims/11-persistent.txt"),
    include_str!("claims/12-rearm.txt"),
    include_str!("claims/13-multi.txt"),
    include_str!("claims/14-multi-read.txt"),
    include_str!("claims/15-access.txt"),
    include_str!("claims/16-identities.txt"),
    include_str!("claims/17-limits.txt"),
    include_str!("claims/18-words.txt"),
];

/// What stands in front of the lines of a claim.
const INDENT: &str = "  ";

/// What stands in front of a line that continues the one before.
const CONTINUED: &str = "    ";

/// The number of a claim, which never changes: the chapter's and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number {
    /// The chapter.
    pub chapter: u16,
    /// The claim in the chapter.
    pub claim: u16,
}

impl FromStr for Number {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || format!("{text:?} is no number of a claim: expected one like 4.12");
        let (chapter, claim) = text.split_once('.').with_context(bad)?;
        let parse = |part: &str| part.parse().with_context(bad);
        Ok(Self { chapter: parse(chapter)?, claim: parse(claim)? })
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{}", self.chapter, self.claim);
        f.pad(&text)
    }
}

/// One claim.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) number: Number,
    pub(super) chapter: String,
    pub(super) sentence: String,
    /// The releases that know what it is about.
    pub(super) since: Since,
    /// The releases on which the steps were seen to hold. What else is expected was read in the
    /// sources.
    pub(super) seen: Vec<Release>,
    /// What the server must have or be, by its name.
    pub(super) needs: Vec<String>,
    pub(super) steps: Vec<Step>,
}

/// One step of a claim.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The client's letter.
    pub(super) client: String,
    pub(super) deed: String,
    /// `None` for a request that is sent only; a later step has its reply.
    expected: Option<String>,
    /// What is expected of older releases.
    before: Option<(Since, String)>,
}

impl Step {
    /// A step that no file has.
    pub(super) fn of(client: &str, deed: &str) -> Self {
        let (client, deed) = (client.to_owned(), deed.to_owned());
        Self { client, deed, expected: Some(String::new()), before: None }
    }

    /// What a server of this release answers.
    pub(super) fn expected(&self, release: Release) -> Option<&str> {
        match &self.before {
            Some((since, before)) if !since.includes(release) => Some(before),
            _ => self.expected.as_deref(),
        }
    }
}

/// Reads all claims.
pub(super) fn all() -> Result<Vec<Claim>> {
    let mut claims: Vec<Claim> = Vec::new();
    for file in FILES {
        let (mut chapter, mut seen) = (String::new(), Vec::new());
        for line in whole_lines(file) {
            let place = || format!("in chapter {chapter:?}: {line:?}");
            if let Some(title) = line.strip_prefix("chapter ") {
                chapter = title.to_owned();
            } else if let Some(releases) = line.strip_prefix("seen ") {
                seen = releases_of(releases).with_context(place)?;
            } else if let Some(step) = line.strip_prefix(INDENT) {
                let claim = claims.last_mut().with_context(place)?;
                claim.add(step).with_context(place)?;
            } else {
                let (number, sentence) = line.split_once(' ').with_context(place)?;
                let number = number.parse().with_context(place)?;
                let is_behind = claims.last().is_none_or(|last| last.number < number);
                ensure!(is_behind, "the numbers do not rise {}", place());
                claims.push(Claim {
                    number,
                    chapter: chapter.clone(),
                    sentence: sentence.to_owned(),
                    since: Since::ALWAYS.parse()?,
                    seen: seen.clone(),
                    needs: Vec::new(),
                    steps: Vec::new(),
                });
            }
        }
    }
    Ok(claims)
}

/// The lines without comments, each with the lines that continue it.
fn whole_lines(file: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in file.lines().map(str::trim_end) {
        match (line.strip_prefix(CONTINUED), lines.last_mut()) {
            (Some(rest), Some(last)) => *last += &format!(" {}", rest.trim_start()),
            _ if line.is_empty() || line.trim_start().starts_with('#') => {}
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

fn releases_of(text: &str) -> Result<Vec<Release>> {
    text.split_whitespace().map(str::parse).collect()
}

impl Claim {
    /// Whether it has this number, or is in the chapter with this number.
    pub(super) fn is_of(&self, number: &str) -> bool {
        number == self.number.chapter.to_string() || number == self.number.to_string()
    }

    /// Adds an indented line.
    fn add(&mut self, line: &str) -> Result<()> {
        if let Some(since) = line.strip_prefix("since ") {
            self.since = since.parse()?;
        } else if let Some(releases) = line.strip_prefix("seen ") {
            self.seen = releases_of(releases)?;
        } else if line == "read" {
            self.seen.clear();
        } else if let Some(needs) = line.strip_prefix("needs ") {
            self.needs.push(needs.to_owned());
        } else if let Some(rest) = line.strip_prefix("before ") {
            let (since, expected) = rest.split_once(" => ").context("no =>")?;
            let step = self.steps.last_mut().context("before what?")?;
            ensure!(step.expected.is_some(), "nothing is expected there");
            step.before = Some((since.parse()?, expected.to_owned()));
        } else if let Some((client, deed)) = line.split_once(": ") {
            let (deed, expected) = deed.split_once(" => ").unwrap_or((deed, "ok"));
            let expected = Some(expected.to_owned());
            self.steps.push(Step { expected, ..Step::of(client, deed) });
        } else if let Some((client, deed)) = line.split_once("+ ") {
            self.steps.push(Step { expected: None, ..Step::of(client, deed) });
        } else {
            bail!("it is no step");
        }
        Ok(())
    }

    /// Where the expectations come from.
    pub(super) fn evidence(&self) -> String {
        if self.seen.is_empty() {
            return "read in the sources".to_owned();
        }
        let seen: Vec<_> = self.seen.iter().map(Release::to_string).collect();
        let also = match self.seen.iter().any(|release| release.is_newest_line()) {
            true => "",
            false => ", read in the sources of 3.9",
        };
        format!("seen on {}{also}", seen.join(" and "))
    }
}
