//! The processes: each acquires the lock, holds it for a while and releases it, again and again.
//! When its session is over, or it has handed over its lock, it starts again.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_client::{Acl, Client, CreateOptions, Id, Perms, SessionIdentity};
use zk_recipes::{Error, ErrorKind, Guard, Lock, LockState, LockTicket, Options};

use super::nemesis;
use super::world::{LEADER, ServerId, World, name};
use super::{FORBIDDEN, READ_ONLY};
use crate::clock::{self, now};
use crate::gate::Gate;
use crate::journal::{COUNTER, FOLDER};
use crate::link::Party;
use crate::process::Phase;
use crate::task::spawn;
use crate::wire::Dialer;
use zk_inputs::Random;

/// How long processes take to resume the lock that another one has handed over.
pub(super) const HEIRS_WITHIN: Duration = Duration::from_millis(50);

/// The state that all processes share.
pub(super) struct Trial {
    pub(super) world: Arc<Mutex<World>>,
    /// The servers that clients connect to.
    pub(super) servers: Range<ServerId>,
    /// The session timeout that all clients ask for.
    pub(super) timeout: Duration,
}

impl Trial {
    pub(super) fn phase(&self) -> Phase {
        self.world.lock().unwrap().phase
    }

    /// Draws a follower.
    pub(super) fn follower(&self, random: &mut Random) -> ServerId {
        random.within(1..self.servers.end as u64) as ServerId
    }
}

/// Runs a process with all its lives.
pub(super) async fn live(trial: Arc<Trial>, process: usize, mut random: Random) {
    while trial.phase() != Phase::Over {
        let mut life = Life::begin(&trial, process, None, random.fork());
        let gate = Arc::clone(&life.gate);
        if random.percent(30) {
            spawn(gate.guard(ask_in_vain(Arc::clone(&trial), life.client.clone())));
        }
        let work = spawn(gate.guard(async move { life.run().await }));
        if let Some(Some(ticket)) = work.await.unwrap() {
            // The process is restarted, perhaps by mistake twice.
            let heirs = if random.percent(50) { 2 } else { 1 };
            if heirs == 2 {
                nemesis::delay_a_follower(&trial, random.fork());
            }
            for _ in 0..heirs {
                let processes = &mut trial.world.lock().unwrap().processes;
                let process = std::mem::replace(processes, *processes + 1);
                spawn(inherit(Arc::clone(&trial), process, ticket.clone(), random.fork()));
            }
        }
    }
}

/// Runs a process that resumes the lock of another one, and ends with it.
async fn inherit(trial: Arc<Trial>, process: usize, ticket: String, mut random: Random) {
    let ticket: LockTicket = ticket.parse().unwrap();
    let mut life = Life::begin(&trial, process, Some(ticket.session()), random.fork());
    let gate = Arc::clone(&life.gate);
    gate.guard(async move {
        tokio::time::sleep(random.time(HEIRS_WITHIN)).await;
        life.resume(&ticket).await;
    })
    .await;
    trial.world.lock().unwrap().gates.remove(&process);
}

/// An application that goes on sending requests that are forbidden.
async fn ask_in_vain(trial: Arc<Trial>, client: Client) {
    while client.state().ended().is_none() && trial.phase() != Phase::Over {
        drop(client.create(FORBIDDEN, b"", &CreateOptions::persistent()).await);
        tokio::time::sleep(trial.timeout / 8).await;
    }
}

/// One life of a process.
struct Life {
    trial: Arc<Trial>,
    process: usize,
    gate: Arc<Gate>,
    client: Client,
    random: Random,
}

impl Life {
    fn begin(
        trial: &Arc<Trial>,
        process: usize,
        session: Option<SessionIdentity>,
        mut random: Random,
    ) -> Self {
        let (gate, trial) = (Gate::new(), Arc::clone(trial));
        trial.world.lock().unwrap().gates.insert(process, Arc::clone(&gate));
        let party = Party::Process(process);
        let (client, driver) = connect(&trial, party, trial.servers.clone(), session, &mut random);
        spawn(gate.guard(driver));
        Self { trial, process, gate, client, random }
    }

    /// Acquires the lock again and again. Returns a ticket if the process has handed over its lock.
    async fn run(&mut self) -> Option<String> {
        let timeout = self.trial.timeout;
        while self.client.state().ended().is_none() && self.trial.phase() != Phase::Over {
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
            if self.trial.phase() == Phase::Storm && self.random.percent(25) {
                if let Ok(ticket) = guard.into_ticket() {
                    self.trial.world.lock().unwrap().journal.count("tickets");
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
                    self.trial.world.lock().unwrap().journal.count("tickets resumed");
                    let guard = self.hold(guard).await;
                    drop(guard.release().await);
                    self.client.close().await;
                }
                Err(error) if error.kind() == ErrorKind::TicketUsed => {
                    self.trial.world.lock().unwrap().journal.count("tickets refused");
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
        let journal = &mut self.trial.world.lock().unwrap().journal;
        let what = format!("process {} fails: {error}", self.process);
        journal.note(|| what.clone());
        match error.kind() {
            ErrorKind::Client | ErrorKind::Lost | ErrorKind::NodeVanished => {
                journal.count("acquires that failed");
            }
            _ => journal.violate(what),
        }
    }

    /// Holds the lock for a while, with or without work.
    async fn hold(&mut self, guard: Guard) -> Guard {
        let Self { trial, process, random, .. } = self;
        let guard = Arc::new(guard);
        let timeout = trial.timeout;
        let mut time = random.time(timeout / 8);
        match trial.phase() {
            Phase::Storm => time = random.time(timeout * 4),
            _ => drop(trial.world.lock().unwrap().served.insert(*process)),
        }
        let until = now() + time;
        trial.world.lock().unwrap().enters(*process, &guard);
        let is_busy = random.percent(50);
        while now() < until && !matches!(guard.state(), LockState::Lost(_)) {
            let pause = random.time(if is_busy { timeout / 5 } else { timeout });
            tokio::time::sleep(pause.min(until - now())).await;
            if random.percent(10) {
                drop(guard.verify().await);
            } else if is_busy {
                // Sent without waiting for the reply.
                drop(self.client.set_data(COUNTER, b"", None));
            }
        }
        trial.world.lock().unwrap().leaves(*process, &guard);
        Arc::into_inner(guard).unwrap()
    }
}

/// A client that connects to some of the servers, with the task that drives it.
fn connect(
    trial: &Trial,
    party: Party,
    servers: Range<ServerId>,
    session: Option<SessionIdentity>,
    random: &mut Random,
) -> (Client, impl Future<Output = ()> + Send + use<>) {
    let names: Vec<_> = servers.map(name).collect();
    let mut builder = clock::client()
        .seed(random.next())
        .session_timeout(trial.timeout)
        .connector(Dialer { network: Arc::clone(&trial.world), party });
    if let Some(session) = session {
        builder = builder.session(session);
    }
    builder.split(&names.join(",")).unwrap()
}

/// Creates the initial nodes.
pub(super) async fn prepare(trial: &Trial, random: &mut Random) -> Result<(), zk_client::Error> {
    let leader = LEADER..LEADER + 1;
    let (client, driver) = connect(trial, Party::Operator, leader, None, random);
    let driver = spawn(driver);
    client.create(COUNTER, b"", &CreateOptions::persistent()).await?;
    let read_only = [Acl::new(Perms::READ, Id::ANYONE)];
    let options = CreateOptions::persistent().with_acl(&read_only);
    client.create(READ_ONLY, b"", &options).await?;
    client.close().await;
    drop(driver.await);
    Ok(())
}
