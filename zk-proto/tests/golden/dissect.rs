//! A payload taken apart by its direction and opcode, down to the last byte.

use bytes::BytesMut;
use serde_json::{Map, Value};
use zk_proto::*;

use crate::frames::{Direction, Frame};
use crate::shown;

/// The only error of a server that has a body behind it: a refused step of SASL carries a null
/// token, which a client ignores.
const BODIES_BEHIND_ERRORS: &[&str] = &["sasl_wrong_password_rsp"];

/// The original create goes out under an opcode that no request record of this side has: create2
/// does the same and answers more.
const OPCODE_OF_NO_OPERATION: OpCode = OpCode::CREATE;

/// What a payload holds.
#[derive(Default)]
pub(crate) struct Dissected {
    /// Record name to fields, as in the vectors.
    pub(crate) json: Map<String, Value>,
    /// The records encoded again.
    pub(crate) wire: BytesMut,
}

/// Reads a payload as what `frame` says it is; bytes left over are an error.
///
/// Panics if there is no record for it.
pub(crate) fn dissect(frame: &Frame, payload: &[u8]) -> Result<Dissected, DecodeError> {
    let mut dissector = Dissector { reader: Reader::new(payload), seen: Dissected::default() };
    match frame.direction {
        Direction::Request => dissector.request(frame)?,
        Direction::Reply => dissector.reply(frame)?,
        Direction::Notification => dissector.notification()?,
    }
    match dissector.reader.remaining() {
        0 => Ok(dissector.seen),
        left => Err(DecodeError::TrailingBytes(left)),
    }
}

struct Dissector<'a> {
    reader: Reader<'a>,
    seen: Dissected,
}

