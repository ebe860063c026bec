//! Random histories of one value that is kept in memory, against what the server has committed.
//!
//! Each value that is told must be one that the node has had, and not before the one told last. It
//! is current only while the client is connected, and then it is the server's soon.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch::Receiver;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use zk_client::{Node, Zxid};
use zk_recipes::{Cached, Error, Freshness};

use crate::Outcome;
use crate::history::{self, History, Known, ROOT, TIMEOUT, is_refusal};

/// Longer than a reply is delayed.
const SOON: Duration = Duration::from_millis(100);

/// Runs one history.
pub fn run(seed: u64, traced: bool) -> Outcome {
    history::in_virtual_time(async {
        let mut value = Value::new(History::new(seed, traced, 1).await);
        let result = match value.run().await {
            Ok(()) => value.stop().await,
            broken => broken,
        };
        value.history.into_outcome(result)
    })
}

struct Value {
    history: History,
    values: Option<Receiver<Cached>>,
    /// All values that were told since the last look.
    told: UnboundedReceiver<Cached>,
    /// Passes on what is told.
    telling: JoinHandle<()>,
    following: JoinHandle<Result<(), Error>>,
    /// The first transaction after which the node can have been as it was told last.
    since: Zxid,
}

impl Value {
    fn new(history: History) -> Self {
        let (values, following) = Cached::follow(&history.keeper, ROOT).expect("a path");
        let following = tokio::spawn(following);
        let (tell, told) = unbounded_channel();
        let mut heard = values.clone();
        let telling = tokio::spawn(async move {
            while heard.changed().await.is_ok() {
                let value = heard.borrow_and_update().clone();
                tell.send(value).expect("a reader");
            }
        });
        Self { history, values: Some(values), told, telling, following, since: Zxid::default() }
    }

    async fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.history.random.within(20..80) {
            match self.history.random.within(0..20) {
                0..2 => self.is_right_if_current().await?,
                2 => self.is_cut_off().await?,
                _ if self.history.step().await => {}
                _ => self.is_right_if_current().await?,
            }
            self.check()?;
        }
        self.history.mend();
        self.equals_the_server().await?;
        self.check()
    }

    fn now(&self) -> Cached {
        self.values.as_ref().map(|values| values.borrow().clone()).unwrap_or_default()
    }

    /// Compares what was told with what the node has been.
    fn check(&mut self) -> Result<(), String> {
        let timelines = self.history.timelines();
        let timeline = timelines.get(ROOT).map(Vec::as_slice).unwrap_or_default();
        while let Ok(Cached { node, freshness, error, .. }) = self.told.try_recv() {
            if let Some(error) = error.filter(|error| !is_refusal(error)) {
                return Err(format!("an error: {error}"));
            }
            match freshness {
                Freshness::Unknown if node.is_some() => return Err(format!("unread: {node:?}")),
                Freshness::Unknown => continue,
                Freshness::Current => self.history.note("current", ""),
                _ => self.history.note("stale", ""),
            }
            let shown = known(node.as_ref());
            // What it was at that zxid, and what it became since.
            let later = timeline.partition_point(|(zxid, _)| *zxid <= self.since);
            let then = later.checked_sub(1).and_then(|at| timeline[at].1);
            let mut then = std::iter::once((self.since, then)).chain(timeline[later..].to_vec());
            let Some((zxid, _)) = then.find(|(_, known)| *known == shown) else {
                return Err(format!("{node:?} after {}: {timeline:?}", self.since));
            };
            self.since = zxid;
        }
        Ok(())
    }

    /// Waits for what is on its way. If the value is current then, it is the server's.
    async fn is_right_if_current(&mut self) -> Result<(), String> {
        sleep(SOON).await;
        let (now, there) = (self.now(), self.there().await);
        self.history.note("waited", "");
        match now.freshness == Freshness::Current && !is_same(now.node.as_ref(), there.as_ref()) {
            true => Err(format!("{now:?} is current, and there is {there:?}")),
            false => Ok(()),
        }
    }

    /// Cuts the client off, so that nothing is current.
    async fn is_cut_off(&mut self) -> Result<(), String> {
        let Some(session) = self.history.followers().await else {
            return Ok(());
        };
        self.history.refused.store(true, Ordering::Relaxed);
        self.history.server.disconnect(session);
        let mut result = Ok(());
        for most in [1, 20_000] {
            sleep(Duration::from_millis(1) + self.history.random.millis(0..most)).await;
            if self.now().freshness == Freshness::Current {
                result = Err(format!("{:?} while cut off", self.now()));
            }
        }
        self.history.refused.store(false, Ordering::Relaxed);
        result
    }

    /// What the server has.
    async fn there(&self) -> Option<Node> {
        self.history.writer.get_data(ROOT).await.ok()
    }

    /// Waits until the value is the server's.
    async fn equals_the_server(&mut self) -> Result<(), String> {
        let there = self.there().await;
        let equals = |now: &Cached| {
            let is_current = now.freshness == Freshness::Current && now.error.is_none();
            is_current && is_same(now.node.as_ref(), there.as_ref())
        };
        let Some(values) = &mut self.values else {
            return Ok(());
        };
        let reached = timeout(5 * TIMEOUT, values.wait_for(equals)).await;
        match reached.is_ok_and(|reached| reached.is_ok()) {
            true => Ok(()),
            false => Err(format!("{:?} never becomes {there:?}", self.now())),
        }
    }

    /// Ends it in one of three ways, after which nothing is current and no watch is left.
    async fn stop(&mut self) -> Result<(), String> {
        self.history.note("stopped", "");
        let way = self.history.random.within(0..3);
        match way {
            0 => self.history.keeper.close().await,
            1 => self.following.abort(),
            _ => {
                self.telling.abort();
                self.values = None;
            }
        }
        let ended = timeout(TIMEOUT, &mut self.following).await;
        let ended = ended.map_err(|_| format!("it goes on in way {way}"))?;
        let is_right = match (way, &ended) {
            (0, Ok(Err(_))) | (2, Ok(Ok(()))) => true,
            (1, Err(aborted)) => aborted.is_cancelled(),
            _ => false,
        };
        if !is_right {
            return Err(format!("it ends with {ended:?} in way {way}"));
        }
        if way < 2 && self.now().freshness != Freshness::Stale {
            return Err(format!("{:?} at the end", self.now()));
        }
        sleep(SOON).await;
        match self.history.server.watch_count() {
            0 => self.history.keeper.close().await,
            watches => return Err(format!("{watches} watches are left in way {way}")),
        }
        Ok(())
    }
}

fn known(node: Option<&Node>) -> Known {
    node.map(|node| (node.stat.czxid, node.stat.mzxid))
}

fn is_same(one: Option<&Node>, other: Option<&Node>) -> bool {
    known(one) == known(other) && one.map(|node| &node.data) == other.map(|node| &node.data)
}
