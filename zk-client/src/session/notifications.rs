//! Dispatches the events that the server sends unasked to the watchers and streams that they
//! concern.

use tracing::trace;
use zk_proto::{Decode, EventType, KeeperState, Reader, ReplyHeader, WatcherEvent};

use crate::error::ProtocolError;
use crate::model::event::{Change, StreamEvent};
use crate::session::event::Event;
use crate::session::pipeline::Priority;
use crate::session::state::{Session, valid_zxid};
use crate::trace;

impl<T, W, S: Clone> Session<T, W, S> {
    pub(super) fn handle_notification(&mut self, frame: &[u8]) -> Result<(), ProtocolError> {
        let mut reader = Reader::new(frame);
        let ReplyHeader { zxid, .. } = Decode::decode(&mut reader)?;
        let WatcherEvent { kind, state, path } = Decode::decode(&mut reader)?;
        if !(EventType::NODE_CREATED..=EventType::NODE_CHILDREN_CHANGED).contains(&kind) {
            return Err(ProtocolError::UnknownEvent(kind));
        }
        if state != KeeperState::SYNC_CONNECTED {
            return Err(ProtocolError::UnknownState(state));
        }
        self.totals.events_received += 1;
        if self.is_closing() {
            // The close deletes the nodes of this session. Watchers and streams report the end of
            // the session, and not its consequences.
            trace!(target: trace::WATCH, %kind, path, "of the close");
            return Ok(());
        }
        // Servers send the zxid of an event since 3.9, and since then no watch silences another.
        let zxid = valid_zxid(zxid);
        // On a new connection all watches are being armed.
        let missed = self.rearming > 0 || self.watches.may_be_old(kind, path);
        let change = Change { kind, zxid, missed };
        self.dispatch(path, change);
        if kind == EventType::NODE_DELETED
            && let Some(node) = self.leases.node_at(path)
            && self.owned_nodes.note_gone(node)
        {
            self.leases.node_deleted(path);
        }
        if zxid.is_none()
            && let Some(parent) = self.watches.silenced(kind, path)
        {
            self.dispatch(parent, Change { kind: EventType::NODE_CHILDREN_CHANGED, ..change });
        }
        self.do_housekeeping(Priority::Normal);
        Ok(())
    }

    /// Notifies every watcher and stream that the event concerns.
    pub(super) fn dispatch(&mut self, path: &str, change: Change) {
        let Change { kind, zxid, missed } = change;
        let (mut watchers, mut streams) = (0_usize, 0_usize);
        let Self { watches, events, .. } = self;
        watches.fire(kind, path, |watcher, path| {
            watchers += 1;
            events.push_back(Event::WatchFired { watcher, path, change });
        });
        watches.notify(kind, path, |stream| {
            streams += 1;
            let event = StreamEvent::Changed(change.of(path));
            events.push_back(Event::StreamEvent { stream, event });
        });
        let zxid = zxid.map(tracing::field::display);
        trace!(target: trace::WATCH, %kind, path, zxid, missed, watchers, streams, "event");
    }
}
