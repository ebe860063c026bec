//! Two servers are done the same things, and must answer alike.
//!
//! Steps are made at random from a seed (`generate`), run on each server on its own (`side`), and
//! what the servers sent is written down as text without what no two servers have in common
//! (`show`). Then the two texts must be equal. Knows nothing of how a server should behave.
//!
//! # What a real server does not agree with itself on
//!
//! It looks at requests in one thread, carries them out in another and answers in a third. So these
//! are not asked for, waited out or sorted, each where it says so:
//!
//! * whether one more request is served between the answer `Unimplemented` and the end of the
//!   connection, or answered behind closeSession;
//! * whether a write under way is seen by what looks ahead: setACL by the permission checks of
//!   later writes, a container asked for with an ephemeral mode by its children, an identity by the
//!   events of earlier writes, the entries of a multi that trips the server by what comes behind
//!   it;
//! * on 3.8, whether checkWatches finds the watch of a connection that is about to be forgotten;
//! * the order of children, ephemeral nodes, identities, what `auth` becomes in an access list, and
//!   the events of a session's end.
//!
//! Left out of multis although it is no chance: an identity with a character above U+FFFF, which a
//! real server spoils there and nowhere else.

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

/// How many steps before the one that differs a report shows.
const TRACE: usize = 15;

/// The digest of who may do everything, which the servers must be told.
pub fn super_digest() -> String {
    zk_proto::digest(world::SUPER)
}

/// What a comparison without a difference has covered.
#[derive(Debug)]
pub struct Summary {
    /// Seeds run.
    pub seeds: usize,
    /// Requests that each server was sent, without pings that only collect events.
    pub requests: usize,
    /// How often each operation ended how, and each kind of event came.
    pub tally: BTreeMap<String, usize>,
}

/// Runs each seed's steps, at least `requests` requests, on both servers (name and address), one
/// seed after the other. The servers must be fresh, as transactions are compared by their number.
///
/// An error tells the step whose answers differ, what led to it, and the seed.
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
