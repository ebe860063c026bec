//! The steps that are run on a server, as plain data.
//!
//! A step names sessions and transactions by their role in the test (a client's number, "the last
//! zxid") and never by a number that a server chose, so one list of steps runs on any server.

use std::fmt;

use serde::{Deserialize, Serialize};
use zk_proto::{OpCode, Password, Xid};
use zk_tap::hex;

/// The number of clients that take turns.
pub(super) const CLIENTS: usize = 3;

/// The identity that each client proves when it has to connect.
pub(super) const IDENTITIES: [Option<&str>; CLIENTS] = [None, Some("user1:one"), Some("user2:two")];

/// One request, encoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "WrittenRequest", try_from = "WrittenRequest")]
pub(super) struct Request {
    pub(super) xid: Xid,
    pub(super) op: OpCode,
    pub(super) body: Vec<u8>,
    /// Set if the body begins with a zxid: this plus the last zxid seen, which a run fills in.
    pub(super) since: Option<i64>,
    /// The body as text.
    pub(super) text: String,
}

/// A request in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRequest {
    xid: i32,
    op: i32,
    body: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<i64>,
    /// For people alone.
    #[serde(default)]
    text: String,
}

impl From<Request> for WrittenRequest {
    fn from(Request { xid, op, body, since, text }: Request) -> Self {
        Self { xid: xid.0, op: op.0, body: hex::encode(&body), since, text }
    }
}

impl TryFrom<WrittenRequest> for Request {
    type Error = &'static str;

    fn try_from(written: WrittenRequest) -> Result<Self, Self::Error> {
        let WrittenRequest { xid, op, body, since, text } = written;
        let body = hex::decode(&body).ok_or("a body is not hexadecimal")?;
        Ok(Self { xid: Xid(xid), op: OpCode(op), body, since, text })
    }
}

/// The session and password with which a client asks to resume its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Proof {
    /// Its own id and password.
    Own,
    /// Its own id, and a wrong password of this many bytes, or a null one.
    WrongPassword(Option<usize>),
    /// An id that no server has assigned.
    UnknownId,
    /// The session that it closed last.
    Closed,
}

/// A handshake over a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Handshake {
    pub(super) proof: Proof,
    /// The length of the password that a client without a session sends; `None` is a null password.
    pub(super) blank: Option<usize>,
    /// `None` claims to have seen nothing; else the last zxid plus this.
    pub(super) seen: Option<i64>,
    pub(super) timeout: i32,
    pub(super) protocol_version: i32,
    pub(super) read_only: Option<bool>,
}

impl Handshake {
    /// The handshake of a well-behaved client.
    pub(super) const DECENT: Self = Self {
        proof: Proof::Own,
        blank: Some(Password::LEN),
        seen: Some(0),
        timeout: 1_800_000,
        protocol_version: 0,
        read_only: Some(false),
    };
}

/// What a client does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Deed {
    /// Sends requests at once, then reads all replies.
    Ask(Vec<Request>),
    /// Drops its connection without closing the session.
    Cut,
    /// Asks for its session over a second connection.
    Knock(Handshake),
    /// Deletes the node and all below it, as far as permitted.
    Clear(String),
    /// Sends bytes that are not a valid frame.
    Garbage(Vec<u8>),
}

/// A deed and its client. A client without a connection first resumes its session, and one without
/// a session first opens one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    pub(super) client: usize,
    pub(super) deed: Deed,
}

impl Deed {
    /// How many requests it sends, without those that its answers decide.
    pub(super) fn requests(&self) -> usize {
        match self {
            Self::Ask(requests) => requests.len(),
            _ => 1,
        }
    }
}

impl Step {
    /// The same step with another name of the same length wherever `old` occurs.
    pub(super) fn renamed(&self, old: &str, new: &str) -> Self {
        let deed = match &self.deed {
            Deed::Ask(requests) => {
                Deed::Ask(requests.iter().map(|it| it.renamed(old, new)).collect())
            }
            Deed::Clear(path) => Deed::Clear(path.replace(old, new)),
            other => other.clone(),
        };
        Self { client: self.client, deed }
    }
}

impl Request {
    fn renamed(&self, old: &str, new: &str) -> Self {
        let mut request = self.clone();
        request.text = request.text.replace(old, new);
        let mut at = 0;
        while let Some(name) = request.body.get_mut(at..at + old.len()) {
            if name == old.as_bytes() {
                name.copy_from_slice(new.as_bytes());
            }
            at += 1;
        }
        request
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{} {}", self.op, self.xid, self.text)?;
        match self.since {
            Some(since) => write!(f, ", since the last zxid {since:+}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}: ", self.client)?;
        match &self.deed {
            Deed::Ask(requests) => {
                for (index, request) in requests.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "\n        and at once " };
                    write!(f, "{separator}{request}")?;
                }
                Ok(())
            }
            Deed::Cut => write!(f, "drops its connection"),
            Deed::Knock(handshake) => write!(f, "reattaches with {handshake:?}"),
            Deed::Clear(path) => write!(f, "deletes {path} and all below it"),
            Deed::Garbage(bytes) => write!(f, "sends the bytes {bytes:02x?}"),
        }
    }
}
