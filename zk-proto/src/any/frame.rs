//! One payload of either side, decoded by what the caller knows of it.
//!
//! A frame keeps the bytes that it was made of. Its message is a view of them, and its fields are
//! read from them again, so neither a lenient decoder nor an unknown record changes what is
//! encoded.

use crate::any::operations::{Reply, Request};
use crate::codes::ErrorCode;
use crate::connect::{ConnectRequest, ConnectResponse};
use crate::error::DecodeError;
use crate::header::{ReplyHeader, RequestHeader, Xid};
use crate::jute::{Decode, Encode, Field, Inspect, Name, Reader, Value, Walk, Writer};
use crate::operations::OpCode;
use crate::watch::WatcherEvent;

/// How many fields [`Frame::fields`] returns at most.
///
/// A list may have a field for every four bytes of a frame, each of which takes many times that in
/// memory. The bytes behind the last field are one more field, named `rest`.
pub const FIELD_LIMIT: usize = 1 << 16;

/// The only operation that is answered with an error and a body: a server that refuses a step of
/// SASL sends a null token behind the error.
const ANSWERS_ERRORS_WITH_A_BODY: OpCode = OpCode::SASL;

/// A payload and what it says.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    payload: RawPayload<'a>,
    message: Message<'a>,
    /// The operation of a request or a reply.
    op: Option<OpCode>,
    /// Bytes behind the message.
    trailing: usize,
    exposes_secrets: bool,
}

/// The bytes of a payload; `Debug` shows only how many, because they may hold a secret.
#[derive(Clone, Copy)]
struct RawPayload<'a>(&'a [u8]);

