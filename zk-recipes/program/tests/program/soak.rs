//! Disasters, one after the other: programs, commands and watchdogs are killed and stopped, and
//! connections and servers fail. There are never two commands at once, and none is left behind.
//!
//! A command holds a lock of the system on a file, with all processes that it starts. Where that
//! lock is taken, another command lives. It also writes its token to that file all the time, so
//! that a late write is seen.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgid, kill_process};
use tokio::process::Command;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use zk_embedded::{Config, Server};
use zk_recipes::FencingToken;

use crate::program::{Process, start_command};

/// How many servers there are, each with its programs, that have disasters at the same time.
const LANES: u32 = 4;

/// How many programs fight for the lock of a lane.
const PROGRAMS: usize = 3;

/// Half of the commands do not stop when they are asked to.
const COMMAND: &str = "exec 9>>\"$RECORDS\"; flock -n 9 || echo both
    [ $(($$ % 2)) = 0 ] && trap '' TERM
    echo held $PPID $$ $ZK_LOCK_NODE $ZK_LOCK_TOKEN
    while :; do echo $ZK_LOCK_TOKEN >&9; sleep 0.02 & wait; done";

/// What strikes the holder.
#[derive(Clone, Copy, Debug)]
enum Disaster {
    ProgramKilled,
    ProgramStopped,
    ProgramEnded,
    CommandKilled,
    CommandStoppedAndSessionCut,
    WatchdogKilled,
    WatchdogStoppedAndSessionCut,
    SessionCut,
    ConnectionsCut,
    ServerDown,
}

const DISASTERS: [Disaster; 10] = [
    Disaster::ProgramKilled,
    Disaster::ProgramStopped,
    Disaster::ProgramEnded,
    Disaster::CommandKilled,
    Disaster::CommandStoppedAndSessionCut,
    Disaster::WatchdogKilled,
    Disaster::WatchdogStoppedAndSessionCut,
    Disaster::SessionCut,
    Disaster::ConnectionsCut,
    Disaster::ServerDown,
];

/// A command that holds the lock, as it has told.
#[derive(Clone, Debug)]
struct Holder {
    program: Pid,
    command: Pid,
    watchdog: Pid,
    node: String,
    token: FencingToken,
}

impl Holder {
    /// `None` if it has ended meanwhile.
    fn parse(line: &str) -> Option<Self> {
        let words = line.split(' ').collect::<Vec<_>>();
        let ["held", program, command, node, token] = words[..] else {
            panic!("a command said {line:?}");
        };
        let [program, command] =
            [program, command].map(|word| word.parse().ok().and_then(Pid::from_raw).unwrap());
        let watchdog = getpgid(Some(command)).ok()?;
        let (node, token) = (node.to_owned(), token.parse().unwrap());
        Some(Self { program, command, watchdog, node, token })
    }
}

/// One server with its programs.
struct Lane {
    server: Server,
    lines: UnboundedReceiver<String>,
    last: Option<FencingToken>,
}

impl Lane {
    /// The next command that holds the lock.
    async fn holder(&mut self) -> Holder {
        loop {
            let line = tokio::time::timeout(Duration::from_secs(60), self.lines.recv()).await;
            let line = line.expect("the lock is held again").expect("programs that run");
            let Some(holder) = Holder::parse(&line) else { continue };
            assert!(Some(holder.token) > self.last, "{holder:?} after {:?}", self.last);
            self.last = Some(holder.token);
            return holder;
        }
    }

    fn cut(&self, holder: &Holder) {
        let history = self.server.history();
        let created = history.iter().find(|commit| commit.path == holder.node).unwrap();
        self.server.partition(created.session.unwrap());
    }

