//! What can happen to a frame on its way to the client.

use std::time::Duration;

use bytes::BytesMut;
use zk_proto::any::Frame;
use zk_proto::{
    Encode, ErrorCode, EventType, KeeperState, ReplyHeader, WatcherEvent, Writer, Xid, Zxid,
};
use zk_tap::hex;

use crate::odd::{self, one_of};

/// The longest delay. Everything behind the frame is late as well.
const DELAY: u64 = 300;

/// Where the error of a reply is: behind its xid and its zxid.
const ERROR: std::ops::Range<usize> = 12..16;

/// A kind of fault.
///
/// Those that an ordinary network or server has are honest: with them, a client must still not say
/// anything wrong. The others are lies, which a client cannot always see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fault {
    /// The frame is late.
    Delay,
    /// The frame comes byte by byte.
    Split,
    /// The connection closes in front of the frame.
    Cut,
    /// The connection closes within the frame.
    CutInside,
    /// From this frame on nothing comes any more, and the connection stays open.
    Silence,
    /// A field of the frame has an odd value.
    Field,
    /// Up to three bytes of the frame are others.
    Bytes,
    /// The length in front of the frame is another.
    Length,
    /// The frame comes twice.
    Repeat,
    /// The frame does not come.
    Drop,
    /// The next frame comes first.
    Swap,
    /// The reply has another error, with the body that it had or without one.
    Error,
    /// A watch event that nobody asked for comes first.
    Event,
    /// A reply that nobody asked for comes first.
    Reply,
    /// Bytes that are no frame come first.
    Garbage,
}

/// What is to be done in place of sending the frame.
pub(super) enum Act {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Send these bytes one by one.
    SendSlowly(Vec<u8>),
    /// Send these bytes after a pause.
    SendLate(Duration, Vec<u8>),
    /// Send these bytes behind the next frame.
    Hold(Vec<u8>),
    /// Send these bytes, then close the connection.
    Close(Vec<u8>),
    /// Send nothing more.
    FallSilent,
}

