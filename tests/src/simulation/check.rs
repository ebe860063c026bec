//! The invariants, held against what the server has committed.

use std::collections::BTreeMap;

use zk_embedded::{Change, Commit, SessionId};

use super::journal::{FOLDER, Grant};

/// What became of one contender's node.
#[derive(Debug)]
struct Tenure {
    path: String,
    session: Option<SessionId>,
    /// The transaction from which on nobody was ahead.
    first: Option<i64>,
}

/// The number behind the last dash of a contender's path.
fn sequence(path: &str) -> Option<i64> {
    path.strip_prefix(FOLDER)?.rsplit_once("-lock-")?.1.parse().ok()
}

/// Follows the queue through the history. Nodes go by the transactions that created them: names
/// come again when a process makes those of its last life in a folder that was made anew.
fn tenures(history: &[Commit]) -> BTreeMap<i64, Tenure> {
    let mut tenures = BTreeMap::<i64, Tenure>::new();
    let mut queue = BTreeMap::new();
    for transaction in history.chunk_by(|one, next| one.zxid == next.zxid) {
        for Commit { zxid, session, change, path, .. } in transaction {
            let Some(sequence) = sequence(path) else {
                continue;
            };
            match change {
                Change::Created => {
                    queue.insert((sequence, path.as_str()), zxid.0);
                    let tenure = Tenure { path: path.clone(), session: *session, first: None };
                    tenures.insert(zxid.0, tenure);
                }
                Change::Deleted => {
                    queue.remove(&(sequence, path.as_str()));
                }
                _ => {}
            }
        }
        if let Some((_, created)) = queue.first_key_value()
            && let Some(tenure) = tenures.get_mut(created)
        {
            tenure.first.get_or_insert(transaction[0].zxid.0);
        }
    }
    tenures
}

/// Each grant was to the owner of a node that was first; tokens order the holders.
pub(super) fn grants(history: &[Commit], grants: &[Grant]) -> Result<(), String> {
    let tenures = tenures(history);
    let mut turns = Vec::new();
    let mut newest = 0;
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
        match tenure.first {
            Some(first) if first <= grant.zxid.0 => turns.push((first, grant)),
            first => return Err(format!("{who} holds {node}, first at {first:?}, too early")),
        }
        // Who is told too late may be told in any order.
        if grant.is_there && grant.czxid <= std::mem::replace(&mut newest, grant.czxid) {
            return Err(format!("{who} holds {node} with an old token"));
        }
    }
    turns.sort_by_key(|(first, _)| *first);
    for pair in turns.windows(2) {
        let [(_, before), (_, after)] = pair else {
            continue;
        };
        if before.czxid >= after.czxid {
            return Err(format!("{} and {} hold in the wrong order", before.node, after.node));
        }
    }
    Ok(())
}