    /// Lets a disaster strike the holder, and returns the next one.
    async fn strike(&mut self, holder: &Holder, disaster: Disaster) -> Holder {
        // What is struck may have ended by itself.
        let send = |process, signal| kill_process(process, signal).unwrap_or_default();
        match disaster {
            Disaster::ProgramKilled => send(holder.program, Signal::KILL),
            Disaster::ProgramStopped => send(holder.program, Signal::STOP),
            Disaster::CommandKilled => send(holder.command, Signal::KILL),
            Disaster::WatchdogKilled => send(holder.watchdog, Signal::KILL),
            Disaster::SessionCut => self.cut(holder),
            Disaster::ServerDown => self.server.set_serving(false),
            Disaster::ProgramEnded => {
                send(holder.program, Signal::TERM);
                send(holder.command, Signal::KILL);
            }
            Disaster::CommandStoppedAndSessionCut => {
                send(holder.command, Signal::STOP);
                self.cut(holder);
            }
            Disaster::WatchdogStoppedAndSessionCut => {
                send(holder.watchdog, Signal::STOP);
                self.cut(holder);
            }
            Disaster::ConnectionsCut => {
                self.server.disconnect_all();
                send(holder.command, Signal::KILL);
            }
        }
        if let Disaster::ServerDown = disaster {
            // The command ends although nobody else is let in.
            if let Some(command) = Process::of(holder.command) {
                tokio::task::block_in_place(|| command.end());
            }
            self.server.set_serving(true);
        }
        let next = self.holder().await;
        send(holder.program, Signal::CONT);
        self.server.heal();
        next
    }
}

/// Runs `zk lock` again and again, and passes on what the commands print.
async fn fight(address: String, records: String, lines: UnboundedSender<String>, stop: Stop) {
    let command = ["lock", "--session-timeout", "2", "/lock", "--", "sh", "-c", COMMAND];
    while !stop.load(Ordering::Relaxed) {
        let mut zk = Command::new(env!("CARGO_BIN_EXE_zk"));
        let zk = zk.args(command).env("ZK_CONNECT", &address).env("RECORDS", &records);
        let mut program = start_command(zk);
        while let Some(line) = program.output.next_line().await.unwrap() {
            // At the end nobody listens.
            lines.send(line).unwrap_or_default();
        }
        program.child.wait().await.unwrap();
    }
}

type Stop = Arc<AtomicBool>;

/// Runs a lane with this number of disasters.
async fn lane(number: u32, disasters: usize) {
    let folder = std::env::temp_dir().join(format!("zk-soak-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let records = folder.join("records");
    let config = Config::new().tick_time(Duration::from_millis(200)).keep_history(true);
    let server = Server::with(config).await.unwrap();
    let (sender, lines) = unbounded_channel();
    let stop = Stop::default();
    let mut programs = JoinSet::new();
    for _ in 0..PROGRAMS {
        let records = records.to_str().unwrap().to_owned();
        let address = server.address().to_owned();
        programs.spawn(fight(address, records, sender.clone(), Arc::clone(&stop)));
    }

    let mut lane = Lane { server, lines, last: None };
    let mut holder = lane.holder().await;
    for round in 0..disasters {
        let at = (round * LANES as usize + number as usize) * 7;
        let disaster = DISASTERS[at % DISASTERS.len()];
        holder = lane.strike(&holder, disaster).await;
    }

    stop.store(true, Ordering::Relaxed);
    // The programs that wait come to hold the lock, one after the other. A program has ended when
    // none of its processes has its output any more, so a command that is left is waited for.
    loop {
        kill_process(holder.program, Signal::KILL).unwrap_or_default();
        tokio::select! {
            next = lane.holder() => holder = next,
            joined = programs.join_next() => match joined {
                Some(joined) => joined.unwrap(),
                None => break,
            },
        }
    }
    check_records(&records);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Checks that no command has written after a later one.
fn check_records(records: &Path) {
    let tokens = std::fs::read_to_string(records).unwrap();
    let tokens = tokens.lines().map(|line| line.parse::<FencingToken>().unwrap());
    let tokens = tokens.collect::<Vec<_>>();
    assert!(!tokens.is_empty());
    assert!(tokens.is_sorted(), "a command wrote after the next one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn there_are_never_two_commands_at_once_whatever_is_killed_or_stopped() {
    let disasters = if std::env::var_os("ZK_SOAK").is_some() { 250 } else { 3 };
    let mut lanes = JoinSet::new();
    for number in 0..LANES {
        lanes.spawn(lane(number, disasters));
    }
    while let Some(lane) = lanes.join_next().await {
        lane.unwrap();
    }
}
