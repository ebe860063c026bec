//! The calls that queue requests, and those that keep owned nodes, leases and watches.
//!
//! A request is accepted or rejected at once, with or without a connection, and queued in the order
//! of the calls.

use std::sync::Arc;
use std::time::Instant;

use zk_proto::{
    AddWatchRequest, AuthPacket, CreateRequest, EncodeError, ErrorCode, ExistsRequest, List,
    MultiOp, MultiRequest, OpCode, Operation, Secret, SetWatches,
};

use crate::auth::credentials::Credential;
use crate::error::{Ended, Failure, Rejected};
use crate::model::event::WatchMode;
use crate::session::auths::AuthId;
use crate::session::event::{Event, Watch};
use crate::session::leases::{Lapse, LeaseId, LeaseState};
use crate::session::owned_nodes::OwnedNodeId;
use crate::session::pipeline::{Priority, RequestId};
use crate::session::state::{Phase, Purpose, Session};
use crate::session::watches::path_watches::{WatchId, WatchKind};

/// The version that brought create2, without which this client creates nothing.
pub(super) const V3_5: (u8, u8, u8) = (3, 5, 0);

/// Requests. They are queued with or without a connection, and sent as soon as it serves.
impl<T, W, S: Clone> Session<T, W, S> {
    /// Queues a request. Its reply comes as [`Event::Completed`](crate::session::Event::Completed).
    ///
    /// A server that is too old for an operation refuses it with `Unimplemented` and hangs up. So
    /// such an operation is sent once, and from then on the session itself refuses it in the same
    /// way.
    pub fn submit(&mut self, request: &impl Operation, token: T) -> Result<(), Rejected> {
        self.accept()?;
        self.last_request_id = None;
        if self.is_unsupported(request.op()) {
            self.complete(token, Err(Failure::Refused(ErrorCode::UNIMPLEMENTED)), None);
            return Ok(());
        }
        self.queue(request, Purpose::Call { token, watch: None })
    }

    /// Remembers a credential, identical ones once, and sends it on every connection.
    ///
    /// On this connection the request is queued behind the other requests, on every later one ahead
    /// of everything else. If the connection breaks before the reply, `token` waits for the next
    /// connection.
    ///
    /// If a server refuses the credential, the session ends on this side.
    pub fn add_auth(&mut self, credential: Credential, token: T) -> Result<(), Rejected> {
        self.accept()?;
        let id = self.auths.remember(credential, self.config.limits.max_request)?;
        if self.phase == Phase::Established {
            self.queue_auth(Priority::Normal, id, vec![token])?;
        } else {
            self.auths.wait(id, [token]);
        }
        Ok(())
    }

    /// Queues the request that sends a credential.
    pub(super) fn queue_auth(
        &mut self,
        priority: Priority,
        id: AuthId,
        tokens: Vec<T>,
    ) -> Result<(), EncodeError> {
        let Some(credential) = self.auths.get(id) else {
            return Ok(());
        };
        let auth = Secret::new(Some(credential.secret()));
        let packet = AuthPacket { kind: 0, scheme: credential.scheme().into(), auth };
        self.pipeline.push(priority, packet.op(), &packet, Purpose::Auth(id, tokens)).map(drop)
    }

    /// Queues a request that sets a watch.
    pub fn submit_watching(
        &mut self,
        request: &impl Operation,
        token: T,
        watch: Watch<W>,
    ) -> Result<WatchId, Rejected> {
        self.accept()?;
        let id = self.watches.next_id();
        self.queue(request, Purpose::Call { token, watch: Some(id) })?;
        let Watch { kind, path, watcher } = watch;
        self.watches.requested_once(id, kind, path, watcher);
        Ok(id)
    }

