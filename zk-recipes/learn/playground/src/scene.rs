//! What a script comes to: every event and every state, to be shown in any order.
//!
//! These are the records of the JSON that the page reads. They decide nothing.

use std::ops::Range;

use serde::Serialize;

use crate::script::{Do, Mode, Script};

/// A scene that was played. Times are in virtual microseconds since its begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Scene {
    /// The name of a ready-made scene.
    pub id: Option<&'static str>,
    /// Its title.
    pub title: Option<&'static str>,
    /// What happens in it.
    pub text: Option<String>,
    /// What to look at.
    pub look: Option<&'static str>,
    /// The script as it was played.
    pub script: Script,
    /// The end: earlier than the script's if there were too many events.
    pub ended_us: u64,
    /// Who sends and receives frames.
    pub lanes: Vec<Lane>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// What changed with each event.
    pub states: Vec<State>,
    /// When each contender took the lock for its own.
    pub spans: Vec<Span>,
    /// Whether the lock did what it is for.
    pub verdict: Verdict,
    /// The actions that found nothing to act on, each in a sentence with its time.
    pub unfired: Vec<String>,
}

/// A column of the picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Lane {
    /// The name.
    pub id: String,
    /// `client` or `server`.
    pub kind: &'static str,
    /// The contender whose server this is, if that is cut off from the others, which are `server`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Event {
    /// A frame arrived, or was lost.
    Frame(Box<FrameEvent>),
    /// An action of the script.
    Action {
        /// When.
        at_us: u64,
        /// The contender.
        who: String,
        /// What.
        #[serde(rename = "do")]
        what: Do,
        /// The same in words.
        text: String,
        /// The index in the script that was played.
        action: usize,
    },
    /// Something that a contender or the server came to know or did.
    Note {
        /// When.
        at_us: u64,
        /// The contender, or the server.
        who: String,
        /// What, without its name.
        text: String,
        /// Whether that is good.
        tone: Tone,
    },
}

impl Scene {
    /// Shows these events, of which nobody has recorded what the server and the clients then held.
    pub fn set_events(&mut self, events: Vec<Event>) {
        self.states = vec![State::default(); events.len().max(1)];
        self.ended_us = events.last().map_or(0, Event::at_us);
        self.script.until_ms = self.ended_us / 1000;
        self.events = events;
    }
}

impl Event {
    /// When it happened.
    pub fn at_us(&self) -> u64 {
        match self {
            Self::Frame(frame) => frame.at_us,
            Self::Action { at_us, .. } | Self::Note { at_us, .. } => *at_us,
        }
    }
}

/// How a note is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Tone {
    /// As wished.
    Good,
    /// A misfortune.
    Bad,
    /// Neither.
    Plain,
}

/// A frame on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FrameEvent {
    /// When it arrived or was lost.
    pub at_us: u64,
    /// Who sent it.
    pub from: String,
    /// Who was to receive it.
    pub to: String,
    /// When it was sent.
    pub sent_us: u64,
    /// When it arrived, if it did.
    pub arrived_us: Option<u64>,
    /// What became of it.
    pub fate: Fate,
    /// What it says.
    #[serde(flatten)]
    pub content: Content,
    /// When the request of this reply was sent.
    pub request_us: Option<u64>,
    /// The whole frame in hexadecimal digits.
    pub bytes: String,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fate {
    /// It arrived.
    Arrived,
    /// It was lost.
    Lost,
    /// It was on its way when the scene ended.
    InFlight,
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Content {
    /// The operation of the request, or of the request that is answered.
    pub op: String,
    /// What kind of frame it is.
    pub role: Role,
    /// The number by which a reply finds its request.
    pub xid: Option<i32>,
    /// Why the server refused.
    pub error: Option<String>,
    /// The frame in a line.
    pub summary: String,
    /// The fields in the order of the bytes.
    pub fields: Vec<Field>,
    /// Where passwords are and what may be one, counted as in the fields.
    #[serde(skip)]
    pub(crate) secrets: Vec<Range<usize>>,
}

/// The kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// A request of a client.
    Request,
    /// The reply to a request.
    Reply,
    /// What a watch tells.
    Notification,
    /// The first frame each way.
    Connect,
    /// A sign of life and the answer to it.
    Ping,
}

/// A field of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its value; of a group, what kind of group it is.
    pub value: String,
    /// Where it begins, counted from the first byte of the frame.
    pub offset: usize,
    /// How many bytes it takes.
    pub length: usize,
    /// How many groups it is in.
    pub depth: usize,
}

