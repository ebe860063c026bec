//! The nine broken locks of the course as programs of the gym, each with what it leaves to others,
//! and two that ask again and again.
//!
//! What is broken is the course's own code. Around it is only what the course has in its scenes: a
//! queue to join, and a release.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_client::{Client, CreateOptions};
use zk_gym::{Break, FOLDER, Lock, Result, RwLock, Solution, Store, Withdraw};

use crate::naive;
use crate::naive::queue::{join, wait_for_turn};

/// A broken lock, and how the gym has to find it.
pub(crate) struct Mistake {
    /// Its folder in the course, or what teachers call it.
    pub(crate) name: &'static str,
    /// The level that it belongs to.
    pub(crate) level: usize,
    pub(crate) solution: fn() -> Solution,
    pub(crate) kind: Break,
    /// A part of the reason that the student is told.
    pub(crate) reason: &'static str,
}

pub(crate) const MISTAKES: [Mistake; 11] = [
    Mistake {
        name: "check_then_create",
        level: 1,
        solution: || Solution::lock(|_| CheckThenCreate),
        kind: Break::TwoHolders,
        reason: "NodeExists is no success",
    },
    Mistake {
        name: "herd",
        level: 2,
        solution: || Solution::lock(|_| Herd),
        kind: Break::Herd,
        reason: "watch only the node right ahead",
    },
    Mistake {
        name: "polling for a node",
        level: 2,
        solution: || Solution::lock(|_| PollsForNode),
        kind: Break::Polling,
        reason: "has learnt nothing from them",
    },
    Mistake {
        name: "polling in a queue",
        level: 2,
        solution: || Solution::lock(|_| PollsInQueue),
        kind: Break::Polling,
        reason: "has learnt nothing from them",
    },
    Mistake {
        name: "wrong_wake_up",
        level: 3,
        solution: || Solution::lock(|_| WrongWakeUp),
        kind: Break::TwoHolders,
        reason: "took a notification for the lock",
    },
    Mistake {
        name: "lost_reply",
        level: 4,
        solution: || Solution::lock(|_| LostReply),
        kind: Break::Stuck,
        reason: "owns two nodes",
    },
    Mistake {
        name: "whole_names",
        level: 1,
        solution: || Solution::lock(|name| WholeNames(name.to_lowercase())),
        kind: Break::TwoHolders,
        reason: "compare the numbers, and not whole names",
    },
    Mistake {
        name: "release_by_name",
        level: 6,
        solution: || Solution::lock(|_| ReleaseByName),
        kind: Break::TwoHolders,
        reason: "a name that nobody else can have",
    },
    Mistake {
        name: "no_deadline",
        level: 6,
        solution: || Solution::lock(|_| NoDeadline),
        kind: Break::TwoHolders,
        reason: "To be connected is no proof",
    },
    Mistake {
        name: "no_fence",
        level: 8,
        solution: || Solution::withdraw(|_| NoFence),
        kind: Break::LostMoney,
        reason: "a number that grows from holder to holder",
    },
    Mistake {
        name: "younger_writer",
        level: 7,
        solution: || Solution::rw_lock(|_| YoungerWriter),
        kind: Break::Stuck,
        reason: "Whom you wait for must be ahead of you",
    },
];

/// Deletes the node of a holder.
async fn leave(client: &Client, held: &str) -> Result<()> {
    Ok(client.delete(held, None).await?)
}

struct CheckThenCreate;

impl Lock for CheckThenCreate {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<String> {
        // The lock of the course is one node, which is in the folder here. It does not wait.
        let inside = client.chroot(FOLDER)?;
        while !naive::check_then_create::broken::try_acquire(&inside).await? {
            naive::queue::wait_until_gone(&inside, "/lock").await?;
        }
        Ok(format!("{FOLDER}/lock"))
    }

    async fn release(&self, client: &Client, held: String) -> Result<()> {
        leave(client, &held).await
    }
}

struct Herd;

impl Lock for Herd {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<String> {
        Ok(naive::herd::broken::acquire(client).await?)
    }

    async fn release(&self, client: &Client, held: String) -> Result<()> {
        leave(client, &held).await
    }
}

/// Tries to create the one node, and tries again after a while.
struct PollsForNode;

