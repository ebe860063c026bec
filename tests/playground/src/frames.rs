//! What the frames of a connection say, in words and field by field.
//!
//! A reply does not name the operation that it answers, so requests are remembered until their
//! replies come. Knows no network and no time but the numbers that it is given.

use std::collections::VecDeque;

use zk_proto::{
    ConnectRequest, ConnectResponse, CreateMode, CreateRequest, Create2Response, Decode,
    DeleteRequest, ErrorCode, ExistsRequest, GetChildren2Response, GetDataRequest, MultiOp,
    MultiRequest, MultiResponse, OpCode, Reader, ReplyHeader, RequestHeader, SessionId,
    SetDataRequest, SetWatches, WatcherEvent, Xid,
};

use crate::scene::{Content, Field, Role};

/// The length of a frame's length.
pub(crate) const PREFIX: usize = 4;

/// One connection.
#[derive(Debug, Default)]
pub(crate) struct Dialogue {
    has_asked: bool,
    has_answered: bool,
    /// Requests without a reply.
    asked: VecDeque<Asked>,
}

#[derive(Debug)]
struct Asked {
    xid: Xid,
    op: OpCode,
    path: String,
    sent_us: u64,
}

impl Dialogue {
    /// Reads a frame of the client, without its length.
    pub(crate) fn request(&mut self, payload: &[u8], sent_us: u64) -> Content {
        if !std::mem::replace(&mut self.has_asked, true) {
            return connect_request(payload);
        }
        let mut reader = Reader::new(payload);
        let Ok(RequestHeader { xid, op }) = RequestHeader::decode(&mut reader) else {
            return unknown(payload);
        };
        let (path, summary) = asks(op, payload.get(8..).unwrap_or_default());
        let role = if xid == Xid::PING { Role::Ping } else { Role::Request };
        self.asked.push_back(Asked { xid, op, path, sent_us });
        let mut fields = prefix(payload);
        fields.push(field("xid", xid.0, 4, 4));
        fields.push(field("op", format!("{} ({op})", op.0), 8, 4));
        rest(&mut fields, payload);
        Content { op: op.to_string(), role, xid: Some(xid.0), error: None, summary, fields }
    }

    /// Reads a frame of the server, without its length. Returns also when its request was sent.
    pub(crate) fn reply(&mut self, payload: &[u8]) -> (Content, Option<u64>) {
        if !std::mem::replace(&mut self.has_answered, true) {
            return (connect_response(payload), None);
        }
        let mut reader = Reader::new(payload);
        let Ok(ReplyHeader { xid, zxid, error }) = ReplyHeader::decode(&mut reader) else {
            return (unknown(payload), None);
        };
        let mut fields = prefix(payload);
        fields.push(field("xid", xid.0, 4, 4));
        fields.push(field("zxid", zxid.0, 8, 8));
        fields.push(field("error", format!("{} ({error})", error.0), 16, 4));
        rest(&mut fields, payload);
        let content = |op: String, role, summary| Content {
            op,
            role,
            xid: Some(xid.0),
            error: (error != ErrorCode::OK).then(|| error.to_string()),
            summary,
            fields,
        };
        if xid == Xid::NOTIFICATION {
            let summary = match WatcherEvent::decode(&mut reader) {
                Ok(event) => format!("{} {}", event.kind, event.path),
                Err(_) => "notification".to_owned(),
            };
            return (content("notification".to_owned(), Role::Notification, summary), None);
        }
        let index = self.asked.iter().position(|asked| asked.xid == xid);
        let Some(asked) = index.and_then(|index| self.asked.remove(index)) else {
            return (content("?".to_owned(), Role::Reply, format!("reply {xid}")), None);
        };
        let role = if xid == Xid::PING { Role::Ping } else { Role::Reply };
        let summary = match error {
            ErrorCode::OK => answers(&asked, payload.get(16..).unwrap_or_default()),
            error => format!("{error}: {} {}", asked.op, asked.path).trim_end().to_owned(),
        };
        (content(asked.op.to_string(), role, summary), Some(asked.sent_us))
    }
}

fn connect_request(payload: &[u8]) -> Content {
    let request = ConnectRequest::decode(&mut Reader::new(payload)).ok();
    let summary = match request {
        Some(request) if request.session_id.0 == 0 => {
            format!("connect: a new session, timeout {} ms", request.timeout)
        }
        Some(request) => format!("connect: resume session {:#x}", request.session_id.0),
        None => "connect".to_owned(),
    };
    connect(summary, payload)
}

fn connect_response(payload: &[u8]) -> Content {
    let response = ConnectResponse::decode(&mut Reader::new(payload)).ok();
    let summary = match response {
        Some(response) if response.is_expired() => "that session is over".to_owned(),
        Some(response) => {
            format!("session {:#x}, timeout {} ms", response.session_id.0, response.timeout)
        }
        None => "connected".to_owned(),
    };
    connect(summary, payload)
}

fn connect(summary: String, payload: &[u8]) -> Content {
    let mut fields = prefix(payload);
    rest(&mut fields, payload);
    let op = "connect".to_owned();
    Content { op, role: Role::Connect, xid: None, error: None, summary, fields }
}

fn unknown(payload: &[u8]) -> Content {
    let summary = format!("{} bytes that do not decode", payload.len());
    Content {
        op: "?".to_owned(),
        role: Role::Request,
        xid: None,
        error: None,
        summary,
        fields: prefix(payload),
    }
}

