//! The callers of a program: they send requests, watch, own nodes and rely on them.

use std::time::Duration;

use zk_proto::{
    CheckVersionRequest, CreateMode, CreateRequest, ExistsRequest, GetChildrenRequest,
    GetDataRequest, List, MultiOp, MultiRequest,
};

use crate::auth::credentials::Credential;
use crate::error::{Hangup, Rejected};
use crate::fuzz::input::Input;
use crate::fuzz::world::{CREDENTIALS, Link, OVERHEAD, World};
use crate::model::event::WatchMode;
use crate::session::{OwnedNodeId, Session, Watch, WatchKind};

impl World {
    /// Submits a request whose path is its token.
    pub(super) fn call(
        &mut self,
        submit: impl FnOnce(&mut Session<u32, u32>, &str, u32) -> Result<(), Rejected>,
    ) {
        let token = self.number();
        let accepted = submit(&mut self.session, &format!("/{token}"), token);
        if self.accepted(token, accepted.is_ok()) {
            self.sent.insert(token, false);
        }
    }

    pub(super) fn watch(&mut self, input: &mut Input<'_>) {
        let token = self.number();
        let path = format!("/{token}");
        let kinds = [WatchKind::Data, WatchKind::Exist, WatchKind::Child];
        let byte = input.byte();
        let kind = kinds.get(usize::from(byte % 3)).copied().unwrap_or(WatchKind::Data);
        let watch = Watch { kind, path: path.as_str().into(), watcher: token };
        let session = &mut self.session;
        let (path, flag) = (path.as_str(), true);
        let accepted = match kind {
            _ if byte & 0x80 != 0 => {
                let mode = match byte & 1 {
                    0 => WatchMode::Persistent,
                    _ => WatchMode::PersistentRecursive,
                };
                session.submit_stream(path, mode, token, token)
            }
            WatchKind::Data => {
                session.submit_watching(&GetDataRequest { path, watch: flag }, token, watch)
            }
            WatchKind::Exist => {
                session.submit_watching(&ExistsRequest { path, watch: flag }, token, watch)
            }
            WatchKind::Child => {
                session.submit_watching(&GetChildrenRequest { path, watch: flag }, token, watch)
            }
        };
        if self.accepted(token, accepted.is_ok()) {
            self.sent.insert(token, false);
        }
        if let Ok(id) = accepted {
            self.watching.insert(token, (id, path.to_owned()));
        }
    }

    pub(super) fn unwatch(&mut self, input: &mut Input<'_>) {
        let watchers: Vec<u32> = self.watching.keys().copied().collect();
        if let Some(watcher) = input.pick(&watchers)
            && let Some((id, path)) = self.watching.get(&watcher).cloned()
        {
            // The session may have to send a request for this to the server.
            self.allowance += OVERHEAD;
            self.session.unwatch(id, &path);
        }
    }

    pub(super) fn create(&mut self) {
        let token = self.number();
        let path = stem(token);
        let accepted = self.session.submit_owned(&create(&path), token);
        self.accepted(token, accepted.is_ok());
        if let Ok(node) = accepted {
            self.shadow.creating(token, node);
        }
    }

    /// Releases a node and creates another one, in one multi if nothing comes in between.
    pub(super) fn replace(&mut self, input: &mut Input<'_>) {
        let released = self.release(input);
        let old = released.and_then(|node| self.shadow.path(node)).unwrap_or_default().to_owned();
        let token = self.number();
        let path = stem(token);
        let accepted = match self.session.submit_replacing(&old, &create(&path), token) {
            Ok(None) => self.session.submit_owned(&create(&path), token).map(Some),
            accepted => accepted,
        };
        self.allowance += OVERHEAD;
        self.accepted(token, accepted.is_ok());
        if let Ok(Some(node)) = accepted {
            self.shadow.creating(token, node);
        }
    }

