//! What the frames of one contender mean.
//!
//! zk-proto decodes what passes, and what matters is told in a line. A reply does not say what it
//! answers, so requests are kept until theirs comes. Knows no connection.

use std::collections::{BTreeSet, VecDeque};

use bytes::{Buf, BytesMut};
use zk_proto::{
    AddWatchRequest, CheckVersionRequest, ConnectRequest, ConnectResponse, Create2Response,
    CreateMode, CreateRequest, Decode, DecodeError, DeleteRequest, ErrorCode, EventType,
    ExistsRequest, GetChildren2Request, GetChildren2Response, GetChildrenResponse, GetDataRequest,
    List, MultiOp, MultiRequest, MultiResponse, OpCode, Reader, RemoveWatchesRequest, ReplyHeader,
    RequestHeader, SessionId, SetDataRequest, SetWatches, SyncRequest, WatcherEvent, Xid, Zxid,
    frame,
};

use crate::names::{digits, folder, person, short, tail};
use crate::stage::{Stage, Style};

/// A sync of this is not told: it makes the story wait until a contender has heard all.
pub(crate) const HEARS: &str = "/";

/// One contender's side of the story.
pub(crate) struct Story {
    name: &'static str,
    stage: Stage,
    connected: bool,
    /// Whether the session was there before the connection.
    resumes: bool,
    /// Requests without a reply, and what they are about.
    asked: VecDeque<(OpCode, String)>,
    /// What the path of the contender's own node begins with.
    own: Option<String>,
    /// Whether that node is known to be in the queue.
    placed: bool,
    /// The node of the contender right ahead, while it is waited for.
    nearest: Option<String>,
    /// Nodes that watches were asked for on, by requests without a reply.
    arming: VecDeque<Vec<String>>,
    /// Nodes with a watch on them.
    watched: BTreeSet<String>,
    /// Whether there are several folders, so that each is named.
    names_folders: bool,
    /// Whether it is told at all.
    told: bool,
    loses_reply: bool,
    cut: bool,
}

impl Story {
    pub(crate) fn new(name: &'static str, stage: Stage) -> Self {
        Self {
            name,
            stage,
            connected: false,
            resumes: false,
            asked: VecDeque::new(),
            own: None,
            placed: false,
            nearest: None,
            arming: VecDeque::new(),
            watched: BTreeSet::new(),
            names_folders: false,
            told: true,
            loses_reply: false,
            cut: false,
        }
    }

    /// A connection begins; what was asked on the last one is not answered any more.
    pub(crate) fn connecting(&mut self) {
        (self.connected, self.cut) = (false, false);
        self.asked.clear();
        self.arming.clear();
    }

    /// From now on frames are told, or not.
    pub(crate) fn tell(&mut self, told: bool) {
        self.told = told;
    }

    /// From now on each folder is named.
    pub(crate) fn name_folders(&mut self) {
        self.names_folders = true;
    }

    pub(crate) fn lose_reply_of_create(&mut self) {
        self.loses_reply = true;
    }

    /// Whether the connection is to break.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether the contender is in the queue and watches the one right ahead.
    pub(crate) fn waits(&self) -> bool {
        let watches = self.nearest.as_ref().is_some_and(|nearest| self.watched.contains(nearest));
        self.asked.is_empty() && watches
    }

    /// Tells every whole frame in `bytes`.
    pub(crate) fn hear(
        &mut self,
        bytes: &mut BytesMut,
        tell: fn(&mut Self, &[u8]) -> Result<(), DecodeError>,
    ) {
        while !self.cut {
            let told = match frame::split(bytes, frame::CLIENT_FRAME_LIMIT) {
                Ok(Some(frame)) => tell(self, &frame),
                Ok(None) => break,
                Err(error) => {
                    bytes.advance(bytes.len());
                    Err(error)
                }
            };
            if let Err(error) = told {
                self.line("??", "a frame that does not decode", &error.to_string());
            }
        }
        self.stage.set_client(self.name, self.summary());
    }

    /// What the contender is up to.
    fn summary(&self) -> String {
        let own = match &self.own {
            Some(own) if self.placed => {
                let name = own.rsplit('/').next().unwrap_or_default();
                match name.get(..7).filter(|_| name.starts_with("_c_")) {
                    Some(start) => format!("in a queue as {start}.."),
                    None => format!("in a queue as {name}"),
                }
            }
            _ => "no node in a queue".to_owned(),
        };
        let watched =
            self.watched.iter().map(|path| self.short(path)).collect::<Vec<_>>().join(", ");
        let watched = if watched.is_empty() { "nothing".to_owned() } else { watched };
        let connected = if self.connected { "connected" } else { "not connected" };
        format!("{connected}; {own}; requests in flight: {}; watches {watched}", self.asked.len())
    }

