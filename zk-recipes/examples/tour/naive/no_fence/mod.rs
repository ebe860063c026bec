//! No fence: a holder that was stopped for too long overwrites what the next one wrote.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::sleep;
use zk_client::{Client, Error, Zxid};

use super::scene::{Report, Scene};
use super::{Case, Version};

pub(crate) mod broken;
pub(crate) mod repaired;

const BALANCE: u32 = 100;

pub(crate) const CASE: Case = Case {
    title: "No fence",
    hazard: Some("H17"),
    reports: "every lease of every lock service: Martin Kleppmann, How to do distributed locking",
    story: "The balance in a store is 100. Ana takes 20 and Ben takes 30, both under the lock. Ana \
            has read the balance when her process is stopped for 30 seconds, as by a debugger, a \
            full disk or a paused machine. A deadline does not help her: she may be stopped \
            between looking at the clock and writing.",
    lesson: "Ana's session has ended while she was stopped, and Ben has had the lock. She goes on \
             where she was, and overwrites the balance with what she computed from the old one. \
             Ben's withdrawal is lost. Ana did nothing wrong that she could have known of.",
    repair: "The store must refuse her, since she cannot refuse herself. Each holder sends a \
             number that grows from holder to holder, a fencing token. The store remembers the \
             greatest one and refuses smaller ones. The zxid of the transaction that created the \
             holder's node is such a number. A holder must show its token before it reads what it \
             will change: if Ben sent his with the write alone, Ana could still write between \
             his read and his write.",
    handled_in: "zk-recipes/src/hold/token.rs",
    folder: "no_fence",
    sources: [include_str!("broken.rs"), include_str!("repaired.rs")],
    run: |version| Box::pin(run(version)),
};

async fn run(version: Version) -> Result<Report, Error> {
    let balance = Cell::new(BALANCE);
    match version {
        Version::Broken => {
            let store = broken::Store { balance };
            play(&store, broken::withdraw, |store| store.balance.get()).await
        }
        Version::Repaired => {
            let store = repaired::Store { balance, greatest: Cell::new(Zxid(0)) };
            play(&store, repaired::withdraw, |store| store.balance.get()).await
        }
    }
}

async fn play<S>(
    store: &S,
    withdraw: impl AsyncFn(&Client, &S, u32, Duration) -> Result<bool, Error>,
    balance: impl Fn(&S) -> u32,
) -> Result<Report, Error> {
    let scene = Scene::with_folder().await?;
    let (ana, ben) = (scene.connect().await?, scene.connect().await?);
    let ana_withdraws = async {
        let written = withdraw(&ana, store, 20, Duration::from_secs(30)).await?;
        let result = if written { "written" } else { "refused" };
        scene.note(&format!("Ana goes on, and takes 20: {result}. Balance: {}", balance(store)));
        Ok::<_, Error>(written)
    };
    let ana_is_stopped = async {
        sleep(Duration::from_secs(1)).await;
        scene.note("Ana has read the balance. Her process is stopped.");
        // A stopped process sends nothing.
        scene.server.partition(Scene::session(&ana));
    };
    let ben_withdraws = async {
        sleep(Duration::from_secs(2)).await;
        scene.note("Ben queues up.");
        let written = withdraw(&ben, store, 30, Duration::from_secs(1)).await?;
        scene.note(&format!("Ben takes 30: written. Balance: {}", balance(store)));
        Ok::<_, Error>(written)
    };
    let (of_ana, of_ben, ()) = tokio::join!(ana_withdraws, ben_withdraws, ana_is_stopped);
    let taken = u32::from(of_ana?) * 20 + u32::from(of_ben?) * 30;
    let is_broken = balance(store) + taken != BALANCE;
    let verdict = match is_broken {
        true => format!("Broken: {taken} were paid out, and the balance is {}.", balance(store)),
        false => format!("It holds: {taken} were paid out, and the rest is there."),
    };
    Ok(scene.report(is_broken, &verdict))
}
