//! `zk load`: makes a tree equal to a dump.
//!
//! The dump and the tree are read side by side, and what differs is written behind that, many
//! requests in flight. The server carries them out in their order, so a node is created behind its
//! parent without waiting for it. A write whose reply is lost is sent again.

use std::collections::VecDeque;

use zk_client::{Acl, Client, CreateOptions, Created, Error, ErrorCode, Reply, Stat};

use crate::arguments::{Load as Arguments, Which};
use crate::commands::diff::difference;
use crate::commands::dump::wanted;
use crate::failure::{Failure, status, warn};
use crate::output::Json;
use crate::trees::compare::{Comparison, Pair};
use crate::trees::entry::{Entry, is_below};
use crate::trees::file::Dump;
use crate::trees::reader::absolute;
use crate::trees::source::Source;
use crate::trees::writer::Writer;

/// How many writes are in flight at most.
const IN_FLIGHT: usize = 1024;

/// How many bytes of data the writes in flight have, unless a single one has more.
const BYTES_IN_FLIGHT: usize = 8 * 1024 * 1024;

pub(crate) async fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let Arguments { path, file, connection, .. } = arguments;
    let which = Which { ephemerals: false, no_acls: arguments.no_acls };
    let wanted = wanted(which, connection, path);
    if arguments.prune {
        Dump::check(file).await?;
    }
    let dump = Source::file(file, wanted)?.with_progress();
    let client = connection.open().await?;
    let trees = Comparison::new(dump, Source::servers(&client, path, wanted));
    let mut load = Load {
        arguments,
        client: client.clone(),
        output: Writer::new(),
        writes: VecDeque::new(),
        bytes: 0,
        is_repeated: false,
        extra: Vec::new(),
        count: Count::default(),
    };
    let loaded = load.run(trees).await;
    client.close().await;
    let printed = load.output.finish();
    loaded.and_then(|status| printed.map(|()| status))
}

/// What is done to one node.
#[derive(Debug)]
enum Action {
    Create(Entry),
    /// Writes data and access list, or one of them.
    Change(Entry, Vec<&'static str>),
    Delete(Entry),
}

impl Action {
    fn entry(&self) -> &Entry {
        let (Self::Create(entry) | Self::Change(entry, _) | Self::Delete(entry)) = self;
        entry
    }

    fn into_entry(self) -> Entry {
        let (Self::Create(entry) | Self::Change(entry, _) | Self::Delete(entry)) = self;
        entry
    }
}

/// The replies to the requests of an action.
#[derive(Debug)]
enum Replies {
    Create(Reply<Created>),
    Change(Option<Reply<Stat>>, Option<Reply<Stat>>),
    Delete(Reply<()>),
}

impl Replies {
    async fn wait(self) -> Result<(), Error> {
        match self {
            Self::Create(reply) => reply.await.map(drop),
            Self::Change(data, acl) => {
                for reply in [data, acl].into_iter().flatten() {
                    reply.await?;
                }
                Ok(())
            }
            Self::Delete(reply) => match reply.await {
                Err(error) if error.is_no_node() => Ok(()),
                deleted => deleted,
            },
        }
    }
}

/// A write in flight.
#[derive(Debug)]
struct Write {
    action: Action,
    replies: Replies,
    attempt: u32,
}

/// How many nodes there were of which kind.
#[derive(Debug, Default)]
struct Count {
    created: i64,
    changed: i64,
    deleted: i64,
    equal: i64,
    /// Those that the dump does not have, and that are left.
    extra: i64,
    failed: i64,
}

struct Load<'a> {
    arguments: &'a Arguments,
    client: Client,
    output: Writer,
    writes: VecDeque<Write>,
    bytes: usize,
    /// True once a write was sent again, so that the order is not that of the dump any more.
    is_repeated: bool,
    /// Nodes that are to be deleted, each below the one before it: they go behind what is below.
    extra: Vec<Entry>,
    count: Count,
}

