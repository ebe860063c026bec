//! Locks on the client alone: the textbook lock, and the programs of the course that are broken on
//! purpose, each with its repair.

use std::time::Duration;

use zk_client::{Client, Error, Zxid};

use crate::kind::{FOLDER, Kind};
use crate::locks::holding::{Acquired, Holding};
use crate::locks::seat::Seat;
use crate::naive::queue::{join, wait_for_turn};
use crate::naive::{
    Version, check_then_create, herd, lost_reply, no_deadline, no_fence, release_by_name,
    whole_names, wrong_wake_up, younger_writer,
};
use crate::scene::{LockState, Tone};
use crate::script::Mode;
use crate::textbook_lock;
use crate::world;

/// How long a withdrawal takes under the lock.
const WORK: Duration = Duration::from_secs(5);

/// Acquires the lock as the program of this kind does.
pub(crate) async fn acquire(seat: &Seat) -> Result<Acquired, Error> {
    let Kind::Case(case, version) = seat.kind else {
        return holds(seat, textbook_lock::acquire(&seat.client).await?).await;
    };
    let client = &seat.client;
    let broken = version == Version::Broken;
    let path = match case.folder {
        "check_then_create" => {
            let got_it = match broken {
                true => check_then_create::broken::try_acquire(client).await?,
                false => check_then_create::repaired::try_acquire(client).await?,
            };
            if !got_it {
                return Ok(Acquired::Taken);
            }
            FOLDER.to_owned()
        }
        "herd" if broken => herd::broken::acquire(client).await?,
        "herd" => herd::repaired::acquire(client).await?,
        "wrong_wake_up" => {
            let ours = join(client, "lock-").await?;
            *seat.node.borrow_mut() = Some(ours.clone());
            match broken {
                true => wrong_wake_up::broken::wait(client, &ours).await?,
                false => wrong_wake_up::repaired::wait(client, &ours).await?,
            }
            ours
        }
        "lost_reply" if broken => lost_reply::broken::acquire(client).await?,
        "lost_reply" => lost_reply::repaired::acquire(client).await?,
        "whole_names" => {
            let name = seat.name.to_lowercase();
            match broken {
                true => whole_names::broken::acquire(client, &name).await?,
                false => whole_names::repaired::acquire(client, &name).await?,
            }
        }
        "release_by_name" if broken => release_by_name::broken::acquire(client).await?,
        "release_by_name" => release_by_name::repaired::acquire(client).await?,
        "no_deadline" => return work(seat, broken).await,
        "no_fence" => return withdraw(seat, broken).await,
        _ => share(seat, broken).await?,
    };
    holds(seat, path).await
}

/// The lock is held by the node at `path`.
async fn holds(seat: &Seat, path: String) -> Result<Acquired, Error> {
    // The picture shows the transaction that created the node. The program did not ask for it.
    let token = world::lock(&seat.world).net.core.stat(&path).map_or(Zxid(0), |it| it.czxid);
    Ok(Acquired::Holds(Holding::Node { path: path.into(), token }))
}

/// Queues up as a reader or a writer.
async fn share(seat: &Seat, broken: bool) -> Result<String, Error> {
    let client = &seat.client;
    if seat.mode == Mode::Write {
        let ours = join(client, "write-").await?;
        wait_for_turn(client, &ours).await?;
        return Ok(ours);
    }
    let ours = join(client, "read-").await?;
    match broken {
        true => younger_writer::broken::wait_to_read(client, &ours).await?,
        false => younger_writer::repaired::wait_to_read(client, &ours).await?,
    }
    Ok(ours)
}

/// Acquires the lock, and writes under it once a second until it trusts it no more.
async fn work(seat: &Seat, broken: bool) -> Result<Acquired, Error> {
    let client = &seat.client;
    let ours = join(client, "lock-").await?;
    wait_for_turn(client, &ours).await?;
    seat.believe(LockState::Held, Tone::Good, "holds the lock, and writes once a second");
    let write = || {
        if !seat.is_owner() && seat.is_held_by_another() {
            seat.note(Tone::Bad, "writes, although another holds the lock");
        }
    };
    match broken {
        true => no_deadline::broken::work(client, write).await?,
        false => no_deadline::repaired::work(client, write).await?,
    }
    seat.believe(LockState::Idle, Tone::Plain, "stops its work");
    // A delete without a reply may not have been carried out.
    while client.delete(&ours, None).await.is_err_and(|error| error.is_connection_loss()) {}
    Ok(Acquired::Finished)
}

/// Acquires the lock, and takes an amount from the balance of a store elsewhere.
async fn withdraw(seat: &Seat, broken: bool) -> Result<Acquired, Error> {
    let Seat { client, stores, .. } = seat;
    let amount = 20 + 10 * seat.index as u32;
    let (written, balance) = match broken {
        true => {
            let store = &stores.open;
            let written = no_fence::broken::withdraw(client, store, amount, WORK).await?;
            (written, store.balance.get())
        }
        false => {
            let store = &stores.fenced;
            let written = no_fence::repaired::withdraw(client, store, amount, WORK).await?;
            (written, store.balance.get())
        }
    };
    let (tone, result) = match written {
        true => (Tone::Plain, "written"),
        false => (Tone::Good, "refused"),
    };
    if written {
        stores.pay(amount, world::lock(&seat.world).now_us());
    }
    let text = format!("takes {amount}: {result}. Balance: {balance}");
    seat.believe(LockState::Idle, tone, text);
    // The program ends, and its node with it.
    leave(client).await;
    Ok(Acquired::Finished)
}

/// Deletes the nodes of this session.
async fn leave(client: &Client) {
    for path in client.get_ephemerals(FOLDER).await.unwrap_or_default() {
        client.delete(&path, None).await.ok();
    }
}
