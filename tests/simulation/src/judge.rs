//! The invariants that hold at every moment: who may hold the lock at the same time, what guards
//! report, how long other contenders wait, and which errors are allowed.

use std::time::{Duration, Instant};

use zk_client::{Client, ErrorCode, ErrorKind as Kind};
use zk_embedded::Zxid;
use zk_recipes::{Error, ErrorKind, Hold, LockState, Loss};

use super::clock::now;
use super::journal::{Grant, Journal, Level, Role};
use super::nemesis::UNPROVEN;
use super::process::{Trial, Who};

/// A request for the lock: the task and the role.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockRequest {
    pub(super) who: Who,
    pub(super) role: Role,
    pub(super) level: Option<Level>,
    /// How often the local level may hand on the lock while remote contenders wait.
    pub(super) passes: u32,
    pub(super) has_term: bool,
    pub(super) at: Instant,
}

impl LockRequest {
    /// A request of this task for something that one has alone.
    pub(super) fn of(who: Who) -> Self {
        let (role, at) = (Role::Exclusive, now());
        Self { who, role, level: None, passes: 0, has_term: false, at }
    }
}

/// Within this time after its handshake, from which a lease may count, a process asks first.
const SINCE_HANDSHAKE: Duration = Duration::from_millis(70);

/// Records the grant, and checks whether another task holds the lock at this moment.
///
/// The process had received everything up to `heard` at its previous poll.
pub(super) fn granted(
    trial: &Trial,
    request: &LockRequest,
    client: &Client,
    guard: &Hold,
    heard: Option<Zxid>,
) -> usize {
    let LockRequest { who, role, level, .. } = *request;
    trial.serves(who.name);
    // Asking sets a watch if the wait has left none, so only some ask at once.
    let czxid = guard.token().czxid();
    if level.is_none() && role == Role::Exclusive && czxid % 4 == 0 {
        let first = {
            let journal = &trial.world.lock().unwrap().journal;
            // A lock that was queued up for again has a lease already.
            let is_new = journal.times.get(&Zxid(czxid)).is_some_and(|at| *at >= request.at);
            journal.first_since(guard.node(), czxid).filter(|_| is_new)
        };
        if let Some(first) = first {
            begins(trial, request, client, first, guard.state(), guard.remaining());
        }
    }
    let mut world = trial.world.lock().unwrap();
    let (node, token) = (guard.node().to_owned(), guard.token());
    // A downgraded guard keeps the writer's token.
    let czxid = world.journal.created(&node).unwrap_or(token.czxid());
    let grant = Grant {
        who: who.to_string(),
        process: who.name.0,
        session: client.session().unwrap().id,
        role,
        czxid,
        token,
        level,
        heard: world.heard(who.name.0),
        zxid: world.net.core.last_zxid(),
        is_there: world.journal.is_alive(&node, czxid),
        at: now(),
        is_untold: world.journal.is_untold(who.name.0, &node),
        was_told: false,
        is_believed: true,
        is_lost: false,
        node,
    };
    let journal = &mut world.journal;
    journal.note(|| {
        let Grant { node, is_there, .. } = &grant;
        format!("{who} HOLDS {node}, {role:?}, token {token}, there: {is_there}")
    });
    journal.count(if role == Role::Shared { "grants to readers" } else { "grants" });
    let is_handed_on = grant.level.is_some() && grant.token.pass() > 0;
    if is_handed_on {
        journal.count("grants within a process");
    }
    if let Some(two) = beside(journal, &grant) {
        journal.violate(two);
    }
    if let Some(starved) = starves(journal, &grant, request.passes) {
        journal.violate(starved);
    }
    if !grant.is_there {
        journal.count("grants told too late");
        let Grant { node, czxid, .. } = &grant;
        // The deletion of a handed-on node is only reported by its watches, and perhaps not yet.
        let heard = heard.filter(|_| !is_handed_on);
        let end =
            journal.end(node, *czxid).filter(|(end, _)| heard.is_some_and(|heard| *end <= heard));
        if let Some((end, _)) = end.filter(|_| !grant.is_untold) {
            let what = format!("{who} holds {node}, gone at {end}, having heard of {heard:?}");
            journal.violate(what);
        }
        // An event of the same moment may have come after the grant.
        let told = journal.told_at(grant.process, node).filter(|at| *at < grant.at);
        if let Some(at) = told.filter(|_| !is_handed_on) {
            let ago = grant.at - at;
            journal.violate(format!("{who} gets {node}, whose end was told {ago:?} ago"));
        }
    }
    let before = journal
        .grants
        .iter()
        .filter(|one| (one.process, one.czxid) == (grant.process, grant.czxid));
    if before.filter(|one| one.level == grant.level).any(|one| one.was_told) {
        let Grant { node, .. } = &grant;
        journal.violate(format!("{who} is let in by {node}, whose end its process was told of"));
    }
    journal.grants.push(grant);
    journal.grants.len() - 1
}