/// How often a write is sent whose parent may be missing because of an earlier loss.
const ATTEMPTS: u32 = 10;

impl Load<'_> {
    async fn run(&mut self, mut trees: Comparison) -> Result<u8, Failure> {
        let mut is_first = true;
        while let Some(pair) = trees.next().await? {
            if std::mem::take(&mut is_first) && matches!(pair, Pair::First(_)) {
                self.create_parents().await?;
            }
            if !self.take(pair).await? {
                return Ok(0);
            }
        }
        self.delete_but("").await?;
        while !self.writes.is_empty() {
            self.finish_one().await?;
        }
        let summary = self.count.text(self.arguments, trees.first.left_out);
        self.output.line(summary).await;
        Ok(if self.count.failed == 0 { 0 } else { status::REFUSED })
    }

    /// Creates the nodes above the tree.
    async fn create_parents(&self) -> Result<(), Failure> {
        let path = &self.arguments.path;
        match path.rsplit_once('/') {
            Some((parent, _)) if !parent.is_empty() && !self.arguments.dry_run => {
                let created = self.client.ensure(parent, &CreateOptions::persistent()).await;
                created.map_err(|error| Failure::of(parent, error))
            }
            _ => Ok(()),
        }
    }

    /// Does what a pair of nodes takes. False if nobody reads the output.
    async fn take(&mut self, pair: Pair) -> Result<bool, Failure> {
        let (Pair::First(Entry { path, .. })
        | Pair::Second(Entry { path, .. })
        | Pair::Both(Entry { path, .. }, _)) = &pair;
        self.delete_but(&path.clone()).await?;
        let line = difference(&pair, self.arguments.json);
        match pair {
            Pair::First(entry) => self.send(Action::Create(entry)).await?,
            Pair::Second(entry) if self.arguments.prune => self.extra.push(entry),
            Pair::Second(_) => {
                self.count.extra += 1;
                return Ok(self.print(line).await);
            }
            Pair::Both(entry, found) => {
                // Neither is ephemeral, and other kinds are not told by servers.
                let parts = entry.differences(&found);
                match parts.is_empty() {
                    true => self.count.equal += 1,
                    false => self.send(Action::Change(entry, parts)).await?,
                }
            }
        }
        Ok(true)
    }

    async fn print(&self, line: Option<String>) -> bool {
        match line {
            Some(line) => self.output.line(line).await,
            None => true,
        }
    }

    /// Deletes the nodes that are to be deleted, except those above this path.
    async fn delete_but(&mut self, path: &str) -> Result<(), Failure> {
        while let Some(entry) = self.extra.pop_if(|last| !is_below(path, &last.path)) {
            self.send(Action::Delete(entry)).await?;
        }
        Ok(())
    }

    /// Sends the requests of an action, or prints what they would do.
    async fn send(&mut self, action: Action) -> Result<(), Failure> {
        if self.arguments.dry_run {
            self.output.line(self.plan(&action)).await;
            self.count.add(&action);
            return Ok(());
        }
        let size = action.entry().data.len();
        while self.writes.len() >= IN_FLIGHT
            || (!self.writes.is_empty() && self.bytes + size > BYTES_IN_FLIGHT)
        {
            self.finish_one().await?;
        }
        self.submit(action, 1);
        Ok(())
    }

    /// What an action would do, as a line.
    fn plan(&self, action: &Action) -> String {
        let (verb, parts) = match action {
            Action::Create(_) => ("create", String::new()),
            Action::Change(_, parts) => ("change", format!(" {}", parts.join(" "))),
            Action::Delete(_) => ("delete", String::new()),
        };
        let path = &action.entry().path;
        match self.arguments.json {
            true => Json::object().text("would", verb).text("path", path).end(),
            false => format!("{verb} {path}{parts}"),
        }
    }

    fn submit(&mut self, action: Action, attempt: u32) {
        let Self { client, arguments, .. } = self;
        let Entry { path, kind, data, acl } = action.entry();
        let path = absolute(&arguments.path, path);
        let replies = match &action {
            Action::Create(_) => {
                let options = kind.options().with_acl(acl.as_deref().unwrap_or(Acl::OPEN));
                Replies::Create(client.create(&path, data, &options))
            }
            // The data first: the new list may forbid it.
            Action::Change(_, parts) => client.batch(|| {
                let has = |part| parts.contains(&part);
                let written = has("data").then(|| client.set_data(&path, data, None));
                let list = acl.as_deref().filter(|_| has("acl"));
                Replies::Change(written, list.map(|list| client.set_acl(&path, list, None)))
            }),
            Action::Delete(_) => Replies::Delete(client.delete(&path, None)),
        };
        self.bytes += data.len();
        self.writes.push_back(Write { action, replies, attempt });
    }

    /// Waits for the oldest write.
    async fn finish_one(&mut self) -> Result<(), Failure> {
        let Some(Write { action, replies, attempt }) = self.writes.pop_front() else {
            return Ok(());
        };
        self.bytes = self.bytes.saturating_sub(action.entry().data.len());
        let path = absolute(&self.arguments.path, &action.entry().path);
        match replies.wait().await {
            Ok(()) => self.count.add(&action),
            Err(error) if error.is_transient() => {
                self.is_repeated = true;
                self.submit(action, attempt + 1);
            }
            // The create of its parent, or the delete of a child, was lost, and goes out again
            // ahead of this.
            Err(error) if is_out_of_order(&error) && self.is_repeated && attempt < ATTEMPTS => {
                self.submit(action, attempt + 1);
            }
            Err(error) if error.code() == Some(ErrorCode::NOT_EMPTY) => {
                self.count.extra += 1;
                let line = difference(&Pair::Second(action.into_entry()), self.arguments.json);
                self.print(line).await;
            }
            // The first create was not lost, or somebody else has created it.
            Err(error) if error.is_node_exists() && attempt > 1 => {
                let Action::Create(entry) = action else { return Ok(()) };
                self.submit(Action::Change(entry, vec!["data", "acl"]), attempt + 1);
            }
            Err(error) if error.is_session_over() => return Err(Failure::of(&path, error)),
            Err(error) => {
                self.count.failed += 1;
                warn(&format!("{path}: {error}"));
            }
        }
        Ok(())
    }
}