    pub(crate) fn sent(&mut self, frame: &[u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(frame);
        if !self.connected {
            self.resumes = ConnectRequest::decode(&mut reader)?.session_id != SessionId(0);
            if self.resumes {
                self.line("->", "hello", "takes up a session, by its id and password");
            }
            return Ok(());
        }
        let RequestHeader { xid, op } = Decode::decode(&mut reader)?;
        if xid == Xid::PING {
            return Ok(());
        }
        let path = self.request(op, &mut reader)?;
        if xid != Xid::SET_WATCHES {
            self.asked.push_back((op, path));
        }
        Ok(())
    }

    /// Tells a request. Returns what it is about.
    fn request(&mut self, op: OpCode, reader: &mut Reader<'_>) -> Result<String, DecodeError> {
        let (path, meaning) = match op {
            OpCode::CREATE2 | OpCode::CREATE_CONTAINER => {
                let CreateRequest { path, mode, .. } = Decode::decode(reader)?;
                (path, self.creates(path, mode))
            }
            OpCode::DELETE => {
                let DeleteRequest { path, .. } = Decode::decode(reader)?;
                (path, self.deletes(path))
            }
            OpCode::GET_DATA => {
                let GetDataRequest { path, watch } = Decode::decode(reader)?;
                match (watch, &self.own) {
                    (false, _) => (path, "read it"),
                    (true, None) => (path, "read it, and tell me when it changes"),
                    (true, Some(_)) => (path, self.watches(path)),
                }
            }
            OpCode::SET_DATA => {
                let SetDataRequest { path, .. } = Decode::decode(reader)?;
                (path, "write this")
            }
            OpCode::REMOVE_WATCHES => {
                let RemoveWatchesRequest { path, .. } = Decode::decode(reader)?;
                (path, "stop watching it")
            }
            OpCode::ADD_WATCH => {
                let AddWatchRequest { path, .. } = Decode::decode(reader)?;
                (path, "watch everything in the folder")
            }
            OpCode::EXISTS => {
                let ExistsRequest { path, .. } = Decode::decode(reader)?;
                (path, "which session owns it?")
            }
            OpCode::SET_WATCHES => {
                let nodes = SetWatches::decode(reader)?.data;
                self.line("->", "setWatches:", "tell me when one of these goes");
                for node in nodes.iter() {
                    let meaning = self.watches(node);
                    self.line("  ", &format!("  {}", self.short(node)), meaning);
                }
                self.arming.push_back(nodes.iter().map(str::to_owned).collect());
                return Ok(String::new());
            }
            OpCode::MULTI => {
                let ops = MultiRequest::decode(reader)?;
                if let (Some(MultiOp::Check(CheckVersionRequest { path: "/", .. })), None) =
                    (ops.iter().next(), ops.iter().nth(1))
                {
                    self.line("->", "multi: check /", "a write, to prove that my session lives");
                    return Ok("/".to_owned());
                }
                self.line("->", "multi:", "all of it or nothing");
                ops.iter().for_each(|op| self.part(&op));
                return Ok(String::new());
            }
            OpCode::GET_CHILDREN2 => {
                let GetChildren2Request { path, .. } = Decode::decode(reader)?;
                let which = folder(path).filter(|_| self.names_folders).unwrap_or_default();
                self.line("->", format!("{op} {which}").trim_end(), "who is in the folder?");
                return Ok(path.to_owned());
            }
            OpCode::GET_CHILDREN => {
                self.line("->", "getChildren", "is my node in the folder?");
                return Ok(String::new());
            }
            OpCode::SYNC => {
                let path = SyncRequest::decode(reader)?.path.to_string_lossy();
                if path != HEARS {
                    self.line("->", &format!("{op} {}", short(&path)), "let my server catch up");
                }
                return Ok(path);
            }
            _ => {
                let meaning = match op {
                    OpCode::SET_WATCHES2 => "set my watches again",
                    OpCode::CLOSE_SESSION => "end the session",
                    OpCode::GET_ACL => "who may do what with the node?",
                    OpCode::SET_ACL => "mark the node, if nobody has done so",
                    _ => "",
                };
                self.line("->", &op.to_string(), meaning);
                return Ok(String::new());
            }
        };
        self.line("->", &format!("{op} {}", self.short(path)), meaning);
        Ok(path.to_owned())
    }

    /// Tells an operation of a transaction.
    fn part(&mut self, op: &MultiOp<'_>) {
        let (path, meaning) = match op {
            MultiOp::Check(CheckVersionRequest { path, .. }) => (*path, "if this node is there"),
            MultiOp::Create(CreateRequest { path, mode, .. })
            | MultiOp::Create2(CreateRequest { path, mode, .. }) => {
                (*path, self.creates(path, *mode))
            }
            MultiOp::Delete(DeleteRequest { path, .. }) => (*path, "this one goes"),
            MultiOp::SetData(SetDataRequest { path, .. }) => (*path, "write this"),
            _ => ("", ""),
        };
        self.line("  ", &format!("  {} {}", op.op(), self.short(path)), meaning);
    }

    /// Whose node is watched.
    fn watches(&mut self, path: &str) -> &'static str {
        if self.is_own(path) || self.is_mine(path) {
            return "my own";
        }
        let nearest = self.nearest.get_or_insert_with(|| path.to_owned());
        if nearest == path { "the one right ahead" } else { "the one before" }
    }

