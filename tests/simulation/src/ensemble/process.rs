//! The processes: each acquires the lock, holds it for a while and releases it, again and again.
//! When its session is over, or it has handed over its lock, it starts again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_client::{Acl, Client, CreateOptions, SessionIdentity};
use zk_recipes::{Error, ErrorKind, Guard, Lock, LockState, LockTicket, Options};

use super::message::{LEADER, ServerId};
use super::nemesis;
use super::world::{World, name};
use super::{COUNTER, FORBIDDEN};
use crate::clock::now;
use crate::gate::Gate;
use crate::journal::FOLDER;
use crate::link::Party;
use crate::process::Phase;
use crate::wire::Dialer;
use zk_inputs::Random;

/// How long processes take to resume the lock that another one has handed over.
pub(super) const HEIRS_WITHIN: Duration = Duration::from_millis(50);

/// The state that all processes share.
pub(super) struct Stage {
    pub(super) world: Arc<Mutex<World>>,
    /// The servers that clients connect to.
    pub(super) servers: Range<ServerId>,
    /// The session timeout that all clients ask for.
    pub(super) timeout: Duration,
    pub(super) cast: Mutex<Cast>,
}

pub(super) struct Cast {
    pub(super) phase: Phase,
    /// The gate of each process in its current life.
    pub(super) gates: BTreeMap<usize, Arc<Gate>>,
    /// How often each process got the lock in the calm.
    pub(super) served: BTreeMap<usize, u32>,
    /// How many processes there ever were.
    pub(super) processes: usize,
}

impl Stage {
    pub(super) fn phase(&self) -> Phase {
        self.cast.lock().unwrap().phase
    }

    pub(super) fn count(&self, what: &'static str) {
        self.world.lock().unwrap().journal.count(what);
    }
}

/// Runs a process with all its lives.
pub(super) async fn live(stage: Arc<Stage>, process: usize, mut random: Random) {
    while stage.phase() != Phase::Over {
        let mut life = Life::begin(&stage, process, None, random.fork());
        let gate = Arc::clone(&life.gate);
        if random.percent(30) {
            tokio::spawn(gate.guard(ask_in_vain(Arc::clone(&stage), life.client.clone())));
        }
        let work = tokio::spawn(gate.guard(async move { life.run().await }));
        if let Some(Some(ticket)) = work.await.unwrap() {
            // The process is restarted, perhaps by mistake twice.
            let heirs = if random.percent(50) { 2 } else { 1 };
            if heirs == 2 {
                nemesis::delay_a_follower(&stage, random.fork());
            }
            for _ in 0..heirs {
                let process = {
                    let mut cast = stage.cast.lock().unwrap();
                    cast.processes += 1;
                    cast.processes - 1
                };
                tokio::spawn(inherit(Arc::clone(&stage), process, ticket.clone(), random.fork()));
            }
        }
    }
}

/// Runs a process that resumes the lock of another one, and ends with it.
async fn inherit(stage: Arc<Stage>, process: usize, ticket: String, mut random: Random) {
    let ticket: LockTicket = ticket.parse().unwrap();
    let mut life = Life::begin(&stage, process, Some(ticket.session()), random.fork());
    let gate = Arc::clone(&life.gate);
    let work = gate.guard(async move {
        tokio::time::sleep(random.time(HEIRS_WITHIN)).await;
        life.resume(&ticket).await
    });
    work.await;
    stage.cast.lock().unwrap().gates.remove(&process);
}

/// An application that goes on sending requests that are forbidden.
async fn ask_in_vain(stage: Arc<Stage>, client: Client) {
    let path = format!("{FORBIDDEN}/node");
    while client.state().ended().is_none() && stage.phase() != Phase::Over {
        drop(client.create(&path, b"", &CreateOptions::persistent()).await);
        tokio::time::sleep(stage.timeout / 8).await;
    }
}

/// One life of a process.
struct Life {
    stage: Arc<Stage>,
    process: usize,
    gate: Arc<Gate>,
    client: Client,
    random: Random,
}

impl Life {
    fn begin(
        stage: &Arc<Stage>,
        process: usize,
        session: Option<SessionIdentity>,
        mut random: Random,
    ) -> Self {
        let (gate, stage) = (Gate::new(), Arc::clone(stage));
        stage.cast.lock().unwrap().gates.insert(process, Arc::clone(&gate));
        let party = Party::Process(process);
        let (client, driver) = connect(&stage, party, stage.servers.clone(), session, &mut random);
        tokio::spawn(gate.guard(driver));
        Self { stage, process, gate, client, random }
    }

