//! The contents of frames: as text, for the trace of a failed seed, and as the newest transaction
//! that a client has received.

use std::ops::Range;

use bytes::BytesMut;
use zk_proto::{
    ConnectResponse, Decode, ErrorCode, EventType, OpCode, Reader, ReplyHeader, RequestHeader,
    SessionId, WatcherEvent, Xid, Zxid, frame,
};

use super::net::Way;

/// Follows the bytes that a client reads on one connection.
#[derive(Debug, Default)]
pub(super) struct Heard {
    rest: BytesMut,
    /// The first frame is not a reply. True once it was read.
    is_greeted: bool,
    /// The session, once the server has accepted it.
    pub(super) session: Option<SessionId>,
    /// The nodes whose deletion was notified.
    pub(super) deleted: Vec<String>,
}

impl Heard {
    /// The newest transaction that a reply among these bytes reports.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Zxid {
        self.rest.extend_from_slice(bytes);
        let mut newest = Zxid::default();
        while let Ok(Some(frame)) = frame::split(&mut self.rest, frame::CLIENT_FRAME_LIMIT) {
            let mut reader = Reader::new(&frame);
            if !std::mem::replace(&mut self.is_greeted, true) {
                let greeting = ConnectResponse::decode(&mut Reader::new(&frame)).ok();
                let session = greeting.map(|greeting| greeting.session_id);
                self.session = session.filter(|session| session.0 != 0);
                continue;
            }
            match ReplyHeader::decode(&mut reader) {
                Ok(ReplyHeader { xid: Xid::NOTIFICATION, .. }) => {
                    let event = WatcherEvent::decode(&mut reader).ok();
                    let deleted = event.filter(|event| event.kind == EventType::NODE_DELETED);
                    self.deleted.extend(deleted.map(|event| event.path.to_string()));
                }
                Ok(header) => newest = newest.max(header.zxid),
                Err(_) => {}
            }
        }
        newest
    }
}

/// The bounds of the whole frames in these bytes, if they begin with a frame.
pub(super) fn bounds(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let begin = end;
        let length = bytes.get(begin..)?.first_chunk::<4>()?;
        end += 4 + u32::from_be_bytes(*length) as usize;
        (end <= bytes.len()).then_some(begin..end)
    })
}

/// True if these bytes are a ping, or the answer to one.
pub(super) fn is_ping(bytes: &[u8]) -> bool {
    bytes.get(4..8).is_some_and(|xid| xid == Xid::PING.0.to_be_bytes())
}

/// The operation of the request in these bytes.
pub(super) fn op(bytes: &[u8]) -> Option<OpCode> {
    let header = RequestHeader::decode(&mut Reader::new(bytes.get(4..)?));
    header.ok().map(|header| header.op)
}

/// The first event in these bytes that `is_meant`, with its bounds in them and its node.
pub(super) fn event(
    bytes: &[u8],
    is_meant: impl Fn(&WatcherEvent<'_>) -> bool,
) -> Option<(Range<usize>, String)> {
    bounds(bytes).find_map(|frame| {
        let mut reader = Reader::new(&bytes[frame.start + 4..frame.end]);
        let header = ReplyHeader::decode(&mut reader).ok()?;
        if header.xid != Xid::NOTIFICATION {
            return None;
        }
        let event = WatcherEvent::decode(&mut reader).ok().filter(&is_meant)?;
        Some((frame, event.path.to_string()))
    })
}

/// The contents of these bytes, as far as they hold whole frames.
pub(super) fn describe(way: Way, bytes: &[u8]) -> String {
    let tell = if way == Way::Up { request } else { reply };
    let mut words = bounds(bytes).map(|it| tell(&bytes[it.start + 4..it.end])).collect::<Vec<_>>();
    let rest = bytes.len() - bounds(bytes).last().map_or(0, |frame| frame.end);
    if rest > 0 {
        words.push(format!("{rest} bytes"));
    }
    words.join("; ")
}

fn request(frame: &[u8]) -> String {
    let mut reader = Reader::new(frame);
    match RequestHeader::decode(&mut reader) {
        // A handshake begins with its version, which is 0.
        Ok(RequestHeader { xid: Xid(0), .. }) => "hello".to_owned(),
        Ok(RequestHeader { op: OpCode::PING, .. }) => "ping".to_owned(),
        Ok(RequestHeader { xid, op }) => {
            let path = <&str>::decode(&mut reader).unwrap_or_default();
            format!("{xid} {op} {path}")
        }
        Err(_) => format!("{} bytes", frame.len()),
    }
}

fn reply(frame: &[u8]) -> String {
    let mut reader = Reader::new(frame);
    match ReplyHeader::decode(&mut reader) {
        Ok(ReplyHeader { xid: Xid(0), .. }) => {
            match ConnectResponse::decode(&mut Reader::new(frame)) {
                Ok(hello) => format!("hello to {}", hello.session_id),
                Err(_) => "hello".to_owned(),
            }
        }
        Ok(ReplyHeader { xid: Xid::NOTIFICATION, .. }) => match WatcherEvent::decode(&mut reader) {
            Ok(event) => format!("{} {}", event.kind, event.path),
            Err(_) => "event".to_owned(),
        },
        Ok(ReplyHeader { xid, zxid, error: ErrorCode::OK }) => format!("{xid} ok at {zxid}"),
        Ok(ReplyHeader { xid, zxid, error }) => format!("{xid} {error} at {zxid}"),
        Err(_) => format!("{} bytes", frame.len()),
    }
}