impl Fault {
    /// Every fault.
    pub const ALL: &'static [Self] = &[
        Self::Delay,
        Self::Split,
        Self::Cut,
        Self::CutInside,
        Self::Silence,
        Self::Field,
        Self::Bytes,
        Self::Length,
        Self::Repeat,
        Self::Drop,
        Self::Swap,
        Self::Error,
        Self::Event,
        Self::Reply,
        Self::Garbage,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Split => "split",
            Self::Cut => "cut",
            Self::CutInside => "cut-inside",
            Self::Silence => "silence",
            Self::Field => "field",
            Self::Bytes => "bytes",
            Self::Length => "length",
            Self::Repeat => "repeat",
            Self::Drop => "drop",
            Self::Swap => "swap",
            Self::Error => "error",
            Self::Event => "event",
            Self::Reply => "reply",
            Self::Garbage => "garbage",
        }
    }

    /// Whether an ordinary network or server may do this.
    pub fn is_honest(self) -> bool {
        matches!(self, Self::Delay | Self::Split | Self::Cut | Self::CutInside | Self::Silence)
    }

    /// What to do with a frame, whose fields are known if it decodes, and what to call it.
    pub(super) fn act(
        self,
        payload: &[u8],
        frame: Option<&Frame<'_>>,
        rng: &mut fastrand::Rng,
    ) -> (Act, String) {
        let whole = framed(payload);
        match self {
            Self::Delay => {
                let pause = Duration::from_millis(rng.u64(1..=DELAY));
                (Act::SendLate(pause, whole), format!("{pause:?} late"))
            }
            Self::Split => (Act::SendSlowly(whole), "byte by byte".to_owned()),
            Self::Cut => {
                (Act::Close(Vec::new()), "the connection closes in front of it".to_owned())
            }
            Self::CutInside => {
                let len = rng.usize(1..whole.len());
                let told = format!("the connection closes behind {len} bytes of it");
                (Act::Close(whole[..len].to_vec()), told)
            }
            Self::Silence => (Act::FallSilent, "from here on nothing comes".to_owned()),
            Self::Field => {
                let fields = frame.map(Frame::fields).unwrap_or_default();
                let Some(field) = odd::choose(&fields, rng, |_| true) else {
                    return Self::Bytes.act(payload, None, rng);
                };
                let (bytes, told) = odd::value(&field, rng);
                let mut payload = payload.to_vec();
                payload.splice(field.offset..field.offset + field.length, bytes);
                (
                    Act::Send(framed(&payload)),
                    format!("{told} for {} ({})", field.name, field.value),
                )
            }
            Self::Bytes => {
                let mut payload = payload.to_vec();
                let mut told = "with".to_owned();
                for _ in 0..rng.usize(1..=3) {
                    let at = rng.usize(..payload.len().max(1));
                    let odd = one_of(rng, &[0, 1, 0x7f, 0x80, 0xff]);
                    if let Some(byte) = payload.get_mut(at) {
                        *byte = odd;
                        told += &format!(" {odd:#04x} at {at}");
                    }
                }
                (Act::Send(framed(&payload)), told)
            }
            Self::Length => {
                let len = i32::try_from(payload.len()).unwrap_or(i32::MAX);
                let near = len + one_of(rng, &[-4, -1, 1, 4]);
                let odd =
                    one_of(rng, &[near, near, 0, -1, i32::MIN, i32::MAX, 0x000f_ffff, 0x0400_0000]);
                let mut whole = whole;
                whole[..4].copy_from_slice(&odd.to_be_bytes());
                (Act::Send(whole), format!("the length {odd} in place of {len}"))
            }
            Self::Repeat => (Act::Send(whole.repeat(2)), "twice".to_owned()),
            Self::Drop => (Act::Send(Vec::new()), "it does not come".to_owned()),
            Self::Swap => (Act::Hold(whole), "behind the next one".to_owned()),
            Self::Error => {
                let codes = [
                    ErrorCode::OK,
                    ErrorCode::NO_NODE,
                    ErrorCode::NODE_EXISTS,
                    ErrorCode::CONNECTION_LOSS,
                    ErrorCode::SESSION_EXPIRED,
                    ErrorCode::SESSION_MOVED,
                    ErrorCode::AUTH_FAILED,
                    ErrorCode::THROTTLED_OP,
                    ErrorCode(1),
                    ErrorCode(-999),
                    ErrorCode(i32::MIN),
                ];
                let code = one_of(rng, &codes);
                let mut payload = payload.to_vec();
                if let Some(error) = payload.get_mut(ERROR) {
                    error.copy_from_slice(&code.0.to_be_bytes());
                }
                let keeps = rng.bool();
                if !keeps {
                    payload.truncate(ERROR.end);
                }
                let body = if keeps { "its body" } else { "no body" };
                (Act::Send(framed(&payload)), format!("the error {code} and {body}"))
            }
            Self::Event => {
                let kind = EventType(one_of(rng, &[-1, 1, 2, 3, 4, 5, 9, i32::MIN]));
                let state = KeeperState(one_of(rng, &[3, 3, 0, -112, 5, 99]));
                let path = one_of(rng, &["", "/", "/a", "/none", "a", "/a/\u{1f600}"]);
                let event = WatcherEvent { kind, state, path };
                let header =
                    ReplyHeader { xid: Xid::NOTIFICATION, zxid: Zxid(-1), error: ErrorCode::OK };
                let frame = framed(&[encoded(&header), encoded(&event)].concat());
                (Act::Send([frame, whole].concat()), format!("first {kind} {path:?} in {state}"))
            }
            Self::Reply => {
                let xid = Xid(one_of(rng, &[0, 1, 2, -1, -2, -4, -8, -9, i32::MAX, i32::MIN]));
                let error = one_of(rng, &[ErrorCode::OK, ErrorCode::NO_NODE, ErrorCode(7)]);
                let header = ReplyHeader { xid, zxid: Zxid(rng.i64(-1..9)), error };
                let frame = framed(&encoded(&header));
                (Act::Send([frame, whole].concat()), format!("first a reply {xid}, {error}"))
            }
            Self::Garbage => {
                let garbage: Vec<u8> = (0..rng.usize(1..40)).map(|_| rng.u8(..)).collect();
                let told = format!("first the bytes {}", hex::encode(&garbage));
                (Act::Send([garbage, whole].concat()), told)
            }
        }
    }
}

fn encoded(record: &impl Encode) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    record.encode(&mut Writer::new(&mut bytes, usize::MAX));
    bytes.to_vec()
}

/// A payload with its length in front.
pub(super) fn framed(payload: &[u8]) -> Vec<u8> {
    let length = i32::try_from(payload.len()).unwrap_or(i32::MAX);
    [&length.to_be_bytes()[..], payload].concat()
}
