//! Runs the same steps on two servers, whose replies must be the same.
//!
//! Steps are made at random from a seed (`generate`) and run on each server separately (`side`).
//! What the servers sent is written as text, field by field, without the parts that no two servers
//! have in common (`show`). Then the two texts must be equal. This module does not know how a
//! server should behave. What makes two servers differ is a [`Case`], which [`minimise`] makes
//! small.
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

mod case;
mod generate;
mod minimise;
mod multi;
mod mutate;
mod request;
mod show;
mod side;
mod step;
mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use self::side::Side;

pub use self::case::Case;
pub use self::minimise::{Minimised, minimise};
pub use self::world::Scope;

/// How many steps before the differing one a report shows.
const TRACE: usize = 15;

/// How long a server of [`compare`] may be silent before the silence counts as its reply.
const SILENCE: Duration = Duration::from_secs(20);

/// The digest of the superuser, which the servers must be configured with.
pub fn super_digest() -> String {
    zk_proto::digest(world::SUPER)
}

/// Two servers that get the same steps.
pub struct Pair {
    names: [String; 2],
    sides: [Side; 2],
}

/// How two servers differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The place in the case of the step whose answers differ.
    pub step: usize,
    /// What the servers answered to this step, each with its name.
    pub answers: [(String, Vec<String>); 2],
    /// What both answered to the steps before.
    before: Vec<Vec<String>>,
}

impl Pair {
    /// Two servers, each by a name for reports and its address.
    ///
    /// A server that is silent for `patience` counts as one that does not answer.
    pub fn new(servers: [(&str, &str); 2], patience: Duration) -> Self {
        Self {
            names: servers.map(|(name, _)| name.to_owned()),
            sides: servers.map(|(_, address)| Side::new(address, patience)),
        }
    }

    /// Runs a case on both servers at the same time, and returns how they differ, if they do.
    ///
    /// # Errors
    ///
    /// A server that lets no client in before the first step.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, sessions and nodes of the case stay on the servers.
    pub async fn run(&mut self, case: &Case) -> Result<Option<Difference>> {
        let [one, two] = &mut self.sides;
        let mut case = std::borrow::Cow::Borrowed(case);
        if case.scope == Scope::Own {
            let (_, base) = tokio::try_join!(one.start_anew(), two.start_anew())?;
            case = std::borrow::Cow::Owned(case.renamed((base.0 ^ base.0 >> 32) as u32));
        }
        let steps = &case.steps;
        let (mut left, mut right) = tokio::join!(one.run(steps), two.run(steps));
        let first = (0..steps.len()).find(|step| left.get(*step) != right.get(*step));
        // If none differs, both may have ended early: the last step has no answer on either.
        let step = first.or((left.len() < steps.len()).then(|| left.len() - 1));
        if case.scope == Scope::Own && (step.is_some() || !case.ends_closed()) {
            // As far as the superuser may. What is left is below a node that no later run has.
            let steps = generate::clean_up(&case.top);
            tokio::join!(one.run(&steps), two.run(&steps));
        }
        let Some(step) = step else { return Ok(None) };
        let [name, other] = &self.names;
        let taken = |lines: &mut Vec<Vec<String>>| {
            let taken = lines.get_mut(step).map(std::mem::take);
            taken.unwrap_or_else(|| vec!["nothing: an earlier end".to_owned()])
        };
        let answers = [(name.clone(), taken(&mut left)), (other.clone(), taken(&mut right))];
        left.truncate(step);
        Ok(Some(Difference { step, answers, before: left }))
    }

    /// How many requests each server got, without pings that only collect events.
    pub fn requests(&self) -> usize {
        self.sides[1].requests
    }

    /// How often each operation had each result, and how often each kind of event came, on the
    /// second server.
    pub fn tally(&self) -> &BTreeMap<String, usize> {
        &self.sides[1].witness.tally
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Difference {
    /// The lines of the first answer that is not the same, one for each server.
    fn lines(&self) -> [&str; 2] {
        let [(_, left), (_, right)] = &self.answers;
        let longer = left.len().max(right.len());
        let at = (0..longer).find(|at| left.get(*at) != right.get(*at)).unwrap_or(0);
        [left, right].map(|lines| lines.get(at).map_or("no more", String::as_str))
    }

    /// The fields of the first answer that is not the same: the name of each, and its values.
    pub fn fields(&self) -> Vec<(String, [String; 2])> {
        let [left, right] = self.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        if left.len() != right.len() {
            let whole = self.lines().map(str::to_owned);
            return vec![("answer".to_owned(), whole)];
        }
        let name = |at: usize| left.get(at.wrapping_sub(1)).copied().unwrap_or("answer");
        let bare = |word: &str| word.trim_matches(['{', '}', ',', ':']).to_owned();
        (0..left.len())
            .filter(|at| left[*at] != right[*at])
            .map(|at| (bare(name(at)), [bare(left[at]), bare(right[at])]))
            .collect()
    }

    /// The kind of difference: the lines without numbers and texts.
    ///
    /// Two cases that differ in the same kind have most likely the same cause.
    pub fn kind(&self) -> String {
        self.lines().map(kind_of).join(" / ")
    }
}

/// A line without its numbers and texts.
fn kind_of(line: &str) -> String {
    let mut kind = String::new();
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '0'..='9' | '-' => {}
            other => kind.push(other),
        }
    }
    kind
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, lines) in &self.answers {
            writeln!(f, "   the {name} server:\n      {}", lines.join("\n      "))?;
        }
        let [(one, _), (two, _)] = &self.answers;
        for (field, [left, right]) in self.fields() {
            writeln!(f, "   {field}: {left} ({one}), {right} ({two})")?;
        }
        Ok(())
    }
}

/// The coverage of a comparison without a difference.
#[derive(Debug)]
#[non_exhaustive]
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
/// Each seed has at least `requests` requests. The servers must be new, as transactions are
/// compared by their number.
///
/// An error contains the step whose replies differ, the steps before it, and the seed.
pub async fn compare(
    servers: [(&str, &str); 2],
    seeds: RangeInclusive<u64>,
    requests: usize,
) -> Result<Summary> {
    let mut pair = Pair::new(servers, SILENCE);
    let mut count = 0;
    for seed in seeds {
        count += 1;
        let case = Case::of_seed(seed, Scope::Everything, requests, 0);
        if let Some(difference) = pair.run(&case).await? {
            bail!(
                "the servers differ at {}\n\nAgain: ZK_DIFF_SEED={seed} \
                 cargo test -p zk-tests --test live differential::\n\
                 If that passes, earlier seeds matter: ZK_DIFF_SEED=0..{seed}",
                report(&case, &difference)
            );
        }
    }
    let [one, two] = pair.sides;
    ensure!(one.requests == two.requests);
    Ok(Summary { seeds: count, requests: two.requests, tally: two.witness.tally })
}

/// The step whose answers differ, and the steps before.
pub fn report(case: &Case, difference: &Difference) -> String {
    let at = difference.step;
    let mut text = format!("step {at} of seed {}\n", case.seed);
    for (index, step) in case.steps[..at].iter().enumerate().skip(at.saturating_sub(TRACE)) {
        let answers = difference.before[index].join("\n      ");
        text += &format!("\n{index}. {step}\n      {answers}");
    }
    text + &format!("\n{at}. {}\n{difference}", case.steps[at])
}
