//! The headers of all requests and replies after the handshake.

use std::fmt;

use crate::codes::ErrorCode;
use crate::error::DecodeError;
use crate::jute::{Decode, Encode, Reader, Value, Writer, leaf, record};
use crate::operations::OpCode;

/// A request's number, chosen by the client and echoed by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "an integer of the wire")]
pub struct Xid(pub i32);

impl Xid {
    /// A watch event, which answers no request.
    pub const NOTIFICATION: Self = Self(-1);
    /// A ping; the server answers with this number, whatever number the ping had.
    pub const PING: Self = Self(-2);
    /// An auth request; its reply may come before those of earlier requests.
    pub const AUTH: Self = Self(-4);
    /// A setWatches request, as the C client numbers it.
    pub const SET_WATCHES: Self = Self(-8);
    /// The first ordinary request.
    pub const FIRST: Self = Self(1);

    /// The number after this one among ordinary requests: 1 follows 2^31 - 1.
    pub const fn next(self) -> Self {
        if self.0 < 1 || self.0 == i32::MAX { Self::FIRST } else { Self(self.0 + 1) }
    }
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'a> Decode<'a> for Xid {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        i32::decode(reader).map(Self)
    }
}

impl Encode for Xid {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        self.0.encode(writer);
    }
}

/// The number of a transaction, in the ensemble's total order of changes.
///
/// The high 32 bits are the leader's epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "an integer of the wire")]
pub struct Zxid(pub i64);

impl fmt::Display for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl<'a> Decode<'a> for Zxid {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        i64::decode(reader).map(Self)
    }
}

impl Encode for Zxid {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        self.0.encode(writer);
    }
}

leaf! {
    Xid => |xid: Self| Value::Number(xid.0.into());
    Zxid => |zxid: Self| Value::Hex(zxid.0);
}

record! {
    /// The header of a request.
    RequestHeader {
        /// The number that the reply repeats.
        xid: Xid,
        /// The operation, which decides the record that follows.
        op: OpCode,
    }
}

record! {
    /// The header of a reply. If [`ReplyHeader::error`] is not `OK`, a client ignores what follows.
    ReplyHeader {
        /// The number of the request, or one of the negative constants of [`Xid`].
        xid: Xid,
        /// A write's own transaction, or the last one that the server had applied; 0 or -1 if the
        /// server did not look it up.
        zxid: Zxid,
        /// The result of the request.
        error: ErrorCode,
    }
}
