//! What a server sent, as text that is equal for servers that behave the same.
//!
//! A server counts its transactions without gaps, so zxids are shown as they are, or from the last
//! transaction before the steps. The following is left out or replaced, because no two servers have
//! it in common:
//!
//! * a session's id: replaced by its place among the sessions opened so far;
//! * a session's password: replaced by whether it is the one that the session began with;
//! * times: left out, as long as they are right. A transaction has one time, not before that of an
//!   earlier transaction, and near enough to the time of the step that made it;
//! * the order of a connection's identities: sorted, since servers keep them in hash tables. So are
//!   neighbours with equal permissions in an access list, because `auth` becomes an entry per
//!   identity. The names of children and of ephemeral nodes must come in the same order.

use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

use zk_proto::any::{Field, Frame, Name, Value};
use zk_proto::*;

/// The header of a reply and its xid, zxid and error.
const HEADER_FIELDS: usize = 4;

/// How far, in milliseconds, a server's clock may be off. Both clocks are set by the same one.
const SLACK: i64 = 1000;

/// What is known about one server's ids and times.
#[derive(Default)]
pub(super) struct Witness {
    sessions: HashMap<SessionId, (usize, Password)>,
    last: Zxid,
    /// The last transaction before the steps: later ones are counted from here.
    base: Zxid,
    /// Whether servers close the connection behind the last reply.
    goodbye: bool,
    /// When the current step began.
    began: i64,
    /// The steps so far: their last transactions, and when they began and ended.
    moments: Vec<(Zxid, i64, i64)>,
    /// The times of the transactions seen so far.
    times: BTreeMap<Zxid, i64>,
    /// How often each operation had each result.
    pub(super) tally: BTreeMap<String, usize>,
}

impl Witness {
    /// The last transaction that the server has sent.
    pub(super) fn last_zxid(&self) -> Zxid {
        self.last
    }

    /// Whether servers close the connection behind the last reply.
    pub(super) fn said_goodbye(&self) -> bool {
        self.goodbye
    }

    /// Forgets everything, and counts transactions from here.
    pub(super) fn start_anew(&mut self, base: Zxid) {
        let tally = std::mem::take(&mut self.tally);
        *self = Self { base, last: base, tally, ..Self::default() };
    }

    /// A transaction's number, as it is shown. Those up to the base are none, such as -1.
    fn zxid(&self, zxid: Zxid) -> i64 {
        if zxid > self.base { zxid.0 - self.base.0 } else { zxid.0 }
    }

    pub(super) fn begin_step(&mut self) {
        self.began = wall_clock();
    }

    pub(super) fn end_step(&mut self) {
        self.moments.push((self.last, self.began, wall_clock()));
    }

    /// The answer to a handshake.
    pub(super) fn welcome(&mut self, payload: &[u8]) -> (String, Option<ConnectResponse>) {
        let response = match ConnectResponse::decode_exact(payload) {
            Ok(response) => response,
            Err(error) => return (undecodable(payload, error), None),
        };
        let ConnectResponse { protocol_version, timeout, session_id, password, read_only } =
            response;
        let next = self.sessions.len();
        let (session, secret) = if response.is_expired() {
            (format!("expired ({session_id})"), password == Password::ZERO)
        } else {
            let (ordinal, own) = *self.sessions.entry(session_id).or_insert((next, password));
            (format!("session {ordinal}"), own == password && password.expose().len() == 16)
        };
        self.count(format!("handshake: {}", if timeout > 0 { "welcome" } else { "expired" }));
        let text = format!(
            "{session}, timeout {timeout}, version {protocol_version}, read-only {read_only:?}, \
             password {}",
            if secret { "as it should be" } else { "WRONG" }
        );
        (text, Some(response))
    }

