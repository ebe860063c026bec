//! Plays a script: a server, its contenders and their network, in one thread and virtual time.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep_until};
use zk_client::{Client, CreateOptions};
use zk_inputs::Random;
use zk_simulation::clock::{self, now};
use zk_simulation::net::Traffic;
use zk_simulation::wire::{Dialer, pump};

use crate::actor::Actor;
use crate::error::{Code, Error};
use crate::kind::{DATA, FOLDER, Kind};
use crate::locks::holding::Memory;
use crate::locks::seat::{Seat, Stores};
use crate::process::{Command, Process};
use crate::record::Record;
use crate::scene::{Connection, Event, Lane, LinkState, Scene, Tone};
use crate::script::{Action, Contender, Do, SERVER, Script, server_apart};
use crate::verdict;
use crate::world::{self, Shared, World};

/// More events than this end a scene, so that its memory is bounded.
const MAX_EVENTS: usize = 4000;

/// Plays a script from its begin to its end. The same script gives the same scene.
///
/// It blocks the thread for as long as that takes, some milliseconds, and must not be called from
/// within a runtime of tokio.
///
/// # Errors
///
/// The script is beyond a bound, or makes no sense.
pub fn play(script: &Script) -> Result<Scene, Error> {
    play_up_to(script, MAX_EVENTS)
}

/// Plays a script until so many events have happened.
fn play_up_to(script: &Script, most_events: usize) -> Result<Scene, Error> {
    let (script, kind) = script.check()?;
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    LocalSet::new().block_on(&runtime, Stage::play(script, kind, most_events))
}

fn failed(error: &dyn std::fmt::Display) -> Error {
    Error::new(Code::Failed, format!("the scene cannot be played: {error}"))
}

/// A scene that is under way.
struct Stage {
    script: Script,
    kind: Kind,
    world: Shared,
    stores: Rc<Stores>,
    random: Random,
    processes: Vec<Option<Process>>,
    memories: Vec<Memory>,
    /// The replies that are to be lost, in words, by the contender that is to lose one.
    losses: Vec<Option<String>>,
    /// The actions that found nothing to act on, in words.
    unfired: Vec<String>,
}

impl Stage {
    async fn play(script: Script, kind: Kind, most_events: usize) -> Result<Scene, Error> {
        let mut random = Random::new(script.seed);
        let actors = script.contenders.iter().enumerate();
        let actors = actors
            .map(|(index, one)| Actor::new(one, script.process_of(index), script.isolates(index)));
        let actors = actors.collect();
        let world = Arc::new(Mutex::new(World::new(actors, random.fork(), most_events)));
        spawn_local(pump(Arc::clone(&world)));
        set(&world, kind).await.map_err(|error| failed(&error))?;
        world::lock(&world).begin();
        let count = script.contenders.len();
        let mut stage = Self {
            script,
            kind,
            world,
            stores: Stores::new(),
            random,
            processes: (0..count).map(|_| None).collect(),
            memories: vec![Memory::default(); count],
            losses: vec![None; count],
            unfired: Vec::new(),
        };
        for index in 0..count {
            if stage.script.process_of(index) == index {
                stage.start(index)?;
            }
        }
        let begin = Instant::from_std(now());
        let full = Arc::clone(&world::lock(&stage.world).full);
        tokio::select! {
            biased;
            () = full.notified() => {}
            played = stage.run(begin) => played?,
        }
        Ok(stage.end())
    }

    async fn run(&mut self, begin: Instant) -> Result<(), Error> {
        for (index, action) in self.script.actions.clone().into_iter().enumerate() {
            sleep_until(begin + Duration::from_millis(action.at_ms)).await;
            self.act(index, &action)?;
        }
        sleep_until(begin + Duration::from_millis(self.script.until_ms)).await;
        Ok(())
    }

    /// Starts the process of a contender, with all its tasks.
    fn start(&mut self, index: usize) -> Result<(), Error> {
        let tasks = self.tasks_of(index);
        let seats = |client: Client| {
            let seat = |(index, contender): (usize, &Contender)| Seat {
                kind: self.kind,
                client: client.clone(),
                name: contender.name.as_str().into(),
                index,
                mode: contender.mode,
                world: Arc::clone(&self.world),
                stores: Rc::clone(&self.stores),
                node: Rc::default(),
            };
            let contenders = self.script.contenders.iter().enumerate();
            contenders.filter(|(index, _)| tasks.contains(index)).map(seat).collect()
        };
        let seed = self.random.next();
        let memory = self.memories.get(index).cloned().unwrap_or_default();
        let process = Process::start(seats, index, &self.world, seed, memory);
        if let Some(place) = self.processes.get_mut(index) {
            *place = Some(process.map_err(|error| failed(&error))?);
        }
        Ok(())
    }

