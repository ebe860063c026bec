//! Whether the lock did what it is for, from the record alone.

use std::collections::BTreeMap;

use crate::kind::{DATA, Kind};
use crate::record::Record;
use crate::scene::{
    Breach, ClientState, Connection, Event, Fate, LinkState, LockState, NodeState, Role, Span,
    SpanKind, Verdict, VerdictKind,
};
use crate::script::{Do, Mode, Script};

/// Who waits for this long for a lock that nobody holds will wait for ever: longer than a session
/// lives without its client.
const PATIENCE_US: u64 = 15_000_000;

/// What is wrong, when, and in words.
type Found = (VerdictKind, Option<Breach>, String);

/// When each contender took the lock for its own.
pub(crate) fn spans(record: &Record, ended_us: u64) -> Vec<Span> {
    let mut clients = BTreeMap::<&str, &ClientState>::new();
    let mut tree: &[NodeState] = &[];
    let mut spans = Vec::<Span>::new();
    for (index, state) in record.states.iter().enumerate() {
        clients.extend(state.clients.iter().map(|client| (client.who.as_str(), client)));
        tree = state.tree.as_deref().unwrap_or(tree);
        let from_us = record.events.get(index).map_or(0, Event::at_us);
        let to_us = record.events.get(index + 1).map_or(ended_us, Event::at_us);
        for client in clients.values() {
            let kind = match client.lock {
                LockState::Held | LockState::Maybe if !client.owns => SpanKind::Stale,
                LockState::Held => SpanKind::Held,
                LockState::Maybe => SpanKind::Maybe,
                _ => continue,
            };
            // A guard reads the clock, so it needs no event to know that its time is over.
            let to_us = client.lease_until_us.map_or(to_us, |until| until.min(to_us));
            if from_us < to_us {
                extend(&mut spans, client, from_us, to_us, kind);
            }
        }
    }
    spans.sort_by(|a, b| (a.from_us, &a.who).cmp(&(b.from_us, &b.who)));
    spans
}

/// Adds a time to the last span of a contender, or begins another one.
fn extend(spans: &mut Vec<Span>, client: &ClientState, from_us: u64, to_us: u64, kind: SpanKind) {
    let last = spans.iter_mut().rev().find(|span| span.who == client.who);
    match last.filter(|span| span.to_us == from_us && span.kind == kind) {
        Some(span) => span.to_us = to_us,
        None => {
            let (who, mode) = (client.who.clone(), client.mode);
            spans.push(Span { who, from_us, to_us, mode, kind });
        }
    }
}

/// Judges a scene. `harm` is when a store was left wrong by what was written to it, and how.
pub(crate) fn judge(
    kind: Kind,
    script: &Script,
    record: &Record,
    spans: &[Span],
    ended_us: u64,
    harm: Option<(u64, String)>,
) -> Verdict {
    let (owners_at_once, overlap) = overlaps(spans);
    let notifications = notifications(record);
    let (is_store, is_crowd) = (kind.is_case("no_fence"), kind.is_case("herd"));
    let found = match is_store {
        // The store decides, and not who believes what.
        true => harm.map(|(at_us, text)| {
            // It begins when two take the lock for their own, and lasts until it has done harm.
            let from_us = overlap.map_or(at_us, |(breach, _)| breach.from_us.min(at_us));
            (VerdictKind::LostUpdate, Some(Breach { from_us, to_us: at_us }), text)
        }),
        false => overlap
            .map(|(breach, owners)| two_owners(kind, script, record, breach, owners))
            .or_else(|| stale_write(record)),
    };
    let found = found
        .or_else(|| stuck(record, spans, ended_us))
        .or_else(|| is_crowd.then(|| herd(spans.len(), notifications)).flatten());
    let (kind, breach, text) = found.unwrap_or_else(|| {
        let text = match owners_at_once {
            0 => "Nobody held the lock.".to_owned(),
            _ if is_store => {
                "It holds: the store lacks what was paid out, and nothing else.".to_owned()
            }
            _ if is_crowd => {
                format!("It holds: {notifications} notifications for {} turns.", spans.len())
            }
            1 => {
                let losses = losses(record, spans);
                format!("It holds: never did two hold the lock at once.{losses}")
            }
            _ => "It holds: only readers shared the lock.".to_owned(),
        };
        (VerdictKind::Holds, None, text)
    });
    let holds = kind == VerdictKind::Holds;
    Verdict { holds, kind, owners_at_once, breach, notifications, text }
}

/// The most owners at one time, and the first time at which two exclude each other, with them.
fn overlaps(spans: &[Span]) -> (usize, Option<(Breach, [&str; 2])>) {
    let mut most = 0;
    let mut first = None;
    for span in spans {
        let is_inside = |other: &&Span| other.from_us <= span.from_us && span.from_us < other.to_us;
        let inside = spans.iter().filter(is_inside);
        most = most.max(inside.clone().count());
        let excludes = |other: &&Span| {
            other.who != span.who && (other.mode == Mode::Write || span.mode == Mode::Write)
        };
        if let (None, Some(other)) = (&first, inside.clone().find(excludes)) {
            let breach = Breach { from_us: span.from_us, to_us: span.to_us.min(other.to_us) };
            first = Some((breach, [other.who.as_str(), span.who.as_str()]));
        }
    }
    (most, first)
}

