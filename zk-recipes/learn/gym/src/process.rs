//! A process: a real client, and the program that contends for the lock, turn after turn.
//!
//! Everything of a process is behind one gate, so that it can be stopped and killed as a whole.
//! When its session is over, or it has closed it, it begins anew.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::sleep;
use zk_client::Client;
use zk_simulation::clock;
use zk_simulation::gate::Gate;
use zk_simulation::wire::Dialer;

use crate::contender::{Lock, Result, RwLock, Unwritten, Withdraw};
use crate::plan::{Mode, TIMEOUT};
use crate::record::Break;
use crate::store::{Store, Till};
use crate::world::{self, Shared};

/// How long a process rests after an error, twice as long after the next one, and after a crash.
pub(crate) const REST: Duration = Duration::from_millis(100);

/// So many errors in a row take 25 s, which is longer than anything lasts that goes wrong.
const ERRORS: u32 = 8;

/// How long a process rests after the end of its session.
const REBIRTH: Duration = Duration::from_secs(1);

/// What a process takes from the balance, more for later ones.
const AMOUNT: u32 = 20;

/// A program that contends for the lock.
pub(crate) trait Program: 'static {
    /// Takes one turn. Returns true unless it has to be taken again.
    fn turn<'a>(&'a self, seat: &'a Seat) -> Pin<Box<dyn Future<Output = Result<bool>> + 'a>>;
}

/// Makes the program of a process, by the name of the process.
pub(crate) type Make = Arc<dyn Fn(&str) -> Box<dyn Program> + Send + Sync>;

/// A lock for one.
pub(crate) struct Exclusive<L>(pub(crate) L);

/// A lock for readers and writers.
pub(crate) struct ReadWrite<L>(pub(crate) L);

/// A withdrawal.
pub(crate) struct Teller<L>(pub(crate) L);

/// What a program has of its process.
pub(crate) struct Seat {
    world: Shared,
    index: usize,
    mode: Mode,
    hold: Duration,
    till: Rc<Till>,
    gate: Arc<Gate>,
    client: RefCell<Client>,
}

impl<L: Lock> Program for Exclusive<L> {
    fn turn<'a>(&'a self, seat: &'a Seat) -> Pin<Box<dyn Future<Output = Result<bool>> + 'a>> {
        Box::pin(async move {
            let client = seat.client();
            let Some(held) = seat.waits(self.0.acquire(&client)).await else {
                return Ok(false);
            };
            let held = held?;
            seat.works(self.0.lost(&client, &held)).await;
            seat.begin_anew_if_over().await;
            self.0.release(&seat.client(), held).await?;
            Ok(true)
        })
    }
}

impl<L: RwLock> Program for ReadWrite<L> {
    fn turn<'a>(&'a self, seat: &'a Seat) -> Pin<Box<dyn Future<Output = Result<bool>> + 'a>> {
        Box::pin(async move {
            let client = seat.client();
            let acquired = match seat.mode {
                Mode::Read => seat.waits(self.0.read(&client)).await,
                Mode::Write => seat.waits(self.0.write(&client)).await,
            };
            let Some(held) = acquired else {
                return Ok(false);
            };
            let held = held?;
            seat.works(std::future::pending()).await;
            seat.begin_anew_if_over().await;
            self.0.release(&seat.client(), held).await?;
            Ok(true)
        })
    }
}

impl<L: Withdraw> Program for Teller<L> {
    fn turn<'a>(&'a self, seat: &'a Seat) -> Pin<Box<dyn Future<Output = Result<bool>> + 'a>> {
        Box::pin(async move {
            let (world, index) = (Arc::clone(&seat.world), seat.index);
            let tell = move |text: String, harm: Option<String>| {
                let mut world = world::lock(&world);
                world.note(index, false, text);
                if let Some(harm) = harm {
                    world.violate(Break::LostMoney, vec![index], harm);
                }
            };
            let amount = AMOUNT + 10 * index as u32;
            let store = Store::new(Rc::clone(&seat.till), amount, Box::new(tell));
            self.0.withdraw(&seat.client(), &store, amount).await
        })
    }
}

impl Seat {
    fn client(&self) -> Client {
        self.client.borrow().clone()
    }

    fn note(&self, is_bad: bool, text: impl Into<String>) {
        world::lock(&self.world).note(self.index, is_bad, text);
    }

    fn set_acquiring(&self, is_acquiring: bool) {
        if let Some(actor) = world::lock(&self.world).actors.get_mut(self.index) {
            (actor.is_acquiring, actor.asked) = (is_acquiring, 0);
        }
    }

    /// Waits for the lock, unless that is given up.
    async fn waits<T>(&self, acquire: impl Future<Output = T>) -> Option<T> {
        let given_up = {
            let world = world::lock(&self.world);
            world.actors.get(self.index).map(|actor| Arc::clone(&actor.given_up))
        };
        self.note(false, "wants the lock");
        self.set_acquiring(true);
        let acquired = tokio::select! {
            biased;
            acquired = acquire => Some(acquired),
            () = async { given_up.unwrap_or_default().notified().await } => None,
        };
        self.set_acquiring(false);
        acquired
    }

