//! Requests that change no node: reads, and watches.
//!
//! They use no zxid. A watch is set at the same moment at which its node is read.

use zk_proto::{
    Acl, AddWatchMode, AddWatchRequest, CheckWatchesRequest, ClientInfo, ErrorCode, ErrorResponse,
    ExistsRequest, ExistsResponse, GetAclRequest, GetAclResponse, GetAllChildrenNumberRequest,
    GetAllChildrenNumberResponse, GetChildren2Request, GetChildren2Response, GetChildrenRequest,
    GetChildrenResponse, GetDataRequest, GetDataResponse, GetEphemeralsRequest,
    GetEphemeralsResponse, List, MultiRequest, MultiResponse, OpCode, Reader, ReplyHeader,
    SetWatches2, WhoAmIResponse, Zxid,
};

use crate::asked::{Asked, read};
use crate::config::ServerVersion;
use crate::decodable_path::fails_at_null_acl;
use crate::multi::{Read, Survey};
use crate::state::State;
use crate::store::{Rearmed, wire_acl};
use crate::watches::WatchKind;

/// How many children one multiRead may list in all: it can name a large node a thousand times. A
/// client that wants more is disconnected, as by a real server that runs out of memory.
const MAX_NAMES: usize = 16 * 1024 * 1024;

impl State {
    /// Serves a read, each of which this server answers without the leader.
    pub(crate) fn serve_read(
        &mut self,
        asked: Asked,
        reader: &mut Reader<'_>,
    ) -> Result<(), ErrorCode> {
        match asked.op {
            OpCode::MULTI_READ => self.multi_read(asked, reader),
            OpCode::EXISTS => self.exists(asked, read(reader)?),
            OpCode::GET_DATA => self.get_data(asked, read(reader)?),
            OpCode::GET_CHILDREN => {
                let GetChildrenRequest { path, watch } = read(reader)?;
                self.get_children(asked, path, watch, false)
            }
            OpCode::GET_CHILDREN2 => {
                let GetChildren2Request { path, watch } = read(reader)?;
                self.get_children(asked, path, watch, true)
            }
            OpCode::GET_ACL => self.get_acl(asked, read(reader)?),
            OpCode::GET_EPHEMERALS => self.get_ephemerals(asked, read(reader)?),
            OpCode::GET_ALL_CHILDREN_NUMBER => {
                let GetAllChildrenNumberRequest { path } = read(reader)?;
                self.readable(asked, path)?;
                let total_number = self.store.descendants(path) as i32;
                self.ok(asked, &GetAllChildrenNumberResponse { total_number })
            }
            OpCode::WHO_AM_I => self.who_am_i(asked),
            OpCode::CHECK_WATCHES => {
                let CheckWatchesRequest { path, kind } = read(reader)?;
                self.watcher(asked, self.watches.has(kind, path, asked.connection))
            }
            _ => self.reject_unknown(asked),
        }
    }

    fn multi_read(&mut self, asked: Asked, reader: &mut Reader<'_>) -> Result<(), ErrorCode> {
        if self.config.server_version == ServerVersion::V3_9 && fails_at_null_acl(reader.rest()) {
            return Err(ErrorCode::MARSHALLING_ERROR);
        }
        let request: MultiRequest<'_> = read(reader)?;
        let header = self.header(asked);
        let survey = Survey::of(request, self.config.server_version);
        if survey.all_writes && !survey.all_reads {
            // The request is refused, but the reply has the list of results that was begun.
            let header = ReplyHeader { error: ErrorCode::MARSHALLING_ERROR, ..header };
            self.connections.reply(asked.connection, header, &MultiResponse::new(&[]));
            return Ok(());
        }
        if !survey.all_reads {
            return Err(ErrorCode::MARSHALLING_ERROR);
        }
        let identities = self.caller(asked)?.0.identities.clone();
        let mut reads = Vec::new();
        let mut names = 0_usize;
        let mut error = ErrorCode::OK;
        for op in request.iter() {
            let Some(read) = self.store.multi_read(op, &identities) else {
                // A real server fails here, and the reply has the results so far.
                error = ErrorCode::MARSHALLING_ERROR;
                break;
            };
            names += if let Read::Children(names) = &read { names.len() } else { 0 };
            if names > MAX_NAMES {
                self.end(asked.connection);
                return Ok(());
            }
            reads.push(read);
        }
        let results: Vec<_> = reads.iter().map(Read::wire).collect();
        let header = ReplyHeader { error, ..header };
        self.connections.reply(asked.connection, header, &MultiResponse::new(&results));
        Ok(())
    }

    /// Checks that the node exists and that the caller may read it.
    fn readable(&mut self, asked: Asked, path: &str) -> Result<(), ErrorCode> {
        let (caller, store) = self.caller(asked)?;
        store.readable(path, Acl::READ, caller.identities).map(drop)
    }