    /// Acquires the lock again and again. Returns a ticket if the process has handed over its lock.
    async fn run(&mut self) -> Option<String> {
        let timeout = self.stage.timeout;
        while self.client.state().ended().is_none() && self.stage.phase() != Phase::Over {
            tokio::time::sleep(self.random.time(timeout / 2)).await;
            let mut options = Options::new();
            if self.random.percent(10) {
                options = options.max_hold(self.random.time(timeout * 2));
            }
            let lock = Lock::with_options(&self.client, FOLDER, options).unwrap();
            let guard = match lock.acquire().await {
                Ok(guard) => self.hold(guard).await,
                Err(error) => {
                    self.fails(&error);
                    continue;
                }
            };
            if self.stage.phase() == Phase::Storm && self.random.percent(25) {
                if let Ok(ticket) = guard.into_ticket() {
                    self.stage.count("tickets");
                    self.client.detach().await;
                    return Some(ticket.to_secret());
                }
            } else if self.random.percent(50) {
                drop(guard.release().await);
            }
        }
        None
    }

    /// Resumes a lock that another process has handed over.
    async fn resume(&mut self, ticket: &LockTicket) {
        let lock = Lock::new(&self.client, FOLDER).unwrap();
        while self.client.state().ended().is_none() {
            match lock.resume(ticket).await {
                Ok(guard) => {
                    self.stage.count("tickets resumed");
                    let guard = self.hold(guard).await;
                    drop(guard.release().await);
                    self.client.close().await;
                }
                Err(error) if error.kind() == ErrorKind::TicketUsed => {
                    self.stage.count("tickets refused");
                    // The session is now another process's.
                    self.client.detach().await;
                }
                Err(error) if error.kind() == ErrorKind::Lost => {
                    self.client.detach().await;
                }
                Err(error) => {
                    self.fails(&error);
                    tokio::time::sleep(self.random.millis(1..50)).await;
                }
            }
        }
    }

    /// Counts the error of an acquire: the faults allow only few kinds.
    fn fails(&self, error: &Error) {
        let mut world = self.stage.world.lock().unwrap();
        world.journal.note(|| format!("process {} fails: {error}", self.process));
        match error.kind() {
            ErrorKind::Client | ErrorKind::Lost | ErrorKind::NodeVanished => {
                world.journal.count("acquires that failed");
            }
            _ => world.journal.violate(format!("process {} fails: {error}", self.process)),
        }
    }

    /// Holds the lock for a while, with or without work.
    async fn hold(&mut self, guard: Guard) -> Guard {
        let Self { stage, process, random, .. } = self;
        let guard = Arc::new(guard);
        let timeout = stage.timeout;
        let mut time = random.time(timeout / 8);
        match stage.phase() {
            Phase::Storm => time = random.time(timeout * 4),
            _ => *stage.cast.lock().unwrap().served.entry(*process).or_default() += 1,
        }
        let until = now() + time;
        let id = stage.world.lock().unwrap().enters(*process, &guard);
        let is_busy = random.percent(50);
        while now() < until && !matches!(guard.state(), LockState::Lost(_)) {
            let pause = match is_busy {
                true => random.time(timeout / 5),
                false => random.time(timeout),
            };
            tokio::time::sleep(pause.min(until - now())).await;
            if random.percent(10) {
                drop(guard.verify().await);
            } else if is_busy {
                // Sent without waiting for the reply.
                drop(self.client.set_data(COUNTER, b"", None));
            }
        }
        stage.world.lock().unwrap().leaves(id);
        Arc::into_inner(guard).unwrap()
    }
}

/// A client that connects to some of the servers, with the task that drives it.
fn connect(
    stage: &Stage,
    party: Party,
    servers: Range<ServerId>,
    session: Option<SessionIdentity>,
    random: &mut Random,
) -> (Client, impl Future<Output = ()> + Send + use<>) {
    let names: Vec<_> = servers.map(name).collect();
    let mut builder = Client::builder()
        .seed(random.next())
        .session_timeout(stage.timeout)
        .connector(Dialer { network: Arc::clone(&stage.world), party });
    if let Some(session) = session {
        builder = builder.session(session);
    }
    builder.split(&names.join(",")).unwrap()
}

/// Creates the initial nodes.
pub(super) async fn prepare(stage: &Stage, random: &mut Random) -> Result<(), zk_client::Error> {
    let leader = LEADER..LEADER + 1;
    let (client, driver) = connect(stage, Party::Operator, leader, None, random);
    let driver = tokio::spawn(driver);
    client.create(COUNTER, b"", &CreateOptions::persistent()).await?;
    let read_only = [Acl::new(zk_client::Perms::READ, zk_client::Id::ANYONE)];
    let options = CreateOptions::persistent().with_acl(&read_only);
    client.create(FORBIDDEN, b"", &options).await?;
    client.close().await;
    drop(driver.await);
    Ok(())
}
