//! What is to be played: the lock, the contenders, and what happens when.
//!
//! A script comes from a browser, so everything in it has a bound, which `Script::check` applies
//! before anything is played.

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error};

/// The bounds of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Limits {
    /// How many contenders there may be.
    pub contenders: usize,
    /// How many actions there may be.
    pub actions: usize,
    /// How long a scene may last, in milliseconds.
    pub until_ms: u64,
    /// The size of a script as JSON.
    pub body_bytes: usize,
    /// How long a contender's name may be.
    pub name_letters: usize,
    /// How long a frame may be delayed and work may last, in milliseconds.
    pub delay_ms: u64,
}

/// The bounds of every script.
pub const LIMITS: Limits = Limits {
    contenders: 8,
    actions: 100,
    until_ms: 120_000,
    body_bytes: 16 * 1024,
    name_letters: 12,
    delay_ms: 10_000,
};

/// The name of the server's lane, which no contender can have.
pub(crate) const SERVER: &str = "server";

/// The name of the lane of a contender's server, where that is drawn apart from the others.
pub(crate) fn server_apart(of: &str) -> String {
    format!("{of}'s server")
}

/// A script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Script {
    /// Decides everything that is random.
    pub seed: u64,
    /// The kind of the lock.
    pub lock: String,
    /// Those who want it.
    pub contenders: Vec<Contender>,
    /// What happens.
    pub actions: Vec<Action>,
    /// When the scene ends, in virtual milliseconds.
    pub until_ms: u64,
}

/// Somebody who wants the lock: a process with a session of its own, or a task of such a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Contender {
    /// The name.
    pub name: String,
    /// How the lock is wanted.
    #[serde(default)]
    pub mode: Mode,
    /// The contender in whose process it is a task. Without one, it is a process of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Mode {
    /// Beside other readers.
    Read,
    /// Alone.
    #[default]
    Write,
}

/// Something that happens at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Action {
    /// The virtual time.
    pub at_ms: u64,
    /// The name of the contender.
    pub who: String,
    /// What happens.
    #[serde(rename = "do")]
    pub what: Do,
    /// How long, for a delay and for work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
}

/// The kinds of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Do {
    /// Starts to acquire the lock.
    Acquire,
    /// Releases it.
    Release,
    /// Drops the guard, or the future that waits for it.
    Drop,
    /// Works for a time, before it does what else it is told.
    Work,
    /// Writes the data without a fence.
    Write,
    /// Writes the data only if the lock is still held.
    FencedWrite,
    /// Stops the process.
    Stop,
    /// Lets it run again.
    Resume,
    /// Cuts the link.
    Cut,
    /// Mends it.
    Heal,
    /// Ends the connection.
    Reset,
    /// Makes frames take longer.
    Delay,
    /// Loses the next reply.
    LoseReply,
    /// Cuts the client's server off from the other servers.
    Isolate,
    /// Ends the session.
    Expire,
    /// Ends the process.
    Crash,
    /// Starts a new one.
    Restart,
}

/// What the page shows of a kind of action.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Description {
    #[serde(rename = "do")]
    pub(crate) what: Do,
    pub(crate) text: &'static str,
    pub(crate) on: &'static str,
    pub(crate) ms: bool,
}

/// All kinds, in the order in which they are offered. The texts follow the name of a contender.
pub(crate) const ACTIONS: [Description; 17] = [
    describe(Do::Acquire, "lock", "starts to acquire the lock"),
    describe(Do::Release, "lock", "releases the lock"),
    describe(Do::Drop, "lock", "drops the guard, or the future that waits for it"),
    describe(Do::Work, "lock", "works before it does anything else"),
    describe(Do::Write, "lock", "writes the data without a fence"),
    describe(Do::FencedWrite, "lock", "writes the data only if the lock is still held"),
    describe(Do::Stop, "process", "is stopped: nothing of the process runs"),
    describe(Do::Resume, "process", "runs again"),
    describe(Do::Crash, "process", "crashes: the process vanishes"),
    describe(Do::Restart, "process", "starts again, with a new session"),
    describe(Do::Cut, "network", "is cut off: everything on the link is lost"),
    describe(Do::Heal, "network", "is reachable again"),
    describe(Do::Reset, "network", "loses the connection, and is told so"),
    describe(Do::Delay, "network", "has a slow link from now on"),
    describe(Do::LoseReply, "network", "will not get the next reply: the connection breaks"),
    describe(Do::Isolate, "server", "has a server that is cut off from the others"),
    describe(Do::Expire, "server", "has a session that ends now"),
];

const fn describe(what: Do, on: &'static str, text: &'static str) -> Description {
    Description { what, text, on, ms: what.takes_time() }
}

impl Do {
    /// True if it happens to a process with all its tasks, and not to one of them.
    pub(crate) fn is_of_process(self) -> bool {
        ACTIONS.iter().any(|action| action.what == self && action.on != "lock")
    }

    pub(crate) const fn takes_time(self) -> bool {
        matches!(self, Self::Delay | Self::Work)
    }

    /// What is said of the contender.
    pub(crate) fn text(self) -> &'static str {
        ACTIONS.iter().find(|action| action.what == self).map_or("", |action| action.text)
    }
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    ///
    /// The bytes are too many, or not a script.
    pub fn from_json(json: &[u8]) -> Result<Self, Error> {
        if json.len() > LIMITS.body_bytes {
            return Err(Self::too_large());
        }
        serde_json::from_slice(json)
            .map_err(|error| Error::new(Code::Syntax, format!("this is not a script: {error}")))
    }

    /// The contender whose process a contender is in: itself, unless it is a task of another.
    pub(crate) fn process_of(&self, index: usize) -> usize {
        let with = self.contenders.get(index).and_then(|contender| contender.with.as_ref());
        let owner = with.and_then(|with| self.contenders.iter().position(|one| one.name == *with));
        owner.unwrap_or(index)
    }

    /// The contender whose process the contender of this name is in.
    pub(crate) fn process_named(&self, name: &str) -> Option<usize> {
        let index = self.contenders.iter().position(|one| one.name == name);
        index.map(|index| self.process_of(index))
    }

    /// True if the server of a process is cut off from the others.
    pub(crate) fn isolates(&self, process: usize) -> bool {
        let mut isolates = self.actions.iter().filter(|action| action.what == Do::Isolate);
        isolates.any(|action| self.process_named(&action.who) == Some(process))
    }

    pub(crate) fn too_large() -> Error {
        let most = LIMITS.body_bytes;
        Error::new(Code::TooLarge, format!("a script has at most {most} bytes"))
    }
}