    fn exists(&mut self, asked: Asked, request: ExistsRequest<'_>) -> Result<(), ErrorCode> {
        let ExistsRequest { path, watch } = request;
        if path.contains('\0') {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let readable = match self.config.server_version {
            // Before 3.9.2 every client could see whether a node exists (ZOOKEEPER-2590).
            ServerVersion::V3_8 => self.store.tree.node(path).map(drop),
            ServerVersion::V3_9 => self.readable(asked, path),
        };
        // A watch is also set on a node that does not exist.
        if watch && matches!(readable, Ok(()) | Err(ErrorCode::NO_NODE)) {
            self.watches.add(WatchKind::Data, path, asked.connection);
        }
        readable?;
        let stat = self.store.tree.node(path)?.stat();
        self.ok(asked, &ExistsResponse { stat })
    }

    fn get_data(&mut self, asked: Asked, request: GetDataRequest<'_>) -> Result<(), ErrorCode> {
        let GetDataRequest { path, watch } = request;
        self.readable(asked, path)?;
        if watch {
            self.watches.add(WatchKind::Data, path, asked.connection);
        }
        let header = self.header(asked);
        let node = self.store.tree.node(path)?;
        let body = GetDataResponse { data: node.data.as_deref(), stat: node.stat() };
        self.connections.reply(asked.connection, header, &body);
        Ok(())
    }

    fn get_children(
        &mut self,
        asked: Asked,
        path: &str,
        watch: bool,
        with_stat: bool,
    ) -> Result<(), ErrorCode> {
        self.readable(asked, path)?;
        if watch {
            self.watches.add(WatchKind::Child, path, asked.connection);
        }
        let header = self.header(asked);
        let node = self.store.tree.node(path)?;
        let names = self.store.tree.listed(path);
        let children = List::new(&names);
        if with_stat {
            let body = GetChildren2Response { children, stat: node.stat() };
            self.connections.reply(asked.connection, header, &body);
        } else {
            let body = GetChildrenResponse { children };
            self.connections.reply(asked.connection, header, &body);
        }
        Ok(())
    }

    fn get_acl(&mut self, asked: Asked, request: GetAclRequest<'_>) -> Result<(), ErrorCode> {
        let (caller, store) = self.caller(asked)?;
        let (grants, stat) = store.acl(request.path, caller.identities)?;
        let acl = wire_acl(&grants);
        self.ok(asked, &GetAclResponse { acl: List::new(&acl), stat })
    }

    fn get_ephemerals(
        &mut self,
        asked: Asked,
        request: GetEphemeralsRequest<'_>,
    ) -> Result<(), ErrorCode> {
        let prefix = request.prefix_path.to_java_string();
        // Java trims all characters up to the space, and no others.
        let trimmed = prefix.trim_matches(|character| character <= ' ');
        let prefix = if matches!(trimmed, "" | "/") { "" } else { &prefix };
        let header = self.header(asked);
        let own = self.store.tree.listed_ephemerals(asked.session, true).into_iter();
        let paths: Vec<&str> = own.filter(|path| path.starts_with(prefix)).collect();
        let body = GetEphemeralsResponse { ephemerals: List::new(&paths) };
        self.connections.reply(asked.connection, header, &body);
        Ok(())
    }

    fn who_am_i(&mut self, asked: Asked) -> Result<(), ErrorCode> {
        let (caller, _) = self.caller(asked)?;
        let identities = caller.identities.clone();
        let infos: Vec<ClientInfo<'_>> = identities
            .iter()
            .map(|one| ClientInfo { auth_scheme: one.scheme(), user: one.user() })
            .collect();
        self.ok(asked, &WhoAmIResponse { client_info: List::new(&infos) })
    }

    pub(crate) fn add_watch(
        &mut self,
        asked: Asked,
        request: AddWatchRequest<'_>,
    ) -> Result<(), ErrorCode> {
        let kind = match request.mode {
            AddWatchMode::PERSISTENT => WatchKind::Persistent,
            AddWatchMode::PERSISTENT_RECURSIVE => WatchKind::Recursive,
            _ => return Err(ErrorCode::MARSHALLING_ERROR),
        };
        self.watches.add(kind, request.path, asked.connection);
        self.ok(asked, &ErrorResponse { error: ErrorCode::OK })
    }

    /// The reply to checkWatches and removeWatches.
    pub(crate) fn watcher(&mut self, asked: Asked, found: Option<bool>) -> Result<(), ErrorCode> {
        match found {
            Some(true) => self.ok(asked, &()),
            Some(false) => Err(ErrorCode::NO_WATCHER),
            None => Err(ErrorCode::MARSHALLING_ERROR),
        }
    }

    /// Arms watches again, after it has notified of the events that they have missed.
    pub(crate) fn set_watches(
        &mut self,
        asked: Asked,
        request: SetWatches2<'_>,
    ) -> Result<(), ErrorCode> {
        let SetWatches2 { relative_zxid, data, exist, child, persistent, persistent_recursive } =
            request;
        let connection = asked.connection;
        for (list, rearmed, kind) in [
            (data, Rearmed::Data, WatchKind::Data),
            (exist, Rearmed::Exist, WatchKind::Data),
            (child, Rearmed::Child, WatchKind::Child),
            (persistent, Rearmed::Persistent, WatchKind::Persistent),
            (persistent_recursive, Rearmed::Recursive, WatchKind::Recursive),
        ] {
            // The lists before a null list take effect.
            if list.is_null() {
                return Err(ErrorCode::MARSHALLING_ERROR);
            }
            for path in list {
                match self.store.missed(rearmed, path, relative_zxid) {
                    Some(event) => self.connections.notify(connection, Zxid(-1), event, path),
                    None => self.watches.add(kind, path, connection),
                }
            }
        }
        self.ok(asked, &())
    }
}
