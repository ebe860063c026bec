//! Random histories of a tree that is kept in memory, against what the server has committed.
//!
//! One client writes, and another one follows, through lost connections, sessions and messages. The
//! view is compared after every step with all states that it may show, and at rest with the server.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_client::{Client, CreateOptions, ErrorCode, Host, Op, SessionKeeper, Zxid};
use zk_embedded::{Change, Config, Fault, Server, ServerVersion};
use zk_recipes::{Error, Freshness, TreeCache, TreeLimits, TreeStatus};

use crate::Outcome;
use crate::random::Random;

const ROOT: &str = "/root";
const TIMEOUT: Duration = Duration::from_secs(6);
const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

/// The changes at least that the client misses while it is cut off, at the end of each history and
/// sometimes before.
const MISSED: usize = 1_000;

/// A node as the view shows it: by whom it was created and last changed.
type Known = Option<(Zxid, Zxid)>;

/// Runs one history.
pub fn run(seed: u64, traced: bool) -> Outcome {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let mut history = History::new(seed, traced).await;
        let violation = history.run().await.err();
        let History { counts, trace, .. } = history;
        Outcome { counts, violation, trace }
    })
}

struct History {
    random: Random,
    server: Arc<Server>,
    /// True while the client that follows cannot connect.
    refused: Arc<AtomicBool>,
    writer: Client,
    keeper: SessionKeeper,
    tree: TreeCache,
    /// The status and the nodes that were seen last.
    last: (TreeStatus, BTreeMap<String, (Zxid, Zxid)>),
    counts: BTreeMap<&'static str, u64>,
    traced: bool,
    trace: String,
}

impl History {
    async fn new(seed: u64, traced: bool) -> Self {
        let mut random = Random::new(seed);
        let version = if random.percent(50) { ServerVersion::V3_9 } else { ServerVersion::V3_8 };
        let config =
            Config::new().server_version(version).keep_history(true).max_connections_per_host(0);
        let server = Arc::new(Server::in_memory(config));
        let refused = Arc::new(AtomicBool::new(false));
        let connector = {
            let (server, refused) = (Arc::clone(&server), Arc::clone(&refused));
            move |_: &Host| match refused.load(Ordering::Relaxed) {
                true => Err(std::io::ErrorKind::ConnectionRefused.into()),
                false => Ok(server.connect()),
            }
        };
        let builder = Client::builder().session_timeout(TIMEOUT).seed(seed);
        let writer = builder.clone().connector(server.connector()).connect("zk").await;
        let writer = writer.expect("the server is there");
        let keeper = builder.connector(connector).keep("zk").await.expect("the server is there");
        let (tree, following) =
            TreeCache::follow(&keeper, ROOT, TreeLimits::default()).expect("a path");
        tokio::spawn(following);
        let last = (TreeStatus::default(), BTreeMap::new());
        let (counts, trace) = (BTreeMap::new(), String::new());
        Self { random, server, refused, writer, keeper, tree, last, counts, traced, trace }
    }

