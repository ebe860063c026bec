//! Nodes that a client owns on a caller's behalf: created, adopted, released.
//!
//! The node of an [`OwnedNode`], or of the reply that brings one, must be deleted in the end. The
//! session does that, also across lost connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zk_proto::{
    CreateRequest, CreateResponse, ErrorCode, ExistsRequest, ExistsResponse, OpCode, Zxid,
};

use crate::driver::shared_session::{Core, ReplyReceiver, Responder};
use crate::error::{Cause, Error, Failure, Rejected};
use crate::handles::client::{Call, Client, Reply};
use crate::handles::lease::Lease;
use crate::model::acl;
use crate::model::node::{CreateOptions, Deletion};
use crate::model::path;
use crate::multi::write::{self, Operations, Transaction};
use crate::session::{OwnedNodeId, RawReply};

impl Client {
    /// Creates an ephemeral sequential node that this client never loses track of.
    ///
    /// The server appends the digits to `path`, which must be unique for ever: put
    /// [`unique`](Self::unique) into it. In return no node is left behind without an owner. If the
    /// connection breaks before the reply, the client looks for the node on the next connection,
    /// and the reply is that node. `ConnectionLoss` with the outcome `NotApplied` means that it
    /// looked and found no node; with `Unknown`, that the server did not let it look. Should the
    /// node appear later all the same, the client deletes it when it finds it: in a listing of the
    /// folder that any caller of this client requests, or when it looks again, which it does ever
    /// more seldom and on the next connection. If the [`Reply`] or the [`OwnedNode`] is dropped, at
    /// whatever moment, the node is deleted as soon as possible.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use zk_client::CreateOptions;
    ///
    /// let path = format!("/members/{:032x}-", client.unique());
    /// let options = CreateOptions::ephemeral().sequential();
    /// let member = client.create_owned(&path, b"10.0.0.7:80", &options).await?;
    /// println!("here as {}", member.path());
    /// member.delete().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidOptions`](crate::ErrorKind::InvalidOptions) unless the options are ephemeral and
    /// sequential; the errors of [`create`](Self::create). `NoNode` may also mean that the node was
    /// created, on a server whose replies do not tell its czxid: the client could not read it, and
    /// it may be gone.
    pub fn create_owned(
        &self,
        path: &str,
        data: &[u8],
        options: &CreateOptions<'_>,
    ) -> Reply<OwnedNode> {
        match self.ask_owned(Core::submit_owned, path, data, options) {
            Ok((id, receiver)) => self.owned(id, receiver),
            Err(error) => Reply::rejected(error),
        }
    }