    fn creates(&mut self, path: &str, mode: CreateMode) -> &'static str {
        match mode {
            CreateMode::CONTAINER => return "make the folder",
            CreateMode::PERSISTENT => return "make a node that stays",
            CreateMode::EPHEMERAL if person(path) == path => {
                return "make a node that ends with my session";
            }
            _ => {}
        }
        self.own = Some(person(path).to_owned());
        (self.placed, self.nearest) = (false, None);
        let unique = person(path).rsplit('/').next().unwrap_or(path);
        self.stage.set_owner(unique.to_owned(), self.name);
        match mode {
            CreateMode::EPHEMERAL => "a reader's node in its place",
            _ if path.ends_with("READ__") => "a reader's node, with the next number",
            _ if path.ends_with("WRIT__") => "a writer's node, with the next number",
            _ => "a node for me, with the next number",
        }
    }

    fn deletes(&mut self, path: &str) -> &'static str {
        if !self.is_own(path) {
            return "";
        }
        (self.placed, self.nearest) = (false, None);
        "I leave the queue"
    }

    fn is_own(&self, path: &str) -> bool {
        // A contender for several locks has the same name in each folder.
        let name = |path: &str| person(path).rsplit('/').next().map(str::to_owned);
        self.own.as_deref().is_some_and(|own| name(own) == name(path))
    }

    /// Whether it is this contender's, of now or of before: a client's half of the random part
    /// stays.
    fn is_mine(&self, path: &str) -> bool {
        let name = |path: &str| person(path).rsplit('/').next().map(str::to_owned);
        let half = |path: &str| name(path)?.rsplitn(3, '-').nth(2).map(str::to_owned);
        let is_unique = person(path) != path;
        is_unique && self.own.as_deref().is_some_and(|own| half(own) == half(path))
    }

    pub(crate) fn received(&mut self, frame: &[u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(frame);
        if !self.connected {
            let hello = ConnectResponse::decode(&mut reader)?;
            self.connected = true;
            if hello.is_expired() {
                self.line("<-", "no", "that session is over");
            } else {
                let meaning = match self.resumes {
                    true => "it is there".to_owned(),
                    false => format!("a session; {} ms of silence end it", hello.timeout),
                };
                self.line("<-", "welcome", &meaning);
            }
            return Ok(());
        }
        let ReplyHeader { xid, error, zxid } = Decode::decode(&mut reader)?;
        match xid {
            Xid::NOTIFICATION => return self.event(&mut reader),
            Xid::SET_WATCHES => self.watched.extend(self.arming.pop_front().unwrap_or_default()),
            Xid::PING => {}
            _ => match self.asked.pop_front() {
                Some((op, path)) if error == ErrorCode::OK => {
                    self.done(op, path, zxid, &mut reader)?
                }
                Some((op, _)) => self.refused(op, error),
                None => self.line("??", &error.to_string(), "a reply to nothing"),
            },
        }
        Ok(())
    }

    /// Tells the reply to a request that was carried out, unless it only says so.
    fn done(
        &mut self,
        op: OpCode,
        path: String,
        zxid: Zxid,
        reader: &mut Reader<'_>,
    ) -> Result<(), DecodeError> {
        match op {
            OpCode::CREATE2 if std::mem::take(&mut self.loses_reply) => {
                self.cut = true;
                self.line("xx", "the reply", "lost, and the connection with it");
            }
            OpCode::CREATE2 => {
                let created = Create2Response::decode(reader)?;
                self.placed = self.own.is_some();
                if self.placed {
                    self.own = Some(person(created.path).to_owned());
                }
                let whose = if self.placed { "mine" } else { "made" };
                let meaning = format!("{whose}, by transaction {zxid}");
                self.line("<-", &short(created.path), &meaning);
            }
            OpCode::SET_DATA => self.line("<-", "ok", &format!("written, by transaction {zxid}")),
            OpCode::GET_CHILDREN => {
                self.list(&path, &GetChildrenResponse::decode(reader)?.children);
            }
            OpCode::GET_CHILDREN2 => {
                self.list(&path, &GetChildren2Response::decode(reader)?.children);
            }
            OpCode::EXISTS => self.line("<-", "ok", "owned by my session"),
            OpCode::MULTI => match MultiResponse::decode(reader)?.failure() {
                Some((index, error)) => {
                    let what = format!("{error}, says operation {}", index + 1);
                    self.line("<-", &what, "so nothing was done");
                }
                None if path == "/" => self.line("<-", "ok", "my session lives"),
                None => {
                    self.placed |= self.own.is_some();
                    self.line("<-", "ok", "all of it was done");
                }
            },
            OpCode::GET_DATA => {
                self.watched.insert(path);
            }
            OpCode::REMOVE_WATCHES => {
                self.watched.remove(&path);
            }
            OpCode::CLOSE_SESSION => {
                self.line("<-", "ok", "it is over, and every node of it is gone");
            }
            _ => {}
        }
        Ok(())
    }

    fn list(&self, path: &str, children: &List<'_, &str>) {
        let mut names = children.iter().map(tail).collect::<Vec<_>>();
        names.sort_by_key(|name| digits(name));
        let which = folder(path).filter(|_| self.names_folders).unwrap_or("the folder");
        self.line("<-", &format!("in {which}: {}", names.join(", ")), "");
    }

    /// A path as it is shown.
    fn short(&self, path: &str) -> String {
        let short = short(path);
        match folder(path).filter(|_| self.names_folders && short != path) {
            Some(folder) => format!("{folder}/{short}"),
            None => short,
        }
    }

    /// Tells the reply to a request that was not.
    fn refused(&mut self, op: OpCode, error: ErrorCode) {
        let meaning = match (op, error) {
            (OpCode::CREATE2, ErrorCode::NO_NODE) => "there is no folder yet",
            (OpCode::GET_CHILDREN2, ErrorCode::NO_NODE) => "and so nothing to list",
            (OpCode::CREATE_CONTAINER, ErrorCode::NODE_EXISTS) => "somebody made it meanwhile",
            // The event was quicker.
            (OpCode::REMOVE_WATCHES, ErrorCode::NO_WATCHER) => return,
            (OpCode::GET_DATA, ErrorCode::NO_NODE) => "already gone: the same as the event",
            _ => "",
        };
        self.line("<-", &error.to_string(), meaning);
    }

    fn event(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let event = WatcherEvent::decode(reader)?;
        let (own, path) = (self.is_own(event.path), event.path);
        self.watched.remove(path);
        let nearest = self.nearest.as_deref() == Some(path);
        let meaning = match event.kind {
            EventType::NODE_CHILDREN_CHANGED => "somebody has come or gone",
            EventType::NODE_DELETED if own && self.placed => "my own node is gone",
            // Of our own doing.
            EventType::NODE_DELETED if self.is_mine(path) => return Ok(()),
            EventType::NODE_DELETED if self.own.is_none() => "the watch fires",
            EventType::NODE_DELETED if nearest => "the one right ahead is gone",
            EventType::NODE_DELETED => "one further ahead is gone",
            _ => "the watch fires",
        };
        self.line("<-", &format!("{} {}", event.kind, self.short(path)), meaning);
        Ok(())
    }

    fn line(&self, arrow: &str, what: &str, meaning: &str) {
        if !self.told {
            return;
        }
        let style = match arrow {
            "<-" => Style::Received,
            "xx" | "??" => Style::Broken,
            _ => Style::Sent,
        };
        let line = format!("  {} {arrow} {what:<40} {meaning}", self.name);
        self.stage.line(style, line.trim_end());
        if arrow == "<-" {
            self.stage.look();
        }
    }
}
