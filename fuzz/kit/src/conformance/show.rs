//! Reports as text, as JSON, and as a page.

use std::fmt::{self, Write};

use anyhow::Result;

use super::claim::Claim;
use super::release::Release;
use super::report::{Line, Report, Verdict};

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Lines for people.
    Text,
    /// One JSON object.
    Json,
    /// A page.
    Html,
}

impl Report {
    /// The report as text.
    pub fn print(&self, format: Format) -> Result<String> {
        let mut out = String::new();
        match format {
            Format::Text => self.text(&mut out)?,
            Format::Json => out = serde_json::to_string_pretty(self)? + "\n",
            Format::Html => super::page::write(self, &mut out)?,
        }
        Ok(out)
    }

    fn text(&self, out: &mut String) -> fmt::Result {
        let mut chapter = "";
        for line in &self.claims {
            if line.chapter != chapter {
                chapter = &line.chapter;
                writeln!(out, "\n{chapter}")?;
            }
            line.text(out)?;
        }
        writeln!(out)?;
        for path in &self.left_behind {
            writeln!(out, "left behind: {path}")?;
        }
        writeln!(out, "{}", self.summary())
    }

    /// How many claims came out how.
    pub fn summary(&self) -> String {
        let count = |verdict| self.count(verdict);
        format!(
            "{} claims on {}, compared with {}, in {:.1} s: {} as expected, {} unexpected, {} \
             allowed, {} skipped, {} not run",
            self.claims.len(),
            self.server,
            self.like,
            self.seconds,
            count(Verdict::AsExpected),
            count(Verdict::Unexpected),
            count(Verdict::Allowed),
            count(Verdict::Skipped),
            count(Verdict::NotRun),
        )
    }
}

impl Line {
    fn text(&self, out: &mut String) -> fmt::Result {
        let verdict = self.verdict.name();
        writeln!(out, "  {:6} {verdict:11}  {}", self.number, self.sentence)?;
        if let Some(why) = &self.why {
            writeln!(out, "         {why}")?;
        }
        if matches!(self.verdict, Verdict::Unexpected | Verdict::Allowed) {
            writeln!(out, "         since {}, {}", self.since, self.evidence)?;
            for step in &self.steps {
                writeln!(out, "         {} => {}", step.step, step.got)?;
                if !step.is_expected {
                    writeln!(out, "         expected {}", step.expected)?;
                }
            }
        }
        for frame in &self.frames {
            writeln!(out, "         {frame}")?;
        }
        Ok(())
    }
}

/// All claims, with their steps.
pub(super) fn list(claims: &[Claim]) -> String {
    let mut out = String::new();
    let mut chapter = "";
    for claim in claims {
        if claim.chapter != chapter {
            chapter = &claim.chapter;
            out += &format!("\n{chapter}\n");
        }
        let (number, since) = (claim.number, &claim.since);
        out += &format!("  {number:6} {}\n", claim.sentence);
        out += &format!("         since {since}, {}\n", claim.evidence());
        for step in &claim.steps {
            let (client, deed) = (&step.client, &step.deed);
            let expected = step.expected(Release::NEWEST);
            let expected = expected.map_or_else(String::new, |it| format!(" => {it}"));
            out += &format!("         {client}: {deed}{expected}\n");
        }
    }
    out
}