    /// Ends the process of a contender. Returns true if there was one.
    fn kill(&mut self, index: usize) -> bool {
        let process = self.processes.get_mut(index).and_then(Option::take);
        let (Some(process), Some(memory)) = (process, self.memories.get_mut(index)) else {
            return false;
        };
        *memory = process.kill();
        true
    }

    /// The contenders in a process, which is the first of them.
    fn tasks_of(&self, process: usize) -> Vec<usize> {
        let all = 0..self.script.contenders.len();
        all.filter(|index| self.script.process_of(*index) == process).collect()
    }

    fn act(&mut self, number: usize, action: &Action) -> Result<(), Error> {
        let Action { who, what, ms, .. } = action;
        let Some(mut index) = self.script.contenders.iter().position(|one| one.name == *who) else {
            return Ok(());
        };
        let mut who = who;
        if what.is_of_process() {
            index = self.script.process_of(index);
            who = self.script.contenders.get(index).map_or(who, |process| &process.name);
        }
        let text = match ms {
            Some(ms) => format!("{who} {}: {ms} ms", what.text()),
            None => format!("{who} {}", what.text()),
        };
        let told = format!("{text}, at {} ms.", action.at_ms);
        {
            let mut world = world::lock(&self.world);
            let at_us = world.now_us();
            let (who, what) = (who.clone(), *what);
            world.push(Event::Action { at_us, who, what, text, action: number });
        }
        let has_happened = match what {
            Do::Acquire => self.tell(index, Command::Acquire),
            Do::Release => self.tell(index, Command::Release),
            Do::Drop => self.tell(index, Command::Drop),
            Do::Work => {
                let time = Duration::from_millis(ms.unwrap_or_default());
                self.tell(index, Command::Work(time))
            }
            Do::Write => self.tell(index, Command::Write),
            Do::FencedWrite => self.tell(index, Command::FencedWrite),
            Do::Stop | Do::Resume => self.halt(index, *what == Do::Stop),
            Do::Crash => {
                let is_killed = self.kill(index);
                self.forget(index, Connection::Gone);
                is_killed
            }
            Do::Restart => {
                self.kill(index);
                self.forget(index, Connection::Connecting);
                self.start(index)?;
                true
            }
            Do::Cut | Do::Heal | Do::Reset | Do::Isolate | Do::Expire => self.disturb(index, *what),
            Do::Delay => {
                self.with_actor(index, |actor| actor.delay_ms = ms.unwrap_or_default());
                true
            }
            Do::LoseReply => {
                self.lose_reply(index, &told);
                true
            }
        };
        if !has_happened {
            self.note_nothing(index, "notices nothing: there was nothing to act on");
            self.unfired.push(told);
        }
        Ok(())
    }

    /// Has the next reply lost. What is asked twice before a reply has come happens once.
    fn lose_reply(&mut self, index: usize, told: &str) {
        self.forget_lost_replies();
        self.with_actor(index, |actor| actor.loses_reply = true);
        if let Some(loss) = self.losses.get_mut(index) {
            self.unfired.extend(loss.replace(told.to_owned()));
        }
    }

    /// Forgets the losses of replies that have happened.
    fn forget_lost_replies(&mut self) {
        for (actor, loss) in world::lock(&self.world).actors.iter().zip(&mut self.losses) {
            *loss = loss.take().filter(|_| actor.loses_reply);
        }
    }

    fn forget(&self, process: usize, connection: Connection) {
        for index in self.tasks_of(process) {
            self.with_actor(index, |actor| actor.forget(connection));
        }
    }

    /// Tells a contender something. Returns true if there is anybody to be told.
    fn tell(&self, index: usize, command: Command) -> bool {
        let process = self.script.process_of(index);
        let process = self.processes.get(process).and_then(Option::as_ref);
        process.is_some_and(|process| {
            process.tell(index, command);
            true
        })
    }

    fn note_nothing(&self, index: usize, text: &str) {
        if let Some(contender) = self.script.contenders.get(index) {
            world::lock(&self.world).note(&contender.name, Tone::Plain, text);
        }
    }

