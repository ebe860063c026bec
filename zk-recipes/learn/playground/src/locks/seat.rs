//! What a program has of its contender: a client, a name, and a way to tell what it believes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zk_client::{Client, Zxid};

use crate::kind::Kind;
use crate::naive::no_fence;
use crate::scene::{LockState, Tone};
use crate::script::Mode;
use crate::world::{self, Shared};

/// The balance at the begin, for those who withdraw from it.
const BALANCE: u32 = 100;

/// A contender, as its program sees it. Clones are one contender.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) kind: Kind,
    pub(crate) client: Client,
    pub(crate) name: Rc<str>,
    pub(crate) index: usize,
    pub(crate) mode: Mode,
    pub(crate) world: Shared,
    pub(crate) stores: Rc<Stores>,
    /// Its node, for those who can leave the queue while they wait.
    pub(crate) node: Rc<RefCell<Option<String>>>,
}

/// The stores elsewhere, which all contenders share.
pub(crate) struct Stores {
    pub(crate) open: no_fence::broken::Store,
    pub(crate) fenced: no_fence::repaired::Store,
    /// How much was paid out.
    paid: Cell<u32>,
    /// When a withdrawal was overwritten first.
    wrong_since_us: Cell<Option<u64>>,
}

impl Stores {
    pub(crate) fn new() -> Rc<Self> {
        let balance = || Cell::new(BALANCE);
        Rc::new(Self {
            open: no_fence::broken::Store { balance: balance() },
            fenced: no_fence::repaired::Store { balance: balance(), greatest: Cell::new(Zxid(0)) },
            paid: Cell::new(0),
            wrong_since_us: Cell::new(None),
        })
    }

    /// The balance of the store that is used. Nothing is missing in the other one.
    pub(crate) fn balance(&self) -> u32 {
        self.open.balance.get().min(self.fenced.balance.get())
    }

    /// Counts a withdrawal that was written.
    pub(crate) fn pay(&self, amount: u32, at_us: u64) {
        self.paid.set(self.paid.get() + amount);
        if self.balance() + self.paid.get() != BALANCE && self.wrong_since_us.get().is_none() {
            self.wrong_since_us.set(Some(at_us));
        }
    }

    /// When a withdrawal was overwritten first, and what has come of it.
    pub(crate) fn harm(&self) -> Option<(u64, String)> {
        let (paid, balance) = (self.paid.get(), self.balance());
        let text = format!(
            "Broken: {paid} were paid out of {BALANCE}, and the balance is {balance}. A \
             withdrawal was overwritten."
        );
        self.wrong_since_us.get().map(|at_us| (at_us, text))
    }
}

impl Seat {
    pub(crate) fn note(&self, tone: Tone, text: impl Into<String>) {
        world::lock(&self.world).note(&self.name, tone, text);
    }

    /// Notes what the contender believes from now on, and then changes it.
    pub(crate) fn believe(&self, lock: LockState, tone: Tone, text: impl Into<String>) {
        let mut world = world::lock(&self.world);
        world.note(&self.name, tone, text);
        if let Some(actor) = world.actors.get_mut(self.index) {
            match lock {
                LockState::Held | LockState::Maybe => actor.lock = lock,
                _ => actor.let_go(lock),
            }
        }
    }

    /// The contender wants the lock from now on.
    pub(crate) fn expect(&self) {
        if let Some(actor) = world::lock(&self.world).actors.get_mut(self.index) {
            actor.let_go(LockState::Joining);
        }
    }

    /// What the contender believes.
    pub(crate) fn belief(&self) -> LockState {
        let world = world::lock(&self.world);
        world.actors.get(self.index).map_or(LockState::Idle, |actor| actor.lock)
    }

    /// True if the lock is its own, whatever it believes.
    pub(crate) fn is_owner(&self) -> bool {
        let clients = world::lock(&self.world).moment().clients;
        clients.get(self.index).is_some_and(|client| client.owns)
    }

    /// True if somebody else believes to hold the lock.
    pub(crate) fn is_held_by_another(&self) -> bool {
        let world = world::lock(&self.world);
        let mut others = world.actors.iter().enumerate().filter(|(index, _)| *index != self.index);
        others.any(|(_, actor)| matches!(actor.lock, LockState::Held | LockState::Maybe))
    }
}
