//! Random histories of nodes that a client keeps in memory: one client writes, and another one
//! follows, through lost connections, sessions and messages.
//!
//! Each kind of what is kept adds what it may show, and compares that after every step.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::sleep;
use zk_client::{Client, CreateOptions, ErrorCode, Host, Op, SessionId, SessionKeeper, Zxid};
use zk_embedded::{Change, Config, Fault, Server, ServerVersion};
use zk_recipes::Error;

use super::Outcome;
use zk_inputs::Random;

pub(super) const ROOT: &str = "/root";
pub(super) const TIMEOUT: Duration = Duration::from_secs(6);
const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

/// The changes at least that the client that follows misses while it is cut off, in some histories.
const MISSED: usize = 1_000;

/// A node: by whom it was created and last changed.
pub(super) type Known = Option<(Zxid, Zxid)>;

/// Runs one history in virtual time.
pub(super) fn in_virtual_time(history: impl Future<Output = Outcome>) -> Outcome {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(history)
}

pub(super) struct History {
    pub(super) random: Random,
    pub(super) server: Arc<Server>,
    /// True while the client that follows cannot connect.
    pub(super) refused: Arc<AtomicBool>,
    pub(super) writer: Client,
    pub(super) keeper: SessionKeeper,
    /// Less than so many levels below the root are written.
    depth: u64,
    counts: BTreeMap<&'static str, u64>,
    traced: bool,
    trace: String,
}

impl History {
    pub(super) async fn new(seed: u64, traced: bool, depth: u64) -> Self {
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
        let (counts, trace) = (BTreeMap::new(), String::new());
        Self { random, server, refused, writer, keeper, depth, counts, traced, trace }
    }

    pub(super) fn into_outcome(self, result: Result<(), String>) -> Outcome {
        Outcome { counts: self.counts, violation: result.err(), trace: self.trace }
    }

    /// Writes, breaks something, or lets time pass. False if it is time to wait for what was
    /// written.
    pub(super) async fn step(&mut self) -> bool {
        match self.random.within(0..100) {
            0..60 => self.write().await,
            60..80 => self.fault().await,
            80..95 => {
                let time = self.random.millis(0..20);
                sleep(time).await;
            }
            _ => return false,
        }
        true
    }

    /// Ends all faults.
    pub(super) fn mend(&self) {
        self.server.clear_faults();
        self.server.heal();
        self.refused.store(false, Ordering::Relaxed);
    }

    /// The session of the client that follows.
    pub(super) async fn followers(&self) -> Option<SessionId> {
        let client = self.keeper.client().await.ok()?;
        client.session().map(|session| session.id)
    }

    pub(super) fn note(&mut self, what: &'static str, path: &str) {
        *self.counts.entry(what).or_default() += 1;
        if self.traced {
            writeln!(self.trace, "{what} {path}").expect("to a string");
        }
    }

    fn path(&mut self) -> String {
        let mut path = ROOT.to_owned();
        for _ in 0..self.random.within(0..self.depth) {
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
        let Some(session) = self.followers().await else {
            return;
        };
        let after = self.random.within(0..6) as u32;
        let (what, fault) = match self.random.within(0..10) {
            0 => ("reply lost", Fault::lose_reply()),
            1 => ("request lost", Fault::lose_request()),
            2 => ("delayed", Fault::delay(Duration::from_millis(self.random.within(1..30)))),
            3 => ("refused", Fault::refuse(ErrorCode::THROTTLED_OP)),
            9 => ("expired by a reply", Fault::expire_session()),
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
    pub(super) async fn misses_much(&mut self) {
        self.refused.store(true, Ordering::Relaxed);
        if let Some(session) = self.followers().await {
            self.server.disconnect(session);
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

    /// What each node was, from which zxid on.
    pub(super) fn timelines(&self) -> BTreeMap<String, Vec<(Zxid, Known)>> {
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
}

/// True for the one error that these histories cause on purpose: the server refuses a request.
pub(super) fn is_refusal(error: &Error) -> bool {
    error.client().and_then(|error| error.code()) == Some(ErrorCode::THROTTLED_OP)
}
