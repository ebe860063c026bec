//! Frames of a server as lines of text, in the form of [`outcome`](super::outcome).

use std::fmt::Write;

use zk_proto::any::{Frame, Message, Reply};
use zk_proto::*;

use super::outcome::word;
use super::request::letters;

/// What stands for a frame that nobody can read.
const UNREADABLE: &str = "unreadable";

/// A reply. `xid` is the number that it must have.
pub(super) fn reply(payload: &[u8], op: OpCode, xid: Xid) -> String {
    let Ok(frame) = Frame::reply(payload, op) else { return UNREADABLE.to_owned() };
    let Message::Reply(header, body) = frame.message() else { return UNREADABLE.to_owned() };
    let mut line = match header.error {
        ErrorCode::OK => "ok".to_owned(),
        error => error_name(error),
    };
    if header.xid != xid {
        line += " wrong-xid";
    }
    let behind = payload.len().saturating_sub(16);
    let trailing = frame.trailing().len();
    let zxid = header.zxid.0;
    // Writing to a string does not fail.
    write!(line, " xid={} zxid={zxid} body={behind} trailing={trailing}", header.xid).ok();
    line + &fields(body)
}

/// The name of an error.
fn error_name(error: ErrorCode) -> String {
    error.name().map_or_else(|| format!("error-{}", error.0), str::to_owned)
}

fn fields(reply: &Reply<'_>) -> String {
    match reply {
        Reply::Create(reply) => format!(" path={}", word(reply.path.as_bytes())),
        Reply::Create2(reply) | Reply::CreateContainer(reply) | Reply::CreateTtl(reply) => {
            format!(" path={}{}", word(reply.path.as_bytes()), stat(&reply.stat))
        }
        Reply::Exists(reply) => stat(&reply.stat),
        Reply::SetData(reply) => stat(&reply.stat),
        Reply::SetAcl(reply) => stat(&reply.stat),
        Reply::GetData(reply) => data(reply.data) + &stat(&reply.stat),
        Reply::GetAcl(reply) => {
            let entry = |entry: Acl<'_>| {
                let (scheme, id) = (text(&entry.id.scheme), text(&entry.id.id));
                format!("{scheme}:{id}:{}", letters(entry.perms))
            };
            let entries = reply.acl.iter().map(entry).collect();
            format!(" acl={}{}", sorted(entries), stat(&reply.stat))
        }
        Reply::GetChildren(reply) => names(&reply.children),
        Reply::GetChildren2(reply) => names(&reply.children) + &stat(&reply.stat),
        Reply::Sync(reply) => format!(" path={}", text(&reply.path)),
        Reply::GetEphemerals(reply) => {
            let paths = reply.ephemerals.iter().map(|path| word(path.as_bytes())).collect();
            format!(" ephemerals={}", sorted(paths))
        }
        Reply::GetAllChildrenNumber(reply) => format!(" count={}", reply.total_number),
        Reply::AddWatch(reply) => format!(" inner={}", error_name(reply.error)),
        Reply::WhoAmI(reply) => {
            let identity = |info: ClientInfo<'_>| match text(&info.auth_scheme) {
                // Where the client comes from is up to the network.
                scheme if scheme == "ip" => scheme,
                scheme => format!("{scheme}:{}", text(&info.user)),
            };
            format!(" ids={}", sorted(reply.client_info.iter().map(identity).collect()))
        }
        Reply::Sasl(reply) => match reply.token.expose() {
            None => " token=null".to_owned(),
            Some(token) => format!(" token={}", token.len()),
        },
        Reply::Multi(reply) | Reply::MultiRead(reply) => reply.iter().map(entry).collect(),
        _ => String::new(),
    }
}

