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
    pub(super) chapter: &'static str,
    pub(super) sentence: &'static str,
    /// The releases that know what it is about.
    pub(super) since: Since,
    /// The releases on which the steps were seen to hold. What else is expected was read in the
    /// sources.
    pub(super) seen: Vec<Release>,
    /// What the server must have, by its name.
    pub(super) needs: Option<&'static str>,
    pub(super) steps: Vec<Step>,
}

/// One step of a claim.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The client's letter.
    pub(super) client: &'static str,
    pub(super) deed: &'static str,
    /// `None` for a request that is sent only; a later step has its reply.
    expected: Option<&'static str>,
    /// What is expected of older releases.
    before: Option<(Since, &'static str)>,
}

impl Step {
    /// A step that no file has.
    pub(super) const fn of(client: &'static str, deed: &'static str) -> Self {
        Self { client, deed, expected: Some(""), before: None }
    }

    /// What a server of this release answers.
    pub(super) fn expected(&self, release: Release) -> Option<&'static str> {
        match &self.before {
            Some((since, before)) if !since.includes(release) => Some(before),
            _ => self.expected,
        }
    }
}

/// Reads all claims.
pub(super) fn all() -> Result<Vec<Claim>> {
    let mut claims: Vec<Claim> = Vec::new();
    for file in FILES {
        let (mut chapter, mut seen) = (None, Vec::new());
        for (index, line) in file.lines().enumerate() {
            let place = || format!("line {} of chapter {chapter:?}: {line:?}", index + 1);
            let line = line.trim_end();
            if line.is_empty() || line.trim_start().starts_with('#') {
            } else if let Some(title) = line.strip_prefix("chapter ") {
                chapter = Some(title);
            } else if let Some(releases) = line.strip_prefix("seen ") {
                seen = releases_of(releases).with_context(place)?;
            } else if let Some(rest) = line.strip_prefix("  ") {
                let claim = claims.last_mut().with_context(place)?;
                claim.add(rest.trim_start()).with_context(place)?;
            } else {
                let (number, sentence) = line.split_once(' ').with_context(place)?;
                let number = number.parse().with_context(place)?;
                let behind = claims.last().is_none_or(|last| last.number < number);
                ensure!(behind, "the numbers do not rise in {}", place());
                claims.push(Claim {
                    number,
                    chapter: chapter.with_context(place)?,
                    sentence,
                    since: Since::ALWAYS.parse()?,
                    seen: seen.clone(),
                    needs: None,
                    steps: Vec::new(),
                });
            }
        }
    }
    Ok(claims)
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
    fn add(&mut self, line: &'static str) -> Result<()> {
        if let Some(since) = line.strip_prefix("since ") {
            self.since = since.parse()?;
        } else if let Some(releases) = line.strip_prefix("seen ") {
            self.seen = releases_of(releases)?;
        } else if line == "read" {
            self.seen.clear();
        } else if let Some(needs) = line.strip_prefix("needs ") {
            self.needs = Some(needs);
        } else if let Some(rest) = line.strip_prefix("before ") {
            let (since, expected) = rest.split_once(" => ").context("no =>")?;
            let step = self.steps.last_mut().context("before what?")?;
            ensure!(step.expected.is_some(), "nothing is expected there");
            step.before = Some((since.parse()?, expected));
        } else if let Some((client, deed)) = line.split_once(": ") {
            let (deed, expected) = deed.split_once(" => ").unwrap_or((deed, "ok"));
            self.steps.push(Step { client, deed, expected: Some(expected), before: None });
        } else if let Some((client, deed)) = line.split_once("+ ") {
            self.steps.push(Step { client, deed, expected: None, before: None });
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