    /// Creates one or two nodes in a multi, after a check or not.
    pub(super) fn create_together(&mut self, input: &mut Input<'_>) {
        let byte = input.byte();
        let tokens: Vec<u32> = (0..=byte & 1).map(|_| self.number()).collect();
        let stems: Vec<String> = tokens.iter().map(|token| stem(*token)).collect();
        let check = MultiOp::Check(CheckVersionRequest { path: "/check", version: -1 });
        let check = (byte & 2 != 0).then_some(check);
        let creates = stems.iter().map(|path| match byte & 4 {
            0 => MultiOp::Create(create(path)),
            _ => MultiOp::Create2(create(path)),
        });
        let ops: Vec<MultiOp<'_>> = check.into_iter().chain(creates).collect();
        let places = usize::from(check.is_some())..;
        let owned = places.zip(&stems).zip(&tokens);
        let owned = owned.map(|((place, stem), token)| (place, stem.as_str(), *token));
        let accepted = self.session.submit_multi_owned(&MultiRequest::new(&ops), owned);
        self.allowance += OVERHEAD;
        for token in &tokens {
            self.accepted(*token, accepted.is_ok());
        }
        if let Ok(owned_nodes) = accepted {
            assert_eq!(owned_nodes.len(), tokens.len(), "a node for each");
            tokens
                .into_iter()
                .zip(owned_nodes)
                .for_each(|(it, node)| self.shadow.creating(it, node));
        }
    }

    pub(super) fn adopt(&mut self) {
        let path = format!("/a{}", self.number());
        if let Ok(Some(node)) = self.session.adopt(&path) {
            assert!(!self.over, "a session that is over takes nothing");
            self.shadow.adopted(node, path);
        }
    }

    /// Releases a node, and returns which one.
    pub(super) fn release(&mut self, input: &mut Input<'_>) -> Option<OwnedNodeId> {
        let node = input.pick(&self.shadow.owned_nodes())?;
        let token = input.byte().is_multiple_of(2).then(|| self.number());
        let accepted = self.session.release(node, token).is_ok();
        if accepted {
            self.shadow.released(node);
        }
        // The server chose the path of the delete, and its frame was counted when it was received.
        self.allowance += OVERHEAD;
        if let Some(token) = token {
            self.accepted(token, accepted);
        }
        Some(node)
    }

    pub(super) fn disown(&mut self, input: &mut Input<'_>) {
        if let Some(node) = input.pick(&self.shadow.owned_nodes()) {
            self.session.disown(node);
            self.shadow.forgotten(node);
        }
    }

    pub(super) fn open_lease(&mut self, input: &mut Input<'_>) {
        if let Some(node) = input.pick(&self.shadow.owned_nodes()) {
            let term = Some(input.byte()).filter(|tenths| *tenths > 0);
            let term = term.map(|tenths| self.now + Duration::from_millis(100) * tenths.into());
            let id = self.session.open_lease(self.now, node, term);
            let state = self.session.lease_state(self.now, id);
            // When the lease lapses, the node is deleted.
            self.allowance += OVERHEAD;
            self.shadow.leased(id, node, state);
        }
    }

    pub(super) fn close_lease(&mut self, input: &mut Input<'_>) {
        if let Some(id) = input.pick(&self.shadow.leases()) {
            self.session.close_lease(id);
            self.shadow.closed(id);
        }
    }

    /// Proves one of a few identities, perhaps one that was proven before.
    pub(super) fn add_auth(&mut self, input: &mut Input<'_>) {
        let token = self.number();
        let credential = Credential::new("digest", &[input.byte() % CREDENTIALS]);
        let accepted = self.session.add_auth(credential, token);
        self.accepted(token, accepted.is_ok());
    }

    /// The list of servers changes, or a server that serves writes is found.
    pub(super) fn leave(&mut self, input: &mut Input<'_>) {
        self.session.set_server_count(input.byte().into());
        if matches!(self.link, Link::Up | Link::Serving) && !self.closing {
            self.leave_by.get_or_insert(self.now + self.session.timeout() / 3);
        }
        self.session.leave(self.now, Hangup::Moving);
    }

    pub(super) fn close(&mut self) {
        self.leave_by = None;
        self.session.close();
        self.closing = true;
    }

    pub(super) fn detach(&mut self) {
        self.leave_by = None;
        self.session.detach();
        self.detaching |= !self.closing;
        self.closing = true;
    }
}

/// The path of an owned node, up to its digits.
fn stem(token: u32) -> String {
    format!("/c{token}-")
}

fn create(path: &str) -> CreateRequest<'_> {
    let mode = CreateMode::EPHEMERAL_SEQUENTIAL;
    CreateRequest { path, data: None, acl: List::new(&[]), mode }
}
