//! What a lock costs in requests, beside the textbook lock and the locks of `zk-recipes`.
//!
//! Counted in runs in which nothing goes wrong, over some turns of each process.

use zk_client::{Client, Zxid};
use zk_recipes::{Guard, ReadGuard, WriteGuard};

use crate::contender::{FOLDER, Lock, Result, RwLock, Withdraw};
use crate::fault::Kind;
use crate::level::{Level, Wants};
use crate::plan::{Contender, Mode, Plan};
use crate::process::Make;
use crate::record::{Break, Event};
use crate::run::run;
use crate::solution::Solution;
use crate::store::Store;
use crate::textbook_lock;

/// How many turns each process takes.
const TURNS: u32 = 10;

/// How long a long wait takes, in milliseconds.
const LONG: u64 = 60_000;

/// Requests for a turn, without handshakes and pings.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Cost {
    /// Of a process that is alone.
    pub alone: f64,
    /// Of three processes that want the lock all the time.
    pub in_a_crowd: f64,
    /// Of a process that waits for a minute. A withdrawal never takes so long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_a_long_wait: Option<f64>,
}

/// The costs of a program and of two that it can be compared with.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Costs {
    /// The program.
    pub yours: Cost,
    /// The textbook lock, which holds only while nothing goes wrong.
    pub textbook: Cost,
    /// The lock of `zk-recipes`.
    pub recipes: Cost,
    /// True if the program goes on asking while it waits, which level 2 refuses.
    pub is_polling: bool,
}

impl Costs {
    pub(crate) fn of(level: &Level, make: &Make) -> Self {
        let recipes = Recipes { tells_loss: level.asks_for_lost() };
        let (textbook, recipes) = match level.wants {
            Wants::Lock => (Solution::textbook(), Solution::lock(move |_| recipes)),
            Wants::RwLock => (Solution::rw_lock(|_| Textbook), Solution::rw_lock(move |_| recipes)),
            Wants::Withdraw => {
                (Solution::withdraw(|_| Textbook), Solution::withdraw(move |_| recipes))
            }
        };
        // As long as level 2 lets others wait.
        let violation = run(&long_wait(level, 2 * LONG), make).record.violation;
        Self {
            is_polling: violation.is_some_and(|it| it.kind == Break::Polling),
            yours: cost(level, make),
            textbook: cost(level, &textbook.0),
            recipes: cost(level, &recipes.0),
        }
    }
}

fn cost(level: &Level, make: &Make) -> Cost {
    let crowd = |count| {
        let contenders = (0..count).map(|index| contender(level, index, 0, 100)).collect();
        Plan { turns: TURNS, forbids_waste: false, ..level.plan(contenders) }
    };
    let long_wait = Plan { forbids_waste: false, ..long_wait(level, LONG) };
    Cost {
        alone: requests(&crowd(1), 0, make),
        in_a_crowd: requests(&crowd(3), 0, make),
        in_a_long_wait: (level.wants != Wants::Withdraw).then(|| requests(&long_wait, 1, make)),
    }
}

fn contender(level: &Level, index: usize, start: u64, hold: u64) -> Contender {
    let mode = match level.wants == Wants::RwLock && index > 0 {
        true => Mode::Read,
        false => Mode::Write,
    };
    Contender { mode, start, hold }
}

/// One holds the lock for a long time, and another one waits.
fn long_wait(level: &Level, time: u64) -> Plan {
    let contenders = vec![contender(level, 0, 0, time), contender(level, 1, 100, 100)];
    Plan { forbids_waste: true, ..level.plan(contenders) }
}

/// The requests for a turn of the contenders from `first` on.
fn requests(plan: &Plan, first: usize, make: &Make) -> f64 {
    let counted = first..plan.contenders.len();
    let record = run(plan, make).record;
    let is_counted = |event: &&Event| match event {
        Event::Frame(one) => one.frame.kind == Kind::Request && counted.contains(&one.process),
        Event::Note { .. } => false,
    };
    let requests = record.events.iter().filter(is_counted).count();
    requests as f64 / (counted.len() as f64 * f64::from(plan.turns))
}

/// The textbook lock, which knows no readers and no tokens.
struct Textbook;

impl Solution {
    /// The textbook lock, which holds only while nothing goes wrong.
    pub fn textbook() -> Self {
        Self::lock(|_| Textbook)
    }
}

/// The locks of `zk-recipes`.
#[derive(Clone, Copy)]
struct Recipes {
    /// True if `lost` is asked for. The guard of a lock that was free reads its node then, to watch
    /// it, which is a request.
    tells_loss: bool,
}

/// A guard of a read/write lock.
enum AnyGuard {
    Reads(ReadGuard),
    Writes(WriteGuard),
}

impl Lock for Textbook {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<String> {
        Ok(textbook_lock::acquire(client).await?)
    }

    async fn release(&self, client: &Client, held: String) -> Result<()> {
        Ok(client.delete(&held, None).await?)
    }
}

impl RwLock for Textbook {
    type Held = String;

    async fn read(&self, client: &Client) -> Result<String> {
        Ok(textbook_lock::acquire(client).await?)
    }

    async fn write(&self, client: &Client) -> Result<String> {
        Ok(textbook_lock::acquire(client).await?)
    }

    async fn release(&self, client: &Client, held: String) -> Result<()> {
        Ok(client.delete(&held, None).await?)
    }
}

impl Withdraw for Textbook {
    async fn withdraw(&self, client: &Client, store: &Store, amount: u32) -> Result<bool> {
        let held = textbook_lock::acquire(client).await?;
        let balance = store.balance();
        store.work().await;
        store.set_balance(balance.saturating_sub(amount));
        client.delete(&held, None).await?;
        Ok(true)
    }
}

impl Lock for Recipes {
    type Held = Guard;

    async fn acquire(&self, client: &Client) -> Result<Guard> {
        Ok(zk_recipes::Lock::new(client, FOLDER)?.acquire().await?)
    }

    async fn release(&self, _: &Client, held: Guard) -> Result<()> {
        held.release().await?;
        Ok(())
    }

    async fn lost(&self, _: &Client, held: &Guard) {
        match self.tells_loss {
            true => drop(held.lost().await),
            false => std::future::pending().await,
        }
    }
}

impl RwLock for Recipes {
    type Held = AnyGuard;

    async fn read(&self, client: &Client) -> Result<AnyGuard> {
        Ok(AnyGuard::Reads(zk_recipes::RwLock::new(client, FOLDER)?.read().await?))
    }

    async fn write(&self, client: &Client) -> Result<AnyGuard> {
        Ok(AnyGuard::Writes(zk_recipes::RwLock::new(client, FOLDER)?.write().await?))
    }

    async fn release(&self, _: &Client, held: AnyGuard) -> Result<()> {
        match held {
            AnyGuard::Reads(guard) => guard.release().await?,
            AnyGuard::Writes(guard) => guard.release().await?,
        };
        Ok(())
    }
}

impl Withdraw for Recipes {
    async fn withdraw(&self, client: &Client, store: &Store, amount: u32) -> Result<bool> {
        let guard = zk_recipes::Lock::new(client, FOLDER)?.acquire().await?;
        let token = Zxid(guard.token().czxid());
        let Some(balance) = store.balance_with(token) else {
            return Ok(false);
        };
        store.work().await;
        let is_written = store.set_balance_with(token, balance.saturating_sub(amount));
        guard.release().await?;
        Ok(is_written)
    }
}
