//! A list of steps as a file, which people can read and change, and which runs again.
//!
//! ```text
//! {"format":"zk-fuzz","version":1,"seed":7,"top":"/s7-00000000","scope":"own"}
//! {"client":0,"deed":{"ask":[{"xid":1,"op":15,"body":"0000...","text":"{ path: ... }"}]}}
//! {"client":2,"deed":"cut"}
//! ```
//!
//! `text` is a comment. Each run renames the top node, so that a case can run on a server any
//! number of times.

use std::fmt;
use std::io::{BufRead, Write};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use zk_proto::OpCode;
use zk_tap::hex;

use super::generate;
use super::mutate;
use super::step::{Deed, Request, Step};
use super::world::Scope;

/// The version of the format that is written, and the only one that is read.
const VERSION: u32 = 1;

const FORMAT: &str = "zk-fuzz";

/// Steps for any server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub(super) seed: u64,
    /// The node that holds all nodes of the steps.
    pub(super) top: String,
    pub(super) scope: Scope,
    pub(super) steps: Vec<Step>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u32,
    seed: u64,
    top: String,
    scope: Scope,
}

impl Case {
    /// The steps of a seed with at least so many requests. The same seed gives the same steps.
    ///
    /// About one in `odd` requests has a field with an odd value; none if `odd` is 0. Some requests
    /// and fields are left out, as `mutate` says.
    pub fn of_seed(seed: u64, scope: Scope, requests: usize, odd: u32) -> Self {
        let top = match scope {
            Scope::Everything => format!("/s{seed}"),
            // Not directly below the root, whose counter of sequential nodes is no secret to those.
            Scope::Own => format!("/s{seed}-00000000/t"),
        };
        let mut steps = generate::steps(seed, &top, scope, requests);
        mutate::mutate(&mut steps, seed, odd);
        Self { seed, top, scope, steps }
    }

    /// The seed that it was made of.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How many requests the steps send, without those that their answers decide.
    pub fn requests(&self) -> usize {
        self.steps.iter().map(|step| step.deed.requests()).sum()
    }

    /// Whether the last step closes the last session.
    pub(super) fn ends_closed(&self) -> bool {
        let is_close = |request: &Request| request.op == OpCode::CLOSE_SESSION;
        match self.steps.last().map(|step| &step.deed) {
            Some(Deed::Ask(requests)) => requests.iter().any(is_close),
            _ => false,
        }
    }

    /// The same steps below a node that `number` names.
    pub(super) fn renamed(&self, number: u32) -> Self {
        let old = self.top.strip_suffix("/t").unwrap_or(&self.top);
        let stem = old.rsplit_once('-').map_or(old, |(stem, _)| stem);
        let new = format!("{stem}-{number:08x}");
        if self.scope == Scope::Everything || new.len() != old.len() {
            return self.clone();
        }
        let steps = self.steps.iter().map(|step| step.renamed(old, &new)).collect();
        let top = self.top.replace(old, &new);
        Self { steps, top, ..self.clone() }
    }

    /// Writes a line for each step.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let header = Header {
            format: FORMAT.to_owned(),
            version: VERSION,
            seed: self.seed,
            top: self.top.clone(),
            scope: self.scope,
        };
        writeln!(out, "{}", serde_json::to_string(&header)?)?;
        for step in &self.steps {
            writeln!(out, "{}", serde_json::to_string(step)?)?;
        }
        Ok(())
    }

    /// Reads what [`write`](Self::write) has written, or what somebody has made of it.
    ///
    /// # Errors
    ///
    /// The first line that is none of a case, with its number.
    pub fn read(input: impl BufRead) -> Result<Self> {
        let mut lines = (1..).zip(input.lines());
        let (_, first) = lines.next().context("an empty file")?;
        let Header { format, version, seed, top, scope } =
            serde_json::from_str(&first?).context("line 1")?;
        ensure!(format == FORMAT && version == VERSION, "not a case of version {VERSION}");
        let mut steps = Vec::new();
        for (number, line) in lines {
            let step: Step =
                serde_json::from_str(&line?).with_context(|| format!("line {number}"))?;
            let known = step.client < super::step::CLIENTS;
            ensure!(known, "line {number}: there are {} clients", super::step::CLIENTS);
            steps.push(step);
        }
        Ok(Self { seed, top, scope, steps })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            writeln!(f, "{index}. {step}")?;
            if let Deed::Ask(requests) = &step.deed {
                for request in requests {
                    let frame = hex::encode(&request.frame());
                    writeln!(f, "      frame: {frame}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_as_it_was_written() {
        let case = Case::of_seed(3, Scope::Own, 400, 5);
        assert_eq!(case, Case::of_seed(3, Scope::Own, 400, 5), "the same seed, the same steps");
        assert_ne!(case, Case::of_seed(3, Scope::Own, 400, 0), "no odd fields");
        let mut text = Vec::new();
        case.write(&mut text).unwrap();
        assert_eq!(Case::read(&text[..]).unwrap(), case);
        let error = Case::read(&text[1..]).unwrap_err();
        assert!(format!("{error:#}").starts_with("line 1"), "{error:#}");
    }

    #[test]
    fn a_renamed_case_is_below_another_node_and_otherwise_the_same() {
        let case = Case::of_seed(3, Scope::Own, 400, 0);
        let other = case.renamed(0xabc);
        assert_eq!(other.top, "/s3-00000abc/t");
        assert_ne!(other, case);
        let text = |case: &Case| format!("{:?}", case.steps);
        assert!(!text(&other).contains("/s3-00000000"), "in a text");
        assert_eq!(other.renamed(0), case);
    }
}