    /// Stops a process or lets it run. Returns true if that is a change.
    fn halt(&self, index: usize, is_stopped: bool) -> bool {
        let Some(process) = self.processes.get(index).and_then(Option::as_ref) else {
            return false;
        };
        let mut was_running = false;
        self.with_actor(index, |actor| {
            was_running = std::mem::replace(&mut actor.running, !is_stopped);
        });
        if is_stopped {
            process.stop()
        } else {
            process.resume()
        }
        was_running == is_stopped
    }

    /// Does something to the link or the session of a contender. Returns true if that is a change.
    fn disturb(&self, index: usize, what: Do) -> bool {
        let mut world = world::lock(&self.world);
        let session = world.session(index);
        let link = world.actors.get(index).map(|actor| actor.link);
        match what {
            Do::Cut => {
                world.set_link(index, LinkState::Cut);
                world.lose_all(index);
                link != Some(LinkState::Cut)
            }
            Do::Heal => {
                match link {
                    // Both ends have sent what never arrived, so that the connection is of no use.
                    Some(LinkState::Cut) => {
                        world.set_link(index, LinkState::Up);
                        world.reset(index);
                    }
                    Some(LinkState::Isolated) => world.reunite(),
                    _ => {}
                }
                link != Some(LinkState::Up)
            }
            Do::Reset => {
                let has_links = !world.connections_of(index).is_empty();
                world.reset(index);
                has_links
            }
            Do::Isolate => {
                let is_isolated = world.isolate(index);
                if is_isolated && link == Some(LinkState::Up) {
                    world.set_link(index, LinkState::Isolated);
                }
                is_isolated
            }
            _ => session.is_some_and(|session| {
                world.serve(|core, now| core.expire(now, session));
                true
            }),
        }
    }

    fn with_actor(&self, index: usize, act: impl FnOnce(&mut Actor)) {
        if let Some(actor) = world::lock(&self.world).actors.get_mut(index) {
            act(actor);
        }
    }

    fn end(mut self) -> Scene {
        self.forget_lost_replies();
        self.unfired.extend(self.losses.iter_mut().filter_map(Option::take));
        let mut world = world::lock(&self.world);
        world.finish();
        let ended_us = world.now_us();
        let record = std::mem::replace(&mut world.record, Record::new(0));
        let lane = |id: &str, kind| Lane { id: id.to_owned(), kind, of: None };
        let contenders = self.script.contenders.iter();
        let clients = contenders.clone().map(|one| lane(&one.name, "client"));
        let apart = contenders.enumerate().filter(|(index, _)| self.script.isolates(*index));
        let apart = apart.map(|(_, one)| Lane {
            of: Some(one.name.clone()),
            ..lane(&server_apart(&one.name), "server")
        });
        let servers = std::iter::once(lane(SERVER, "server")).chain(apart);
        let spans = verdict::spans(&record, ended_us);
        let harm = self.stores.harm();
        let verdict = verdict::judge(self.kind, &self.script, &record, &spans, ended_us, harm);
        Scene {
            id: None,
            title: None,
            text: None,
            look: None,
            ended_us,
            lanes: servers.chain(clients).collect(),
            events: record.events,
            states: record.states,
            spans,
            verdict,
            unfired: self.unfired,
            script: self.script,
        }
    }
}

/// Creates the nodes that the scene begins with. That is not recorded.
async fn set(world: &Shared, kind: Kind) -> Result<(), zk_client::Error> {
    let dialer = Dialer { network: Arc::clone(world), party: None };
    let client = clock::client().seed(0).connector(dialer).connect("zk:2181").await?;
    client.create(DATA, b"", &CreateOptions::persistent()).await?;
    if kind.has_folder() {
        let options = match kind.is_recipe() {
            true => CreateOptions::container(),
            false => CreateOptions::persistent(),
        };
        client.create(FOLDER, b"", &options).await?;
    }
    client.close().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn a_scene_ends_when_it_has_so_many_events_as_it_may_have() {
        let script = &catalogue::scenes()[0].script;
        let whole = play(script).unwrap();
        let count = whole.events.len();
        assert_eq!(whole.ended_us, script.until_ms * 1000);
        for most in [1, 2, count / 2, count - 1] {
            let scene = play_up_to(script, most).unwrap();
            assert_eq!((scene.events.len(), scene.states.len()), (most, most));
            assert!(scene.ended_us < whole.ended_us, "{most}: it ends at {}", scene.ended_us);
            assert!(scene.events == whole.events[..most], "{most}: it begins as the whole one");
        }
        assert_eq!(play_up_to(script, count + 1).unwrap(), whole);
    }
}