    /// Creates an owned node and deletes the one at `old` in one transaction.
    ///
    /// Both cost one request, one round trip and one proposal of the ensemble. If the new node
    /// exists, the old one was deleted in the same transaction, and nothing happened in between.
    /// The create comes first, and so do its watch events.
    ///
    /// This needs an `old` that is a released [`OwnedNode`], whose delete was not sent yet, and no
    /// request may have been made since the release. Otherwise the method returns `None` and sends
    /// nothing: use [`create_owned`](Self::create_owned) then. It also returns `None` if both
    /// operations do not fit into one frame.
    ///
    /// The method is for a client that leaves a queue and joins it again. On a runtime of several
    /// threads, a delete is sent as soon as another thread runs the driver, unless both are in one
    /// [`batch`](Self::batch).
    ///
    /// ```
    /// # use zk_client::{Client, Error, OwnedNode};
    /// # async fn f(client: &Client, turn: OwnedNode) -> Result<(), Error> {
    /// use zk_client::CreateOptions;
    ///
    /// // To the end of the queue.
    /// let old = turn.path().to_owned();
    /// let path = format!("/queue/{:032x}-", client.unique());
    /// let options = CreateOptions::ephemeral().sequential();
    /// let again = client.batch(|| {
    ///     drop(turn);
    ///     let replaced = client.replace_owned(&old, &path, b"", &options);
    ///     replaced.unwrap_or_else(|| client.create_owned(&path, b"", &options))
    /// });
    /// println!("here as {}, and no longer as {old}", again.await?.path());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`create_owned`](Self::create_owned), and one more: if the server refuses the
    /// delete, for instance because another client has deleted the node, nothing was created, and
    /// [`failed_op`](Error::failed_op) is 1. Call again then.
    ///
    /// The delete is repeated until it is answered, whatever happens to the create. If the create
    /// was refused, the repeated delete comes after the requests that were sent meanwhile.
    pub fn replace_owned(
        &self,
        old: &str,
        path: &str,
        data: &[u8],
        options: &CreateOptions<'_>,
    ) -> Option<Reply<OwnedNode>> {
        let submit = |core: &mut Core, request: &CreateRequest<'_>, responder| {
            self.chroot.applied(old, |old| core.submit_replacing(old, request, responder))
        };
        match self.ask_owned(submit, path, data, options) {
            Ok((id, receiver)) => id.map(|id| self.owned(id, receiver)),
            Err(error) => Some(Reply::rejected(error)),
        }
    }

    fn ask_owned<R>(
        &self,
        submit: impl FnOnce(&mut Core, &CreateRequest<'_>, Responder) -> Result<R, Rejected>,
        path: &str,
        data: &[u8],
        options: &CreateOptions<'_>,
    ) -> Result<(R, ReplyReceiver), Error> {
        if !(options.is_ephemeral() && options.is_sequential()) {
            let rule = "an owned node is ephemeral and sequential";
            return Err(Cause::Options { path: path.to_owned(), rule }.into());
        }
        if let Err(rule) = options.check() {
            return Err(Cause::Options { path: path.to_owned(), rule }.into());
        }
        path::check(path)?;
        let (mode, data) = (options.mode(), Some(data));
        let submitted = self.chroot.applied(path, |full| {
            acl::with_wire_acl(options.acl, |acl| {
                let request = CreateRequest { path: full, data, acl, mode };
                self.shared().submit(path, |core, responder| submit(core, &request, responder))
            })
        });
        submitted.map_err(|rejected| Error::rejected(OpCode::CREATE2, path, rejected))
    }

    fn owned(&self, id: OwnedNodeId, receiver: ReplyReceiver) -> Reply<OwnedNode> {
        let node = DeleteOnDrop { client: self.clone(), id, released: false };
        Reply::waiting(self.call(OpCode::CREATE2, receiver), move |call, completion| {
            let reply = completion.map_err(|failure| match failure {
                // The delete was refused, of a node that may have belonged to any client.
                Failure::OpRefused { .. } => {
                    Error::failed(OpCode::DELETE, &format!("behind {}", call.path()), failure)
                }
                failure => call.failed(failure),
            })?;
            OwnedNode::created(node, call, &reply)
        })
    }

    /// Carries out all operations or none, and returns the nodes that they create as owned ones.
    ///
    /// There is one reply for each [`Op::create_owned`](crate::Op::create_owned), in order. Each
    /// reply makes the same promise as that of [`create_owned`](Self::create_owned).
    ///
    /// The other operations have no reply. Without an owned node among the operations, the caller
    /// does not learn the result: use [`multi`](Self::multi) for that.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use zk_client::{CreateOptions, Op};
    ///
    /// // Only while the shop is open.
    /// let path = format!("/queue/{:032x}-", client.unique());
    /// let options = CreateOptions::ephemeral().sequential();
    /// let ops = (Op::check("/open", None), Op::create_owned(&path, b"", &options));
    /// for place in client.multi_owned(&ops) {
    ///     println!("here as {}", place.await?.path());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the multi is refused, every reply fails with the same error, which is that of
    /// [`multi`](Self::multi). If the connection breaks before the reply, the client looks for each
    /// node by itself: `ConnectionLoss` with the outcome `NotApplied` on any of them means that
    /// nothing of the multi was applied. `NoNode` without a [failed
    /// operation](Error::failed_op) means that all was applied, on a server whose replies do not
    /// tell the czxid of a node: the client could not read the new node, which may be gone.
    pub fn multi_owned(&self, ops: impl Operations) -> Vec<Reply<OwnedNode>> {
        let Transaction { actions, .. } = Transaction::new(&ops);
        let owned = actions.iter().enumerate().filter(|(_, action)| action.is_owned());
        let named = match self.named(&actions, true) {
            Ok(named) => Arc::new(named),
            Err(error) => return owned.map(|_| Reply::rejected(error.clone())).collect(),
        };
        let (responders, receivers): (Vec<_>, Vec<_>) =
            owned.clone().map(|(_, op)| self.shared().open_slot(op.path())).unzip();
        let paths = owned.clone().map(|(_, op)| self.chroot.apply(op.path())).collect::<Vec<_>>();
        let creates = owned.clone().zip(&paths).zip(responders);
        let creates =
            creates.map(|(((index, op), path), responder)| (index, op.stem(path), responder));
        let submitted = write::request(&actions, &self.chroot, |request| {
            self.shared().with(|core| core.submit_multi_owned(request, creates))
        });
        let ids = match submitted {
            Ok(ids) => ids,
            Err(rejected) => {
                let error = Error::rejected(OpCode::MULTI, &named.to_string(), rejected);
                return owned.map(|_| Reply::rejected(error.clone())).collect();
            }
        };
        let replies = ids.into_iter().zip(receivers).map(|(id, receiver)| {
            let node = DeleteOnDrop { client: self.clone(), id, released: false };
            let named = Arc::clone(&named);
            Reply::waiting(self.call(OpCode::MULTI, receiver), move |call, completion| {
                let reply = completion.map_err(|failure| named.failed(call, failure))?;
                OwnedNode::created(node, call, &reply)
            })
        });
        replies.collect()
    }

    /// Takes over an ephemeral node that this session already has.
    ///
    /// This is for a client that [resumes a session](crate::ClientBuilder::session) which another
    /// client [detached from](Self::detach). Nothing changes on the server. A server that lags
    /// behind the one that the session used before may not know the node yet, so
    /// [`sync`](Self::sync) first.
    ///
    /// # Errors
    ///
    /// [`NotOwned`](crate::ErrorKind::NotOwned) if the node belongs to another session or to none,
    /// `NoNode` if there is none, [`AlreadyOwned`](crate::ErrorKind::AlreadyOwned) if this client
    /// owns it already.
    ///
    /// # Cancel safety
    ///
    /// Dropping the reply leaves the node alone.
    pub fn adopt(&self, path: &str) -> Reply<OwnedNode> {
        self.with_checked_path(path, path::check, |full| {
            let request = ExistsRequest { path: full, watch: false };
            let (client, full) = (self.clone(), full.to_owned());
            self.send(path, &request, move |call, completion| {
                let reply = call.to_result(completion)?;
                let requested_at = reply.requested_at;
                let ExistsResponse { stat } = call.decode(&reply)?;
                let (path, owner) = (call.path().to_owned(), stat.ephemeral_owner);
                if client.session().map(|own| own.id) != Some(owner) {
                    return Err(Cause::NotOwned { path, owner }.into());
                }
                let adopted = client.shared().with(|core| core.adopt(&full));
                let id = adopted.map_err(|rejected| Error::rejected(call.op, &path, rejected))?;
                let Some(id) = id else {
                    return Err(Cause::AlreadyOwned { path }.into());
                };
                let node = DeleteOnDrop { client, id, released: false };
                Ok(OwnedNode { node, path, czxid: stat.czxid, requested_at })
            })
        })
    }
}

