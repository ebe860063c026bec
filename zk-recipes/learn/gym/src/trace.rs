//! A run in words and frames, and as a scene that the page of the playground shows.
//!
//! What a frame says is read by the playground, as in a recording of `zk tap`.

use std::time::Duration;

use zk_playground::{
    Event as Shown, Fate, FrameEvent as ShownFrame, Role, Scene, Tone, Verdict, recorded,
};
use zk_simulation::net::Way;
use zk_tap::Side;
use zk_tap::recording::Entry;

use crate::record::{Event, FrameEvent, Record};
use crate::world::name;

const SERVER: &str = "server";

/// How wide a name is in a line.
const WIDTH: usize = 13;

/// Makes a scene of a run. `title` says which one it is, and `reason` why it is broken.
pub(crate) fn scene(title: &str, record: &Record, reason: &str) -> Option<Scene> {
    // In the order of their times, frames of the record and of the scene are the same.
    let mut frames = record.events.iter().filter_map(|event| match event {
        Event::Frame(frame) => Some(frame),
        Event::Note { .. } => None,
    });
    let entries = frames.clone().map(entry).collect::<Vec<_>>();
    let mut scene = recorded(title, &entries, Duration::ZERO);
    let mut shown = std::mem::take(&mut scene.events).into_iter();
    let mut events = Vec::new();
    for event in &record.events {
        let event = match event {
            Event::Frame(_) => match (shown.next(), frames.next()) {
                (Some(Shown::Frame(shown)), Some(frame)) => {
                    Shown::Frame(Box::new(as_it_was(*shown, frame)))
                }
                // What is beyond the bound of a scene is left out.
                _ => break,
            },
            Event::Note { at, process, text, is_bad } => {
                let tone = if *is_bad { Tone::Bad } else { Tone::Plain };
                let (at_us, who) = (micros(*at), name(*process).to_owned());
                Shown::Note { at_us, who, text: text.clone(), tone }
            }
        };
        events.push(event);
    }
    scene.set_events(events);
    let mut names = Vec::new();
    for event in &scene.events {
        let who = match event {
            Shown::Frame(frame) if frame.from == SERVER => &frame.to,
            Shown::Frame(frame) => &frame.from,
            Shown::Note { who, .. } => who,
            _ => continue,
        };
        if !names.contains(who) {
            names.push(who.clone());
        }
    }
    // The lanes of a recording are sessions, and those of a run are processes. One that panics at
    // once has sent nothing.
    let server = scene.lanes.iter().find(|lane| lane.kind == SERVER).cloned()?;
    let client = |process| {
        let mut lane = server.clone();
        (lane.id, lane.kind) = (process, "client");
        lane
    };
    scene.lanes = names.into_iter().map(client).collect();
    scene.lanes.push(server);
    scene.text = Some(title.to_owned());
    if let Some(violation) = &record.violation {
        let text = format!("{}. {reason}", violation.text);
        scene.verdict = Verdict::told(text, micros(violation.at));
    }
    Some(scene)
}

fn entry(frame: &FrameEvent) -> Entry {
    let from = match frame.way {
        Way::Up => Side::Client,
        Way::Down => Side::Server,
    };
    let FrameEvent { at, connection, .. } = *frame;
    Entry::Frame { at, connection, from, payload: frame.payload.to_vec() }
}

/// A frame with what a recording does not know: whose it is, when it was sent, and its fate.
fn as_it_was(mut shown: ShownFrame, frame: &FrameEvent) -> ShownFrame {
    let process = name(frame.process).to_owned();
    (shown.from, shown.to) = match frame.way {
        Way::Up => (process, SERVER.to_owned()),
        Way::Down => (SERVER.to_owned(), process),
    };
    shown.sent_us = micros(frame.sent);
    if frame.is_lost {
        (shown.fate, shown.arrived_us) = (Fate::Lost, None);
    }
    shown
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The lines of a run and its scene, without pings and the handshakes of new sessions. Frames have
/// the numbers at which faults strike.
pub(crate) fn lines(scene: &Scene, record: &Record) -> Vec<String> {
    let line = |(event, known): (&Shown, &Event)| match event {
        Shown::Frame(frame) => {
            let number = match known {
                Event::Frame(FrameEvent { number: Some(number), .. }) => format!("#{number}"),
                _ => String::new(),
            };
            let is_lost = frame.fate == Fate::Lost;
            let says = &frame.content.summary;
            let is_shown = match frame.content.role {
                Role::Ping => false,
                Role::Connect => is_lost || says.contains("resume") || says.contains("over"),
                _ => true,
            };
            let who = format!("{} -> {}", frame.from, frame.to);
            let lost = if is_lost { "   LOST" } else { "" };
            let at = time(frame.at_us);
            is_shown.then(|| format!("{number:>4} {at} {who:WIDTH$}  {says}{lost}"))
        }
        Shown::Note { at_us, who, text, .. } => {
            Some(format!("{:4} {} {who:WIDTH$}  {text}", "", time(*at_us)))
        }
        _ => None,
    };
    scene.events.iter().zip(&record.events).filter_map(line).collect()
}

fn time(micros: u64) -> String {
    format!("{:>8.3} s", micros as f64 / 1e6)
}