/// What has changed of the state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct State {
    /// The whole tree, if it has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<Vec<NodeState>>,
    /// All watches, if they have changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watches: Option<Vec<WatchState>>,
    /// The clients that have changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientState>,
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NodeState {
    /// The path.
    pub path: String,
    /// The contender whose session owns it.
    pub owner: Option<String>,
    /// The number that the server appended to the name.
    pub sequence: Option<u32>,
    /// The transaction that created it.
    pub czxid: i64,
    /// How often it was written.
    pub version: i32,
    /// The data as text.
    pub data: String,
}

/// A watch at the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WatchState {
    /// The contender that is notified.
    pub who: String,
    /// The path that is watched.
    pub path: String,
    /// What of it.
    pub kind: &'static str,
}

/// A contender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ClientState {
    /// The name.
    pub who: String,
    /// What its client knows of the connection.
    pub connection: Connection,
    /// False while the process is stopped.
    pub running: bool,
    /// The link between the client and its server.
    pub link: LinkState,
    /// How much longer frames take.
    pub delay_ms: u64,
    /// What it believes of the lock.
    pub lock: LockState,
    /// How it wants the lock.
    pub mode: Mode,
    /// Its node in the queue, as the server knows it.
    pub node: Option<String>,
    /// True if that node has the lock: nobody is ahead whom its contender has to wait for.
    pub owns: bool,
    /// Its fencing token.
    pub token: Option<String>,
    /// Its session.
    pub session: Option<String>,
    /// Until when its guard says that the lock is surely held.
    pub lease_until_us: Option<u64>,
    /// When the server ends the session unless it hears of it before.
    pub deadline_us: Option<u64>,
}

/// What a client knows of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Connection {
    /// No server has answered yet.
    Connecting,
    /// It has a connection.
    Connected,
    /// The connection is lost; the session may live on.
    Suspended,
    /// It knows that the session is over.
    Expired,
    /// It has closed the session.
    Closed,
    /// There is no process.
    Gone,
}

/// A link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LinkState {
    /// Frames pass.
    Up,
    /// They are lost.
    Cut,
    /// They pass, to a server that is cut off from the other servers.
    Isolated,
}

/// What a contender believes of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LockState {
    /// It does not want the lock.
    Idle,
    /// It has no node yet.
    Joining,
    /// It has a node, and waits.
    Waiting,
    /// The lock is its own.
    Held,
    /// The lock is its own until the lease ends, and nothing proves more.
    Maybe,
    /// The lock was its own, and it knows that this is over.
    Lost,
}

/// A time for which a contender took the lock for its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Span {
    /// The contender.
    pub who: String,
    /// The begin.
    pub from_us: u64,
    /// The end.
    pub to_us: u64,
    /// How it held the lock.
    pub mode: Mode,
    /// What that was worth.
    pub kind: SpanKind,
}

/// The kinds of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SpanKind {
    /// The lock was its own.
    Held,
    /// The lock was its own, and its guard was suspended.
    Maybe,
    /// The lock was not its own: its node was gone, or another one was ahead.
    Stale,
}

/// Whether the lock did what it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Verdict {
    /// True if it did.
    pub holds: bool,
    /// What went wrong.
    pub kind: VerdictKind,
    /// The most contenders that took the lock for their own at one time.
    pub owners_at_once: usize,
    /// The first time for which the promise was broken.
    pub breach: Option<Breach>,
    /// How many notifications the server sent.
    pub notifications: usize,
    /// The result in a sentence.
    pub text: String,
}

impl Verdict {
    /// The verdict of another judge: something broke at this time.
    pub fn told(text: String, at_us: u64) -> Self {
        Self {
            holds: false,
            kind: VerdictKind::Told,
            owners_at_once: 0,
            breach: Some(Breach { from_us: at_us, to_us: at_us }),
            notifications: 0,
            text,
        }
    }
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum VerdictKind {
    /// Nothing.
    Holds,
    /// Two held the lock who exclude each other.
    TwoOwners,
    /// Somebody wrote who did not hold the lock any more.
    StaleWrite,
    /// The lock was free, and somebody waited for ever.
    Stuck,
    /// A release woke everybody.
    Herd,
    /// What one wrote was overwritten unseen.
    LostUpdate,
    /// What another judge has found and told already. The text says it, and nobody has to guess.
    Told,
}

/// A time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Breach {
    /// The begin.
    pub from_us: u64,
    /// The end.
    pub to_us: u64,
}