impl<'a> Dissector<'a> {
    /// Reads a record, shows it under `name` and encodes it again.
    fn record<T: Decode<'a> + Encode>(
        &mut self,
        name: &str,
        shown: fn(&T) -> Value,
    ) -> Result<T, DecodeError> {
        let record = T::decode(&mut self.reader)?;
        self.seen.json.insert(name.to_owned(), shown(&record));
        record.encode(&mut Writer::new(&mut self.seen.wire, usize::MAX));
        Ok(record)
    }

    /// A record that goes out under the opcode `op`.
    fn operation<T: Decode<'a> + Operation>(
        &mut self,
        op: OpCode,
        name: &str,
        shown: fn(&T) -> Value,
    ) -> Result<(), DecodeError> {
        let operation = self.record(name, shown)?;
        if op != OPCODE_OF_NO_OPERATION {
            assert_eq!(operation.op(), op, "{name}");
        }
        Ok(())
    }

    /// A request that is a header and nothing else.
    fn header_only<T: Decode<'a> + Operation>(&mut self, op: OpCode) -> Result<(), DecodeError> {
        let before = self.reader.remaining();
        assert_eq!(T::decode(&mut self.reader)?.op(), op);
        assert_eq!(self.reader.remaining(), before);
        Ok(())
    }

    fn request(&mut self, frame: &Frame) -> Result<(), DecodeError> {
        if frame.opcode.is_none() {
            return self.record("ConnectRequest", shown::connect_request).map(drop);
        }
        let op = self.record("RequestHeader", shown::request_header)?.op;
        assert_eq!(Some(op.0), frame.opcode, "{}", frame.name);
        match op {
            OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER => {
                self.operation(op, "CreateRequest", shown::create_request)
            }
            OpCode::CREATE_TTL => self.operation(op, "CreateTTLRequest", shown::create_ttl_request),
            OpCode::DELETE => self.operation(op, "DeleteRequest", shown::delete_request),
            OpCode::EXISTS => self.operation(op, "ExistsRequest", shown::exists_request),
            OpCode::GET_DATA => self.operation(op, "GetDataRequest", shown::get_data_request),
            OpCode::SET_DATA => self.operation(op, "SetDataRequest", shown::set_data_request),
            OpCode::GET_ACL => self.operation(op, "GetACLRequest", shown::get_acl_request),
            OpCode::SET_ACL => self.operation(op, "SetACLRequest", shown::set_acl_request),
            OpCode::GET_CHILDREN => {
                self.operation(op, "GetChildrenRequest", shown::get_children_request)
            }
            OpCode::GET_CHILDREN2 => {
                self.operation(op, "GetChildren2Request", shown::get_children2_request)
            }
            OpCode::SYNC => self.operation(op, "SyncRequest", shown::sync_request),
            OpCode::PING => self.header_only::<PingRequest>(op),
            OpCode::CLOSE_SESSION => self.header_only::<CloseSessionRequest>(op),
            OpCode::WHO_AM_I => self.header_only::<WhoAmIRequest>(op),
            OpCode::CHECK => {
                self.record("CheckVersionRequest", shown::check_version_request).map(drop)
            }
            OpCode::MULTI | OpCode::MULTI_READ => {
                let multi = self.record("Multi", shown::multi_request)?;
                assert_eq!(multi.op(), op, "{}", frame.name);
                let entries: Vec<_> = multi.iter().collect();
                assert_same(&frame.name, &multi, &MultiList::new(&entries));
                Ok(())
            }
            OpCode::RECONFIG => self.operation(op, "ReconfigRequest", shown::reconfig_request),
            OpCode::CHECK_WATCHES => {
                self.operation(op, "CheckWatchesRequest", shown::check_watches_request)
            }
            OpCode::REMOVE_WATCHES => {
                self.operation(op, "RemoveWatchesRequest", shown::remove_watches_request)
            }
            OpCode::ADD_WATCH => self.operation(op, "AddWatchRequest", shown::add_watch_request),
            OpCode::AUTH => self.operation(op, "AuthPacket", shown::auth_packet),
            OpCode::SASL => self.operation(op, "GetSASLRequest", shown::get_sasl_request),
            OpCode::SET_WATCHES => self.operation(op, "SetWatches", shown::set_watches),
            OpCode::SET_WATCHES2 => self.operation(op, "SetWatches2", shown::set_watches2),
            OpCode::GET_EPHEMERALS => {
                self.operation(op, "GetEphemeralsRequest", shown::get_ephemerals_request)
            }
            OpCode::GET_ALL_CHILDREN_NUMBER => self.operation(
                op,
                "GetAllChildrenNumberRequest",
                shown::get_all_children_number_request,
            ),
            other => panic!("{}: no request record for {other}", frame.name),
        }
    }

    /// The body of the reply to `T`: the two are paired by their types, so that a wrong pair does
    /// not compile.
    fn reply_to<T: Operation>(
        &mut self,
        name: &str,
        shown: fn(&T::Reply<'a>) -> Value,
    ) -> Result<(), DecodeError>
    where
        T::Reply<'a>: Encode,
    {
        self.record(name, shown).map(drop)
    }

    /// The reply to `T`, which is a header and nothing else.
    fn no_reply_to<T: for<'r> Operation<Reply<'r> = ()>>(&mut self) -> Result<(), DecodeError> {
        <T::Reply<'a>>::decode(&mut self.reader)
    }

    fn reply(&mut self, frame: &Frame) -> Result<(), DecodeError> {
        let Some(opcode) = frame.opcode else {
            return self.record("ConnectResponse", shown::connect_response).map(drop);
        };
        let error = self.record("ReplyHeader", shown::reply_header)?.error;
        if error != ErrorCode::OK && !BODIES_BEHIND_ERRORS.contains(&frame.name.as_str()) {
            return Ok(());
        }
        match OpCode(opcode) {
            OpCode::CREATE => self.record("CreateResponse", shown::create_response).map(drop),
            OpCode::CREATE2 | OpCode::CREATE_CONTAINER => {
                self.reply_to::<CreateRequest<'_>>("Create2Response", shown::create2_response)
            }
            OpCode::CREATE_TTL => {
                self.reply_to::<CreateTtlRequest<'_>>("Create2Response", shown::create2_response)
            }
            OpCode::EXISTS => {
                self.reply_to::<ExistsRequest<'_>>("ExistsResponse", shown::exists_response)
            }
            OpCode::GET_DATA => {
                self.reply_to::<GetDataRequest<'_>>("GetDataResponse", shown::get_data_response)
            }
            OpCode::SET_DATA => {
                self.reply_to::<SetDataRequest<'_>>("SetDataResponse", shown::set_data_response)
            }
            OpCode::GET_ACL => {
                self.reply_to::<GetAclRequest<'_>>("GetACLResponse", shown::get_acl_response)
            }
            OpCode::SET_ACL => {
                self.reply_to::<SetAclRequest<'_>>("SetACLResponse", shown::set_acl_response)
            }
            OpCode::GET_CHILDREN => self.reply_to::<GetChildrenRequest<'_>>(
                "GetChildrenResponse",
                shown::get_children_response,
            ),
            OpCode::GET_CHILDREN2 => self.reply_to::<GetChildren2Request<'_>>(
                "GetChildren2Response",
                shown::get_children2_response,
            ),
            OpCode::SYNC => self.reply_to::<SyncRequest<'_>>("SyncResponse", shown::sync_response),
            OpCode::MULTI | OpCode::MULTI_READ => {
                let multi: <MultiRequest<'_> as Operation>::Reply<'_> =
                    self.record("MultiResponse", shown::multi_response)?;
                let entries: Vec<_> = multi.iter().collect();
                assert_same(&frame.name, &multi, &MultiList::new(&entries));
                Ok(())
            }
            OpCode::RECONFIG => {
                self.reply_to::<ReconfigRequest<'_>>("GetDataResponse", shown::get_data_response)
            }
            OpCode::ADD_WATCH => {
                self.reply_to::<AddWatchRequest<'_>>("ErrorResponse", shown::error_response)
            }
            OpCode::SASL => {
                self.reply_to::<GetSaslRequest<'_>>("SetSASLResponse", shown::set_sasl_response)
            }
            OpCode::GET_EPHEMERALS => self.reply_to::<GetEphemeralsRequest<'_>>(
                "GetEphemeralsResponse",
                shown::get_ephemerals_response,
            ),
            OpCode::GET_ALL_CHILDREN_NUMBER => self.reply_to::<GetAllChildrenNumberRequest<'_>>(
                "GetAllChildrenNumberResponse",
                shown::get_all_children_number_response,
            ),
            OpCode::WHO_AM_I => {
                self.reply_to::<WhoAmIRequest>("WhoAmIResponse", shown::who_am_i_response)
            }
            OpCode::DELETE => self.no_reply_to::<DeleteRequest<'_>>(),
            OpCode::PING => self.no_reply_to::<PingRequest>(),
            OpCode::CLOSE_SESSION => self.no_reply_to::<CloseSessionRequest>(),
            OpCode::CHECK_WATCHES => self.no_reply_to::<CheckWatchesRequest<'_>>(),
            OpCode::REMOVE_WATCHES => self.no_reply_to::<RemoveWatchesRequest<'_>>(),
            OpCode::AUTH => self.no_reply_to::<AuthPacket<'_>>(),
            OpCode::SET_WATCHES => self.no_reply_to::<SetWatches<'_>>(),
            OpCode::SET_WATCHES2 => self.no_reply_to::<SetWatches2<'_>>(),
            other => panic!("{}: no reply record for {other}", frame.name),
        }
    }

    fn notification(&mut self) -> Result<(), DecodeError> {
        let header = self.record("ReplyHeader", shown::reply_header)?;
        assert_eq!((header.xid, header.error), (Xid::NOTIFICATION, ErrorCode::OK));
        self.record("WatcherEvent", shown::watcher_event).map(drop)
    }
}

/// A decoded multi encodes by copying its bytes; one built of its entries must come to the same.
fn assert_same(name: &str, copied: &impl Encode, built: &impl Encode) {
    let encoded = |value: &dyn Fn(&mut Writer<'_>)| {
        let mut wire = BytesMut::new();
        value(&mut Writer::new(&mut wire, usize::MAX));
        wire
    };
    assert_eq!(encoded(&|out| copied.encode(out)), encoded(&|out| built.encode(out)), "{name}");
}
