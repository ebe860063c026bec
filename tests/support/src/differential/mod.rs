//! Runs the same steps on two servers, whose replies must be the same.
//!
//! Steps are made at random from a seed (`generate`) and run on each server separately (`side`).
//! What the servers sent is written as text, without the parts that no two servers have in common
//! (`show`). Then the two texts must be equal. This module does not know how a server should
//! behave.
//!
//! # Where a real server is not deterministic
//!
//! A real server looks at requests in one thread, carries them out in another and answers in a
//! third. So these cases are avoided, waited for or sorted, as noted where that happens:
//!
//! * whether one more request is served between the reply `Unimplemented` and the end of the
//!   connection, or answered behind closeSession;
//! * whether a write in flight is seen by the checks of later requests: setACL by the permission
//!   checks of later writes, a container created with an ephemeral mode by its children, an
//!   identity by the events of earlier writes, the entries of a multi that makes the server throw
//!   by the requests behind it;
//! * on 3.8, whether checkWatches finds the watch of a connection that is about to be forgotten;
//! * the order of children, ephemeral nodes, identities, the entries that `auth` becomes in an
//!   access list, and the events of a session's end.
//!
//! One deterministic case is left out of multis: an identity with a character above U+FFFF, which a
//! real server corrupts there and nowhere else.

mod generate;
mod multi;
mod request;
mod show;
mod side;
mod step;
mod world;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use anyhow::{Result, bail, ensure};

use self::side::Side;
use self::step::Step;

/// How many steps before the differing one a report shows.
const TRACE: usize = 15;

/// The digest of the superuser, which the servers must be configured with.
pub fn super_digest() -> String {
    zk_proto::digest(world::SUPER)
}

/// The coverage of a comparison without a difference.
#[derive(Debug)]
pub struct Summary {
    /// How many seeds were run.
    pub seeds: usize,
    /// How many requests each server got, without pings that only collect events.
    pub requests: usize,
    /// How often each operation had each result, and how often each kind of event came.
    pub tally: BTreeMap<String, usize>,
}

/// Runs each seed's steps on both servers (name and address), one seed after the other.
///
/// Each seed has at least `requests` requests. The servers must be fresh, as transactions are
/// compared by their number.
///
/// An error contains the step whose replies differ, the steps before it, and the seed.
pub async fn compare(
    servers: [(&str, &str); 2],
    seeds: RangeInclusive<u64>,
    requests: usize,
) -> Result<Summary> {
    let [mut one, mut two] = servers.map(|(_, address)| Side::new(address));
    let mut count = 0;
    for seed in seeds {
        count += 1;
        let steps = generate::steps(seed, requests);
        let (left, right) = tokio::join!(one.run(&steps), two.run(&steps));
        if let Some(step) = (0..steps.len()).find(|step| left.get(*step) != right.get(*step)) {
            bail!("the servers differ at {}", report(servers, seed, &steps, step, [&left, &right]));
        }
        if left.len() < steps.len() {
            bail!(
                "no answer at {}",
                report(servers, seed, &steps, left.len() - 1, [&left, &right])
            );
        }
    }
    ensure!(one.requests == two.requests);
    Ok(Summary { seeds: count, requests: two.requests, tally: two.witness.tally })
}

fn report(
    servers: [(&str, &str); 2],
    seed: u64,
    steps: &[Step],
    differs: usize,
    answers: [&[Vec<String>]; 2],
) -> String {
    let mut text = format!("step {differs} of seed {seed}\n");
    for (index, step) in steps[..differs].iter().enumerate().skip(differs.saturating_sub(TRACE)) {
        text += &format!("\n{index}. {step}\n      {}", answers[0][index].join("\n      "));
    }
    text += &format!("\n{differs}. {}", steps[differs]);
    for ((name, _), answers) in servers.iter().zip(answers) {
        let lines = answers.get(differs).map_or("nothing".to_owned(), |it| it.join("\n      "));
        text += &format!("\n   the {name} server:\n      {lines}");
    }
    text + &format!(
        "\n\nAgain: ZK_DIFF_SEED={seed} \
         cargo test -p zk-tests --test live differential::\n\
         If that passes, earlier seeds matter: ZK_DIFF_SEED=0..{seed}"
    )
}