/// An entry of the reply to a multi.
fn entry(result: MultiResult<'_>) -> String {
    let body = match result {
        MultiResult::Create(reply) => fields(&Reply::Create(reply)),
        MultiResult::Create2(reply) => fields(&Reply::Create2(reply)),
        MultiResult::SetData(reply) => fields(&Reply::SetData(reply)),
        MultiResult::GetData(reply) => fields(&Reply::GetData(reply)),
        MultiResult::GetChildren(reply) => fields(&Reply::GetChildren(reply)),
        MultiResult::Error(ErrorCode::OK) => " ok".to_owned(),
        MultiResult::Error(error) => format!(" {}", error_name(error)),
        _ => String::new(),
    };
    format!(" ; {}{body}", result.op())
}

fn names(children: &List<'_, &str>) -> String {
    format!(" children={}", sorted(children.iter().map(|name| word(name.as_bytes())).collect()))
}

fn sorted(mut words: Vec<String>) -> String {
    words.sort();
    words.join(",")
}

fn text(text: &Text<'_>) -> String {
    text.as_bytes().map_or_else(|| "null".to_owned(), word)
}

fn data(data: Option<&[u8]>) -> String {
    match data {
        None => " data=null".to_owned(),
        Some(data) if data.len() > 100 => format!(" data=({})", data.len()),
        Some(data) => format!(" data={}", word(data)),
    }
}

fn stat(stat: &Stat) -> String {
    format!(
        " czxid={} mzxid={} ctime={} mtime={} version={} cversion={} aversion={} \
         ephemeralOwner={} dataLength={} numChildren={} pzxid={}",
        stat.czxid.0,
        stat.mzxid.0,
        stat.ctime,
        stat.mtime,
        stat.version,
        stat.cversion,
        stat.aversion,
        stat.ephemeral_owner.0,
        stat.data_length,
        stat.num_children,
        stat.pzxid.0,
    )
}

/// A watch event.
pub(super) fn event(payload: &[u8]) -> String {
    let Ok(frame) = Frame::notification(payload) else { return UNREADABLE.to_owned() };
    let Message::Notification(header, event) = frame.message() else {
        return UNREADABLE.to_owned();
    };
    let kind = event.kind.name().map_or_else(|| format!("event-{}", event.kind.0), str::to_owned);
    let (path, zxid, state) = (word(event.path.as_bytes()), header.zxid.0, event.state.0);
    format!("{kind} {path} zxid={zxid} state={state} trailing={}", frame.trailing().len())
}

/// The answer to a handshake.
pub(super) fn welcome(payload: &[u8]) -> (String, Option<ConnectResponse>) {
    let mut reader = Reader::new(payload);
    let Ok(response) = ConnectResponse::decode(&mut reader) else {
        return (UNREADABLE.to_owned(), None);
    };
    let ConnectResponse { protocol_version, timeout, session_id, password, read_only } = response;
    let word = if response.is_expired() { "expired" } else { "ok" };
    let zeros = password.expose().iter().all(|byte| *byte == 0);
    let read_only = read_only.map_or("absent", |it| if it { "1" } else { "0" });
    let line = format!(
        "{word} protocol={protocol_version} timeout={timeout} session={} password={}{} \
         readOnly={read_only} body={}",
        session_id.0,
        password.expose().len(),
        if zeros { "-zeros" } else { "" },
        payload.len(),
    );
    (line, Some(response))
}

/// The answer to a four-letter word: its lines as fields.
pub(super) fn told(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    if text.contains("is not in the whitelist") {
        return "refused".to_owned();
    }
    let mut line = format!("ok text={}", word(text.trim_end().as_bytes()));
    if text.is_empty() {
        line = "nothing".to_owned();
    }
    let fields = text.lines().filter_map(|line| {
        let split = |at: &str| line.split_once(at);
        split(": ").or(split("\t")).or(split("=")).or(split(":"))
    });
    for (name, value) in fields.filter(|(name, _)| name.starts_with(char::is_alphabetic)) {
        let name = word(name.replace(' ', "-").as_bytes());
        write!(line, " {name}={}", word(value.as_bytes())).ok();
    }
    line
}