/// True if a node is missing or has children.
fn is_out_of_order(error: &Error) -> bool {
    error.is_no_node() || error.code() == Some(ErrorCode::NOT_EMPTY)
}

impl Count {
    fn add(&mut self, action: &Action) {
        match action {
            Action::Create(_) => self.created += 1,
            Action::Change(..) => self.changed += 1,
            Action::Delete(_) => self.deleted += 1,
        }
    }

    /// What was done, and what differs yet, as the last line.
    fn text(&self, arguments: &Arguments, left_out: u64) -> String {
        let counts = [
            ("created", "created", self.created),
            ("changed", "changed", self.changed),
            ("deleted", "deleted", self.deleted),
            ("equal", "equal before", self.equal),
            ("extra", "not in the dump and left", self.extra),
            ("failed", "failed", self.failed),
            ("ephemeral", "ephemeral left out", i64::try_from(left_out).unwrap_or(i64::MAX)),
        ];
        if arguments.json {
            let object = Json::object().text("path", &arguments.path);
            let object = object.flag("dry_run", arguments.dry_run);
            return counts
                .into_iter()
                .fold(object, |object, (name, _, count)| object.number(name, count))
                .end();
        }
        let counts = counts.into_iter().filter(|(_, _, count)| *count > 0);
        let counts = counts.map(|(_, name, count)| format!("{count} {name}")).collect::<Vec<_>>();
        let would = if arguments.dry_run { "would be " } else { "" };
        match counts.is_empty() {
            true => format!("{}: nothing", arguments.path),
            false => format!("{}: {would}{}", arguments.path, counts.join(", ")),
        }
    }
}
