//! `zk load`: makes a tree equal to a dump.
//!
//! The dump and the tree are read side by side, and what differs is written behind that, many
//! requests in flight. The server carries them out in their order, so a node is created behind its
//! parent without waiting for it. A write whose reply is lost is sent again.

use std::collections::VecDeque;

use zk_client::{
    AccessList, Acl, Client, CreateOptions, Created, Error, ErrorCode, Node, Reply, Stat,
};

use crate::arguments::{Load as Arguments, Which};
use crate::commands::diff::difference;
use crate::commands::dump::wanted;
use crate::connection::Connection;
use crate::failure::{Failure, status, warn};
use crate::output::Json;
use crate::trees::compare::{Comparison, Pair};
use crate::trees::entry::{Entry, Kind, is_below};
use crate::trees::file::Dump;
use crate::trees::reader::{Wanted, absolute};
use crate::trees::source::Source;
use crate::trees::writer::Writer;

/// How many writes are in flight at most.
const IN_FLIGHT: usize = 1024;

/// How many bytes of data the writes in flight have, unless a single one has more.
const BYTES_IN_FLIGHT: usize = 8 * 1024 * 1024;

pub(crate) async fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let Arguments { path, file, connection, .. } = arguments;
    check_place(connection, path, "/")?;
    let which = Which { ephemerals: false, no_acls: arguments.no_acls };
    let wanted = wanted(which, connection, path);
    if arguments.prune || wanted.is_servers_root {
        Dump::check(file, |entry| check_place(connection, path, &entry.path)).await?;
    }
    let dump = Source::file(file, wanted)?.with_progress();
    let client = connection.open().await?;
    // They are left alone, and so is what is above them.
    let found = Source::servers(
        &client,
        path,
        Wanted { ephemerals: true, bare_ephemerals: true, ..wanted },
    );
    let trees = Comparison::new(dump, found);
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

/// Fails if a node below this root is one of the servers' own.
fn check_place(connection: &Connection, root: &str, path: &str) -> Result<(), Failure> {
    const OWN: &str = "/zookeeper";
    let place = absolute(connection.chroot(), &absolute(root, path));
    match place == OWN || is_below(&place, OWN) {
        true => Err(Failure::of(&place, "one of the servers' own nodes, which are not loaded")),
        false => Ok(()),
    }
}

/// What is done to one node.
#[derive(Debug)]
enum Action {
    Create(Entry),
    /// Looks at a node that is there although it was not when the tree was read.
    Look(Entry),
    /// Writes data and access list, or one of them.
    Change(Entry, Vec<&'static str>),
    Delete(Entry),
}

impl Action {
    fn entry(&self) -> &Entry {
        let (Self::Create(entry)
        | Self::Look(entry)
        | Self::Change(entry, _)
        | Self::Delete(entry)) = self;
        entry
    }

    fn into_entry(self) -> Entry {
        let (Self::Create(entry)
        | Self::Look(entry)
        | Self::Change(entry, _)
        | Self::Delete(entry)) = self;
        entry
    }
}

/// The replies to the requests of an action.
#[derive(Debug)]
enum Replies {
    Create(Reply<Created>),
    Look(Reply<Node>, Option<Reply<AccessList>>),
    Change(Option<Reply<Stat>>, Option<Reply<Stat>>),
    Delete(Reply<()>),
}

impl Replies {
    /// Waits for them. Returns what was found, if that was asked for.
    async fn wait(self) -> Result<Option<(Node, Option<AccessList>)>, Error> {
        match self {
            Self::Create(reply) => drop(reply.await?),
            Self::Look(node, acl) => {
                let acl = match acl {
                    Some(acl) => Some(acl.await?),
                    None => None,
                };
                return Ok(Some((node.await?, acl)));
            }
            Self::Change(data, acl) => {
                for reply in [data, acl].into_iter().flatten() {
                    reply.await?;
                }
            }
            Self::Delete(reply) => match reply.await {
                Err(error) if error.is_no_node() => {}
                deleted => deleted?,
            },
        }
        Ok(None)
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
        let is_read = self.read(&mut trees).await;
        if matches!(is_read, Ok(false)) {
            return Ok(0);
        }
        // A dump may fail in its middle. What was sent before that is done, and is counted, too.
        while !self.writes.is_empty() {
            if let Err(failure) = self.finish_one().await {
                return Err(is_read.err().unwrap_or(failure));
            }
        }
        let summary = self.count.text(self.arguments, trees.first.left_out);
        self.output.line(summary).await;
        is_read.map(|_| if self.count.failed == 0 { 0 } else { status::REFUSED })
    }

