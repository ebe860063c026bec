//! The lines of a dump, from a file or the standard input.
//!
//! A thread reads them, since a read may wait for long, and the session has to be kept alive
//! meanwhile. Only so many lines wait as fit the channel. The last line of a dump says that it is
//! complete: otherwise the end of an interrupted one would look as if nodes were gone.

use std::cmp::Ordering;

use serde_json::{Map, Value};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::failure::Failure;
use crate::input::Input;
use crate::trees::entry::{Entry, order};

/// How many lines wait at most.
const AHEAD: usize = 64;

/// A dump that is read line by line.
#[derive(Debug)]
pub(crate) struct Dump {
    name: String,
    lines: Receiver<Result<Vec<u8>, String>>,
    number: usize,
    last: Option<String>,
    is_over: bool,
    size: Option<u64>,
}

impl Dump {
    /// Opens a file, or the standard input if its name is `-`.
    pub(crate) fn open(name: &str) -> Result<Self, Failure> {
        let input = Input::open(name)?;
        let (name, size) = (input.name.clone(), input.size);
        let (sender, lines) = channel(AHEAD);
        std::thread::spawn(move || send(input, &sender));
        Ok(Self { name, lines, number: 0, last: None, is_over: false, size })
    }

    /// Reads a file to its end, so that it is known to be complete, and each of its nodes to be
    /// allowed, before anything is changed. What is no file, such as the standard input or a pipe,
    /// can be read only once.
    pub(crate) async fn check(
        name: &str,
        allow: impl Fn(&Entry) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if std::fs::metadata(name).is_ok_and(|found| found.is_file()) {
            let mut dump = Self::open(name)?;
            while let Some((entry, _)) = dump.next().await? {
                allow(&entry)?;
            }
        }
        Ok(())
    }

    /// How many bytes there are, if that is known.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// The next node and the bytes of its line. `None` at the end of a complete dump.
    pub(crate) async fn next(&mut self) -> Result<Option<(Entry, u64)>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        self.number += 1;
        let Some(line) = self.lines.recv().await else {
            let what = if self.last.is_some() { "ends early" } else { "has no node" };
            let why = format!("this dump {what}: its last line is missing");
            return Err(Failure::of(&self.name, why));
        };
        let line = line.map_err(|why| self.wrong(&why))?;
        let object = serde_json::from_slice::<Map<String, Value>>(&line);
        let object = object.map_err(|error| self.wrong(&error.to_string()))?;
        if self.last.is_some() && object.get("end") == Some(&Value::Bool(true)) {
            self.is_over = true;
            let (nodes, told) = (self.number as u64 - 1, object.get("nodes"));
            return match told.is_none_or(|told| told.as_u64() == Some(nodes)) {
                true => Ok(None),
                false => Err(self.wrong(&format!("{nodes} nodes came before it, and not so many"))),
            };
        }
        let entry = Entry::parse(&object).map_err(|why| self.wrong(&why))?;
        match &self.last {
            None if entry.path != "/" => {
                return Err(self.wrong("the first node is not /, the root of the tree"));
            }
            Some(last) if order(last, &entry.path) != Ordering::Less => {
                let why = format!("{} comes after {last}, which is not the order", entry.path);
                return Err(self.wrong(&why));
            }
            _ => {}
        }
        self.last = Some(entry.path.clone());
        Ok(Some((entry, line.len() as u64 + 1)))
    }

    fn wrong(&self, why: &str) -> Failure {
        Failure::of(&format!("{}, line {}", self.name, self.number), why)
    }
}

/// The last line of a dump of so many nodes.
pub(crate) fn last_line(nodes: u64) -> String {
    format!("{{\"end\":true,\"nodes\":{nodes}}}")
}

/// Sends the lines until nobody wants them any more. One that was cut off is no JSON, unless only
/// the end of the line is missing.
fn send(mut input: Input, lines: &Sender<Result<Vec<u8>, String>>) {
    while let Some(line) = input.line() {
        let is_over = line.is_err();
        if lines.blocking_send(line).is_err() || is_over {
            return;
        }
    }
}
