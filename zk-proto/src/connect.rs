//! The handshake: the only frames without a header.
//!
//! Both records end in a `readOnly` byte that the oldest peers omit; a server omits it in its
//! response exactly when the request had none.

use std::fmt;

use crate::error::DecodeError;
use crate::header::Zxid;
use crate::jute::{
    Decode, Encode, Inspect, Name, Reader, Secret, Value, Walk, Writer, leaf, record,
};

/// The id of a session; 0 asks for a new session.
///
/// It is opaque, and negative for servers with a high id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "an integer of the wire")]
pub struct SessionId(pub i64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The password of a session. `Debug` does not show it.
///
/// Servers make passwords of 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Password {
    bytes: [u8; Password::LEN],
    len: u8,
}

impl Password {
    /// The length of a password, as every server makes it.
    ///
    /// A client sends as many zeros for a new session.
    pub const LEN: usize = 16;

    /// Sixteen zero bytes: a client sends them for a new session, and a server for an expired one.
    pub const ZERO: Self = Self { bytes: [0; Self::LEN], len: Self::LEN as u8 };

    /// Makes a password of at most [`Password::LEN`] bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut password = Self::default();
        let error = DecodeError::PasswordTooLong(bytes.len());
        password.bytes.get_mut(..bytes.len()).ok_or(error)?.copy_from_slice(bytes);
        password.len = bytes.len() as u8;
        Ok(password)
    }

    /// Returns the bytes of the password.
    pub fn expose(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// A null password is decoded as an empty one, which is how servers treat it.
impl<'a> Decode<'a> for Password {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Self::new(Option::<&[u8]>::decode(reader)?.unwrap_or_default())
    }
}

impl Encode for Password {
    fn encode(&self, writer: &mut Writer<'_>) {
        Some(self.expose()).encode(writer);
    }
}

record! {
    /// The first frame of a client.
    ConnectRequest {
        /// 0; servers ignore it.
        protocol_version: i32,
        /// The highest zxid this client has seen. A server that has not applied it yet closes the
        /// connection.
        last_zxid_seen: Zxid,
        /// The requested session timeout in milliseconds.
        timeout: i32,
        /// The session to resume, or 0 for a new one.
        session_id: SessionId,
        /// The password of that session.
        password: Password,
        /// Whether a read-only server is acceptable; absent from the oldest clients.
        read_only: Option<bool>,
    }
}

record! {
    /// The first frame of a server.
    ConnectResponse {
        /// 0.
        protocol_version: i32,
        /// The session timeout that the server grants, in milliseconds; 0 or less means that the
        /// session is over.
        timeout: i32,
        /// The session, or 0 if it is over.
        session_id: SessionId,
        /// The password of the session.
        password: Password,
        /// Whether this server is read-only; absent if the request had no such byte.
        read_only: Option<bool>,
    }
}

impl ConnectResponse {
    /// Whether the server reports that the session is over.
    pub const fn is_expired(&self) -> bool {
        self.timeout <= 0 || self.session_id.0 == 0
    }
}

/// A boolean at the end of a record, which older peers omit.
impl<'a> Decode<'a> for Option<bool> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        if reader.remaining() == 0 { Ok(None) } else { bool::decode(reader).map(Some) }
    }
}

impl Encode for Option<bool> {
    fn encode(&self, writer: &mut Writer<'_>) {
        if let Some(value) = self {
            value.encode(writer);
        }
    }
}

impl<'a> Decode<'a> for SessionId {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        i64::decode(reader).map(Self)
    }
}

impl Encode for SessionId {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        self.0.encode(writer);
    }
}

leaf! {
    SessionId => |id: Self| Value::Hex(id.0);
}

/// A password is kept in the record, so the walk reads the same bytes as a secret that is borrowed.
impl<'a> Inspect<'a> for Password {
    fn inspect(walk: &mut Walk<'a, '_>, name: Name) -> Option<()> {
        Secret::inspect(walk, name)
    }
}