    /// Reads both trees to their ends, and sends what makes them equal. False if nobody reads the
    /// output.
    async fn read(&mut self, trees: &mut Comparison) -> Result<bool, Failure> {
        let mut is_first = true;
        while let Some(pair) = trees.next().await? {
            if std::mem::take(&mut is_first) && matches!(pair, Pair::First(_)) {
                self.create_parents().await?;
            }
            if !self.take(pair).await? {
                return Ok(false);
            }
        }
        self.delete_but("").await?;
        Ok(true)
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
        if let Pair::First(entry) | Pair::Both(entry, _) = &pair {
            // A dump that came from a pipe was not checked before.
            check_place(&self.arguments.connection, &self.arguments.path, &entry.path)?;
        }
        match pair {
            Pair::First(entry) => self.send(Action::Create(entry)).await?,
            Pair::Second(entry) if entry.kind == Kind::Ephemeral => {
                for above in std::mem::take(&mut self.extra) {
                    self.leave(above).await;
                }
            }
            Pair::Second(entry) if self.arguments.prune => self.extra.push(entry),
            Pair::Second(entry) => return Ok(self.leave(entry).await),
            Pair::Both(entry, found) => {
                if let Some(action) = self.compare(entry, found, false).await {
                    self.send(action).await?;
                }
            }
        }
        Ok(true)
    }

    /// Leaves a node that the dump does not have. False if nobody reads the output.
    async fn leave(&mut self, entry: Entry) -> bool {
        self.count.extra += 1;
        self.print(difference(&Pair::Second(entry), self.arguments.json)).await
    }

    /// What makes a node equal to that of the dump, if it takes anything. `is_own` is true if this
    /// load may have created it.
    async fn compare(&mut self, entry: Entry, found: Entry, is_own: bool) -> Option<Action> {
        let parts = entry.differences(&found);
        if found.kind == Kind::Ephemeral {
            let path = absolute(&self.arguments.path, &entry.path);
            let line = difference(&Pair::Both(entry, found), self.arguments.json);
            self.print(line).await;
            warn(&format!("{path}: the node that is there is ephemeral, and is left"));
            self.count.failed += 1;
            return None;
        }
        match (parts.is_empty(), is_own) {
            (false, _) => return Some(Action::Change(entry, parts)),
            (true, true) => self.count.created += 1,
            (true, false) => self.count.equal += 1,
        }
        None
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
        let size = action.entry().size();
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
            Action::Create(_) | Action::Look(_) => ("create", String::new()),
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
        let (path, data) = (absolute(&arguments.path, path), data.as_deref().unwrap_or_default());
        let replies = match &action {
            Action::Create(_) => {
                let options = kind.options().with_acl(acl.as_deref().unwrap_or(Acl::OPEN));
                Replies::Create(client.create(&path, data, &options))
            }
            Action::Look(_) => client.batch(|| {
                let list = acl.as_ref().map(|_| client.get_acl(&path));
                Replies::Look(client.get_data(&path), list)
            }),
            // The data first: the new list may forbid it.
            Action::Change(_, parts) => client.batch(|| {
                let has = |part| parts.contains(&part);
                let written = has("data").then(|| client.set_data(&path, data, None));
                let list = acl.as_deref().filter(|_| has("acl"));
                Replies::Change(written, list.map(|list| client.set_acl(&path, list, None)))
            }),
            Action::Delete(_) => Replies::Delete(client.delete(&path, None)),
        };
        self.bytes += action.entry().size();
        self.writes.push_back(Write { action, replies, attempt });
    }

    /// Waits for the oldest write.
    async fn finish_one(&mut self) -> Result<(), Failure> {
        let Some(Write { action, replies, attempt }) = self.writes.pop_front() else {
            return Ok(());
        };
        self.bytes = self.bytes.saturating_sub(action.entry().size());
        let path = absolute(&self.arguments.path, &action.entry().path);
        match replies.wait().await {
            Ok(None) => self.count.add(&action),
            Ok(Some((node, acl))) => {
                let entry = action.into_entry();
                let found = Entry {
                    path: entry.path.clone(),
                    kind: Kind::of(node.stat.ephemeral_owner),
                    data: Some(node.data.to_vec()),
                    acl: acl.map(|list| list.acl),
                };
                if let Some(action) = self.compare(entry, found, attempt > 1).await {
                    self.submit(action, attempt);
                }
            }
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
                self.leave(action.into_entry()).await;
            }
            // The first create was not lost, or somebody else has created it, such as another load.
            Err(error) if error.is_node_exists() => {
                self.submit(Action::Look(action.into_entry()), attempt);
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
            Action::Create(_) | Action::Look(_) => self.created += 1,
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
