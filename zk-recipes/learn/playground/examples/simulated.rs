//! Writes a run of the simulation with chosen faults as a page, to be opened in a browser.
//!
//! ```text
//! cargo run --release --example simulated -- Lock Apache 2 'Cut@7 Kill@9' page.html
//! ```
//!
//! The arguments are the family, the servers, the latency of links in milliseconds, and each fault
//! with the number of its frame, as a run that fails prints them.

use std::error::Error;
use std::time::Duration;

use zk_playground::{Event, Scene, Tone, Verdict, page, recorded};
use zk_simulation::planned::{self, Strike};
use zk_simulation::{Family, Servers, Told, Trace};
use zk_tap::Side;
use zk_tap::recording::Entry;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let [family, servers, latency, faults, page_file] = &arguments[..] else {
        return Err("usage: simulated FAMILY SERVERS LATENCY 'FAULT@FRAME ...' PAGE".into());
    };
    let named = |one: &Family| format!("{one:?}") == *family;
    let mut planned = Family::ALL.into_iter().filter(|family| family.works_on(Servers::Apache));
    let chosen = planned.find(named).ok_or("there is no such family")?;
    let servers = match &**servers {
        "Apache" => Servers::Apache,
        "Keeper" => Servers::Keeper,
        _ => return Err("servers are Apache or Keeper".into()),
    };
    let strikes = faults.split_whitespace().map(str::parse).collect::<Result<Vec<Strike>, _>>()?;
    let course = planned::run(chosen, servers, latency.parse()?, &strikes, true);
    if course.struck < strikes.len() {
        println!("{} of {} faults strike", course.struck, strikes.len());
    }
    let outcome = course.outcome;
    let title = format!("{family} on {servers:?} servers, {latency} ms, with '{faults}'");
    let scene = scene(&title, &outcome.trace, outcome.violation);
    println!("{title}: {}", scene.verdict.text);
    std::fs::write(page_file, page::of_recording(scene)?)?;
    Ok(())
}

/// The frames of a run, and between them what else is told of it.
fn scene(title: &str, trace: &Trace, violation: Option<String>) -> Scene {
    let mut connections = Vec::new();
    let mut entries = Vec::new();
    for (at, told) in &trace.0 {
        let Told::Frame { connection, is_request, payload } = told else { continue };
        if !connections.contains(connection) {
            connections.push(*connection);
        }
        let number = connections.iter().position(|it| it == connection).unwrap_or_default();
        let from = if *is_request { Side::Client } else { Side::Server };
        let (connection, payload) = (1 + number as u64, payload.clone());
        entries.push(Entry::Frame { at: *at, connection, from, payload });
    }
    let mut scene = recorded(title, &entries, Duration::ZERO);
    // The frames of the scene are those of the trace, in its order.
    let mut frames = std::mem::take(&mut scene.events).into_iter();
    let mut events = Vec::new();
    for (at, told) in &trace.0 {
        let event = match told {
            Told::Frame { .. } => frames.next(),
            // Those on frames are said by the frames, and those that are indented by the replies.
            Told::Line(line) if line.starts_with("net ") || line.starts_with(' ') => continue,
            Told::Line(line) => Some(Event::Note {
                at_us: micros(*at),
                who: "server".to_owned(),
                text: line.clone(),
                tone: if line.starts_with(['!', 'V']) { Tone::Bad } else { Tone::Plain },
            }),
        };
        // What is beyond the bound of a scene is left out.
        let Some(event) = event else { break };
        events.push(event);
    }
    scene.set_events(events);
    match violation {
        Some(violation) => {
            let is_told = |event: &&Event| match event {
                Event::Note { text, .. } => text.contains(&violation),
                _ => false,
            };
            let at = scene.events.iter().find(is_told).map_or(scene.ended_us, Event::at_us);
            scene.verdict = Verdict::told(violation, at);
        }
        None => scene.verdict.text = "no rule is broken".to_owned(),
    }
    scene
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
