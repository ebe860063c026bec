//! The work of a process that keeps nodes in memory: it writes below the folder, and follows what
//! becomes of that, in one session after another.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_client::{Client, ClientBuilder, CreateOptions, Op, SessionKeeper, Zxid};
use zk_recipes::{Cached, Error, TreeCache, TreeLimits};

use super::gate::Gate;
use super::journal::FOLDER;
use super::judge::{self, LockRequest};
use super::process::{Phase, Trial, Who};
use super::shown::{Followed, VALUE, until};
use super::work::unless_given_up;
use super::{Family, SESSION};
use crate::task::spawn;
use zk_inputs::Random;

/// A folder for one node that moves. It is made together with the node, so that there is never a
/// second one.
const ROOM: &str = "/locks/simulated/room";

/// How many nodes there are at most with faults of a script: the folder, one node in it, the room
/// and the node that moves.
const FEW: usize = 4;

/// How long what is kept may take to follow a connection that is lost.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Makes the first nodes, before processes begin.
pub(super) async fn prepare(operator: &Client) -> Result<(), zk_client::Error> {
    let options = CreateOptions::persistent();
    drop(operator.create_all(VALUE, b"", &options.container_parents()).await?);
    let node = format!("{ROOM}/0");
    let room = (Op::create(ROOM, b"", &options), Op::create(&node, b"", &options));
    operator.multi(room).await.map(drop)
}

/// A process that follows.
struct Follower {
    trial: Arc<Trial>,
    who: Who,
    keeper: SessionKeeper,
    followed: Followed,
    random: Random,
}

/// What keeps it up to date.
type Following = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// Runs such a process for one life.
pub(super) async fn live(
    trial: &Arc<Trial>,
    who: Who,
    family: Family,
    builder: ClientBuilder,
    gate: &Arc<Gate>,
    random: Random,
) {
    let (keeper, keeping) = builder.keep_split("zk:2181").unwrap();
    let keeping = spawn(gate.guard(keeping));
    let trial = Arc::clone(trial);
    let (followed, following): (_, Following) = match family {
        Family::Cached => {
            let (values, following) = Cached::follow(&keeper, VALUE).unwrap();
            (Followed::Value { values, since: Mutex::default() }, Box::pin(following))
        }
        _ => {
            let mut limits = TreeLimits::default();
            if trial.is_planned {
                limits.max_nodes = FEW;
            }
            let (tree, following) = TreeCache::follow(&keeper, FOLDER, limits).unwrap();
            (Followed::Tree { tree, last: Mutex::default() }, Box::pin(following))
        }
    };
    let follower = Follower { trial, who, keeper, followed, random };
    spawn(gate.guard(follower.live(following))).await.unwrap();
    keeping.await.unwrap();
}

impl Follower {
    async fn live(mut self, mut following: Following) {
        let random = self.random.fork();
        let check =
            || self.followed.check(&self.trial, self.who).unwrap_or_else(|it| self.violate(it));
        tokio::select! {
            biased;
            ended = &mut following => self.violate(format!("it ends: {ended:?}")),
            () = self.followed.at_each_change(check) => {}
            () = self.work(random) => {}
        }
        let (trial, who) = (Arc::clone(&self.trial), self.who);
        if let Err(what) = self.stop(following).await {
            trial.violate(format!("{who}: {what}"));
        }
        trial.progress.lock().unwrap().idle.insert(who.name);
        trial.until(Phase::Over).await;
    }

    /// Ends it in one of three ways, after which nothing is current and no watch is left.
    async fn stop(mut self, following: Following) -> Result<(), String> {
        self.trial.count("stopped");
        match self.random.within(0..3) {
            0 => drop(following),
            1 => {
                self.keeper.close().await;
                let ended = timeout(SESSION, following).await;
                if !matches!(ended, Ok(Err(_))) {
                    return Err(format!("it ends with {ended:?} when its keeper is closed"));
                }
            }
            _ => {
                drop(self.followed);
                return match timeout(SESSION, following).await {
                    Ok(Ok(())) => Ok(()),
                    ended => Err(format!("it ends with {ended:?} when nobody reads it")),
                };
            }
        }
        if self.followed.is_current() {
            return Err(format!("it is current at its end: {:?}", self.followed));
        }
        Ok(())
    }

    fn violate(&self, what: String) {
        self.trial.violate(format!("{}: {what}", self.who));
    }

    /// Writes and waits until that is shown, as long as somebody wants something. In the end, what
    /// is shown is what there is.
    async fn work(&self, mut random: Random) {
        let mut turns = 0;
        while self.trial.phase() < Phase::Idle {
            let is_over = self.trial.until(Phase::Idle);
            if turns >= self.trial.turns() {
                is_over.await;
                break;
            }
            tokio::select! {
                biased;
                () = is_over => {}
                is_served = self.turn(&mut random) => {
                    turns += u32::from(is_served && self.trial.phase() == Phase::Calm);
                }
            }
        }
        // A process that stood still may learn only now that its connection has fallen silent.
        let shows_all = until(|| self.followed.equals_the_server(&self.trial));
        if timeout(2 * SESSION, shows_all).await.is_err() {
            self.violate(format!("{:?} never shows what there is", self.followed));
        }
    }