/// An ephemeral node that is deleted when this handle is dropped.
///
/// See [`Client::create_owned`], [`Client::multi_owned`] and [`Client::adopt`].
///
/// It is not `Clone`: there is one owner. It keeps the session alive like a [`Client`]. Dropping it
/// queues the delete at once, behind every request made before, on any thread and without a
/// runtime. If the connection breaks before the reply, the delete is sent again on the next
/// connection, ahead of all other requests.
///
/// If the server refuses the delete, the node stays, and the client tries again after each session
/// timeout and on each connection. Without the permission `DELETE` on the folder it stays until the
/// permission comes back or the session ends. [`Client::undeleted`] returns such nodes.
///
/// The client's task sends what is queued. If the runtime ends first, as at the end of `main`,
/// nothing is sent, and the node stays until the session has expired. So end a program with
/// [`delete`](Self::delete) or [`Client::close`], and await it.
#[derive(Debug)]
#[must_use = "dropping it deletes the node: bind it to a name (`_` is none)"]
pub struct OwnedNode {
    node: DeleteOnDrop,
    path: String,
    czxid: Zxid,
    requested_at: Instant,
}

impl OwnedNode {
    fn created(node: DeleteOnDrop, call: &Call, reply: &RawReply) -> Result<Self, Error> {
        let CreateResponse { path } = call.decode(reply)?;
        let path = call.chroot.strip(path).to_owned();
        Ok(Self { node, path, czxid: reply.zxid, requested_at: reply.requested_at })
    }

