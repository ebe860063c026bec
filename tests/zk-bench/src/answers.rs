//! The replies of a null server, which are encoded in advance.
//!
//! Only the xid differs from one reply to the next, so most replies are a copy and four bytes. The
//! server does not remember a client's writes: every node exists, with the same data.

use bytes::BytesMut;
use zk_proto::{
    Acl, ConnectRequest, ConnectResponse, Create2Response, Decode, DecodeError, Encode, ErrorCode,
    ErrorResponse, EventType, ExistsResponse, GetAclResponse, GetChildren2Response,
    GetChildrenResponse, GetDataResponse, KeeperState, List, OpCode, Password, Reader, ReplyHeader,
    RequestHeader, SessionId, Stat, SyncResponse, Text, WatcherEvent, Xid, Zxid, frame,
};

use crate::null::Config;

/// A setData of this path and a number N lets a null server send N events before the reply.
pub const BURST: &str = "/burst";

/// The folder of these events: dataChanged at `/w/0`, `/w/1` and so on.
pub const BURST_FOLDER: &str = "/w";

/// The zxid of all replies.
const ZXID: Zxid = Zxid(1);

/// The password of every session.
const PASSWORD: [u8; Password::LEN] = [7; Password::LEN];

/// The replies that need only the xid of their request.
#[derive(Debug)]
pub(crate) struct Answers {
    empty: BytesMut,
    get_data: BytesMut,
    /// The reply to exists, setData and setACL.
    stat: BytesMut,
    get_acl: BytesMut,
    get_children: BytesMut,
    get_children2: BytesMut,
    add_watch: BytesMut,
    unknown: BytesMut,
    /// The stat of created nodes.
    created: Stat,
}

/// What happens to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    GoOn,
    HangUp,
}

impl Answers {
    pub(crate) fn new(config: &Config) -> Self {
        let data = vec![b'x'; config.data];
        let names = (0..config.children).map(|n| format!("child-{n:010}")).collect::<Vec<_>>();
        let names = names.iter().map(String::as_str).collect::<Vec<_>>();
        let children = List::new(&names);
        let created = Stat {
            czxid: ZXID,
            mzxid: ZXID,
            ctime: 1,
            mtime: 1,
            version: 0,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: SessionId(0),
            data_length: 0,
            num_children: 0,
            pzxid: ZXID,
        };
        let stat = Stat {
            cversion: config.children as i32,
            data_length: config.data as i32,
            num_children: config.children as i32,
            ..created
        };
        Self {
            empty: ok(&()),
            get_data: ok(&GetDataResponse { data: Some(&data), stat }),
            stat: ok(&ExistsResponse { stat }),
            get_acl: ok(&GetAclResponse { acl: List::new(&[Acl::OPEN]), stat }),
            get_children: ok(&GetChildrenResponse { children }),
            get_children2: ok(&GetChildren2Response { children, stat }),
            add_watch: ok(&ErrorResponse { error: ErrorCode::OK }),
            unknown: {
                let mut out = BytesMut::new();
                put(&mut out, Xid(0), ErrorCode::UNIMPLEMENTED, &());
                out
            },
            created,
        }
    }

    /// Appends the reply to a handshake, with the session and the timeout that it asks for.
    pub(crate) fn greet(
        &self,
        hello: &[u8],
        fresh: SessionId,
        out: &mut BytesMut,
    ) -> Result<(), DecodeError> {
        let asked = ConnectRequest::decode(&mut Reader::new(hello))?;
        let session_id = if asked.session_id.0 == 0 { fresh } else { asked.session_id };
        let response = ConnectResponse {
            protocol_version: 0,
            timeout: asked.timeout,
            session_id,
            password: Password::new(&PASSWORD)?,
            read_only: asked.read_only.map(|_| false),
        };
        frame::encode(out, frame::CLIENT_FRAME_LIMIT, |writer| response.encode(writer))
            .expect("a short frame");
        Ok(())
    }

    /// Appends the reply to a request.
    pub(crate) fn answer(&self, request: &[u8], out: &mut BytesMut) -> Result<Then, DecodeError> {
        let mut body = Reader::new(request);
        let RequestHeader { xid, op } = RequestHeader::decode(&mut body)?;
        let answer = match op {
            OpCode::GET_DATA => &self.get_data,
            OpCode::SET_DATA => {
                let path = <&str>::decode(&mut body)?;
                if let Some(events) = path.strip_prefix(BURST).and_then(|n| n.strip_prefix('/')) {
                    burst(events.parse().unwrap_or(0), out);
                }
                &self.stat
            }
            OpCode::EXISTS | OpCode::SET_ACL => &self.stat,
            OpCode::GET_ACL => &self.get_acl,
            OpCode::GET_CHILDREN => &self.get_children,
            OpCode::GET_CHILDREN2 => &self.get_children2,
            OpCode::ADD_WATCH => &self.add_watch,
            OpCode::DELETE
            | OpCode::PING
            | OpCode::AUTH
            | OpCode::CHECK_WATCHES
            | OpCode::REMOVE_WATCHES
            | OpCode::SET_WATCHES
            | OpCode::SET_WATCHES2
            | OpCode::CLOSE_SESSION => &self.empty,
            // The replies that contain a path.
            OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => {
                let path = <&str>::decode(&mut body)?;
                put(out, xid, ErrorCode::OK, &Create2Response { path, stat: self.created });
                return Ok(Then::GoOn);
            }
            OpCode::SYNC => {
                let path = Text::decode(&mut body)?;
                put(out, xid, ErrorCode::OK, &SyncResponse { path });
                return Ok(Then::GoOn);
            }
            _ => &self.unknown,
        };
        let at = out.len() + frame::PREFIX;
        out.extend_from_slice(answer);
        out[at..at + size_of::<i32>()].copy_from_slice(&xid.0.to_be_bytes());
        Ok(if op == OpCode::CLOSE_SESSION { Then::HangUp } else { Then::GoOn })
    }
}

fn ok(body: &impl Encode) -> BytesMut {
    let mut out = BytesMut::new();
    put(&mut out, Xid(0), ErrorCode::OK, body);
    out
}

fn put(out: &mut BytesMut, xid: Xid, error: ErrorCode, body: &impl Encode) {
    frame::encode(out, frame::CLIENT_FRAME_LIMIT, |writer| {
        ReplyHeader { xid, zxid: ZXID, error }.encode(writer);
        body.encode(writer);
    })
    .expect("a reply that a client takes");
}

fn burst(events: usize, out: &mut BytesMut) {
    for n in 0..events {
        let path = &format!("{BURST_FOLDER}/{n}");
        let (kind, state) = (EventType::NODE_DATA_CHANGED, KeeperState::SYNC_CONNECTED);
        put(out, Xid::NOTIFICATION, ErrorCode::OK, &WatcherEvent { kind, state, path });
    }
}
