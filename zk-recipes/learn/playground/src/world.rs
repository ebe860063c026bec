//! The world of a scene: the server, the links of all contenders, and what is known of each.
//!
//! This is what the world consists of. What happens in it is in the files that come after this one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use zk_embedded::{Config, ConnectionId, SessionId};
use zk_inputs::Random;
use zk_simulation::clock::now;
use zk_simulation::net::Net;

use crate::actor::Actor;
use crate::link::Party;
use crate::record::Record;
use crate::scene::LinkState;

/// How often the server removes empty containers. The default of a minute is long for a scene.
const CONTAINER_CHECK: Duration = Duration::from_secs(10);

/// The world, as all share it.
pub(crate) type Shared = Arc<Mutex<World>>;

/// Everything but the processes.
pub(crate) struct World {
    pub(crate) net: Net<Self>,
    pub(crate) record: Record,
    pub(crate) actors: Vec<Actor>,
    /// Notified when the record is full.
    pub(crate) full: Arc<Notify>,
    /// The time that is zero in the scene.
    pub(crate) start: Instant,
    /// The contenders by their sessions, past ones too.
    pub(crate) sessions: BTreeMap<i64, usize>,
    pub(crate) random: Random,
}

/// Locks the world.
pub(crate) fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(actors: Vec<Actor>, random: Random, most_events: usize) -> Self {
        let config = Config::new().container_check_interval(CONTAINER_CHECK);
        Self {
            net: Net::new(config),
            record: Record::new(most_events),
            actors,
            full: Arc::new(Notify::new()),
            start: now(),
            sessions: BTreeMap::new(),
            random,
        }
    }

    /// A moment in the time of the scene.
    pub(crate) fn us(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.start).as_micros() as u64
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.us(now())
    }

    /// The session that a contender has, as far as the server knows.
    pub(crate) fn session(&self, actor: usize) -> Option<SessionId> {
        let process = self.actors.get(actor)?.process;
        let session = self.actors.get(process)?.session?;
        self.net.core.session_deadline(session).map(|_| session)
    }

    pub(crate) fn set_link(&mut self, actor: usize, link: LinkState) {
        if let Some(actor) = self.actors.get_mut(actor) {
            actor.link = link;
        }
    }

    /// The connections of a contender that one of both sides still has.
    pub(crate) fn connections_of(&self, actor: usize) -> Vec<ConnectionId> {
        let links = self.net.links.iter().filter(|(_, link)| link.party == Some(actor));
        links.map(|(id, _)| *id).collect()
    }

    pub(crate) fn is_cut(&self, party: Party) -> bool {
        let actor = party.and_then(|actor| self.actors.get(actor));
        actor.is_some_and(|actor| actor.link == LinkState::Cut)
    }
}