/// Judges the first moment of something that a task waited for, and that may have begun at `first`
/// at the earliest: something is left of its lease. If the process has no other lease, and nothing
/// has stopped it, that is enough for a reply that is late, unless the proof itself came late.
pub(super) fn begins(
    trial: &Trial,
    request: &LockRequest,
    client: &Client,
    first: Instant,
    state: LockState,
    left: Duration,
) {
    let LockRequest { who, has_term, .. } = *request;
    let process = who.name.0;
    let is_excused = {
        let progress = trial.progress.lock().unwrap();
        let was_stopped = progress.woken.get(&process).is_some_and(|at| *at >= first);
        has_term || was_stopped || progress.crowds.contains(&process)
    };
    let timeout = client.session_timeout();
    let late = (timeout * 99 / 100).saturating_sub(now() - first + SINCE_HANDSHAKE);
    // The lease began with 0.3 T, and a read of the own node may be answered a little later.
    let least = if is_excused { Duration::ZERO } else { late.min(timeout / 10) };
    let journal = &mut trial.world.lock().unwrap().journal;
    match state {
        // Its node may have been deleted, or its session ended, by now.
        LockState::Lost(Loss::Deadline) | LockState::Suspended { .. } => {}
        LockState::Lost(_) => return,
        _ if left.is_zero() || left < least => {}
        _ if least.is_zero() => return journal.count("holds that began"),
        _ => return journal.count("holds that began with enough"),
    }
    let state = told(state);
    journal.violate(format!("{who} begins with {left:?} of {least:?} left: {state}"));
}

/// A state in words that are the same in every run of a seed. The runtime's clock begins anywhere.
pub(super) fn told(state: LockState) -> String {
    match state {
        LockState::Suspended { until } => format!("lost in {:?}", until.duration_since(now())),
        state => format!("{state:?}"),
    }
}

/// The holder that excludes this grant, if any.
fn beside(journal: &Journal, grant: &Grant) -> Option<String> {
    let Grant { who, node, role, level, .. } = grant;
    let believers = journal.grants.iter().rev().filter(|other| other.is_believed);
    let mut rivals = believers.filter(|other| role.excludes(other.role));
    let is_local = |other: &Grant| level.is_some() && other.level == *level;
    let other = rivals.find(|other| {
        is_local(other) || (grant.is_there && journal.is_alive(&other.node, other.czxid))
    })?;
    let (rival, theirs) = (&other.who, &other.node);
    Some(match is_local(other) {
        true => format!("{who} is inside by {node} while {rival} of its process is, by {theirs}"),
        false => format!("{who} holds {node}, {role:?}, while {rival} holds {theirs}"),
    })
}

/// The contender that waits for this process while its tasks hand the lock on too often, if any.
fn starves(journal: &Journal, grant: &Grant, passes: u32) -> Option<String> {
    let Grant { who, node, czxid, .. } = grant;
    if journal.untold.contains_key(&grant.process) {
        return None;
    }
    grant.level?;
    let (_, own) = super::journal::contender(node)?;
    let waits = |(_, role, created): &(i64, Role, i64)| created > czxid && role.excludes(own);
    let waiting = journal.queue().filter(waits).map(|(_, _, created)| created).min()?;
    let ours = |other: &&Grant| other.level == grant.level && other.czxid == *czxid;
    let ours = || journal.grants.iter().filter(ours);
    // When it was known that a contender waits. Many tasks may come in at once, by one decision.
    let known = ours().find(|one| one.heard.0 >= waiting)?.at;
    let handed_on = ours().filter(|one| one.at > known).count() + usize::from(grant.at > known);
    (handed_on > passes as usize).then(|| {
        format!("{who} is inside by {node}, number {handed_on} since {waiting:#x} waits for it")
    })
}

