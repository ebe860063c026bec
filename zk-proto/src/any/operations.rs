//! Every operation with its request and its reply, in one table.
//!
//! A new operation is one entry here, behind its records.

use crate::codes::OpCode;
use crate::error::DecodeError;
use crate::jute::{Decode, Encode, Inspect, Name, Reader, Walk, Writer};
use crate::multi::{MultiRequest, MultiResponse};
use crate::ops::{
    AddWatchRequest, AuthPacket, CheckVersionRequest, CheckWatchesRequest, CloseSessionRequest,
    Create2Response, CreateRequest, CreateResponse, CreateTtlRequest, DeleteContainerRequest,
    DeleteRequest, ErrorResponse, ExistsRequest, ExistsResponse, GetAclRequest, GetAclResponse,
    GetAllChildrenNumberRequest, GetAllChildrenNumberResponse, GetChildren2Request,
    GetChildren2Response, GetChildrenRequest, GetChildrenResponse, GetDataRequest, GetDataResponse,
    GetEphemeralsRequest, GetEphemeralsResponse, GetSaslRequest, PingRequest, ReconfigRequest,
    RemoveWatchesRequest, SetAclRequest, SetAclResponse, SetDataRequest, SetDataResponse,
    SetSaslResponse, SyncRequest, SyncResponse, WhoAmIRequest, WhoAmIResponse,
};
use crate::watch::{SetWatches, SetWatches2};

/// The name of the field that holds the record behind a header.
const BODY: &str = "body";

/// Declares [`Request`] and [`Reply`], with a variant for each operation.
macro_rules! operations {
    ($($(#[$note:meta])* $op:ident, $variant:ident: $request:ty => $reply:ty;)*) => {
        /// The body of a request.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Request<'a> {
            $($(#[$note])* $variant($request),)*
            /// The body of an operation that this crate does not know.
            Unknown(&'a [u8]),
        }

        /// The body of a reply.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Reply<'a> {
            $($(#[$note])* $variant($reply),)*
            /// A reply with an error, which has no body.
            Failed,
            /// The body of the reply to an operation that this crate does not know.
            Unknown(&'a [u8]),
        }

        impl<'a> Request<'a> {
            pub(crate) fn decode(op: OpCode, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                match op {
                    $(OpCode::$op => Decode::decode(reader).map(Self::$variant),)*
                    _ => Ok(Self::Unknown(reader.take_rest())),
                }
            }

            pub(crate) fn inspect(&self, walk: &mut Walk<'a, '_>) -> Option<()> {
                match self {
                    $(Self::$variant(_) => <$request>::inspect(walk, Name::Field(BODY)),)*
                    Self::Unknown(_) => Some(walk.rest(BODY)),
                }
            }
        }

        impl<'a> Reply<'a> {
            pub(crate) fn decode(op: OpCode, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                match op {
                    $(OpCode::$op => Decode::decode(reader).map(Self::$variant),)*
                    _ => Ok(Self::Unknown(reader.take_rest())),
                }
            }

            pub(crate) fn inspect(&self, walk: &mut Walk<'a, '_>) -> Option<()> {
                match self {
                    $(Self::$variant(_) => <$reply>::inspect(walk, Name::Field(BODY)),)*
                    Self::Failed => Some(()),
                    Self::Unknown(_) => Some(walk.rest(BODY)),
                }
            }
        }

        impl Encode for Request<'_> {
            fn encode(&self, writer: &mut Writer<'_>) {
                match self {
                    $(Self::$variant(record) => record.encode(writer),)*
                    Self::Unknown(bytes) => writer.put(bytes),
                }
            }
        }

        impl Encode for Reply<'_> {
            fn encode(&self, writer: &mut Writer<'_>) {
                match self {
                    $(Self::$variant(record) => record.encode(writer),)*
                    Self::Failed => {}
                    Self::Unknown(bytes) => writer.put(bytes),
                }
            }
        }
    };
}

operations! {
    /// create
    CREATE, Create: CreateRequest<'a> => CreateResponse<'a>;
    /// create2
    CREATE2, Create2: CreateRequest<'a> => Create2Response<'a>;
    /// createContainer
    CREATE_CONTAINER, CreateContainer: CreateRequest<'a> => Create2Response<'a>;
    /// createTTL
    CREATE_TTL, CreateTtl: CreateTtlRequest<'a> => Create2Response<'a>;
    /// delete
    DELETE, Delete: DeleteRequest<'a> => ();
    /// deleteContainer
    DELETE_CONTAINER, DeleteContainer: DeleteContainerRequest<'a> => ();
    /// exists
    EXISTS, Exists: ExistsRequest<'a> => ExistsResponse;
    /// getData
    GET_DATA, GetData: GetDataRequest<'a> => GetDataResponse<'a>;
    /// setData
    SET_DATA, SetData: SetDataRequest<'a> => SetDataResponse;
    /// getACL
    GET_ACL, GetAcl: GetAclRequest<'a> => GetAclResponse<'a>;
    /// setACL
    SET_ACL, SetAcl: SetAclRequest<'a> => SetAclResponse;
    /// getChildren
    GET_CHILDREN, GetChildren: GetChildrenRequest<'a> => GetChildrenResponse<'a>;
    /// getChildren2
    GET_CHILDREN2, GetChildren2: GetChildren2Request<'a> => GetChildren2Response<'a>;
    /// sync
    SYNC, Sync: SyncRequest<'a> => SyncResponse<'a>;
    /// ping
    PING, Ping: PingRequest => ();
    /// check, which belongs into a multi
    CHECK, Check: CheckVersionRequest<'a> => ();
    /// multi
    MULTI, Multi: MultiRequest<'a> => MultiResponse<'a>;
    /// multiRead
    MULTI_READ, MultiRead: MultiRequest<'a> => MultiResponse<'a>;
    /// reconfig
    RECONFIG, Reconfig: ReconfigRequest<'a> => GetDataResponse<'a>;
    /// checkWatches
    CHECK_WATCHES, CheckWatches: CheckWatchesRequest<'a> => ();
    /// removeWatches
    REMOVE_WATCHES, RemoveWatches: RemoveWatchesRequest<'a> => ();
    /// addWatch
    ADD_WATCH, AddWatch: AddWatchRequest<'a> => ErrorResponse;
    /// setWatches
    SET_WATCHES, SetWatches: SetWatches<'a> => ();
    /// setWatches2
    SET_WATCHES2, SetWatches2: SetWatches2<'a> => ();
    /// getEphemerals
    GET_EPHEMERALS, GetEphemerals: GetEphemeralsRequest<'a> => GetEphemeralsResponse<'a>;
    /// getAllChildrenNumber
    GET_ALL_CHILDREN_NUMBER, GetAllChildrenNumber:
        GetAllChildrenNumberRequest<'a> => GetAllChildrenNumberResponse;
    /// whoAmI
    WHO_AM_I, WhoAmI: WhoAmIRequest => WhoAmIResponse<'a>;
    /// auth
    AUTH, Auth: AuthPacket<'a> => ();
    /// A step of SASL.
    SASL, Sasl: GetSaslRequest<'a> => SetSaslResponse<'a>;
    /// closeSession
    CLOSE_SESSION, CloseSession: CloseSessionRequest => ();
}