    /// The reply to a request of type `op`.
    pub(super) fn reply(&mut self, op: OpCode, payload: &[u8]) -> String {
        let mut reader = Reader::new(payload);
        let told = self.told(op, payload, &mut reader);
        let extra = reader.rest();
        match told {
            Ok(text) if extra.is_empty() => text,
            Ok(text) => format!("{text}, then {extra:02x?}"),
            Err(error) => undecodable(payload, error),
        }
    }

    fn told(
        &mut self,
        op: OpCode,
        payload: &[u8],
        reader: &mut Reader<'_>,
    ) -> Result<String, DecodeError> {
        let ReplyHeader { xid, zxid, error } = ReplyHeader::decode(reader)?;
        self.last = self.last.max(zxid);
        self.goodbye = op == OpCode::CLOSE_SESSION
            || error == ErrorCode::AUTH_FAILED
            || (error == ErrorCode::UNIMPLEMENTED && zxid == Zxid(-1));
        let body = match error {
            ErrorCode::OK => match self.body(op, reader)? {
                Some(body) => body,
                None => {
                    *reader = Reader::new(&[]);
                    plain(&Frame::reply(payload, op)?)
                }
            },
            _ => String::new(),
        };
        if op != OpCode::PING {
            self.count(format!("{op}: {error}"));
        }
        Ok(format!("{op}#{xid} at zxid {}: {error}{body}", self.zxid(zxid)))
    }

    /// A watch event.
    pub(super) fn event(&mut self, payload: &[u8]) -> String {
        let mut reader = Reader::new(payload);
        let header = ReplyHeader::decode(&mut reader);
        let event = WatcherEvent::decode_exact(reader.rest());
        let (ReplyHeader { zxid, error, .. }, WatcherEvent { kind, state, path }) =
            match header.and_then(|header| Ok((header, event?))) {
                Ok(both) => both,
                Err(error) => return undecodable(payload, error),
            };
        self.last = self.last.max(zxid);
        self.count(format!("event: {kind}"));
        format!("event {kind} {path:?} at zxid {}, {state}, {error}", self.zxid(zxid))
    }

    /// A body in which something is left out or replaced, or which may stand in a multi.
    fn body(&mut self, op: OpCode, reader: &mut Reader<'_>) -> Result<Option<String>, DecodeError> {
        Ok(Some(match op {
            OpCode::CREATE => format!(" {:?}", CreateResponse::decode(reader)?.path),
            OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => {
                let Create2Response { path, stat } = Decode::decode(reader)?;
                format!(" {path:?} {}", self.stat(&stat))
            }
            OpCode::EXISTS | OpCode::SET_DATA | OpCode::SET_ACL => {
                format!(" {}", self.stat(&Stat::decode(reader)?))
            }
            OpCode::GET_DATA | OpCode::RECONFIG => {
                let GetDataResponse { data, stat } = Decode::decode(reader)?;
                format!(" {} {}", bytes(data), self.stat(&stat))
            }
            OpCode::GET_ACL => {
                let GetAclResponse { acl, stat } = Decode::decode(reader)?;
                let mut acl: Vec<_> =
                    acl.iter().map(|Acl { perms, id }| (perms, shown(&id))).collect();
                acl.chunk_by_mut(|one, two| one.0 == two.0).for_each(<[_]>::sort);
                format!(" {acl:?} {}", self.stat(&stat))
            }
            OpCode::GET_CHILDREN => names(GetChildrenResponse::decode(reader)?.children),
            OpCode::GET_CHILDREN2 => {
                let GetChildren2Response { children, stat } = Decode::decode(reader)?;
                format!("{} {}", names(children), self.stat(&stat))
            }
            OpCode::ERROR => format!(" {}", ErrorResponse::decode(reader)?.error),
            OpCode::MULTI | OpCode::MULTI_READ => self.entries(reader)?,
            _ => return Ok(None),
        }))
    }

    fn entries(&mut self, reader: &mut Reader<'_>) -> Result<String, DecodeError> {
        let mut text = String::new();
        loop {
            let MultiHeader { op, done, error } = Decode::decode(reader)?;
            if done {
                return Ok(format!("{text} | end {op} {error}"));
            }
            let body = self.body(op, reader)?.unwrap_or_default();
            text += &format!(" | {op}: {error}{body}");
            self.count(format!("entry {op}: {error}"));
        }
    }

