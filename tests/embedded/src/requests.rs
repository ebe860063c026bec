//! What each request does, and what is answered.
//!
//! Requests of one connection are served in order and each at once, so a reply leaves before the
//! next request is looked at. A write takes the next zxid even if it fails; a read that cannot be
//! decoded, or a single write, takes none.

use std::time::Duration;

use bytes::Bytes;
use tracing::trace;
use zk_proto::{
    Acl, AddWatchMode, AddWatchRequest, AuthPacket, CheckWatchesRequest, ClientInfo,
    Create2Response, CreateMode, CreateRequest, CreateResponse, Decode, Encode, ErrorCode,
    ErrorResponse, ExistsRequest, ExistsResponse, GetAclRequest, GetAclResponse,
    GetAllChildrenNumberRequest, GetAllChildrenNumberResponse, GetChildren2Request,
    GetChildren2Response, GetChildrenRequest, GetChildrenResponse, GetDataRequest, GetDataResponse,
    GetEphemeralsRequest, GetEphemeralsResponse, GetSaslRequest, List, MultiOp, MultiRequest,
    MultiResponse, OpCode, Reader, ReconfigRequest, RemoveWatchesRequest, ReplyHeader,
    RequestHeader, Secret, SessionId, SetAclResponse, SetDataResponse, SetSaslResponse, SetWatches,
    SetWatches2, SyncRequest, SyncResponse, Text, WhoAmIResponse, Xid, Zxid,
};

use crate::config::Release;
use crate::connection::ConnectionId;
use crate::create::Created;
use crate::fault::{Effect, Sighting};
use crate::multi::{Outcome, Read};
use crate::state::State;
use crate::store::{Caller, NULL_PATH, Rearmed, Store, wire_acl};
use crate::tree::Moment;
use crate::watches::WatchKind;

/// A request at hand.
#[derive(Clone, Copy, Debug)]
struct Asked {
    now: Duration,
    connection: ConnectionId,
    session: SessionId,
    xid: Xid,
    op: OpCode,
}

impl State {
    /// Serves one frame of a connection whose handshake is done.
    pub(crate) fn request(
        &mut self,
        now: Duration,
        connection: ConnectionId,
        session: SessionId,
        frame: &Bytes,
    ) {
        let mut reader = Reader::new(frame);
        let Ok(RequestHeader { xid, op }) = RequestHeader::decode(&mut reader) else {
            return self.abort(connection);
        };
        trace!(%connection, %xid, %op, "request");
        let asked = Asked { now, connection, session, xid, op };
        let Some(from) = self.connections.get_mut(connection) else {
            return;
        };
        from.counts.last_op = op;
        if let Some(partition) = &mut from.partition {
            if op == OpCode::PING {
                let zxid = partition.zxid;
                return self.answer(asked, Xid::PING, zxid, ErrorCode::OK, &());
            }
            partition.requests.push_back(frame.clone());
            return;
        }
        self.sessions.touch(session, now);
        let mended = if begins_with_path(op) { mended(op, reader.rest()) } else { None };
        if let Some(body) = &mended {
            reader = Reader::new(body);
        }
        let has_path = begins_with_path(op) || matches!(op, OpCode::SYNC | OpCode::GET_EPHEMERALS);
        let path = <&str>::decode(&mut reader.clone()).ok().filter(|_| has_path);
        match self.faults.strike(Sighting { op, path, session }) {
            Some(Effect::LoseRequest) => return self.end(connection),
            Some(Effect::Refuse(code)) => return self.fail(asked, code),
            Some(effect) => {
                let effect = match effect {
                    Effect::Delay(by) => Effect::Delay(now + by),
                    effect => effect,
                };
                if let Some(from) = self.connections.get_mut(connection) {
                    from.struck = Some(effect);
                }
            }
            None => {}
        }
        if let Err(code) = self.serve(asked, &mut reader) {
            self.fail(asked, code);
        }
        self.leave_if_closing(connection);
    }

    /// A write's own zxid is the last one too.
    fn fail(&mut self, asked: Asked, code: ErrorCode) {
        let zxid = self.store.last_zxid();
        self.answer(asked, asked.xid, zxid, code, &());
    }

    fn answer(&mut self, to: Asked, xid: Xid, zxid: Zxid, error: ErrorCode, body: &impl Encode) {
        self.connections.reply(to.connection, ReplyHeader { xid, zxid, error }, body);
    }

    /// The answer to a request that went well.
    fn header(&self, asked: Asked) -> ReplyHeader {
        ReplyHeader { xid: asked.xid, zxid: self.store.last_zxid(), error: ErrorCode::OK }
    }

