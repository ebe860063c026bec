//! One node that is owned, from its create to the answer of its delete.
//!
//! Knows what is to be asked next on its behalf, and nothing of what the answers look like.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use zk_proto::{CreateResponse, Encode, ErrorCode, GetChildrenResponse, Stat, Writer, Zxid};

use crate::error::Failure;
use crate::session::event::Answer;
use crate::session::owned_nodes::question::{OwnedNodeId, Query, Question};

/// What a path takes beside its text.
const LENGTH_BYTES: usize = 4;

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect<T> {
    /// Ask this.
    Ask(Question),
    /// Tell this caller.
    Complete(T, Result<Answer, Failure>),
}

#[derive(Debug)]
pub(crate) struct Owned<T> {
    /// The path up to the digits that the server appends; unique for ever.
    pub(crate) stem: String,
    pub(crate) state: State,
    /// Who waits to hear of the create or, later, of the delete.
    pub(crate) waiting: Option<T>,
    /// Whether the holder has gone, so that the node must go too.
    pub(crate) due: bool,
    /// Questions that are queued or in flight.
    pub(crate) asking: u32,
    /// The sync ahead of the list was refused, so the list tells nothing.
    pub(crate) unsynced: Option<ErrorCode>,
    /// Nodes of this name that were listed and not looked at yet, the oldest last.
    pub(crate) candidates: Vec<String>,
    /// Whether one of them would not be looked at.
    pub(crate) unreadable: bool,
}

#[derive(Debug)]
pub(crate) enum State {
    /// The create is queued or in flight.
    Creating,
    /// The create was in flight when the connection broke, or its answer makes no sense or was not
    /// kept. This is told if it stays lost.
    Lost { failure: Failure },
    /// Looked for on this connection and not found. The create may be applied later: by a server
    /// that was slow to come to it, or unknown to one that had been cut off. So every list is
    /// searched for the node, it is looked for again after ever longer times, and for the last time
    /// on the next connection.
    Suspect { connection: u64 },
    /// The node is there.
    Held { path: Arc<str> },
    /// The node must go.
    Deleting { path: Arc<str> },
}

impl<T> Owned<T> {
    pub(crate) fn new(stem: &str, state: State, waiting: Option<T>) -> Self {
        Self {
            stem: stem.to_owned(),
            state,
            waiting,
            due: false,
            asking: 0,
            unsynced: None,
            candidates: Vec::new(),
            unreadable: false,
        }
    }

    pub(crate) fn ask(
        &mut self,
        id: OwnedNodeId,
        query: Query,
        path: Arc<str>,
        effects: &mut VecDeque<Effect<T>>,
    ) {
        self.asking += 1;
        effects.push_back(Effect::Ask(Question { node: id, query, path }));
    }

    /// Looks for the node by its name.
    pub(crate) fn look(&mut self, id: OwnedNodeId, effects: &mut VecDeque<Effect<T>>) {
        let (folder, _) = split(&self.stem);
        let folder = Arc::<str>::from(folder);
        self.ask(id, Query::Sync, Arc::clone(&folder), effects);
        self.ask(id, Query::List, folder, effects);
    }

    /// Takes note of the children that may be the node; the oldest is looked at first.
    pub(crate) fn choose(&mut self, list: &GetChildrenResponse<'_>) {
        let (folder, stem) = split(&self.stem);
        let folder = if folder == "/" { "" } else { folder };
        // Other nodes may begin like ours; behind the name a server puts digits alone.
        let ours = |name: &&str| name.strip_prefix(stem).is_some_and(is_sequence);
        let named = list.children.iter().filter(ours);
        self.candidates = named.map(|name| format!("{folder}/{name}")).collect();
        self.candidates.sort_unstable_by(|one, other| other.cmp(one));
        self.unreadable = false;
    }

    /// The node that is held must go.
    pub(crate) fn delete(
        &mut self,
        id: OwnedNodeId,
        releaser: Option<T>,
        effects: &mut VecDeque<Effect<T>>,
    ) {
        if let State::Held { path } = &self.state {
            let path = Arc::clone(path);
            self.state = State::Deleting { path: Arc::clone(&path) };
            self.waiting = releaser;
            self.ask(id, Query::Delete, path, effects);
        }
    }

    /// The node that was looked for is there, and ours.
    pub(crate) fn found(
        &mut self,
        id: OwnedNodeId,
        path: Arc<str>,
        stat: Stat,
        requested_at: Instant,
        effects: &mut VecDeque<Effect<T>>,
    ) {
        if !matches!(self.state, State::Lost { .. } | State::Suspect { .. }) {
            return;
        }
        let creator = self.waiting.take();
        let answer = created(&path, stat.czxid, requested_at);
        self.state = State::Held { path };
        let wanted = creator.is_some() && !self.due;
        effects.extend(creator.map(|token| Effect::Complete(token, Ok(answer))));
        if !wanted {
            self.delete(id, None, effects);
        }
    }

    /// Whoever waits for a lost create hears that it stays lost.
    pub(crate) fn tell_creator(&mut self, sent: bool, effects: &mut VecDeque<Effect<T>>) {
        if let State::Lost { failure } = self.state {
            let failure = match failure {
                Failure::ConnectionLoss { why, .. } => Failure::ConnectionLoss { sent, why },
                failure => failure,
            };
            effects.extend(self.waiting.take().map(|token| Effect::Complete(token, Err(failure))));
        }
    }
}

/// What the creator of an owned node is told, however it was found out.
pub(crate) fn created(path: &str, czxid: Zxid, requested_at: Instant) -> Answer {
    let mut body = BytesMut::with_capacity(LENGTH_BYTES + path.len());
    CreateResponse { path }.encode(&mut Writer::new(&mut body, usize::MAX));
    Answer { zxid: czxid, body: body.freeze(), requested_at }
}

/// Whether this is what a server puts behind a sequential name.
fn is_sequence(text: &str) -> bool {
    text.parse::<i32>().is_ok()
}

/// The folder and the last component of an absolute path.
pub(crate) fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((folder, name)) => (folder, name),
        None => ("/", path),
    }
}