    /// Writes once, and waits until that is shown. False if something has come in between.
    async fn turn(&self, random: &mut Random) -> bool {
        sleep(random.millis(0..60)).await;
        let Ok(client) = self.keeper.client().await else {
            return false;
        };
        self.is_outdated_while_cut_off(&client).await;
        let is_done = self.write(&client, random).await;
        // Its reply comes after all others.
        drop(client.exists(FOLDER).await);
        let zxid = client.last_zxid();
        let (trial, who) = (&self.trial, self.who);
        let request = LockRequest::of(who);
        match unless_given_up(trial, who, u64::MAX, self.shows(zxid)).await {
            Some(Ok(())) => {
                if is_done {
                    trial.serves(who.name);
                }
                trial.count("grants");
                trial.note(|| format!("{who} SEES {zxid}"));
                is_done
            }
            Some(Err(error)) => {
                judge::failed(trial, &request, &error);
                // After some refusals in a row, all is read again once in a session timeout.
                sleep(client.session_timeout()).await;
                false
            }
            None => {
                trial.count("acquires cancelled");
                false
            }
        }
    }

    /// Waits until everything up to a transaction is shown.
    async fn shows(&self, zxid: Zxid) -> Result<(), Error> {
        match &self.followed {
            Followed::Tree { tree, .. } => {
                tree.wait_for_zxid(zxid).await?;
                if tree.status().borrow().zxid < zxid {
                    self.violate(format!("{tree:?} before {zxid}"));
                }
            }
            Followed::Value { .. } => until(|| self.followed.shows_value(&self.trial, zxid)).await,
        }
        Ok(())
    }

    /// While the client is cut off, nothing is current.
    async fn is_outdated_while_cut_off(&self, client: &Client) {
        let is_cut_off = || !client.state().is_connected();
        if is_cut_off() {
            sleep(AT_ONCE).await;
            if is_cut_off() && self.followed.is_current() {
                self.violate(format!("{:?} is current while cut off", self.followed));
            }
            self.trial.count("cut off");
        }
    }

    /// Moves the node in the room, or makes both. True if that is done.
    async fn move_node(&self, client: &Client, random: &mut Random) -> bool {
        let options = CreateOptions::persistent();
        let (from, to) = if random.percent(50) { (0, 1) } else { (1, 0) };
        let [here, there] = [from, to].map(|place| format!("{ROOM}/{place}"));
        let node = Op::create(&there, b"", &options);
        let moved = match random.percent(33) {
            true => client.multi((Op::create(ROOM, b"", &options), node)).await.map(drop),
            false => client.multi((Op::delete(&here, None), node)).await.map(drop),
        };
        let who = self.who;
        self.trial.note(|| format!("{who}: a node moves to {to}: {moved:?}"));
        if moved.is_ok() {
            self.trial.count("moved");
        }
        moved.is_ok()
    }

    /// Changes a node. True if that is done, as far as is known.
    async fn write(&self, client: &Client, random: &mut Random) -> bool {
        let path = match self.followed {
            Followed::Value { .. } => VALUE.to_owned(),
            _ if self.trial.is_planned && random.percent(50) => {
                return self.move_node(client, random).await;
            }
            _ if self.trial.is_planned => VALUE.to_owned(),
            _ => (0..random.within(0..4))
                .fold(FOLDER.to_owned(), |path, _| format!("{path}/{}", random.within(0..4))),
        };
        let data = random.next().to_string();
        let data = data.as_bytes();
        let options = CreateOptions::persistent().container_parents();
        let (what, done) = match random.within(0..14) {
            0..4 => ("created", client.create_all(&path, data, &options).await.map(drop)),
            4..6 => ("set", client.set_data(&path, data, None).await.map(drop)),
            6..8 => ("deleted", client.delete(&path, None).await),
            8 => ("deleted with all below", client.delete_all(&path).await.map(drop)),
            9 => {
                // In its place, with nothing below it.
                let anew = Op::create(&path, data, &CreateOptions::persistent());
                let multi = client.multi((Op::delete(&path, None), anew));
                ("made anew", multi.await.map(drop))
            }
            10..12 => {
                let options = CreateOptions::ephemeral();
                ("created for a session", client.create(&path, data, &options).await.map(drop))
            }
            _ => {
                // Nobody waits for the reply, so this is on its way with what comes next.
                drop(client.set_data(&path, data, None));
                for _ in 0..random.within(0..8) {
                    tokio::task::yield_now().await;
                }
                ("set without waiting", Ok(()))
            }
        };
        let who = self.who;
        self.trial.note(|| format!("{who}: {what} {path}: {done:?}"));
        if done.is_ok() {
            self.trial.count(what);
        }
        done.is_ok()
    }
}