impl std::fmt::Debug for RawPayload<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// The records of a payload.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Message<'a> {
    /// The first payload of a client.
    ConnectRequest(ConnectRequest),
    /// The first payload of a server.
    ConnectResponse(ConnectResponse),
    /// A request.
    Request(RequestHeader, Request<'a>),
    /// A reply.
    Reply(ReplyHeader, Reply<'a>),
    /// A watch event.
    Notification(ReplyHeader, WatcherEvent<'a>),
}

impl<'a> Frame<'a> {
    /// Decodes the first payload of a client.
    pub fn connect_request(payload: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode(payload, None, |reader| {
            ConnectRequest::decode(reader).map(Message::ConnectRequest)
        })
    }

    /// Decodes the first payload of a server.
    pub fn connect_response(payload: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode(payload, None, |reader| {
            ConnectResponse::decode(reader).map(Message::ConnectResponse)
        })
    }

    /// Decodes a payload of a client after the first.
    pub fn request(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let op = RequestHeader::decode(&mut Reader::new(payload))?.op;
        Self::decode(payload, Some(op), |reader| {
            let header = RequestHeader::decode(reader)?;
            Ok(Message::Request(header, Request::decode(op, reader)?))
        })
    }

    /// Decodes the reply to a request with the opcode `op`.
    pub fn reply(payload: &'a [u8], op: OpCode) -> Result<Self, DecodeError> {
        Self::decode(payload, Some(op), |reader| {
            let header = ReplyHeader::decode(reader)?;
            let has_body = header.error == ErrorCode::OK
                || op == ANSWERS_ERRORS_WITH_A_BODY && reader.remaining() > 0;
            let body = if has_body { Reply::decode(op, reader)? } else { Reply::Failed };
            Ok(Message::Reply(header, body))
        })
    }

    /// Decodes a watch event.
    pub fn notification(payload: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode(payload, None, |reader| {
            let header = ReplyHeader::decode(reader)?;
            Ok(Message::Notification(header, WatcherEvent::decode(reader)?))
        })
    }

    /// Decodes a payload of a server after the first: a notification, or the reply to the request
    /// whose opcode `op_of` returns.
    ///
    /// The reply to a request that `op_of` does not know has an unknown body.
    ///
    /// ```
    /// use zk_proto::{OpCode, Xid, any::Frame};
    ///
    /// let payload = b"\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00";
    /// let frame = Frame::from_server(payload, |xid| (xid == Xid(7)).then_some(OpCode::DELETE))?;
    /// assert_eq!(frame.to_string(), "delete Ok zxid=0x9");
    /// # Ok::<(), zk_proto::DecodeError>(())
    /// ```
    pub fn from_server(
        payload: &'a [u8],
        op_of: impl FnOnce(Xid) -> Option<OpCode>,
    ) -> Result<Self, DecodeError> {
        match Xid::decode(&mut Reader::new(payload))? {
            Xid::NOTIFICATION => Self::notification(payload),
            xid => match op_of(xid) {
                Some(op) => Self::reply(payload, op),
                None => Self::reply_to_unknown(payload),
            },
        }
    }

    fn reply_to_unknown(payload: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode(payload, None, |reader| {
            let header = ReplyHeader::decode(reader)?;
            let body = match header.error {
                ErrorCode::OK => Reply::Unknown(reader.take_rest()),
                _ => Reply::Failed,
            };
            Ok(Message::Reply(header, body))
        })
    }

    fn decode(
        payload: &'a [u8],
        op: Option<OpCode>,
        message: impl FnOnce(&mut Reader<'a>) -> Result<Message<'a>, DecodeError>,
    ) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let message = message(&mut reader)?;
        let trailing = reader.remaining();
        Ok(Self { payload: RawPayload(payload), message, op, trailing, exposes_secrets: false })
    }

    /// Returns the same frame, but one that shows passwords and other proofs as they are.
    pub fn exposing_secrets(self) -> Self {
        Self { exposes_secrets: true, ..self }
    }

    /// Returns the bytes that the frame was made of.
    pub fn payload(&self) -> &'a [u8] {
        self.payload.0
    }

    /// Returns the records of the frame.
    pub fn message(&self) -> &Message<'a> {
        &self.message
    }

    /// Returns the operation of a request or a reply. It is `None` for a handshake, a notification,
    /// and the reply to an unknown request.
    pub fn op(&self) -> Option<OpCode> {
        self.op
    }

    /// Returns the number of the request, or of the one that is answered; a handshake has none.
    pub fn xid(&self) -> Option<Xid> {
        match &self.message {
            Message::Request(header, _) => Some(header.xid),
            Message::Reply(header, _) | Message::Notification(header, _) => Some(header.xid),
            Message::ConnectRequest(_) | Message::ConnectResponse(_) => None,
        }
    }

    /// Returns the path of a request or of what answers it; a multi has none of its own.
    pub fn path(&self) -> Option<&'a str> {
        let mut path = None;
        self.visit(&mut |field| {
            if let (1, Name::Field("path"), Value::Text(text)) =
                (field.depth, field.name, field.value)
            {
                path = text.as_str();
            }
            path.is_none()
        });
        path
    }

    /// Returns the bytes behind the records, which a newer peer may have appended.
    pub fn trailing(&self) -> &'a [u8] {
        let payload = self.payload();
        payload.get(payload.len() - self.trailing..).unwrap_or_default()
    }

    /// Returns the fields in the order of their bytes, at most [`FIELD_LIMIT`] and one more.
    ///
    /// A header and a body are records at depth 0. Bytes without a record are a last field at depth
    /// 0, named `body` if the operation is unknown, `trailing` behind a whole message, and `rest`
    /// behind too many fields.
    pub fn fields(&self) -> Vec<Field<'a>> {
        let mut fields = Vec::new();
        self.visit(&mut |field| {
            let takes = fields.len() < FIELD_LIMIT || matches!(field.value, Value::Unknown(_));
            if takes {
                fields.push(field);
            }
            takes
        });
        fields
    }

    /// Visits the fields until `visit` returns false, and then the remaining bytes as one field.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(Field<'a>) -> bool) {
        let mut walk = Walk::new(self.payload(), self.exposes_secrets, visit);
        let header = Name::Field("header");
        let body = Name::Field("body");
        let walked = match &self.message {
            Message::ConnectRequest(_) => ConnectRequest::inspect(&mut walk, body),
            Message::ConnectResponse(_) => ConnectResponse::inspect(&mut walk, body),
            Message::Notification(..) => ReplyHeader::inspect(&mut walk, header)
                .and_then(|()| WatcherEvent::inspect(&mut walk, body)),
            Message::Request(_, request) => {
                RequestHeader::inspect(&mut walk, header).and_then(|()| request.inspect(&mut walk))
            }
            Message::Reply(_, reply) => {
                ReplyHeader::inspect(&mut walk, header).and_then(|()| reply.inspect(&mut walk))
            }
        };
        walk.rest(if walked.is_some() { "trailing" } else { "rest" });
    }
}

/// The payload as it was read, without the length in front of it.
impl Encode for Frame<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.put(self.payload());
    }
}

/// The records alone, in the form that this crate gives them.
///
/// It differs from what was read where a record has several forms: a boolean that is neither 0 nor
/// 1, a count below -1, and a null password.
impl Encode for Message<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::ConnectRequest(record) => record.encode(writer),
            Self::ConnectResponse(record) => record.encode(writer),
            Self::Request(header, body) => {
                header.encode(writer);
                body.encode(writer);
            }
            Self::Reply(header, body) => {
                header.encode(writer);
                body.encode(writer);
            }
            Self::Notification(header, event) => {
                header.encode(writer);
                event.encode(writer);
            }
        }
    }
}