    fn serve(&mut self, asked: Asked, reader: &mut Reader<'_>) -> Result<(), ErrorCode> {
        let op = asked.op;
        match op {
            OpCode::PING => {
                let zxid = self.store.last_zxid();
                self.answer(asked, Xid::PING, zxid, ErrorCode::OK, &());
                Ok(())
            }
            OpCode::MULTI | OpCode::RECONFIG | OpCode::SYNC if self.read_only => {
                Err(ErrorCode::NOT_READ_ONLY)
            }
            op if self.read_only && is_single_write(op) => Err(ErrorCode::NOT_READ_ONLY),
            OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER => {
                let made = self.write(asked, reader, |store, caller, request, moment| {
                    store.create(caller, op, request, moment)
                })?;
                self.created(asked, &made);
                Ok(())
            }
            OpCode::CREATE_TTL => {
                let made = self.write(asked, reader, Store::create_ttl)?;
                self.created(asked, &made);
                Ok(())
            }
            OpCode::DELETE => {
                self.write(asked, reader, Store::delete)?;
                self.ok(asked, &())
            }
            OpCode::SET_DATA => {
                let stat = self.write(asked, reader, Store::set_data)?;
                self.ok(asked, &SetDataResponse { stat })
            }
            OpCode::SET_ACL => {
                let stat = self.write(asked, reader, |store, caller, request, _| {
                    store.set_acl(caller, request)
                })?;
                self.ok(asked, &SetAclResponse { stat })
            }
            OpCode::RECONFIG => {
                let refused: Result<(), _> =
                    self.write(asked, reader, |_, _, _: ReconfigRequest<'_>, _| {
                        Err(ErrorCode::RECONFIG_DISABLED)
                    });
                refused
            }
            OpCode::MULTI => self.multi(asked, reader),
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
            OpCode::SYNC => {
                let SyncRequest { path } = read(reader)?;
                let read = path.to_string_lossy();
                let echo = Text::java_bytes(&read);
                let path = if path == Text::NULL { path } else { Text::from_bytes(&echo) };
                self.ok(asked, &SyncResponse { path })
            }
            OpCode::GET_EPHEMERALS => self.get_ephemerals(asked, read(reader)?),
            OpCode::GET_ALL_CHILDREN_NUMBER => {
                let GetAllChildrenNumberRequest { path } = read(reader)?;
                self.readable(asked, path)?;
                let total_number = self.store.descendants(path) as i32;
                self.ok(asked, &GetAllChildrenNumberResponse { total_number })
            }
            OpCode::WHO_AM_I => self.who_am_i(asked),
            OpCode::ADD_WATCH => self.add_watch(asked, read(reader)?),
            OpCode::CHECK_WATCHES => {
                let CheckWatchesRequest { path, kind } = read(reader)?;
                self.watcher(asked, self.watches.has(kind, path, asked.connection))
            }
            OpCode::REMOVE_WATCHES => {
                let RemoveWatchesRequest { path, kind } = read(reader)?;
                let removed = self.watches.remove(kind, path, asked.connection);
                self.watcher(asked, removed)
            }
            OpCode::SET_WATCHES => {
                let SetWatches { relative_zxid, data, exist, child } = read(reader)?;
                let (persistent, persistent_recursive) = (List::new(&[]), List::new(&[]));
                let request = SetWatches2 {
                    relative_zxid,
                    data,
                    exist,
                    child,
                    persistent,
                    persistent_recursive,
                };
                self.set_watches(asked, request)
            }
            OpCode::SET_WATCHES2 => self.set_watches(asked, read(reader)?),
            OpCode::AUTH => {
                self.auth(asked, reader);
                Ok(())
            }
            OpCode::SASL => {
                self.sasl(asked, reader);
                Ok(())
            }
            OpCode::CLOSE_SESSION => {
                self.end_session(asked.now, asked.session);
                self.ok(asked, &())?;
                self.end(asked.connection);
                Ok(())
            }
            _ => {
                self.answer(asked, asked.xid, Zxid(-1), ErrorCode::UNIMPLEMENTED, &());
                self.end(asked.connection);
                Ok(())
            }
        }
    }

    fn ok(&mut self, asked: Asked, body: &impl Encode) -> Result<(), ErrorCode> {
        let header = self.header(asked);
        self.connections.reply(asked.connection, header, body);
        Ok(())
    }

    /// Who asks; with the store beside it, so that both can be used at once.
    fn caller(&mut self, asked: Asked) -> Result<(Caller<'_>, &mut Store), ErrorCode> {
        let connection = self.connections.get(asked.connection);
        let identities = &connection.ok_or(ErrorCode::SESSION_EXPIRED)?.identities;
        Ok((Caller { session: asked.session, identities }, &mut self.store))
    }

    /// One write: a transaction of its own, and its events.
    fn write<'f, R: Decode<'f>, T>(
        &mut self,
        asked: Asked,
        reader: &mut Reader<'f>,
        act: impl FnOnce(&mut Store, Caller<'_>, R, Moment) -> Result<T, ErrorCode>,
    ) -> Result<T, ErrorCode> {
        let request = R::decode(reader).map_err(|_| ErrorCode::MARSHALLING_ERROR);
        // What cannot be read takes a zxid before 3.9, but for reconfig, and none since.
        let burns = self.config.release == Release::V3_8 && is_single_write(asked.op);
        if request.is_err() && !burns {
            return Err(ErrorCode::MARSHALLING_ERROR);
        }
        let millis = self.millis(asked.now);
        let moment = self.store.begin(millis);
        let (caller, store) = self.caller(asked)?;
        let done = act(store, caller, request?, moment);
        let told = store.commit(moment, Some(asked.session));
        self.tell(moment.zxid, told);
        done
    }

    fn created(&mut self, asked: Asked, made: &Created) {
        let header = self.header(asked);
        let Created { path, stat } = made;
        match asked.op {
            OpCode::CREATE => {
                self.connections.reply(asked.connection, header, &CreateResponse { path });
            }
            _ => {
                let body = Create2Response { path, stat: *stat };
                self.connections.reply(asked.connection, header, &body);
            }
        }
    }

    fn multi(&mut self, asked: Asked, reader: &mut Reader<'_>) -> Result<(), ErrorCode> {
        let request = MultiRequest::decode(reader);
        let millis = self.millis(asked.now);
        // Other than a single write, a multi takes a zxid even if it cannot be read.
        let moment = self.store.begin(millis);
        let request = request.map_err(|_| ErrorCode::MARSHALLING_ERROR)?;
        let release = self.config.release;
        if !request.iter().all(|op| is_write(op, release)) {
            return Err(ErrorCode::MARSHALLING_ERROR);
        }
        let (caller, store) = self.caller(asked)?;
        let outcomes = store.multi(caller, request, moment)?;
        let told = store.commit(moment, Some(asked.session));
        self.tell(moment.zxid, told);
        let results: Vec<_> = outcomes.iter().map(Outcome::wire).collect();
        self.ok(asked, &MultiResponse::new(&results))
    }

    fn multi_read(&mut self, asked: Asked, reader: &mut Reader<'_>) -> Result<(), ErrorCode> {
        let request: MultiRequest<'_> = read(reader)?;
        let header = self.header(asked);
        let identities = self.caller(asked)?.0.identities.clone();
        let reads: Option<Vec<Read<'_>>> =
            request.iter().map(|op| self.store.multi_read(op, &identities)).collect();
        let reads = reads.ok_or(ErrorCode::MARSHALLING_ERROR)?;
        let results: Vec<_> = reads.iter().map(Read::wire).collect();
        self.connections.reply(asked.connection, header, &MultiResponse::new(&results));
        Ok(())
    }

    /// Whether the node is there and may be read.
    fn readable(&mut self, asked: Asked, path: &str) -> Result<(), ErrorCode> {
        let (caller, store) = self.caller(asked)?;
        store.readable(path, Acl::READ, caller.identities).map(drop)
    }

    fn exists(&mut self, asked: Asked, request: ExistsRequest<'_>) -> Result<(), ErrorCode> {
        let ExistsRequest { path, watch } = request;
        if path.contains('\0') {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let readable = match self.config.release {
            // Whether a node exists was no secret before 3.9.2 (ZOOKEEPER-2590).
            Release::V3_8 => self.store.tree.node(path).map(drop),
            Release::V3_9 => self.readable(asked, path),
        };
        // An absent node is watched all the same.
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
        let names: Vec<&str> = node.children.iter().map(|name| &**name).collect();
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
        let prefix = request.prefix_path.to_string_lossy();
        let prefix = if matches!(prefix.trim(), "" | "/") { "" } else { &prefix };
        let header = self.header(asked);
        let own = self.store.tree.ephemerals(asked.session).map(|path| &**path);
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

    fn add_watch(&mut self, asked: Asked, request: AddWatchRequest<'_>) -> Result<(), ErrorCode> {
        let kind = match request.mode {
            AddWatchMode::PERSISTENT => WatchKind::Persistent,
            AddWatchMode::PERSISTENT_RECURSIVE => WatchKind::Recursive,
            _ => return Err(ErrorCode::MARSHALLING_ERROR),
        };
        self.watches.add(kind, request.path, asked.connection);
        self.ok(asked, &ErrorResponse { error: ErrorCode::OK })
    }

    /// The answer of checkWatches and removeWatches.
    fn watcher(&mut self, asked: Asked, found: Option<bool>) -> Result<(), ErrorCode> {
        match found {
            Some(true) => self.ok(asked, &()),
            Some(false) => Err(ErrorCode::NO_WATCHER),
            None => Err(ErrorCode::MARSHALLING_ERROR),
        }
    }

    /// Arms watches again, and tells first what they have missed.
    fn set_watches(&mut self, asked: Asked, request: SetWatches2<'_>) -> Result<(), ErrorCode> {
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
            // The lists before a null one count.
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

    /// Real servers look at proofs where they read frames, and hang up on what they cannot read.
    fn auth(&mut self, asked: Asked, reader: &mut Reader<'_>) {
        let Ok(AuthPacket { scheme, auth, .. }) = AuthPacket::decode(reader) else {
            return self.end(asked.connection);
        };
        let super_digest = self.config.super_digest.as_deref();
        let proven = self.connections.get_mut(asked.connection).is_some_and(|connection| {
            connection.identities.add(scheme.as_str(), auth.expose(), super_digest)
        });
        if proven {
            self.answer(asked, asked.xid, Zxid(0), ErrorCode::OK, &());
        } else {
            self.answer(asked, asked.xid, Zxid(0), ErrorCode::AUTH_FAILED, &());
            self.end(asked.connection);
        }
    }

    /// There is no SASL here, which a server says with a null token.
    fn sasl(&mut self, asked: Asked, reader: &mut Reader<'_>) {
        match GetSaslRequest::decode(reader) {
            Ok(request) if request.token.expose().is_some() => {
                let token = Secret::new(None);
                self.answer(asked, asked.xid, Zxid(0), ErrorCode::OK, &SetSaslResponse { token });
            }
            _ => self.end(asked.connection),
        }
    }
}

/// Reads a record of a request that changes nothing.
fn read<'f, R: Decode<'f>>(reader: &mut Reader<'f>) -> Result<R, ErrorCode> {
    R::decode(reader).map_err(|_| ErrorCode::MARSHALLING_ERROR)
}

/// Whether the body of a request begins with a path.
fn begins_with_path(op: OpCode) -> bool {
    (OpCode::CREATE..=OpCode::GET_CHILDREN).contains(&op)
        || matches!(
            op,
            OpCode::GET_CHILDREN2
                | OpCode::CREATE2
                | OpCode::CHECK_WATCHES
                | OpCode::REMOVE_WATCHES
                | OpCode::CREATE_CONTAINER
                | OpCode::CREATE_TTL
                | OpCode::GET_ALL_CHILDREN_NUMBER
                | OpCode::ADD_WATCH
        )
}

/// The body with a path that can be decoded, if it begins with one that cannot.
///
/// Java puts U+FFFD in place of what is not UTF-8, which no path may hold; here it is another such
/// character, of one byte. And it reads a null path, which some operations trip over only later.
fn mended(op: OpCode, body: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(body);
    let Some(path) = Option::<&[u8]>::decode(&mut reader).ok()? else {
        let name = NULL_PATH.as_bytes();
        let length = (name.len() as u32).to_be_bytes();
        let reads_null =
            is_single_write(op) || matches!(op, OpCode::REMOVE_WATCHES | OpCode::CHECK_WATCHES);
        return reads_null.then(|| [&length, name, reader.rest()].concat());
    };
    if std::str::from_utf8(path).is_ok() {
        return None;
    }
    let mut legible = Vec::with_capacity(body.len());
    legible.extend_from_slice(&(path.len() as u32).to_be_bytes());
    for chunk in path.utf8_chunks() {
        legible.extend_from_slice(chunk.valid().as_bytes());
        legible.extend(chunk.invalid().iter().map(|_| 1));
    }
    legible.extend_from_slice(reader.rest());
    Some(legible)
}

fn is_single_write(op: OpCode) -> bool {
    matches!(
        op,
        OpCode::CREATE
            | OpCode::CREATE2
            | OpCode::CREATE_CONTAINER
            | OpCode::CREATE_TTL
            | OpCode::DELETE
            | OpCode::SET_DATA
            | OpCode::SET_ACL
    )
}

/// Whether an entry may be in a multi at all. Since 3.9 a mode that does not exist spoils the whole
/// request.
fn is_write(op: MultiOp<'_>, release: Release) -> bool {
    match op {
        MultiOp::Create(CreateRequest { mode, .. })
        | MultiOp::Create2(CreateRequest { mode, .. })
        | MultiOp::CreateContainer(CreateRequest { mode, .. })
            if release == Release::V3_9 =>
        {
            (CreateMode::PERSISTENT..=CreateMode::CONTAINER).contains(&mode)
        }
        _ => !op.is_read(),
    }
}
