//! What the frames of a connection say, in words and field by field.
//!
//! Knows no network and no time but the numbers that it is given.

use std::time::Duration;

use zk_proto::any::{Frame, Message, Reply, Request, Value};
use zk_proto::{
    ConnectResponse, CreateMode, CreateRequest, Decode, DecodeError, ErrorCode, MultiOp, OpCode,
    Reader, ReplyHeader, SessionId, SetDataRequest, Xid,
};
use zk_simulation::net::PREFIX;
use zk_tap::{Asked, Dialog, Side};

use crate::scene::{Content, Field, Role};

/// How many bytes of data a line of text shows.
const SHOWN_DATA: usize = 100;

/// One connection.
#[derive(Debug, Default)]
pub(crate) struct Dialogue(Dialog);

impl Dialogue {
    /// Takes the next frame of this side for no handshake: the first frames are not known.
    pub(crate) fn begin_late(&mut self, side: Side) {
        self.0.begin_late(side);
    }

    /// Reads a frame of the client, without its length.
    pub(crate) fn request(&mut self, payload: &[u8], sent_us: u64) -> Content {
        let (frame, _) = self.0.frame(Side::Client, Duration::from_micros(sent_us), payload);
        content(frame, payload, &None)
    }

    /// Reads a frame of the server, without its length. Returns also when its request was sent.
    pub(crate) fn reply(&mut self, payload: &[u8]) -> (Content, Option<u64>) {
        // The time is for requests alone.
        let (frame, asked) = self.0.frame(Side::Server, Duration::ZERO, payload);
        let sent = asked.as_ref().map(|asked| asked.at.as_micros());
        (content(frame, payload, &asked), sent.and_then(|sent| u64::try_from(sent).ok()))
    }
}

/// The session that a server's first frame opens or resumes.
pub(crate) fn session(payload: &[u8], role: Role) -> Option<SessionId> {
    let response = ConnectResponse::decode(&mut Reader::new(payload)).ok()?;
    (role == Role::Connect && !response.is_expired()).then_some(response.session_id)
}

/// What a frame says. `asked` is the request that it answers.
fn content(
    frame: Result<Frame<'_>, DecodeError>,
    payload: &[u8],
    asked: &Option<Asked>,
) -> Content {
    let length = payload.len().to_string();
    let length = Field { name: "length".to_owned(), value: length, offset: 0, length: 4, depth: 0 };
    let frame = match frame {
        Ok(frame) => frame,
        Err(error) => {
            let (op, role, summary) = ("?".to_owned(), Role::Request, error.to_string());
            let fields = vec![length];
            let all = PREFIX..PREFIX + payload.len();
            return Content {
                op,
                role,
                xid: None,
                error: None,
                summary,
                fields,
                secrets: vec![all],
            };
        }
    };
    let fields = frame.fields();
    let secrets = fields.iter().filter_map(|field| {
        let (begin, end) = (PREFIX + field.offset, PREFIX + field.offset + field.length);
        match field.value {
            // A secret begins with its length.
            Value::Secret(_) => Some(begin + PREFIX..end),
            Value::Unknown(_) => Some(begin..end),
            _ => None,
        }
    });
    let secrets = secrets.collect();
    let fields = fields.into_iter().map(|field| Field {
        name: field.name.to_string(),
        value: field.value.to_string(),
        offset: PREFIX + field.offset,
        length: field.length,
        depth: field.depth,
    });
    let (role, error, summary) = say(&frame, asked);
    let op = match role {
        Role::Connect => "connect".to_owned(),
        Role::Notification => "notification".to_owned(),
        _ => frame.op().map_or("?".to_owned(), |op| op.to_string()),
    };
    Content {
        op,
        role,
        xid: frame.xid().map(|xid| xid.0),
        error: (error != ErrorCode::OK).then(|| error.to_string()),
        summary,
        fields: std::iter::once(length).chain(fields).collect(),
        secrets,
    }
}