/// Compares the state of a guard with the server's state. Returns whether the lock is still held.
pub(super) fn look(trial: &Trial, grant: usize, guard: &Hold) -> bool {
    let said = guard.state();
    let world = &mut *trial.world.lock().unwrap();
    let Grant { who, node, czxid, session, is_lost, process, .. } =
        world.journal.grants[grant].clone();
    let is_unaware = world.may_be_unaware(process);
    let journal = &mut world.journal;
    let is_alive = world.net.core.sessions().contains(&session);
    let is_kept = is_alive || is_unaware || journal.ended_early.contains(&session);
    if let LockState::Lost(loss) = said {
        journal.count(match loss {
            Loss::TermOver => "term over",
            Loss::Deadline => "deadlines passed",
            Loss::NodeDeleted => "guards that saw their node go",
            _ => "guards that saw their session go",
        });
        journal.note(|| format!("{who} has lost {node}: {loss}"));
        lost(journal, grant);
        return false;
    }
    if is_lost {
        journal.violate(format!("{who}: {node} was lost, and is {said:?} again"));
    }
    if !is_kept {
        journal.violate(format!("{who}: {node} is {said:?}, of {session}, which is over"));
    }
    if matches!(said, LockState::Suspended { until } if until <= now()) {
        journal.violate(format!("{who}: {node} is {said:?}, which has passed"));
    }
    if is_alive
        && let Some((end, _)) = journal.end(&node, czxid).filter(|(_, by)| *by == Some(session))
    {
        journal.violate(format!("{who}: {node} is {said:?}, which deleted itself at {end}"));
    }
    if let LockState::Suspended { .. } = said {
        journal.count("guards suspended");
    }
    true
}

/// Records that a lock is lost, so that no task believes in it any more.
pub(super) fn lost(journal: &mut Journal, grant: usize) {
    let grant = &mut journal.grants[grant];
    grant.is_lost = true;
    grant.is_believed = false;
}

/// Records that a task is about to release the lock by itself. Returns its node, with the
/// transaction that created it.
pub(super) fn leaves(trial: &Trial, grant: usize) -> (String, i64) {
    let journal = &mut trial.world.lock().unwrap().journal;
    let Grant { process, node, who, czxid, .. } = journal.grants[grant].clone();
    journal.note(|| format!("{who} lets go of {node}"));
    let was_told = journal.told_at(process, &node).is_some();
    let grant = &mut journal.grants[grant];
    grant.was_told = was_told;
    grant.is_believed = false;
    (node, czxid)
}

/// Judges the error of an acquire.
pub(super) fn failed(trial: &Trial, request: &LockRequest, error: &Error) {
    let who = request.who;
    let reliable = trial.is_reliable(request.at);
    let mut world = trial.world.lock().unwrap();
    world.journal.note(|| format!("{who} fails: {error}"));
    let what = match error.kind() {
        ErrorKind::NodeVanished => "acquires whose node vanished",
        ErrorKind::Lost if error.loss() == Some(Loss::TermOver) && request.has_term => {
            "acquires whose term was over"
        }
        ErrorKind::Lost if error.loss() != Some(Loss::TermOver) => {
            "acquires lost when they were due"
        }
        ErrorKind::Client if error.client().is_some_and(zk_client::Error::is_session_over) => {
            "acquires ended with the session"
        }
        _ if passes(error) && error.client().is_some_and(|it| it.code().is_some()) => {
            "acquires refused"
        }
        _ if passes(error) => "acquires that connections broke",
        _ => {
            return world.journal.violate(format!("{who} fails for no good reason: {error}"));
        }
    };
    world.journal.count(what);
    if reliable {
        world.journal.violate(format!("{who} fails though nothing goes wrong: {error}"));
    }
}

/// True if an error is caused by the faults of the storm.
pub(super) fn passes(error: &Error) -> bool {
    error.client().is_some_and(|error| {
        let passes = |code: ErrorCode| {
            matches!(code, ErrorCode::THROTTLED_OP | ErrorCode::NO_AUTH)
                || UNPROVEN.contains(&code.0)
        };
        // Three connections may break in a row at the first request of its kind.
        error.is_connection_loss()
            || matches!(error.kind(), Kind::Behind | Kind::NeverAnswered)
            || error.code().is_some_and(passes)
    })
}