    /// Queues one request that watches the data of many nodes.
    ///
    /// The caller should have seen the nodes just before. A node that is gone, or was written to
    /// since the last reply of the server, fires at once, marked as missed. All such events come
    /// before the reply. The server asks for no permission.
    ///
    /// The watches are set from now on, whatever becomes of the request: on a later connection the
    /// session arms them like all others.
    pub fn submit_watching_all(
        &mut self,
        nodes: Vec<(Arc<str>, W)>,
        token: T,
    ) -> Result<Vec<WatchId>, Rejected> {
        self.accept()?;
        if self.is_unsupported(OpCode::SET_WATCHES) {
            return self.watch_each(nodes, token);
        }
        let paths = nodes.iter().map(|(path, _)| &**path).collect::<Vec<_>>();
        let request = SetWatches {
            relative_zxid: self.last_zxid,
            data: List::new(&paths),
            exist: List::new(&[]),
            child: List::new(&[]),
        };
        let armed = nodes.iter().map(|(path, _)| Arc::clone(path));
        self.queue(&request, Purpose::Arm(token, armed.collect()))?;
        let mut ids = Vec::new();
        for (path, watcher) in nodes {
            let id = self.watches.next_id();
            self.watches.begin_arming(Arc::clone(&path));
            self.watches.set(id, WatchKind::Data, path, watcher);
            ids.push(id);
        }
        self.do_housekeeping(Priority::Normal);
        Ok(ids)
    }

    /// The same with a request for each node, where no request watches many.
    fn watch_each(
        &mut self,
        nodes: Vec<(Arc<str>, W)>,
        token: T,
    ) -> Result<Vec<WatchId>, Rejected> {
        let (since, last) = (self.last_zxid, nodes.len().saturating_sub(1));
        if nodes.is_empty() {
            let nothing = ExistsRequest { path: "/", watch: false };
            self.queue(&nothing, Purpose::Call { token, watch: None })?;
            return Ok(Vec::new());
        }
        let (mut token, mut ids) = (Some(token), Vec::new());
        for (index, (path, watcher)) in nodes.into_iter().enumerate() {
            let token = token.take_if(|_| index == last);
            let request = ExistsRequest { path: &path, watch: true };
            self.queue(&request, Purpose::ArmOne(token, Arc::clone(&path), since))?;
            let id = self.watches.next_id();
            self.watches.begin_arming(Arc::clone(&path));
            self.watches.set(id, WatchKind::Data, path, watcher);
            ids.push(id);
        }
        Ok(ids)
    }

    /// Queues an addWatch, which sets a watch that fires again and again.
    ///
    /// `stream` comes with every event of the path and, if the mode is recursive, of everything
    /// below it, from the reply on until it is [removed](Self::unwatch).
    ///
    /// Servers before 3.6 do not know addWatch: see [`submit`](Self::submit).
    pub fn submit_stream(
        &mut self,
        path: &str,
        mode: WatchMode,
        token: T,
        stream: S,
    ) -> Result<WatchId, Rejected> {
        self.accept()?;
        let id = self.watches.next_id();
        let is_untrusted =
            mode == WatchMode::PersistentRecursive && !self.config.dialect.has_recursive_watches();
        if is_untrusted || self.is_unsupported(OpCode::ADD_WATCH) {
            self.complete(token, Err(Failure::Refused(ErrorCode::UNIMPLEMENTED)), None);
            self.events.push_back(Event::StreamClosed { stream });
            return Ok(id);
        }
        let request = AddWatchRequest { path, mode: mode.into() };
        self.queue(&request, Purpose::Call { token, watch: Some(id) })?;
        self.watches.requested_stream(id, mode, path.into(), stream);
        Ok(id)
    }

    /// Queues the create of an ephemeral node that must not be forgotten.
    ///
    /// The request's path must be unique for ever up to the digits that the server appends. If the
    /// connection breaks before the reply, the session looks for the node on the next connection
    /// and completes then: with the node, or with `ConnectionLoss` if there is none. The answer is
    /// a [`CreateResponse`](zk_proto::CreateResponse), and its zxid is the node's czxid.
    pub fn submit_owned(
        &mut self,
        request: &CreateRequest<'_>,
        token: T,
    ) -> Result<OwnedNodeId, Rejected> {
        self.accept()?;
        let node = self.owned_nodes.open(request.path, token);
        if self.is_unsupported(request.op()) {
            if let Some(token) = self.owned_nodes.withdraw(node) {
                self.complete(token, Err(Failure::Refused(ErrorCode::UNIMPLEMENTED)), None);
            }
            return Ok(node);
        }
        let queued = self.queue(request, Purpose::Create(node));
        queued.inspect_err(|_| drop(self.owned_nodes.withdraw(node)))?;
        Ok(node)
    }