    async fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.random.within(20..80) {
            match self.random.within(0..100) {
                0..60 => self.write().await,
                60..80 => self.fault().await,
                80..95 => {
                    let time = self.random.millis(0..20);
                    sleep(time).await;
                }
                _ => self.reaches_what_was_written().await?,
            }
            self.check()?;
        }
        self.server.clear_faults();
        self.server.heal();
        self.refused.store(false, Ordering::Relaxed);
        self.reaches_what_was_written().await?;
        self.check()?;
        self.misses_much().await;
        self.reaches_what_was_written().await?;
        self.check()?;
        self.equals_the_server().await?;
        self.keeper.close().await;
        sleep(Duration::from_millis(1)).await;
        match self.server.watch_count() {
            0 => Ok(()),
            watches => Err(format!("{watches} watches are left")),
        }
    }

    fn note(&mut self, what: &'static str, path: &str) {
        *self.counts.entry(what).or_default() += 1;
        if self.traced {
            writeln!(self.trace, "{what} {path}").expect("to a string");
        }
    }

    fn path(&mut self) -> String {
        let mut path = ROOT.to_owned();
        for _ in 0..self.random.within(0..4) {
            let name = self.random.within(0..4);
            path.push_str(&format!("/{name}"));
        }
        path
    }

    async fn write(&mut self) {
        let path = self.path();
        let data = self.random.next().to_string();
        let writer = &self.writer;
        let what = match self.random.within(0..12) {
            0..4 => {
                drop(writer.create_all(&path, data.as_bytes(), &PERSISTENT).await);
                "created"
            }
            4..6 => {
                drop(writer.set_data(&path, data.as_bytes(), None).await);
                "set"
            }
            6..8 => {
                drop(writer.delete(&path, None).await);
                "deleted"
            }
            8 => {
                drop(writer.delete_all(&path).await);
                "deleted with all below"
            }
            9 => {
                // In its place, with nothing below it.
                let anew = Op::create(&path, data.as_bytes(), &PERSISTENT);
                drop(writer.multi((Op::delete(&path, None), anew)).await);
                "made anew"
            }
            _ => {
                // Nobody waits for the reply, so this is on its way with what comes next.
                drop(writer.set_data(&path, data.as_bytes(), None));
                for _ in 0..self.random.within(0..8) {
                    tokio::task::yield_now().await;
                }
                "set without waiting"
            }
        };
        self.note(what, &path);
    }

    async fn fault(&mut self) {
        let session = self.keeper.client().await.ok().and_then(|client| client.session());
        let Some(session) = session.map(|session| session.id) else {
            return;
        };
        let after = self.random.within(0..6) as u32;
        let (what, fault) = match self.random.within(0..9) {
            0 => ("reply lost", Fault::lose_reply()),
            1 => ("request lost", Fault::lose_request()),
            2 => ("delayed", Fault::delay(Duration::from_millis(self.random.within(1..30)))),
            3 => ("refused", Fault::refuse(ErrorCode::THROTTLED_OP)),
            4 => {
                self.server.expire(session);
                return self.note("expired", "");
            }
            5 => {
                self.server.partition(session);
                self.note("partitioned", "");
                let time = self.random.millis(0..10_000);
                sleep(time).await;
                return self.server.heal();
            }
            6 if self.random.percent(20) => return self.misses_much().await,
            6 => return,
            _ => {
                self.server.disconnect(session);
                return self.note("cut", "");
            }
        };
        self.server.inject(fault.session(session).after(after));
        self.note(what, "");
    }

    /// Changes many nodes while the client that follows cannot connect.
    async fn misses_much(&mut self) {
        let session = self.keeper.client().await.ok().and_then(|client| client.session());
        self.refused.store(true, Ordering::Relaxed);
        if let Some(session) = session {
            self.server.disconnect(session.id);
        }
        drop(self.writer.create_all(ROOT, b"", &PERSISTENT).await);
        let enough = self.server.history().len() + MISSED;
        while self.server.history().len() < enough {
            for _ in 0..MISSED / 2 {
                let path = format!("{ROOT}/{}", self.random.within(0..700));
                match self.random.within(0..4) {
                    0 => drop(self.writer.delete(&path, None)),
                    1 => drop(self.writer.set_data(&path, b"missed", None)),
                    _ => drop(self.writer.create(&path, b"", &PERSISTENT)),
                }
            }
            // Its reply comes after all others.
            drop(self.writer.exists(ROOT).await);
        }
        if self.random.percent(30) {
            sleep(2 * TIMEOUT).await;
        }
        self.refused.store(false, Ordering::Relaxed);
        self.note("missed much", "");
    }

    /// Waits until the view has what was written last.
    async fn reaches_what_was_written(&mut self) -> Result<(), String> {
        // Its reply comes after all others.
        drop(self.writer.exists(ROOT).await);
        let zxid = self.writer.last_zxid();
        let reached = async {
            loop {
                match self.tree.wait_for_zxid(zxid).await {
                    // After some refusals in a row, the tree is read once in a session timeout.
                    Err(error) if is_refusal(&error) => sleep(TIMEOUT).await,
                    reached => return reached,
                }
            }
        };
        let reached = timeout(20 * TIMEOUT, reached).await;
        let reached = reached.map_err(|_| format!("{:?} never reaches {zxid}", self.tree))?;
        self.note("waited", "");
        match reached {
            Err(error) => Err(error.to_string()),
            Ok(()) if self.tree.status().borrow().zxid < zxid => Err(format!("{:?}", self.tree)),
            Ok(()) => Ok(()),
        }
    }

    /// Compares the view with all states that it may show.
    fn check(&mut self) -> Result<(), String> {
        let status = self.tree.status().borrow().clone();
        let view = view(&self.tree);
        if let Some(error) = &status.error {
            if !is_refusal(error) {
                return Err(format!("an error: {error}"));
            }
            self.note("told of refusals", "");
        }
        let (before, _) = &self.last;
        if status.zxid < before.zxid || status.epoch < before.epoch {
            return Err(format!("{status:?} after {before:?}"));
        }
        if status.freshness == Freshness::Unknown {
            return if view.is_empty() { Ok(()) } else { Err(format!("unread: {view:?}")) };
        }
        let mut paths = self.timelines();
        for path in view.keys() {
            paths.entry(path.clone()).or_default();
        }
        for (path, timeline) in paths {
            let shown = view.get(&path).copied();
            // What it was at that zxid, and what it became since.
            let since = timeline.partition_point(|(zxid, _)| *zxid <= status.zxid);
            let then = since.checked_sub(1).and_then(|at| timeline[at].1);
            let later = timeline[since..].iter().map(|(_, known)| *known);
            if !std::iter::once(then).chain(later).any(|known| known == shown) {
                return Err(format!("{path} is {shown:?} at {}: {timeline:?}", status.zxid));
            }
        }
        for (path, (_, mzxid)) in &self.last.1 {
            if let Some((_, now)) = view.get(path)
                && now < mzxid
            {
                return Err(format!("{path} has gone back from {mzxid} to {now}"));
            }
        }
        self.last = (status, view);
        Ok(())
    }

    /// What each node was, from which zxid on.
    fn timelines(&self) -> BTreeMap<String, Vec<(Zxid, Known)>> {
        let mut timelines = BTreeMap::<String, Vec<(Zxid, Known)>>::new();
        for commit in self.server.history() {
            let timeline = timelines.entry(commit.path).or_default();
            let before = timeline.last().and_then(|(_, known)| *known);
            let known = match commit.change {
                Change::Created => Some((commit.zxid, commit.zxid)),
                Change::DataSet => before.map(|(czxid, _)| (czxid, commit.zxid)),
                Change::Deleted => None,
                _ => before,
            };
            // What happens within one transaction is seen by nobody.
            timeline.retain(|(zxid, _)| *zxid != commit.zxid);
            timeline.push((commit.zxid, known));
        }
        timelines.retain(|path, _| path.starts_with(ROOT));
        timelines
    }

    /// Compares the view at rest with the server, with all data.
    async fn equals_the_server(&mut self) -> Result<(), String> {
        let mut to_read = vec![ROOT.to_owned()];
        let (mut nodes, mut bytes) = (0, 0);
        while let Some(path) = to_read.pop() {
            let shown = self.tree.get(&path);
            let Ok(node) = self.writer.get_data(&path).await else {
                return match shown {
                    None => Ok(()),
                    Some(shown) => Err(format!("{path} is {shown:?}, and not there")),
                };
            };
            nodes += 1;
            bytes += node.data.len();
            let stat = node.stat;
            let is_same = shown.as_ref().is_some_and(|shown| {
                shown.data[..] == node.data[..]
                    && (shown.czxid, shown.mzxid, shown.version)
                        == (stat.czxid, stat.mzxid, stat.version)
            });
            let mut names = self.server.children(&path);
            names.sort_unstable();
            if !is_same || self.tree.children(&path).as_ref() != Some(&names) {
                return Err(format!("{path} is {shown:?}, and not {node:?} with {names:?}"));
            }
            bytes += names.iter().map(String::len).sum::<usize>();
            to_read.extend(names.iter().map(|name| format!("{path}/{name}")));
        }
        let status = self.tree.status().borrow().clone();
        match (status.nodes, status.bytes) == (nodes, bytes + 144 * nodes) {
            true => Ok(()),
            false => Err(format!("{status:?} counts {nodes} nodes and {bytes} bytes")),
        }
    }
}

/// True for the one error that these histories cause on purpose: the server refuses a request.
fn is_refusal(error: &Error) -> bool {
    error.client().and_then(|error| error.code()) == Some(ErrorCode::THROTTLED_OP)
}

/// All nodes that the tree shows.
fn view(tree: &TreeCache) -> BTreeMap<String, (Zxid, Zxid)> {
    tree.read(|tree| {
        let mut nodes = BTreeMap::new();
        let mut to_read = vec![ROOT.to_owned()];
        while let Some(path) = to_read.pop() {
            if let Some(node) = tree.get(&path) {
                nodes.insert(path.clone(), (node.czxid, node.mzxid));
            }
            let names = tree.children(&path).into_iter().flatten();
            to_read.extend(names.map(|name| format!("{path}/{name}")));
        }
        nodes
    })
}
