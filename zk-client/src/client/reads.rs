//! Reads, with and without a watch, and sync.

use zk_proto::{
    ErrorCode, ExistsRequest, ExistsResponse, GetAllChildrenNumberRequest,
    GetAllChildrenNumberResponse, GetChildren2Request, GetDataRequest, GetDataResponse,
    GetEphemeralsRequest, GetEphemeralsResponse, Stat, SyncRequest, SyncResponse,
};

use crate::driver::shared_session::Completion;
use crate::error::{Error, Failure};
use crate::handles::client::{Call, Client, Reply};
use crate::handles::watcher::Watcher;
use crate::model::node::{Children, Node};
use crate::model::path;
use crate::session::WatchKind;

impl Client {
    /// The state of a node, or `None` if there is none.
    pub fn exists(&self, path: &str) -> Reply<Option<Stat>> {
        self.with_checked_path(path, path::check, |full| {
            let request = ExistsRequest { path: full, watch: false };
            self.send(path, &request, exists)
        })
    }

    /// Like [`exists`](Self::exists), with a watch for the node's creation, change or deletion.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// let (stat, mut watch) = client.exists_and_watch("/ready").await?;
    /// if stat.is_none() {
    ///     watch.changed().await?; // created
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn exists_and_watch(&self, path: &str) -> Reply<(Option<Stat>, Watcher)> {
        self.with_checked_path(path, path::check, |full| {
            let request = ExistsRequest { path: full, watch: true };
            self.send_watching(path, full, &request, WatchKind::Exist, exists)
        })
    }

    /// A node's data and state.
    pub fn get_data(&self, path: &str) -> Reply<Node> {
        self.with_checked_path(path, path::check, |full| {
            self.send(path, &GetDataRequest { path: full, watch: false }, node)
        })
    }

    /// Like [`get_data`](Self::get_data), with a watch for the node's change or deletion.
    pub fn get_data_and_watch(&self, path: &str) -> Reply<(Node, Watcher)> {
        self.with_checked_path(path, path::check, |full| {
            let request = GetDataRequest { path: full, watch: true };
            self.send_watching(path, full, &request, WatchKind::Data, node)
        })
    }

    /// The names of a node's children, and the node's state.
    pub fn get_children(&self, path: &str) -> Reply<Children> {
        self.with_checked_path(path, path::check, |full| {
            self.send(path, &GetChildren2Request { path: full, watch: false }, children)
        })
    }

    /// Like [`get_children`](Self::get_children), with a watch.
    ///
    /// The watch is for children that are created or deleted, and for the node's deletion.
    pub fn get_children_and_watch(&self, path: &str) -> Reply<(Children, Watcher)> {
        self.with_checked_path(path, path::check, |full| {
            let request = GetChildren2Request { path: full, watch: true };
            self.send_watching(path, full, &request, WatchKind::Child, children)
        })
    }

    /// The paths of this session's ephemeral nodes that begin with `prefix`. Since ZooKeeper 3.6.
    ///
    /// They come in no order. `/` finds all of them; below a
    /// [chroot](crate::ClientBuilder::connect), only those inside it. The prefix is one of text:
    /// `/jobs/a` finds `/jobs/ab`, too.
    ///
    /// # Errors
    ///
    /// Older servers answer [`Unimplemented`](crate#old-servers).
    pub fn get_ephemerals(&self, prefix: &str) -> Reply<Vec<String>> {
        self.with_checked_path(prefix, path::check_sequential, |full| {
            let inside = match self.chroot.as_str() {
                // Without the slash, nodes whose names merely begin alike would be found.
                Some(chroot) if full == chroot => format!("{chroot}/"),
                _ => full.to_owned(),
            };
            let request = GetEphemeralsRequest { prefix_path: inside.as_str().into() };
            self.send(prefix, &request, |call, completion| {
                let reply = call.to_result(completion)?;
                let GetEphemeralsResponse { ephemerals } = call.decode(&reply)?;
                Ok(ephemerals.iter().map(|path| call.chroot.strip(path).to_owned()).collect())
            })
        })
    }

    /// The number of nodes below a node, at any depth. Since ZooKeeper 3.6.
    ///
    /// This needs only the permission to read that node. The server walks the tree for it.
    ///
    /// # Errors
    ///
    /// Older servers answer [`Unimplemented`](crate#old-servers).
    pub fn get_all_children_number(&self, path: &str) -> Reply<i32> {
        self.with_checked_path(path, path::check, |full| {
            self.send(path, &GetAllChildrenNumberRequest { path: full }, |call, completion| {
                let reply = call.to_result(completion)?;
                let GetAllChildrenNumberResponse { total_number } = call.decode(&reply)?;
                Ok(total_number)
            })
        })
    }

    /// Waits until this client's server has caught up with the leader as of now.
    ///
    /// This is not a quorum operation (ZOOKEEPER-1675): a leader that has just been deposed may
    /// answer. A leader that serves clients itself answers theirs at once, so a write that a
    /// follower has already reported to its client may be missing there for a moment. To see what
    /// another client has seen, wait for that client's zxid with
    /// [`wait_for_zxid`](Self::wait_for_zxid).
    pub fn sync(&self, path: &str) -> Reply<()> {
        self.with_checked_path(path, path::check, |full| {
            self.send(path, &SyncRequest { path: full.into() }, |call, completion| {
                let reply = call.to_result(completion)?;
                call.decode::<SyncResponse<'_>>(&reply).map(drop)
            })
        })
    }
}

fn exists(call: &Call, completion: Completion) -> Result<Option<Stat>, Error> {
    match completion {
        Err(Failure::Refused(ErrorCode::NO_NODE)) => Ok(None),
        completion => {
            let ExistsResponse { stat } = call.decode(&call.to_result(completion)?)?;
            Ok(Some(stat))
        }
    }
}

fn node(call: &Call, completion: Completion) -> Result<Node, Error> {
    let reply = call.to_result(completion)?;
    let GetDataResponse { data, stat } = call.decode(&reply)?;
    Ok(Node::read(&reply.body, data, stat))
}

fn children(call: &Call, completion: Completion) -> Result<Children, Error> {
    let reply = call.to_result(completion)?;
    call.decode(&reply)
}