    /// Holds the lock for a while, or until it is lost.
    async fn works(&self, lost: impl Future<Output = ()>) {
        {
            let mut world = world::lock(&self.world);
            world.note(self.index, false, "holds the lock");
            world.believe(self.index, true);
        }
        let text = tokio::select! {
            biased;
            () = lost => "knows that the lock is lost",
            () = sleep(self.hold) => "is done, and releases the lock",
        };
        let mut world = world::lock(&self.world);
        world.note(self.index, false, text);
        world.believe(self.index, false);
    }

    async fn begin_anew_if_over(&self) {
        if self.client().state().ended().is_some() {
            self.note(true, "knows that its session is over");
            sleep(REBIRTH).await;
            self.connect();
        }
    }

    /// Connects with a new session.
    fn connect(&self) {
        let made = client(&self.world, self.index, &self.gate);
        match made {
            Ok(client) => {
                self.note(false, "connects with a new session");
                *self.client.borrow_mut() = client;
            }
            Err(error) => self.note(true, error.to_string()),
        }
    }
}

/// A new client of a process, whose driver runs behind its gate.
fn client(world: &Shared, index: usize, gate: &Arc<Gate>) -> Result<Client> {
    let seed = {
        let mut world = world::lock(world);
        let seed = world.random.next();
        if let Some(actor) = world.actors.get_mut(index) {
            actor.session = None;
            actor.lives += 1;
        }
        seed
    };
    let dialer = Dialer { network: Arc::clone(world), party: Some(index) };
    let builder = clock::client().seed(seed).session_timeout(TIMEOUT).connector(dialer);
    let (client, driver) = builder.split("zk:2181")?;
    spawn_local(gate.guard(driver));
    Ok(client)
}

/// How a process takes part in a run.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) world: Shared,
    pub(crate) index: usize,
    pub(crate) mode: Mode,
    pub(crate) hold: Duration,
    pub(crate) till: Rc<Till>,
    pub(crate) make: Make,
}

/// Tells the run that a process has ended, by itself or by a panic.
struct End(Shared);

impl Drop for End {
    fn drop(&mut self) {
        world::lock(&self.0).changed.notify_one();
    }
}

impl Part {
    /// Starts the process after a while, or the one that takes its place.
    pub(crate) fn start(self, after: Duration) -> tokio::task::JoinHandle<Option<()>> {
        let gate = Gate::new();
        if let Some(actor) = world::lock(&self.world).actors.get_mut(self.index) {
            actor.gate = Arc::clone(&gate);
            (actor.is_acquiring, actor.believes) = (false, false);
        }
        let (guarded, end) = (Arc::clone(&gate), End(Arc::clone(&self.world)));
        spawn_local(guarded.guard(async move {
            let _end = end;
            sleep(after).await;
            self.live(gate).await;
        }))
    }

    async fn live(self, gate: Arc<Gate>) {
        let Self { world, index, mode, hold, till, make } = self;
        let closing = world::lock(&world).actors.get(index).map(|it| Arc::clone(&it.closing));
        let closing = closing.unwrap_or_default();
        let Ok(client) = client(&world, index, &gate) else {
            return;
        };
        let program = make(world::name(index));
        let world_of_seat = Arc::clone(&world);
        let client = RefCell::new(client);
        let seat = Seat { world: world_of_seat, index, mode, hold, till, gate, client };
        if world::lock(&world).actors.get(index).is_some_and(|actor| actor.lives > 1) {
            seat.note(false, "starts again, with a new session");
        }
        let turns = || world::lock(&world).actors.get(index).map_or(0, |actor| actor.turns_left);
        let mut errors = 0;
        while turns() > 0 {
            let turn = tokio::select! {
                biased;
                () = closing.notified() => None,
                turn = program.turn(&seat) => Some(turn),
            };
            match turn {
                Some(Ok(true)) => {
                    errors = 0;
                    if let Some(actor) = world::lock(&world).actors.get_mut(index) {
                        actor.turns_left = actor.turns_left.saturating_sub(1);
                    }
                }
                Some(Ok(false)) => sleep(REST).await,
                Some(Err(error)) => {
                    errors += 1;
                    seat.fails(&error.to_string(), error.is::<Unwritten>(), errors);
                    sleep(REST * (1 << (errors - 1))).await;
                    seat.begin_anew_if_over().await;
                }
                None => {
                    world::lock(&world).believe(index, false);
                    seat.set_acquiring(false);
                    let old = seat.client();
                    old.close().await;
                    sleep(REST).await;
                    seat.connect();
                }
            }
        }
        world::lock(&world).changed.notify_one();
        // Its session lives on: what it has left behind stays.
        std::future::pending().await
    }
}

impl Seat {
    fn fails(&self, error: &str, is_unwritten: bool, errors: u32) {
        let mut world = world::lock(&self.world);
        world.note(self.index, true, format!("gets an error: {error}"));
        let who = world::name(self.index);
        if is_unwritten {
            world.record.is_unwritten = true;
            world.changed.notify_one();
        } else if world.strikes.is_empty() {
            let text = format!("{who} gets an error, although nothing has gone wrong: {error}");
            world.violate(Break::Error, vec![self.index], text);
        } else if errors >= ERRORS {
            let text = format!("{who} gets one error after another: {error}");
            world.violate(Break::Error, vec![self.index], text);
        }
    }
}
