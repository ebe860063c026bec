//! The connections of a server, and which of them have something to send.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tracing::debug;
use zk_proto::{
    Encode, ErrorCode, EventType, KeeperState, ReplyHeader, Text, Writer, Xid, Zxid, frame,
};

use crate::connection::{Connection, ConnectionId, Counts, MAX_UNSENT, Phase};
use crate::fault::Effect;
use crate::mutation::Mutation;

/// The connections, and which of them have something to send.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    by_id: BTreeMap<ConnectionId, Connection>,
    next: u64,
    ready: VecDeque<ConnectionId>,
    pub(crate) sent: u64,
    /// The bytes of the events that were sent.
    pub(crate) event_bytes: u64,
    /// The replies that were corrupted.
    pub(crate) mutations: Vec<Mutation>,
}

impl Connections {
    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.by_id.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Resets what is counted about the connections.
    pub(crate) fn reset_counts(&mut self) {
        for one in self.by_id.values_mut() {
            one.counts = Counts { heard: one.counts.heard, ..Counts::new(-1) };
        }
    }

    pub(crate) fn ids(&self) -> Vec<ConnectionId> {
        self.by_id.keys().copied().collect()
    }

    /// Gives the connections from now on ids that begin with this one.
    pub(crate) fn number_from(&mut self, first: u64) {
        self.next = first;
    }

    /// Adds a connection.
    pub(crate) fn put(&mut self, connection: Connection) -> ConnectionId {
        let id = ConnectionId(self.next);
        self.next += 1;
        self.by_id.insert(id, connection);
        id
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) {
        self.by_id.remove(&id);
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&ConnectionId, &Connection)> {
        self.by_id.iter()
    }

    /// A connection that has something to send. Each is returned once.
    pub(crate) fn next_ready(&mut self) -> Option<ConnectionId> {
        let id = self.ready.pop_front()?;
        if let Some(connection) = self.by_id.get_mut(&id) {
            connection.is_ready = false;
        }
        Some(id)
    }

    /// Changes what is to be sent to a connection.
    pub(crate) fn send(&mut self, id: ConnectionId, act: impl FnOnce(&mut Connection)) {
        let Some(connection) = self.by_id.get_mut(&id) else {
            return;
        };
        act(connection);
        if connection.outbox.len() > MAX_UNSENT {
            connection.phase = Phase::Closing;
            connection.outbox.abort();
        }
        if !std::mem::replace(&mut connection.is_ready, true) {
            self.ready.push_back(id);
        }
    }

    /// Answers a request. The fault that struck the request takes effect here.
    pub(crate) fn reply(&mut self, id: ConnectionId, header: ReplyHeader, body: &impl Encode) {
        let mut disowned = None;
        if let Some(connection) = self.by_id.get_mut(&id) {
            connection.counts.last_xid = header.xid;
            connection.counts.last_zxid = header.zxid;
            disowned = connection.struck.take_if(|effect| matches!(effect, Effect::Disown(_)));
        }
        match disowned {
            Some(Effect::Disown(error)) => self.answer(id, &ReplyHeader { error, ..header }, &()),
            _ => self.answer(id, &header, body),
        }
    }

    /// Answers a request or a handshake.
    pub(crate) fn answer(&mut self, id: ConnectionId, header: &impl Encode, body: &impl Encode) {
        self.sent += 1;
        let mut mutation = None;
        self.send(id, |connection| {
            connection.counts.sent += 1;
            mutation = connection.answer(header, body);
        });
        if let Some(Mutation { seed, session, before, after }) = &mutation {
            debug!(connection = %id, %session, seed, ?before, ?after, "corrupted a reply");
        }
        self.mutations.extend(mutation);
    }

    /// Sends an event to a connection.
    pub(crate) fn notify(&mut self, id: ConnectionId, zxid: Zxid, kind: EventType, path: &str) {
        self.sent += 1;
        // A header, two numbers and the length of the path come before the path.
        self.event_bytes += 28 + path.len() as u64;
        self.send(id, |connection| {
            connection.counts.sent += 1;
            let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid, error: ErrorCode::OK };
            // A WatcherEvent, except that its path may be one that only setWatches can bring here.
            let path = Text::java_bytes(path);
            let event = |writer: &mut Writer<'_>| {
                header.encode(writer);
                kind.encode(writer);
                KeeperState::SYNC_CONNECTED.encode(writer);
                Text::from_bytes(&path).encode(writer);
            };
            match &mut connection.partition {
                None => connection.outbox.frame(event),
                Some(partition) if partition.is_over => {}
                Some(partition) => {
                    if partition.is_full()
                        || frame::encode(&mut partition.events, MAX_UNSENT, event).is_err()
                    {
                        connection.phase = Phase::Closing;
                        connection.outbox.abort();
                    }
                }
            }
        });
    }

    /// Checks that those with something to send are in the list once.
    pub(crate) fn audit(&self) {
        let ready = self.by_id.iter().filter(|(_, one)| one.is_ready).map(|(id, _)| *id);
        let ready = ready.collect::<BTreeSet<_>>();
        let alive = self.ready.iter().copied().filter(|id| self.by_id.contains_key(id));
        assert_eq!((alive.clone().count(), alive.collect()), (ready.len(), ready), "each once");
    }
}
