//! The record of a scene: events, and after each of them what has changed.
//!
//! The state after an event is taken when the next one comes, so that it has what the clients made
//! of the event. An event must be recorded before its effect.

use crate::scene::{ClientState, Event, NodeState, State, WatchState};

/// The whole state at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moment {
    pub(crate) tree: Vec<NodeState>,
    pub(crate) watches: Vec<WatchState>,
    pub(crate) clients: Vec<ClientState>,
}

/// What has happened so far.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) events: Vec<Event>,
    pub(crate) states: Vec<State>,
    last: Option<Moment>,
    /// How many events end the scene, so that its memory is bounded.
    most: usize,
}

impl Record {
    pub(crate) fn new(most: usize) -> Self {
        Self { events: Vec::new(), states: Vec::new(), last: None, most }
    }

    /// True if the last event has no state yet.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.states.len() < self.events.len()
    }

    /// Takes the state after the last event.
    pub(crate) fn settle(&mut self, now: Moment) {
        let state = match &self.last {
            None => State {
                tree: Some(now.tree.clone()),
                watches: Some(now.watches.clone()),
                clients: now.clients.clone(),
            },
            Some(last) => State {
                tree: (last.tree != now.tree).then(|| now.tree.clone()),
                watches: (last.watches != now.watches).then(|| now.watches.clone()),
                clients: now
                    .clients
                    .iter()
                    .zip(&last.clients)
                    .filter(|(now, last)| now != last)
                    .map(|(now, _)| now.clone())
                    .collect(),
            },
        };
        self.states.push(state);
        self.last = Some(now);
    }

    /// Adds an event.
    pub(crate) fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    /// True if the scene has to end.
    pub(crate) fn is_full(&self) -> bool {
        self.events.len() >= self.most
    }
}
