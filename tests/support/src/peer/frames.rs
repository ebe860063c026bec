//! The frames of a server and the requests that it gets, as bytes and as text.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use zk_proto::*;

/// The session of every test.
pub const SESSION: SessionId = SessionId(0x100_0000_0000_0001);

/// The default session timeout of tests: its thirds are whole seconds.
pub const TIMEOUT: Duration = Duration::from_secs(12);

/// The password of [`SESSION`].
pub fn password() -> Password {
    Password::new(b"0123456789abcdef").expect("16 bytes")
}

/// The current time of tokio's clock, which a test may have paused.
#[expect(clippy::disallowed_methods, reason = "tests start and read clocks")]
pub(super) fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// A stopwatch on tokio's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock(tokio::time::Instant);

impl Clock {
    /// Starts measuring now.
    pub fn start() -> Self {
        Self(now())
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        now() - self.0
    }
}

/// A record as the payload of a frame.
pub fn payload(record: &impl Encode) -> Bytes {
    let mut out = BytesMut::new();
    record.encode(&mut Writer::new(&mut out, usize::MAX));
    out.freeze()
}

/// A reply as the payload of a frame.
pub fn reply(xid: Xid, zxid: i64, error: ErrorCode, body: &impl Encode) -> Bytes {
    let header = ReplyHeader { xid, zxid: Zxid(zxid), error };
    [payload(&header), payload(body)].concat().into()
}

/// A payload as a frame.
pub(crate) fn frame_of(payload: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    frame::encode(&mut out, usize::MAX, |writer| writer.put(payload)).expect("no limit");
    out.freeze()
}

/// Sends a payload as a frame. Returns `None` if the connection is closed.
pub(crate) async fn send_frame(io: &mut (impl AsyncWrite + Unpin), payload: &[u8]) -> Option<()> {
    io.write_all(&frame_of(payload)).await.ok()?;
    io.flush().await.ok()
}

/// Reads the payload of the next frame, or returns `None` if the connection is closed. What is left
/// in `input` then is a frame that was cut short.
pub(crate) async fn next_frame(
    io: &mut (impl AsyncRead + Unpin),
    input: &mut BytesMut,
) -> Option<Bytes> {
    loop {
        if let Some(payload) = frame::split(input, usize::MAX).expect("frames") {
            return Some(payload);
        }
        io.read_buf(input).await.ok().filter(|count| *count > 0)?;
    }
}

/// A watch event as the payload of a frame.
pub fn notification(zxid: i64, kind: EventType, path: &str) -> Bytes {
    let event = WatcherEvent { kind, state: KeeperState::SYNC_CONNECTED, path };
    reply(Xid::NOTIFICATION, zxid, ErrorCode::OK, &event)
}

/// The reply to a handshake that accepts [`SESSION`].
pub fn welcome(timeout: Duration) -> ConnectResponse {
    ConnectResponse {
        protocol_version: 0,
        timeout: timeout.as_millis() as i32,
        session_id: SESSION,
        password: password(),
        read_only: Some(false),
    }
}

/// The reply to a handshake for a session that is over.
pub fn expired() -> ConnectResponse {
    ConnectResponse {
        timeout: 0,
        session_id: SessionId(0),
        password: Password::ZERO,
        ..welcome(TIMEOUT)
    }
}

/// The state of a node that belongs to `owner`.
pub fn stat_of(owner: SessionId) -> Stat {
    Stat {
        czxid: Zxid(0x77),
        mzxid: Zxid(0x77),
        ctime: 0,
        mtime: 0,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: owner,
        data_length: 0,
        num_children: 0,
        pzxid: Zxid(0x77),
    }
}

/// The reply to a create.
pub fn created(path: &str) -> Create2Response<'_> {
    Create2Response { path, stat: stat_of(SESSION) }
}

/// The reply to exists.
pub fn there() -> ExistsResponse {
    ExistsResponse { stat: stat_of(SessionId(0)) }
}

/// The reply to getData.
pub fn data(data: &[u8]) -> GetDataResponse<'_> {
    GetDataResponse { data: Some(data), stat: stat_of(SessionId(0)) }
}

/// A request as it came.
///
/// Its text is `getData#1 /a`: operation, xid and path. The text of a multi has the operations in
/// it.
#[derive(Clone, Debug)]
pub struct Request(pub(crate) Bytes);

impl Request {
    fn header(&self) -> RequestHeader {
        RequestHeader::decode(&mut Reader::new(&self.0)).expect("a request has a header")
    }

    /// The xid, which the reply repeats.
    pub fn xid(&self) -> Xid {
        self.header().xid
    }

    /// The operation.
    pub fn op(&self) -> OpCode {
        self.header().op
    }

    /// The record.
    pub fn body<'a, T: Decode<'a>>(&'a self) -> T {
        T::decode_exact(&self.0[8..]).expect("the request decodes")
    }

    /// The path, which is the first field of most requests.
    pub fn path(&self) -> &str {
        Decode::decode(&mut Reader::new(&self.0[8..])).expect("the request begins with a path")
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RequestHeader { xid, op } = self.header();
        match op {
            OpCode::PING => write!(f, "ping"),
            OpCode::AUTH => {
                let AuthPacket { scheme, auth, .. } = self.body();
                let proof = String::from_utf8_lossy(auth.expose().unwrap_or_default());
                write!(f, "auth#{xid} {} {proof}", scheme.as_str().unwrap_or_default())
            }
            OpCode::SASL => {
                let GetSaslRequest { token } = self.body();
                let token = String::from_utf8_lossy(token.expose().unwrap_or_default());
                write!(f, "sasl#{xid} {token}")
            }
            OpCode::SET_WATCHES => {
                let SetWatches { relative_zxid, data, exist, child } = self.body();
                write!(f, "setWatches#{xid} since {relative_zxid}: {data:?} {exist:?} {child:?}")
            }
            OpCode::MULTI => {
                write!(f, "multi#{xid}")?;
                let list: MultiRequest<'_> = self.body();
                list.iter().enumerate().try_for_each(|(index, op)| {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma} {} {}", op.op(), op.path())
                })
            }
            OpCode::SET_WATCHES2 => {
                let SetWatches2 { relative_zxid, data, exist, child, .. } = self.body();
                let SetWatches2 { persistent, persistent_recursive: recursive, .. } = self.body();
                write!(f, "setWatches2#{xid} since {relative_zxid}: {data:?} {exist:?} {child:?}")?;
                write!(f, " {persistent:?} {recursive:?}")
            }
            OpCode::ADD_WATCH => {
                let AddWatchRequest { path, mode } = self.body();
                write!(f, "addWatch#{xid} {path} {mode}")
            }
            op if op.has_path() => write!(f, "{op}#{xid} {}", self.path()),
            op => write!(f, "{op}#{xid}"),
        }
    }
}
