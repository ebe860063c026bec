//! What a lock costs in requests, beside the textbook lock and the locks of `zk-recipes`.
//!
//! Counted in runs in which nothing goes wrong, over some turns of each process.

use std::sync::Arc;

use zk_client::{Client, Zxid};
use zk_recipes::{Guard, ReadGuard, WriteGuard};

use crate::contender::{FOLDER, Lock, Result, RwLock, Withdraw};
use crate::fault::Kind;
use crate::level::{Level, Wants};
use crate::plan::{Contender, Mode, Plan};
use crate::process::Make;
use crate::record::Event;
use crate::run::run;
use crate::solution::Solution;
use crate::store::Store;
use crate::textbook_lock;
use crate::world::NAMES;

/// How many turns each process takes.
const TURNS: u32 = 10;

/// Requests for a turn, without handshakes and pings.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Cost {
    /// Of a process that is alone.
    pub alone: f64,
    /// Of three processes that want the lock all the time.
    pub in_a_crowd: f64,
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
}

impl Costs {
    pub(crate) fn of(level: &Level, make: &Make) -> Self {
        let (textbook, recipes) = match level.wants {
            Wants::Lock => (Solution::lock(|_| Textbook), Solution::lock(|_| Recipes)),
            Wants::RwLock => (Solution::rw_lock(|_| Textbook), Solution::rw_lock(|_| Recipes)),
            Wants::Withdraw => (Solution::withdraw(|_| Textbook), Solution::withdraw(|_| Recipes)),
        };
        Self {
            yours: cost(level, make),
            textbook: cost(level, &textbook.0),
            recipes: cost(level, &recipes.0),
        }
    }
}

fn cost(level: &Level, make: &Make) -> Cost {
    let of = |count: usize| {
        let mode = |index: usize| match level.wants == Wants::RwLock && index > 0 {
            true => Mode::Read,
            false => Mode::Write,
        };
        let contenders =
            (0..count).map(|index| Contender { mode: mode(index), start: 0, hold: 100 });
        let plan = level.plan(contenders.collect());
        let plan = Plan { turns: TURNS, forbids_herds: false, ..plan };
        let record = run(&plan, &Arc::clone(make)).record;
        let is_request = |event: &&Event| match event {
            Event::Frame(one) => one.frame.kind == Kind::Request && one.process + 1 < NAMES.len(),
            Event::Note { .. } => false,
        };
        let requests = record.events.iter().filter(is_request).count();
        requests as f64 / (count as f64 * f64::from(TURNS))
    };
    Cost { alone: of(1), in_a_crowd: of(3) }
}

/// The textbook lock, which knows no readers and no tokens.
struct Textbook;

/// The locks of `zk-recipes`.
struct Recipes;

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
        held.lost().await;
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