fn prefix(payload: &[u8]) -> Vec<Field> {
    vec![field("length", payload.len(), 0, PREFIX)]
}

fn field(name: &str, value: impl ToString, offset: usize, length: usize) -> Field {
    Field { name: name.to_owned(), value: value.to_string(), offset, length, depth: 0 }
}

/// Adds the bytes behind the last field as one.
fn rest(fields: &mut Vec<Field>, payload: &[u8]) {
    let end = fields.last().map_or(0, |last| last.offset + last.length);
    let whole = PREFIX + payload.len();
    if end < whole {
        fields.push(field("record", format!("{} bytes", whole - end), end, whole - end));
    }
}

/// The path of a request, and the request in a line.
fn asks(op: OpCode, body: &[u8]) -> (String, String) {
    let mut reader = Reader::new(body);
    let reader = &mut reader;
    let (path, more) = match op {
        OpCode::PING => return (String::new(), "ping".to_owned()),
        OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER => {
            match CreateRequest::decode(reader) {
                Ok(request) => (request.path.to_owned(), format!(" ({})", mode(request.mode))),
                Err(_) => (String::new(), String::new()),
            }
        }
        OpCode::DELETE => match DeleteRequest::decode(reader) {
            Ok(request) => (request.path.to_owned(), String::new()),
            Err(_) => (String::new(), String::new()),
        },
        OpCode::GET_DATA | OpCode::EXISTS | OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2 => {
            watched(op, reader)
        }
        OpCode::SET_DATA => match SetDataRequest::decode(reader) {
            Ok(request) => {
                let data = String::from_utf8_lossy(request.data.unwrap_or_default()).into_owned();
                (request.path.to_owned(), format!(" = {data:?}"))
            }
            Err(_) => (String::new(), String::new()),
        },
        OpCode::SET_WATCHES => {
            let nodes = SetWatches::decode(reader).map(|record| record.data.iter().count());
            (String::new(), format!("{} nodes", nodes.unwrap_or_default()))
        }
        OpCode::MULTI => {
            let ops = MultiRequest::decode(reader);
            let ops = ops.map(|ops| ops.iter().map(|op| part(&op)).collect::<Vec<_>>());
            (String::new(), ops.unwrap_or_default().join("; "))
        }
        _ => (<&str>::decode(reader).unwrap_or_default().to_owned(), String::new()),
    };
    let summary = format!("{op} {path}{more}");
    (path, summary.trim_end().to_owned())
}

/// The path of a read, and whether it sets a watch.
fn watched(op: OpCode, reader: &mut Reader<'_>) -> (String, String) {
    let record = match op {
        OpCode::EXISTS => ExistsRequest::decode(reader).map(|it| (it.path, it.watch)),
        // The requests for data and children have the same two fields.
        _ => GetDataRequest::decode(reader).map(|it| (it.path, it.watch)),
    };
    match record {
        Ok((path, true)) => (path.to_owned(), ", watch".to_owned()),
        Ok((path, false)) => (path.to_owned(), String::new()),
        Err(_) => (String::new(), String::new()),
    }
}

fn part(op: &MultiOp<'_>) -> String {
    match op {
        MultiOp::Check(check) => format!("check {}", check.path),
        MultiOp::Create(create) | MultiOp::Create2(create) => {
            format!("create {} ({})", create.path, mode(create.mode))
        }
        MultiOp::Delete(delete) => format!("delete {}", delete.path),
        MultiOp::SetData(set) => {
            let data = String::from_utf8_lossy(set.data.unwrap_or_default()).into_owned();
            format!("setData {} = {data:?}", set.path)
        }
        other => other.op().to_string(),
    }
}

fn mode(mode: CreateMode) -> &'static str {
    match mode {
        CreateMode::PERSISTENT => "persistent",
        CreateMode::EPHEMERAL => "ephemeral",
        CreateMode::PERSISTENT_SEQUENTIAL => "persistent, sequential",
        CreateMode::EPHEMERAL_SEQUENTIAL => "ephemeral, sequential",
        CreateMode::CONTAINER => "container",
        _ => "with a time to live",
    }
}

/// A reply to a request that was carried out, in a line.
fn answers(asked: &Asked, body: &[u8]) -> String {
    let reader = &mut Reader::new(body);
    let Asked { op, path, .. } = asked;
    match *op {
        OpCode::PING => "pong".to_owned(),
        OpCode::CREATE2 | OpCode::CREATE_CONTAINER => match Create2Response::decode(reader) {
            Ok(created) => format!("created {}", created.path),
            Err(_) => "created".to_owned(),
        },
        OpCode::GET_CHILDREN2 => match GetChildren2Response::decode(reader) {
            Ok(list) => {
                let mut names = list.children.iter().collect::<Vec<_>>();
                names.sort_unstable();
                format!("children: {}", if names.is_empty() { "none".into() } else { names.join(", ") })
            }
            Err(_) => "children".to_owned(),
        },
        OpCode::MULTI => match MultiResponse::decode(reader).map(|results| results.failure()) {
            Ok(Some((index, error))) => format!("nothing was done: {error} at operation {index}"),
            _ => "all of it was done".to_owned(),
        },
        op => format!("ok: {op} {path}").trim_end().to_owned(),
    }
}

/// The session that a server's first frame opens or resumes.
pub(crate) fn session(payload: &[u8], role: Role) -> Option<SessionId> {
    let response = ConnectResponse::decode(&mut Reader::new(payload)).ok()?;
    (role == Role::Connect && !response.is_expired()).then_some(response.session_id)
}
