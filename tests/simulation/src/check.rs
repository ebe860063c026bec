//! The invariants that need the whole history: whose turn it was, and which session wrote what.

use std::collections::BTreeMap;
use std::time::Duration;

use zk_embedded::{Change, Commit, SessionId, Zxid};
use zk_recipes::FencingToken;

use super::journal::{COUNTER, Grant, Journal, Role, contender};

/// The history of one contender's node.
#[derive(Debug)]
struct Tenure {
    path: String,
    session: Option<SessionId>,
    /// The transaction, with its step, from which on no contender ahead excluded it.
    first: Option<(i64, usize)>,
}

/// Follows the queue through the history. Nodes are identified by the transactions that created
/// them: names repeat when a process uses those of its last life in a folder that was created anew.
fn tenures(history: &[Commit]) -> Result<BTreeMap<i64, Tenure>, String> {
    let mut tenures = BTreeMap::<i64, Tenure>::new();
    let mut queue = BTreeMap::<(i64, Role, &str), i64>::new();
    for transaction in history.chunk_by(|one, next| one.zxid == next.zxid) {
        let writes = |commit: &&Commit| commit.path == COUNTER && commit.change == Change::DataSet;
        if let Some(write) = transaction.iter().find(writes) {
            let mut first = queue.values().filter_map(|created| tenures.get(created));
            if !first.any(|one| one.first.is_some() && one.session == write.session) {
                let (zxid, session) = (write.zxid, write.session);
                return Err(format!("{session:?} writes at {zxid} under a lock of somebody else"));
            }
        }
        let is_anothers = |Commit { session, change, path, .. }: &Commit| {
            let place = contender(path).map(|(number, role)| (number, role, path.as_str()));
            let created = place.and_then(|place| queue.get(&place));
            let owner = created.and_then(|created| tenures.get(created)).map(|one| one.session);
            *change == Change::Deleted && owner.is_some_and(|owner| owner != *session)
        };
        // If a session deletes several nodes of others at once, they count as deleted one by one,
        // as each deletion is notified separately.
        let step = if transaction.iter().any(is_anothers) { 1 } else { transaction.len() };
        for (step, changes) in transaction.chunks(step).enumerate() {
            change(&mut tenures, &mut queue, step, changes);
        }
    }
    Ok(tenures)
}

/// Applies changes to the queue, and records who is first then.
fn change<'h>(
    tenures: &mut BTreeMap<i64, Tenure>,
    queue: &mut BTreeMap<(i64, Role, &'h str), i64>,
    step: usize,
    changes: &'h [Commit],
) {
    for Commit { zxid, session, change, path, .. } in changes {
        let Some((number, role)) = contender(path) else {
            continue;
        };
        match change {
            Change::Created => {
                queue.insert((number, role, path), zxid.0);
                let tenure = Tenure { path: path.clone(), session: *session, first: None };
                tenures.insert(zxid.0, tenure);
            }
            Change::Deleted => {
                queue.remove(&(number, role, path.as_str()));
            }
            _ => {}
        }
    }
    let mut ahead = None::<Role>;
    for ((_, role, _), created) in queue {
        if ahead.is_some_and(|ahead| ahead.excludes(*role)) {
            break;
        }
        ahead = Some(*role);
        if let Some(tenure) = tenures.get_mut(created) {
            tenure.first.get_or_insert((changes[0].zxid.0, step));
        }
    }
}

/// Each grant was to the owner of a node whose turn it was, and tokens follow the order of the
/// holders.
pub(super) fn grants(history: &[Commit], grants: &[Grant]) -> Result<(), String> {
    let tenures = tenures(history)?;
    let mut turns = Vec::new();
    let mut newest = FencingToken::new(0, 0);
    for grant in grants {
        let Grant { who, node, .. } = grant;
        let tenure = tenures.get(&grant.czxid).filter(|tenure| tenure.path == *node);
        let Some(tenure) = tenure else {
            return Err(format!("{who} holds {node}, which never was, or with a wrong token"));
        };
        if tenure.session != Some(grant.session) {
            let (own, owner) = (grant.session, tenure.session.unwrap_or_default());
            return Err(format!("{who} of session {own} holds {node} of session {owner}"));
        }
        if contender(node).is_some_and(|(_, role)| role > grant.role) {
            return Err(format!("{who} writes by {node}, a reader's node"));
        }
        match tenure.first {
            Some(first) if first.0 <= grant.zxid.0 => turns.push((first, grant)),
            // The node was deleted, without a notification, before those ahead of it were.
            None if grant.is_untold && !grant.is_there => {}
            first => return Err(format!("{who} holds {node}, first at {first:?}, too early")),
        }
        // Late notifications may come in any order, and readers hold in any order.
        let token = grant.token;
        if grant.role == Role::Exclusive
            && grant.is_there
            && token <= std::mem::replace(&mut newest, token)
        {
            return Err(format!("{who} holds {node} with an old token"));
        }
    }
    turns.retain(|(_, grant)| grant.role == Role::Exclusive);
    turns.sort_by_key(|(first, _)| *first);
    for pair in turns.windows(2) {
        let [(_, before), (_, after)] = pair else {
            continue;
        };
        if before.token >= after.token {
            return Err(format!("{} and {} hold in the wrong order", before.node, after.node));
        }
    }
    Ok(())
}

/// How long it may take without faults until a task knows of a change: a few round trips, and no
/// session timeout.
pub(super) const PROMPT: Duration = Duration::from_millis(250);

/// No contender that was first has waited for longer than a notification takes.
pub(super) fn prompt(history: &[Commit], journal: &Journal) -> Result<(), String> {
    let tenures = tenures(history)?;
    for grant in &journal.grants {
        let first = tenures.get(&grant.czxid).and_then(|tenure| tenure.first);
        let Some(first) = first.and_then(|(first, _)| journal.times.get(&Zxid(first))) else {
            continue;
        };
        let waited = grant.at.saturating_duration_since(*first);
        let excused = journal.faulty_since.is_some_and(|since| since <= grant.at);
        if waited > PROMPT && !excused {
            let Grant { who, node, .. } = grant;
            return Err(format!("{who} is first by {node} for {waited:?} before it holds it"));
        }
    }
    Ok(())
}