    /// Queues an owned create in one transaction with the delete of the node at `old`.
    ///
    /// The old node must have been [released](Self::release), and its delete must be the request
    /// that was queued last and not be sent yet. Both operations happen or none, so that the old
    /// node is gone if the new one exists. The create comes first, and so do its watch events.
    ///
    /// `None` if that is not so, or if the two do not fit into one frame. Then no create is queued,
    /// and `token` is dropped.
    ///
    /// If the delete is refused, so is the create, for operation 1 of a multi: queue the create
    /// again then. If the create is refused, it fails as if it had been queued alone, and the
    /// delete is queued again, ahead of all requests that wait.
    pub fn submit_replacing(
        &mut self,
        old: &str,
        request: &CreateRequest<'_>,
        token: T,
    ) -> Result<Option<OwnedNodeId>, Rejected> {
        self.accept()?;
        let taken = self.pipeline.take_last(|purpose| purpose.deletes(old));
        let Some(Purpose::NodeRequest(delete)) = taken.map(|request| request.purpose) else {
            return Ok(None);
        };
        let node = self.owned_nodes.open(request.path, token);
        let both = [MultiOp::Create(*request), MultiOp::Delete(delete.deletion())];
        let purpose = Purpose::Replace(delete.clone(), node);
        if self.queue(&MultiRequest::new(&both), purpose).is_ok() {
            return Ok(Some(node));
        }
        // Each of the two may fit into a frame of its own.
        drop(self.owned_nodes.withdraw(node));
        self.queue_node_request(Priority::Normal, delete);
        Ok(None)
    }

    /// Queues a multi, some of whose operations create nodes that must not be forgotten.
    ///
    /// `owned` names each of these creates by its index in the multi and by its path up to the
    /// digits, with a token that completes as by [`submit_owned`](Self::submit_owned). Nothing else
    /// reports how the multi went. The ids are in the same order.
    pub fn submit_multi_owned<'p>(
        &mut self,
        request: &MultiRequest<'_>,
        owned: impl IntoIterator<Item = (usize, &'p str, T)>,
    ) -> Result<Vec<OwnedNodeId>, Rejected> {
        self.accept()?;
        let open = |(index, stem, token)| (index, self.owned_nodes.open(stem, token));
        let owned = owned.into_iter().map(open).collect::<Vec<_>>();
        let owned_nodes = owned.iter().map(|(_, node)| *node).collect::<Vec<_>>();
        let queued = self.queue(request, Purpose::Multi(owned));
        queued.inspect_err(|_| {
            owned_nodes.iter().for_each(|id| drop(self.owned_nodes.withdraw(*id)))
        })?;
        Ok(owned_nodes)
    }

    /// The id of the request that was submitted last.
    ///
    /// This is what the last [`submit`](Self::submit) or [`submit_watching`](Self::submit_watching)
    /// has queued, if nothing else was submitted since.
    pub fn last_request_id(&self) -> Option<RequestId> {
        self.last_request_id
    }

    /// Takes back a request that was not sent, and returns its token.
    ///
    /// No reply follows. If the request was to set a watch, the watch ends with
    /// [`Event::WatchRemoved`](crate::session::Event::WatchRemoved).
    ///
    /// `None` if the request was sent or answered, or was not queued by [`submit`](Self::submit) or
    /// [`submit_watching`](Self::submit_watching). Then nothing changes.
    pub fn withdraw(&mut self, id: RequestId) -> Option<T> {
        let is_call = |purpose: &Purpose<T>| matches!(purpose, Purpose::Call { .. });
        let request = self.pipeline.withdraw(id, is_call)?;
        let Purpose::Call { token, watch } = request.purpose else {
            return None;
        };
        self.totals.count(request.op, |counts| counts.withdrawn += 1);
        let returned = watch.and_then(|id| self.watches.answered(id, None));
        self.return_caller(returned);
        self.do_housekeeping(Priority::Normal);
        self.detach_if_done();
        Some(token)
    }

    /// True if the dialect lacks an operation, or a server has shown that it does not know it. One
    /// that does not know the create of 3.5 knows nothing else that came then or later. Otherwise
    /// an operation says nothing about another: servers of other makers choose what they know.
    pub(crate) fn is_unsupported(&self, op: OpCode) -> bool {
        let dialect = &self.config.dialect;
        if !dialect.understands(dialect.spell(op)) {
            return true;
        }
        let unsupported = &self.unsupported_ops;
        let is_since_3_5 = || op.info().is_some_and(|info| info.since >= V3_5);
        !unsupported.is_empty()
            && (unsupported.contains(&op)
                || unsupported.contains(&OpCode::CREATE2) && is_since_3_5())
    }

