//! Where a broken lock is put to the test: a server in memory, contenders, and a list of events.
//!
//! The time is virtual, so half a minute passes at once. The scene counts who is inside the lock,
//! and does not know which lock it is.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use zk_client::{Client, CreateOptions, Error, SessionId};
use zk_embedded::{Config, Server};

use super::queue::FOLDER;

/// How long a contender waits before the scene takes it for one that waits for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What was seen of a lock.
pub(crate) struct Report {
    /// The events, each with its time.
    pub(crate) log: Vec<String>,
    /// True if the lock did not do what a lock is for.
    pub(crate) is_broken: bool,
    /// The result in a sentence.
    pub(crate) verdict: String,
}

pub(crate) struct Scene {
    pub(crate) server: Server,
    /// A client that is no contender.
    pub(crate) stage: Client,
    start: Instant,
    /// How many contenders there have been.
    connected: Cell<u64>,
    log: RefCell<Vec<String>>,
    inside: RefCell<Vec<&'static str>>,
    most: Cell<usize>,
}

impl Scene {
    pub(crate) async fn new() -> Result<Self, Error> {
        let server = Server::in_memory(Config::new());
        let stage = Client::builder().connector(server.connector()).connect("memory").await?;
        let start = stage.clock().now();
        let (connected, log, inside, most) = Default::default();
        Ok(Self { server, stage, start, connected, log, inside, most })
    }

    /// A scene with the folder of a queue.
    pub(crate) async fn with_folder() -> Result<Self, Error> {
        let scene = Self::new().await?;
        scene.stage.create(FOLDER, b"", &CreateOptions::persistent()).await?;
        Ok(scene)
    }

    /// A contender with a session of its own, which ends after 10 seconds of silence.
    pub(crate) async fn connect(&self) -> Result<Client, Error> {
        // So that the names that it draws are the same each time.
        self.connected.set(self.connected.get() + 1);
        let builder = Client::builder().connector(self.server.connector());
        let builder = builder.seed(self.connected.get());
        builder.connect("memory").await
    }

    /// Whose session the server is to do something to.
    pub(crate) fn session(of: &Client) -> SessionId {
        of.session().map(|session| session.id).unwrap_or_default()
    }

    pub(crate) fn note(&self, what: &str) {
        let time = self.stage.clock().now().duration_since(self.start);
        self.log.borrow_mut().push(format!("{:>5.1} s  {what}", time.as_secs_f64()));
    }

    /// Somebody believes that the lock is theirs from now on.
    pub(crate) fn enter(&self, name: &'static str) {
        self.inside.borrow_mut().push(name);
        let inside = self.inside.borrow().len();
        self.most.set(self.most.get().max(inside));
        let everybody = self.inside.borrow().join(" and ");
        match inside {
            1 => self.note(&format!("{name} holds the lock.")),
            _ => self.note(&format!("{name} gets in, too: {everybody} hold the lock.")),
        }
    }

    /// Somebody has released the lock, or knows that it is lost.
    pub(crate) fn leave(&self, name: &str) {
        self.inside.borrow_mut().retain(|inside| *inside != name);
        self.note(&format!("{name} does not hold the lock any more."));
    }

    /// True if this contender believes that it holds the lock.
    pub(crate) fn is_inside(&self, name: &str) -> bool {
        self.inside.borrow().contains(&name)
    }

    /// The end of a scene about having two owners.
    pub(crate) fn report_exclusion(self) -> Report {
        let is_broken = self.most.get() > 1;
        let verdict = match is_broken {
            true => "Broken: two held the lock at the same time.",
            false => "It holds: never were two inside.",
        };
        self.report(is_broken, verdict)
    }

    pub(crate) fn report(self, is_broken: bool, verdict: &str) -> Report {
        let unfired = self.server.pending_faults();
        if unfired > 0 {
            self.note(&format!("Faults that were set and have never happened: {unfired}."));
        }
        Report { log: self.log.into_inner(), is_broken, verdict: verdict.to_owned() }
    }
}
