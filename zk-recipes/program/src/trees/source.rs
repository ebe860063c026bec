//! Where a tree comes from: servers, or a file.

use zk_client::Client;

use crate::failure::Failure;
use crate::trees::entry::{Entry, Kind};
use crate::trees::file::Dump;
use crate::trees::progress::Progress;
use crate::trees::reader::{Reader, Wanted};

/// A tree, node by node.
#[derive(Debug)]
pub(crate) struct Source {
    from: From,
    wanted: Wanted,
    /// How many ephemeral nodes of a file were left out.
    pub(crate) left_out: u64,
    progress: Option<Progress>,
}

#[derive(Debug)]
enum From {
    Servers(Reader),
    File(Dump),
}

impl Source {
    /// The tree at a path of servers. It is empty if there is no node.
    pub(crate) fn servers(client: &Client, root: &str, wanted: Wanted) -> Self {
        let from = From::Servers(Reader::new(client, root, wanted));
        Self { from, wanted, left_out: 0, progress: None }
    }

    /// The tree in a file, or in the standard input if its name is `-`.
    pub(crate) fn file(name: &str, wanted: Wanted) -> Result<Self, Failure> {
        Ok(Self { from: From::File(Dump::open(name)?), wanted, left_out: 0, progress: None })
    }

    /// Shows how far it has come.
    pub(crate) fn with_progress(self) -> Self {
        let size = match &self.from {
            From::File(dump) => dump.size(),
            From::Servers(_) => None,
        };
        Self { progress: Some(Progress::new(size)), ..self }
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Entry>, Failure> {
        loop {
            let (entry, bytes) = match &mut self.from {
                From::Servers(reader) => (reader.next().await?.map(|found| found.entry), 0),
                From::File(dump) => match dump.next().await? {
                    Some((entry, bytes)) => (Some(entry), bytes),
                    None => (None, 0),
                },
            };
            match (&self.progress, &entry) {
                (Some(progress), Some(_)) => progress.on_node(bytes),
                (Some(progress), None) => progress.end(),
                (None, _) => {}
            }
            match entry {
                Some(entry) if entry.kind == Kind::Ephemeral && !self.wanted.ephemerals => {
                    self.left_out += 1;
                }
                Some(entry) if !self.wanted.acls => return Ok(Some(Entry { acl: None, ..entry })),
                entry => return Ok(entry),
            }
        }
    }
}
