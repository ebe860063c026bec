//! The lock on an ensemble: a guard's state must be true although its client sees only one server,
//! which may have lost the others.
//!
//! The servers are those of `zk_embedded::EnsembleCore`, which has everything that decides how long
//! a session lives:
//!
//! * Only the leader expires sessions, at the tick that follows one session timeout after the last
//!   touch that it knows of.
//! * A follower records the sessions that it sees, and reports them to the leader every half tick.
//!   Cut off from the leader it continues to answer pings and reads for `syncLimit` ticks.
//! * Writes go through the leader, which puts them in one order. Every server carries them out in
//!   this order, some later than others.
//! * A follower may refuse by itself a write that its own copy of an access list forbids.
//! * A client that moves to another server takes its session with it: writes through the old server
//!   are refused from then on.
//!
//! Connections of clients and between servers stall without breaking, break, or fall silent. The
//! leader stays, and always has a quorum.

mod world;

mod judge;

mod process;

mod nemesis;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::nemesis::Nemesis;
use self::process::Trial;
use self::world::{LEADER, World};
use super::clock::now;
use super::journal::FOLDER;
use super::process::Phase;
use super::wire;
use super::{Outcome, in_virtual_time};
use crate::task::spawn;
use zk_inputs::Random;

/// A node below which no client may create anything, and one that clients try to create there.
const READ_ONLY: &str = "/forbidden";
const FORBIDDEN: &str = "/forbidden/node";

const TICK: Duration = Duration::from_millis(100);

/// How long it may take in the calm until every process has got the lock.
const CALM: Duration = Duration::from_secs(60);

/// Runs one seed.
pub(super) fn run(seed: u64, traced: bool) -> Outcome {
    let world = in_virtual_time(async {
        let mut random = Random::new(seed);
        let world = Arc::new(Mutex::new(World::new(traced, &mut random)));
        spawn(wire::pump(Arc::clone(&world)));
        if let Err(violation) = simulate(Arc::clone(&world), &mut random).await {
            world.lock().unwrap().journal.violate(violation);
        }
        world
    });
    Outcome::of(world.journal)
}

async fn simulate(world: Arc<Mutex<World>>, random: &mut Random) -> Result<(), String> {
    let timeout = TICK * random.within(4..21) as u32;
    let processes = random.within(2..5) as usize;
    world.lock().unwrap().processes = processes;
    let servers = world.lock().unwrap().servers;
    // In many ensembles no client connects to the leader.
    let first = if random.percent(60) { LEADER + 1 } else { LEADER };
    let trial = Arc::new(Trial { world, servers: first..servers, timeout });
    let sound = || trial.world.lock().unwrap().journal.sound();
    process::prepare(&trial, random).await.map_err(|error| error.to_string())?;
    for process in 0..processes {
        spawn(process::live(Arc::clone(&trial), process, random.fork()));
    }

    let mut nemesis = Nemesis::new(Arc::clone(&trial), random.fork());
    let storm = now() + timeout * random.within(10..30) as u32;
    let pace = timeout / 4 + random.time(timeout * 2);
    while now() < storm {
        tokio::time::sleep(random.time(pace)).await;
        nemesis.strike();
        sound()?;
    }

    nemesis.rest();
    trial.world.lock().unwrap().phase = Phase::Calm;
    let calm = now() + CALM;
    let late = || (0..processes).find(|it| !trial.world.lock().unwrap().served.contains(it));
    sound()?;
    while let Some(process) = late() {
        if now() > calm {
            return Err(format!("process {process} never gets the lock"));
        }
        tokio::time::sleep(timeout / 4).await;
        sound()?;
    }
    trial.world.lock().unwrap().phase = Phase::Over;
    // Long enough that every process releases its lock, and that sessions without a client expire.
    tokio::time::sleep(timeout * 8).await;
    sound()?;
    agree(&trial)
}

/// Checks that all servers have the same tree at the end, and nothing is left behind.
fn agree(trial: &Trial) -> Result<(), String> {
    let world = trial.world.lock().unwrap();
    let servers = (0..world.net.core.members()).filter_map(|id| world.net.core.member(id));
    let all = servers.map(|core| (core.last_zxid(), core.sessions(), core.children(FOLDER)));
    let all = all.collect::<Vec<_>>();
    let (zxid, ..) = &all[0];
    match all.iter().all(|known| *known == (*zxid, Vec::new(), Vec::new())) {
        true => Ok(()),
        false => Err(format!("in the end the servers have {all:?}")),
    }
}