    fn stat(&mut self, stat: &Stat) -> String {
        let Stat {
            czxid,
            mzxid,
            ctime,
            mtime,
            version,
            cversion,
            aversion,
            ephemeral_owner,
            data_length,
            num_children,
            pzxid,
        } = stat;
        let owner = match self.sessions.get(ephemeral_owner) {
            Some((ordinal, _)) => format!("session {ordinal}"),
            None => ephemeral_owner.to_string(),
        };
        let times = [("ctime", self.time(*czxid, *ctime)), ("mtime", self.time(*mzxid, *mtime))];
        let wrong = times
            .into_iter()
            .filter_map(|(name, problem)| Some(format!(" WRONG {name}: {}", problem?)))
            .collect::<String>();
        format!(
            "{{czxid {} mzxid {} pzxid {} version {version} cversion {cversion} \
             aversion {aversion} owner {owner} length {data_length} \
             children {num_children}{wrong}}}",
            self.zxid(*czxid),
            self.zxid(*mzxid),
            self.zxid(*pzxid)
        )
    }

    /// The problem with the time of a transaction, if any.
    fn time(&mut self, zxid: Zxid, time: i64) -> Option<String> {
        let step = self.moments.partition_point(|(last, ..)| *last < zxid);
        let (from, to) = match self.moments.get(step) {
            // The nodes that a server starts with.
            _ if zxid == Zxid(0) => (0, 0),
            Some((_, from, to)) => (from - SLACK, to + SLACK),
            None => (self.began - SLACK, wall_clock() + SLACK),
        };
        let earlier = self.times.range(..=zxid).next_back().map_or(0, |(_, time)| *time);
        let later = self.times.range(zxid..).next().map_or(i64::MAX, |(_, time)| *time);
        self.times.insert(zxid, time);
        let (from, to) = (from.max(earlier), to.min(later));
        (!(from..=to).contains(&time)).then(|| format!("{time} is not within {from} to {to}"))
    }

    fn count(&mut self, what: String) {
        *self.tally.entry(what).or_default() += 1;
    }
}

#[expect(clippy::disallowed_methods, reason = "a node's times are the wall clock's")]
fn wall_clock() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// The fields of a body and the bytes behind it as they are, but for the order of records in a
/// list.
fn plain(frame: &Frame<'_>) -> String {
    let (mut text, mut items) = (String::new(), Vec::new());
    for Field { name, value, .. } in frame.fields().iter().skip(HEADER_FIELDS) {
        let shown = match (name, value) {
            (Name::Item(_), Value::Record(_)) => {
                items.push(String::new());
                continue;
            }
            (_, Value::Record(_) | Value::List(_)) => continue,
            (_, Value::Text(value)) => self::text(*value),
            (_, Value::Buffer(value)) => bytes(*value),
            (_, value) => value.to_string(),
        };
        *items.last_mut().unwrap_or(&mut text) += &format!(" {shown}");
    }
    items.sort();
    text + &items.concat()
}

fn undecodable(payload: &[u8], error: DecodeError) -> String {
    format!("UNDECODABLE, {error}: {payload:02x?}")
}

fn bytes(bytes: Option<&[u8]>) -> String {
    bytes.map_or("null".to_owned(), |bytes| format!("\"{}\"", bytes.escape_ascii()))
}

/// Byte by byte, since servers differ in how they write characters above U+FFFF.
fn text(text: Text<'_>) -> String {
    bytes(text.as_bytes())
}

fn shown(id: &Id<'_>) -> String {
    text(id.scheme) + ":" + &text(id.id)
}

fn names(names: List<'_, &str>) -> String {
    let null = if names.is_null() { " null" } else { "" };
    format!("{null} {:?}", names.iter().collect::<Vec<_>>())
}