/// Two held the lock at once. No lock can prevent that if the session of one was ended by hand.
fn two_owners(
    kind: Kind,
    script: &Script,
    record: &Record,
    breach: Breach,
    owners: [&str; 2],
) -> Found {
    let [one, other] = owners;
    // A session is that of a process, with all its tasks.
    let processes = owners.map(|owner| script.process_named(owner));
    let is_forced = record.events.iter().any(|event| match event {
        Event::Action { what: Do::Expire, who, at_us, .. } => {
            *at_us <= breach.from_us && processes.contains(&script.process_named(who))
        }
        _ => false,
    });
    let text = match is_forced && kind.is_recipe() {
        true => format!(
            "{one} and {other} took the lock for their own: a session was ended by hand, and its \
             holder had not heard of it yet. No lock can prevent that; a store that compares \
             tokens can."
        ),
        false => format!("Broken: {one} and {other} held the lock at once."),
    };
    (VerdictKind::TwoOwners, Some(breach), text)
}

/// A write of somebody who took the lock for its own, and whose node did not have it.
fn stale_write(record: &Record) -> Option<Found> {
    let mut stale = BTreeMap::<&str, bool>::new();
    let mut version = None;
    for (event, state) in record.events.iter().zip(&record.states) {
        let data = state.tree.iter().flatten().find(|node| node.path == DATA);
        let is_written =
            data.is_some_and(|data| version.replace(data.version) != Some(data.version));
        if let Event::Frame(frame) = event
            && is_written
            && data.is_some_and(|data| data.version > 0)
            && stale.get(frame.from.as_str()).copied().unwrap_or_default()
        {
            let breach = Breach { from_us: frame.at_us, to_us: frame.at_us };
            let text = format!("Broken: {} wrote without holding the lock any more.", frame.from);
            return Some((VerdictKind::StaleWrite, Some(breach), text));
        }
        for client in &state.clients {
            let is_holder = matches!(client.lock, LockState::Held | LockState::Maybe);
            stale.insert(&client.who, is_holder && !client.owns);
        }
    }
    None
}

/// Somebody who waits at the end, while nobody has held the lock for long.
fn stuck(record: &Record, spans: &[Span], ended_us: u64) -> Option<Found> {
    let mut waiting = BTreeMap::<&str, u64>::new();
    for (event, state) in record.events.iter().zip(&record.states) {
        for client in &state.clients {
            let waits = matches!(client.lock, LockState::Joining | LockState::Waiting);
            let is_able = client.running
                && client.connection == Connection::Connected
                && client.link == LinkState::Up;
            match waits && is_able {
                true => _ = waiting.entry(&client.who).or_insert(event.at_us()),
                false => _ = waiting.remove(client.who.as_str()),
            }
        }
    }
    let last = spans.iter().map(|span| span.to_us).max().unwrap_or_default();
    let (who, since) = waiting.into_iter().min_by_key(|(_, since)| *since)?;
    let from_us = since.max(last);
    if ended_us.saturating_sub(from_us) < PATIENCE_US {
        return None;
    }
    let text = format!("Broken: nobody holds the lock, and {who} waits for ever.");
    Some((VerdictKind::Stuck, Some(Breach { from_us, to_us: ended_us }), text))
}

/// Who has lost the lock, when its guard knew it, and who had it next.
fn losses(record: &Record, spans: &[Span]) -> String {
    let mut told = String::new();
    let mut lost = BTreeMap::<&str, bool>::new();
    let seconds = |us: u64| us as f64 / 1_000_000.0;
    for (event, state) in record.events.iter().zip(&record.states) {
        for client in &state.clients {
            let is_lost = client.lock == LockState::Lost;
            if lost.insert(&client.who, is_lost) == Some(is_lost) || !is_lost {
                continue;
            }
            let (who, at_us) = (&client.who, event.at_us());
            told.push_str(&format!(" {who} has lost it at {:.3} s", seconds(at_us)));
            let next = spans.iter().find(|span| span.from_us >= at_us);
            told.push_str(&match next {
                Some(next) => {
                    format!(", and {} has it from {:.3} s on.", next.who, seconds(next.from_us))
                }
                None => ", and nobody has it after that.".to_owned(),
            });
        }
    }
    told
}

fn notifications(record: &Record) -> usize {
    let frames = record.events.iter().filter(|event| {
        matches!(event, Event::Frame(frame)
            if frame.content.role == Role::Notification && frame.fate == Fate::Arrived)
    });
    frames.count()
}

/// Many more notifications than turns, where that is what the scene is about.
fn herd(turns: usize, notifications: usize) -> Option<Found> {
    (notifications > 2 * turns).then(|| {
        let text = format!("Broken: {notifications} notifications for {turns} turns.");
        (VerdictKind::Herd, None, text)
    })
}