    /// Queues a request behind all others.
    pub(super) fn queue(
        &mut self,
        request: &impl Operation,
        purpose: Purpose<T>,
    ) -> Result<(), Rejected> {
        let op = self.config.dialect.spell(request.op());
        let id = self.pipeline.push(Priority::Normal, op, request, purpose)?;
        self.last_request_id = Some(id);
        Ok(())
    }

    fn accept(&self) -> Result<(), Rejected> {
        self.check_open()?;
        Ok(self.pipeline.check_capacity()?)
    }
}

/// What callers keep: nodes that they own, leases and watches.
impl<T, W, S: Clone> Session<T, W, S> {
    /// Takes over a node that belongs to this session already. It is held from now on.
    ///
    /// `None` if the session owns it already.
    pub fn adopt(&mut self, path: &str) -> Result<Option<OwnedNodeId>, Rejected> {
        self.check_open()?;
        Ok(self.owned_nodes.adopt(path))
    }

    /// Disowns a node that is held: it stays on the server, and the session no longer deletes it.
    pub fn disown(&mut self, node: OwnedNodeId) {
        self.owned_nodes.disown(node);
    }

    /// Releases a node, which the session then deletes.
    ///
    /// The node is deleted now, or as soon as it is known to exist. The delete is repeated on every
    /// connection, and after each session timeout if the server refuses it, until the node is gone.
    ///
    /// `releaser` receives the result of the first delete, or `NoNode` at once if the node is not
    /// known to exist.
    pub fn release(&mut self, node: OwnedNodeId, releaser: Option<T>) -> Result<(), Rejected> {
        self.check_open()?;
        self.owned_nodes.release(node, releaser);
        self.do_housekeeping(Priority::Normal);
        Ok(())
    }

    /// An error if no call is accepted any more.
    pub(crate) fn check_open(&self) -> Result<(), Ended> {
        match self.phase {
            Phase::Over(ended) => Err(ended),
            _ if self.closing => Err(Ended::Closed),
            _ => Ok(()),
        }
    }

    /// Opens a lease on an owned node.
    ///
    /// Until the lease lapses or is closed, the session confirms that the ensemble keeps it, as
    /// often as the deadline rule requires. When the lease lapses, at `expires_at` at the latest,
    /// the node is deleted as if it had been released. Changes are reported as
    /// [`Event::Leases`](crate::session::Event::Leases).
    ///
    /// If the node was released, or an earlier lease of it has lapsed, the new lease has lapsed
    /// too.
    pub fn open_lease(
        &mut self,
        now: Instant,
        node: OwnedNodeId,
        expires_at: Option<Instant>,
    ) -> LeaseId {
        self.expire_leases(now);
        let connection = self.connection_health();
        let path = self.owned_nodes.held(node);
        let is_held = path.is_some();
        let id = self.leases.open(now, (node, path.unwrap_or_default()), expires_at, connection);
        if !is_held {
            self.leases.lapse(id, Lapse::Deadline);
        }
        if let Err(ended) = self.check_open() {
            // No caller waits for a change of the new lease yet.
            self.leases.end(ended);
        }
        self.expire_leases(now);
        self.update_lease_timers(now);
        id
    }

    /// The state of a lease at `now`, even if the session was not driven for a long time.
    pub fn lease_state(&self, now: Instant, id: LeaseId) -> LeaseState {
        self.leases.state(now, id, self.connection_health())
    }

    /// Closes a lease. Its node stays, unless the lease has lapsed.
    pub fn close_lease(&mut self, id: LeaseId) {
        self.leases.close(id);
    }

    /// Removes a watch or a stream. `path` is the one it was set with.
    ///
    /// The server's watch is removed once no caller waits at that path and no unanswered request
    /// sets a watch there. Servers before 3.5 answer the removal with `Unimplemented` and hang up;
    /// then no more removals are sent.
    pub fn unwatch(&mut self, id: WatchId, path: &str) {
        let returned = self.watches.remove(id, path);
        self.return_caller(returned);
        self.do_housekeeping(Priority::Normal);
    }

    /// Abandons a one-shot watch: the server keeps it, and no caller hears of it.
    ///
    /// This is for a node that is about to go: one more event will come, and be ignored. A watch
    /// whose request has no reply yet is [unwatched](Self::unwatch).
    pub fn abandon_watch(&mut self, id: WatchId, path: &str) {
        let returned = self.watches.abandon(id, path);
        self.return_caller(returned);
        self.do_housekeeping(Priority::Normal);
    }
}