impl Lock for PollsForNode {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<String> {
        let node = format!("{FOLDER}/holder");
        loop {
            match client.create(&node, b"", &CreateOptions::ephemeral()).await {
                Ok(created) => return Ok(created.path),
                Err(error) if error.is_node_exists() => sleep(Duration::from_millis(100)).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn release(&self, client: &Client, held: String) -> Result<()> {
        leave(client, &held).await
    }
}

/// Joins the queue, and lists it every ten seconds.
struct PollsInQueue;

impl Lock for PollsInQueue {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<String> {
        let ours = join(client, "lock-").await?;
        while naive::queue::nearest_ahead(client, &ours).await?.is_some() {
            sleep(Duration::from_secs(10)).await;
        }
        Ok(ours)
    }

    async fn release(&self, client: &Client, held: String) -> Result<()> {
        leave(client, &held).await
    }
}

struct WrongWakeUp;

impl Lock for WrongWakeUp {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<String> {
        let ours = join(client, "lock-").await?;
        naive::wrong_wake_up::broken::wait(client, &ours).await?;
        Ok(ours)
    }

    async fn release(&self, client: &Client, held: String) -> Result<()> {
        leave(client, &held).await
    }
}

struct LostReply;

impl Lock for LostReply {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<String> {
        Ok(naive::lost_reply::broken::acquire(client).await?)
    }

    async fn release(&self, client: &Client, held: String) -> Result<()> {
        leave(client, &held).await
    }
}

struct WholeNames(String);

impl Lock for WholeNames {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<String> {
        Ok(naive::whole_names::broken::acquire(client, &self.0).await?)
    }

    async fn release(&self, client: &Client, held: String) -> Result<()> {
        leave(client, &held).await
    }
}

struct ReleaseByName;

impl Lock for ReleaseByName {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<String> {
        Ok(naive::release_by_name::broken::acquire(client).await?)
    }

    async fn release(&self, client: &Client, held: String) -> Result<()> {
        loop {
            match naive::release_by_name::broken::release(client, &held).await {
                Err(error) if error.is_connection_loss() => {}
                released => return Ok(released?),
            }
        }
    }

    // It stops before its session can end unseen, so that only the release is wrong.
    async fn lost(&self, client: &Client, _: &String) {
        let mut states = client.states();
        let deadline = client.session_timeout() - Duration::from_secs(1);
        drop(timeout(deadline, states.wait_for(|state| state.ended().is_some())).await);
    }
}

struct NoDeadline;

impl Lock for NoDeadline {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<String> {
        client.ensure(FOLDER, &CreateOptions::container()).await?;
        let stem = format!("{:032x}-lock-", client.unique());
        let ours = join(client, &stem).await?;
        wait_for_turn(client, &ours).await?;
        Ok(ours)
    }

    async fn release(&self, client: &Client, held: String) -> Result<()> {
        loop {
            match naive::release_by_name::repaired::release(client, &held).await {
                Err(error) if error.is_connection_loss() => {}
                released => return Ok(released?),
            }
        }
    }

    async fn lost(&self, client: &Client, _: &String) {
        naive::no_deadline::broken::work(client, || ()).await.ok();
    }
}

struct NoFence;

impl Withdraw for NoFence {
    async fn withdraw(&self, client: &Client, store: &Store, amount: u32) -> Result<bool> {
        // As in the course, with the store of the gym.
        let ours = join(client, "lock-").await?;
        wait_for_turn(client, &ours).await?;
        let balance = store.balance();
        store.work().await;
        store.set_balance(balance.saturating_sub(amount));
        client.delete(&ours, None).await.ok();
        Ok(true)
    }
}

struct YoungerWriter;

impl RwLock for YoungerWriter {
    type Held = String;

    async fn read(&self, client: &Client) -> Result<String> {
        let ours = join(client, "read-").await?;
        naive::younger_writer::broken::wait_to_read(client, &ours).await?;
        Ok(ours)
    }

    async fn write(&self, client: &Client) -> Result<String> {
        let ours = join(client, "write-").await?;
        wait_for_turn(client, &ours).await?;
        Ok(ours)
    }

    async fn release(&self, client: &Client, held: String) -> Result<()> {
        leave(client, &held).await
    }
}