    /// The node's path, with its digits.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The zxid of the transaction that created the node.
    ///
    /// It orders the node after all nodes that were created before. Nodes of one multi share it.
    pub fn czxid(&self) -> Zxid {
        self.czxid
    }

    /// When the create was handed to the transport, by the client's [`Clock`](crate::Clock).
    ///
    /// If the reply to the create was lost, this is the time of the request that found the node, so
    /// the node may be older.
    pub fn requested_at(&self) -> Instant {
        self.requested_at
    }

    /// Opens a lease: until when the ensemble surely keeps the session, and with it the node.
    ///
    /// The time is computed by the client's [`DeadlineRule`](crate::DeadlineRule).
    ///
    /// With a `max_duration` the lease lapses at the latest that long after
    /// [`requested_at`](Self::requested_at). The lease of a node that was just created is valid at
    /// once. If the last proof of the session is old, because the node was created a while ago or
    /// was found again after its reply was lost, the lease is suspended until the next proof. The
    /// client asks for that at once.
    ///
    /// When the lease lapses while the node may exist, the client deletes the node, at once or on
    /// the next connection, whether or not any task looks at the lease. Deleting or dropping the
    /// `OwnedNode` afterwards does no harm. Its deletion is then the result of that delete, or
    /// `AlreadyGone` once that was answered. A lease that lapsed never becomes valid again, and a
    /// new lease of its node has lapsed, too.
    ///
    /// A lease shows that another client deleted the node once an event has told this client so
    /// while the lease ran, whichever watch that was for. By itself it watches nothing. Watch the
    /// node to be told.
    ///
    /// ```
    /// # async fn f(node: &zk_client::OwnedNode) {
    /// use std::time::Duration;
    /// use zk_client::LeaseState;
    ///
    /// let lease = node.lease(Some(Duration::from_secs(60)));
    /// if let LeaseState::Valid { until } = lease.state() {
    ///     println!("mine until {until:?}, and perhaps for longer");
    /// }
    /// println!("no longer mine: {:?}", lease.lapsed().await);
    /// # }
    /// ```
    pub fn lease(&self, max_duration: Option<Duration>) -> Lease {
        let shared = self.node.client.shared();
        let (clock, node) = (shared.clock(), self.node.id);
        let expires_at = max_duration.and_then(|longest| self.requested_at.checked_add(longest));
        let id = shared.with(|core| core.open_lease(clock.now(), node, expires_at));
        Lease::new(Arc::clone(shared), id)
    }

    /// Gives up the node without deleting it: it is gone, or another client now takes care of it.
    ///
    /// If it still exists, it stays until a client deletes it or the session ends.
    pub fn disown(mut self) {
        let DeleteOnDrop { client, id, released } = &mut self.node;
        *released = true;
        client.shared().with(|core| core.disown(*id));
    }

    /// Deletes the node. Returns whether it still existed.
    ///
    /// # Errors
    ///
    /// After any error the caller no longer owns the node, and the client goes on deleting it until
    /// it is gone or the session ends, also if the server has refused: see
    /// [`Client::undeleted`].
    pub fn delete(mut self) -> Reply<Deletion> {
        let DeleteOnDrop { client, id, released } = &mut self.node;
        *released = true;
        let submitted = client
            .shared()
            .submit(&self.path, |core, responder| core.release(*id, Some(responder)));
        let receiver = match submitted {
            Ok(((), receiver)) => receiver,
            Err(rejected) => return client.rejected(OpCode::DELETE, &self.path, rejected),
        };
        Reply::waiting(client.call(OpCode::DELETE, receiver), |call, completion| match completion {
            Ok(_) => Ok(Deletion::Deleted),
            Err(Failure::Refused(ErrorCode::NO_NODE)) => Ok(Deletion::AlreadyGone),
            Err(failure) => Err(call.failed(failure)),
        })
    }
}

/// The obligation to delete a node, held by a reply or by an [`OwnedNode`].
#[derive(Debug)]
struct DeleteOnDrop {
    client: Client,
    id: OwnedNodeId,
    released: bool,
}

impl Drop for DeleteOnDrop {
    fn drop(&mut self) {
        if !self.released {
            // An error means that this client's use of the session has ended. The node goes with
            // the session: at once, or after `AuthFailed` or a detach when the ensemble ends it.
            self.client.shared().with(|core| core.release(self.id, None)).ok();
        }
    }
}
