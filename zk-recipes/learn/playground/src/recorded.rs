//! A recording of `zk tap` as a scene: what clients and a server have said to each other.
//!
//! Nothing is played here. What the server holds and what the clients believe is not in a
//! recording, so the scene has frames alone. Its times are those of the recording.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use zk_tap::recording::Entry;
use zk_tap::{Side, hex};

use crate::frames::{self, Dialogue};
use crate::scene::{
    Content, Event, Fate, FrameEvent, Lane, Role, Scene, State, Tone, Verdict, VerdictKind,
};
use crate::script::{SERVER, Script};

/// How many events of a recording are shown.
const MOST_EVENTS: usize = 4000;

/// How many bytes of frames are shown.
const MOST_BYTES: usize = 4 << 20;

/// The name of the scene.
pub(crate) const ID: &str = "recording";

/// The title of the scene.
pub(crate) const TITLE: &str = "A recording";

/// Makes a scene of a recording, from a time on. `name` says what the recording is.
///
/// A lane is a session, with all its connections, or a connection that got no session.
///
/// Passwords, tokens and other proofs of identity are replaced by zeros, as is whatever cannot be
/// decoded and may hold one. Data of nodes is shown, and so are access lists, with the hashes of
/// passwords that their ids may have.
///
/// The scene ends after 4000 events or 4 MiB of frames.
pub fn recorded(name: &str, entries: &[Entry], from: Duration) -> Scene {
    let mut entries = entries.iter().collect::<Vec<_>>();
    // Each side of a connection is in order, and a request before its reply.
    entries.sort_by_key(|entry| at(entry));
    let mut reader = Reading { names: names(&entries), ..Reading::default() };
    for entry in entries {
        reader.read(entry, at(entry) >= from);
    }
    let Reading { events, lanes, left_out, ended_us, .. } = reader;
    let text = match (left_out, from) {
        (0, Duration::ZERO) => format!("{name}: {} events.", events.len()),
        (0, _) => format!("{name}: {} events from {from:?} on.", events.len()),
        (_, Duration::ZERO) => {
            format!("{name}: the first {} events. There are {left_out} more.", events.len())
        }
        _ => format!(
            "{name}: the first {} events from {from:?} on. There are {left_out} more.",
            events.len()
        ),
    };
    Scene {
        id: Some(ID),
        title: Some(TITLE),
        text: Some(text),
        look: None,
        script: Script {
            seed: 0,
            lock: String::new(),
            contenders: Vec::new(),
            actions: Vec::new(),
            until_ms: ended_us / 1000,
        },
        ended_us,
        lanes: lanes
            .into_iter()
            .chain([Lane { id: SERVER.to_owned(), kind: "server", of: None }])
            .collect(),
        states: vec![State::default(); events.len().max(1)],
        events,
        spans: Vec::new(),
        unfired: Vec::new(),
        // There is no lock to judge.
        verdict: Verdict {
            holds: true,
            kind: VerdictKind::Holds,
            owners_at_once: 0,
            breach: None,
            notifications: 0,
            text: String::new(),
        },
    }
}

fn at(entry: &Entry) -> Duration {
    match entry {
        Entry::Frame { at, .. } | Entry::Dropped { at, .. } | Entry::Closed { at, .. } => *at,
        _ => Duration::ZERO,
    }
}

/// The name of each connection's client: connections of one session have the same.
fn names(entries: &[&Entry]) -> BTreeMap<u64, String> {
    // What the server has answered first on each connection.
    let mut answers = BTreeMap::new();
    for entry in entries {
        if let Entry::Frame { connection, from: Side::Server, payload, .. } = entry {
            answers.entry(*connection).or_insert(payload);
        }
    }
    let mut names = BTreeMap::new();
    let mut sessions = BTreeMap::new();
    let mut count = 0;
    for entry in entries {
        let Entry::Frame { connection, .. } = entry else { continue };
        if names.contains_key(connection) {
            continue;
        }
        let mut fresh = || {
            count += 1;
            format!("client {count}")
        };
        let answer = answers.get(connection);
        let name = match answer.and_then(|answer| frames::session(answer, Role::Connect)) {
            Some(session) => sessions.entry(session.0).or_insert_with(fresh).clone(),
            None => fresh(),
        };
        names.insert(*connection, name);
    }
    names
}