/// What kind of frame it is, why the server refused, and the frame in a line.
fn say(frame: &Frame<'_>, asked: &Option<Asked>) -> (Role, ErrorCode, String) {
    match frame.message() {
        Message::ConnectRequest(request) => {
            let text = match request.session_id {
                SessionId(0) => format!("connect: a new session, timeout {} ms", request.timeout),
                SessionId(session) => format!("connect: resume session {session:#x}"),
            };
            (Role::Connect, ErrorCode::OK, text)
        }
        Message::ConnectResponse(response) => {
            let text = match response.is_expired() {
                true => "that session is over".to_owned(),
                false => {
                    let (session, timeout) = (response.session_id.0, response.timeout);
                    format!("session {session:#x}, timeout {timeout} ms")
                }
            };
            (Role::Connect, ErrorCode::OK, text)
        }
        Message::Request(header, request) => {
            let role = if header.xid == Xid::PING { Role::Ping } else { Role::Request };
            (role, ErrorCode::OK, asks(frame, header.op, request))
        }
        Message::Reply(header, reply) => {
            let role = if header.xid == Xid::PING { Role::Ping } else { Role::Reply };
            (role, header.error, answers(asked, header, reply))
        }
        Message::Notification(_, event) => {
            (Role::Notification, ErrorCode::OK, format!("{} {}", event.kind, event.path))
        }
        _ => (Role::Request, ErrorCode::OK, frame.to_string()),
    }
}

/// A request in a line.
fn asks(frame: &Frame<'_>, op: OpCode, request: &Request<'_>) -> String {
    // As fields show it: long ones are cut.
    let path = frame.path().map(|path| Value::Text(path.into()).to_string()).unwrap_or_default();
    let watch = |watch: &bool| if *watch { ", watch" } else { "" };
    let more = match request {
        Request::Create(CreateRequest { mode, .. })
        | Request::Create2(CreateRequest { mode, .. })
        | Request::CreateContainer(CreateRequest { mode, .. }) => format!(" ({})", kind(*mode)),
        Request::GetData(request) => watch(&request.watch).to_owned(),
        Request::Exists(request) => watch(&request.watch).to_owned(),
        Request::GetChildren2(request) => watch(&request.watch).to_owned(),
        Request::SetData(request) => format!(" = {}", data(request)),
        Request::SetWatches(request) => format!("{} nodes", request.data.iter().count()),
        Request::Multi(ops) => ops.iter().map(|op| part(&op)).collect::<Vec<_>>().join("; "),
        _ => String::new(),
    };
    format!("{op} {path}{more}").trim_end().to_owned()
}

/// An operation of a transaction.
fn part(op: &MultiOp<'_>) -> String {
    match op {
        MultiOp::Check(check) => format!("check {}", check.path),
        MultiOp::Create(create) | MultiOp::Create2(create) => {
            format!("create {} ({})", create.path, kind(create.mode))
        }
        MultiOp::Delete(delete) => format!("delete {}", delete.path),
        MultiOp::SetData(set) => format!("setData {} = {}", set.path, data(set)),
        other => other.op().to_string(),
    }
}

fn data(request: &SetDataRequest<'_>) -> String {
    let data = request.data.unwrap_or_default();
    let (shown, rest) = data.split_at(data.len().min(SHOWN_DATA));
    let more = if rest.is_empty() { "" } else { "..." };
    format!("{:?}{more}", String::from_utf8_lossy(shown))
}

fn kind(mode: CreateMode) -> &'static str {
    match mode {
        CreateMode::PERSISTENT => "persistent",
        CreateMode::EPHEMERAL => "ephemeral",
        CreateMode::PERSISTENT_SEQUENTIAL => "persistent, sequential",
        CreateMode::EPHEMERAL_SEQUENTIAL => "ephemeral, sequential",
        CreateMode::CONTAINER => "container",
        _ => "with a time to live",
    }
}

/// A reply in a line.
fn answers(asked: &Option<Asked>, header: &ReplyHeader, reply: &Reply<'_>) -> String {
    let (op, path) = match asked {
        Some(asked) => (asked.op.to_string(), asked.path.as_deref().unwrap_or_default()),
        None => ("?".to_owned(), ""),
    };
    match reply {
        _ if header.error != ErrorCode::OK => {
            format!("{}: {op} {path}", header.error).trim_end().to_owned()
        }
        Reply::Create2(created) | Reply::CreateContainer(created) => {
            format!("created {}", created.path)
        }
        Reply::GetChildren2(list) => {
            let mut names = list.children.iter().collect::<Vec<_>>();
            names.sort_unstable();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            format!("children: {names}")
        }
        Reply::Multi(results) => match results.failure() {
            Some((index, error)) => format!("nothing was done: {error} at operation {index}"),
            None => "all of it was done".to_owned(),
        },
        _ => format!("ok: {op} {path}").trim_end().to_owned(),
    }
}