/// A recording that is being read.
#[derive(Default)]
struct Reading {
    names: BTreeMap<u64, String>,
    dialogues: BTreeMap<u64, Dialogue>,
    /// Who has sent a frame on which connection.
    begun: HashSet<(u64, Side)>,
    lanes: Vec<Lane>,
    events: Vec<Event>,
    /// The bytes of the frames among them.
    bytes: usize,
    left_out: u64,
    ended_us: u64,
}

impl Reading {
    /// Reads an entry. One that is not shown may still be the request of a reply that is.
    fn read(&mut self, entry: &Entry, is_shown: bool) {
        let at_us = u64::try_from(at(entry).as_micros()).unwrap_or(u64::MAX);
        let event = match entry {
            Entry::Frame { connection, from, payload, .. } => {
                self.frame(at_us, *connection, *from, payload)
            }
            Entry::Dropped { dropped, .. } => Some(Event::Note {
                at_us,
                who: SERVER.to_owned(),
                text: format!(
                    "the tap was too slow: from about here on {dropped} events are missing"
                ),
                tone: Tone::Bad,
            }),
            Entry::Closed { connection, .. } => self.names.get(connection).map(|who| Event::Note {
                at_us,
                who: who.clone(),
                text: format!("the connection of {who} is over"),
                tone: Tone::Plain,
            }),
            _ => None,
        };
        let Some(event) = event.filter(|_| is_shown) else { return };
        let bytes = match &event {
            Event::Frame(frame) => frame.bytes.len() / 2,
            _ => 0,
        };
        let is_full = self.events.len() >= MOST_EVENTS || self.bytes + bytes > MOST_BYTES;
        // What comes behind an event that is left out is left out, too.
        if is_full || self.left_out > 0 {
            self.left_out += 1;
            return;
        }
        self.bytes += bytes;
        let who = match &event {
            Event::Frame(frame) if frame.from == SERVER => &frame.to,
            Event::Frame(frame) => &frame.from,
            Event::Action { who, .. } | Event::Note { who, .. } => who,
        };
        if who != SERVER && self.lanes.iter().all(|lane| lane.id != *who) {
            self.lanes.push(Lane { id: who.clone(), kind: "client", of: None });
        }
        self.ended_us = at_us;
        self.events.push(event);
    }

    fn frame(&mut self, at_us: u64, connection: u64, side: Side, payload: &[u8]) -> Option<Event> {
        let client = self.names.get(&connection)?.clone();
        let dialogue = self.dialogues.entry(connection).or_default();
        // Handshakes begin with a version, which is 0, and all other frames with a number, which
        // is not. So a side whose first frames are missing is not taken to begin with a handshake.
        if self.begun.insert((connection, side)) && !payload.starts_with(&[0; 4]) {
            dialogue.begin_late(side);
        }
        let server = SERVER.to_owned();
        let (from, to, mut content, request_us) = match side {
            Side::Client => (client, server, dialogue.request(payload, at_us), None),
            Side::Server => {
                let (content, request_us) = dialogue.reply(payload);
                (server, client, content, request_us)
            }
        };
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
        let mut bytes = [&length[..], payload].concat();
        hide(&mut bytes, &mut content);
        Some(Event::Frame(Box::new(FrameEvent {
            at_us,
            from,
            to,
            sent_us: at_us,
            arrived_us: Some(at_us),
            fate: Fate::Arrived,
            content,
            request_us,
            bytes: hex::encode(&bytes),
        })))
    }
}

/// Removes what is secret, or may be, from a frame and from what is said of it.
fn hide(frame: &mut [u8], content: &mut Content) {
    for secret in &content.secrets {
        match frame.get_mut(secret.clone()) {
            Some(secret) => secret.fill(0),
            None => frame.fill(0),
        }
        for field in &mut content.fields {
            let is_inside = secret.start <= field.offset;
            if is_inside && field.offset + field.length <= secret.end && field.length > 0 {
                field.value = format!("({} bytes that are not shown)", field.length);
            }
        }
    }
}
