//! The request and the reply of each operation.
//!
//! The type of a request determines the type of its reply, so the two cannot be mixed up. The reply
//! of an operation without a reply body is `()`.

use crate::acl::Acl;
use crate::codes::{AddWatchMode, CreateMode, WatcherType};
use crate::error::DecodeError;
use crate::jute::{Decode, Encode, List, Reader, Secret, Text, Writer, lists, record};
use crate::operations::OpCode;
use crate::stat::Stat;

/// A request record that is sent with one opcode.
pub trait Operation: Encode {
    /// The record of the reply.
    type Reply<'r>: Decode<'r>;

    /// The opcode of the request's header.
    fn op(&self) -> OpCode;
}

/// Pairs a request with its opcode and its reply.
macro_rules! operation {
    ($request:ident $(<$lt:lifetime>)? => $op:ident, $reply:ident $(<$rlt:lifetime>)?) => {
        impl Operation for $request $(<$lt>)? {
            type Reply<'r> = operation!(@reply $reply $($rlt)?);

            fn op(&self) -> OpCode {
                OpCode::$op
            }
        }
    };
    (@reply Empty) => { () };
    (@reply $reply:ident) => { $reply };
    (@reply $reply:ident $rlt:lifetime) => { $reply<$rlt> };
}
pub(crate) use operation;

impl<'a> Decode<'a> for () {
    #[inline]
    fn decode(_: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

impl Encode for () {
    #[inline]
    fn encode(&self, _: &mut Writer<'_>) {}
}

record! {
    /// create, create2 and createContainer: [`CreateRequest::mode`] decides between the latter two.
    /// With the opcode of the original create, 1, the same record is answered by a
    /// [`CreateResponse`]; no [`Operation`] uses that opcode.
    CreateRequest<'a> {
        /// The node to create; a sequential one gets ten digits appended.
        path: &'a str,
        /// Its data; null and empty are different values.
        data: Option<&'a [u8]>,
        /// Its access list, never empty.
        acl: List<'a, Acl<'a>>,
        /// The kind of node.
        mode: CreateMode,
    }
}

impl Operation for CreateRequest<'_> {
    type Reply<'r> = Create2Response<'r>;

    fn op(&self) -> OpCode {
        match self.mode {
            CreateMode::CONTAINER => OpCode::CREATE_CONTAINER,
            _ => OpCode::CREATE2,
        }
    }
}

record! {
    /// createTTL. A mode without a time to live must never be sent with this opcode: it makes
    /// servers of 3.9.3 fail permanently.
    CreateTtlRequest<'a> {
        /// The node to create.
        path: &'a str,
        /// Its data.
        data: Option<&'a [u8]>,
        /// Its access list.
        acl: List<'a, Acl<'a>>,
        /// One of the two modes with a time to live.
        mode: CreateMode,
        /// Milliseconds, from 1 to 2^40 - 1.
        ttl: i64,
    }
}
operation!(CreateTtlRequest<'_> => CREATE_TTL, Create2Response<'r>);

record! {
    /// Answers the original create.
    CreateResponse<'a> {
        /// The node's path, with the digits of a sequential one.
        path: &'a str,
    }
}

record! {
    /// Answers create2, createContainer and createTTL.
    Create2Response<'a> {
        /// The node's path, with the digits of a sequential one.
        path: &'a str,
        /// Its state as created.
        stat: Stat,
    }
}

record! {
    /// delete
    DeleteRequest<'a> {
        /// The node.
        path: &'a str,
        /// The version that it must have; -1 for any.
        version: i32,
    }
}
operation!(DeleteRequest<'_> => DELETE, Empty);

record! {
    /// deleteContainer: the request by which a leader deletes an empty container. Servers of 3.9
    /// accept it from clients too, and check no permission. Before 3.9.0 the body was the bare
    /// path.
    DeleteContainerRequest<'a> {
        /// The node.
        path: Text<'a>,
    }
}
operation!(DeleteContainerRequest<'_> => DELETE_CONTAINER, Empty);

record! {
    /// exists
    ExistsRequest<'a> {
        /// The node.
        path: &'a str,
        /// Whether to set a data watch, also on a node that is absent.
        watch: bool,
    }
}
operation!(ExistsRequest<'_> => EXISTS, ExistsResponse);

record! {
    /// Answers exists.
    ExistsResponse {
        /// The node's state.
        stat: Stat,
    }
}

record! {
    /// getData
    GetDataRequest<'a> {
        /// The node.
        path: &'a str,
        /// Whether to set a data watch if the node exists.
        watch: bool,
    }
}
operation!(GetDataRequest<'_> => GET_DATA, GetDataResponse<'r>);

record! {
    /// Answers getData and reconfig.
    GetDataResponse<'a> {
        /// The node's data.
        data: Option<&'a [u8]>,
        /// The node's state.
        stat: Stat,
    }
}

record! {
    /// setData
    SetDataRequest<'a> {
        /// The node.
        path: &'a str,
        /// Its new data.
        data: Option<&'a [u8]>,
        /// The version that it must have; -1 for any.
        version: i32,
    }
}
operation!(SetDataRequest<'_> => SET_DATA, SetDataResponse);

record! {
    /// Answers setData.
    SetDataResponse {
        /// The node's state after the write.
        stat: Stat,
    }
}

record! {
    /// getACL
    GetAclRequest<'a> {
        /// The node.
        path: &'a str,
    }
}
operation!(GetAclRequest<'_> => GET_ACL, GetAclResponse<'r>);

record! {
    /// Answers getACL.
    GetAclResponse<'a> {
        /// The access list; digests are masked for clients that may not change it.
        acl: List<'a, Acl<'a>>,
        /// The node's state.
        stat: Stat,
    }
}

record! {
    /// setACL
    SetAclRequest<'a> {
        /// The node.
        path: &'a str,
        /// Its new access list.
        acl: List<'a, Acl<'a>>,
        /// The `aversion` that the node must have; -1 for any.
        version: i32,
    }
}
operation!(SetAclRequest<'_> => SET_ACL, SetAclResponse);

record! {
    /// Answers setACL.
    SetAclResponse {
        /// The node's state after the change.
        stat: Stat,
    }
}

record! {
    /// getChildren
    GetChildrenRequest<'a> {
        /// The parent.
        path: &'a str,
        /// Whether to set a child watch if the parent exists.
        watch: bool,
    }
}
operation!(GetChildrenRequest<'_> => GET_CHILDREN, GetChildrenResponse<'r>);

record! {
    /// Answers getChildren.
    GetChildrenResponse<'a> {
        /// Names without the parent's path, in no order.
        children: List<'a, &'a str>,
    }
}

record! {
    /// getChildren2
    GetChildren2Request<'a> {
        /// The parent.
        path: &'a str,
        /// Whether to set a child watch if the parent exists.
        watch: bool,
    }
}
operation!(GetChildren2Request<'_> => GET_CHILDREN2, GetChildren2Response<'r>);

record! {
    /// Answers getChildren2.
    GetChildren2Response<'a> {
        /// Names without the parent's path, in no order.
        children: List<'a, &'a str>,
        /// The parent's state.
        stat: Stat,
    }
}

record! {
    /// sync
    SyncRequest<'a> {
        /// The server echoes the path and never reads it, so null is enough.
        path: Text<'a>,
    }
}
operation!(SyncRequest<'_> => SYNC, SyncResponse<'r>);

record! {
    /// Answers sync.
    SyncResponse<'a> {
        /// The path of the request.
        path: Text<'a>,
    }
}

record! {
    /// A ping has no body.
    PingRequest
}
operation!(PingRequest => PING, Empty);

record! {
    /// closeSession has no body. The server closes the connection after its reply.
    CloseSessionRequest
}
operation!(CloseSessionRequest => CLOSE_SESSION, Empty);

record! {
    /// check: only inside a multi. Outside of one, servers up to 3.9.2 corrupt their own log with
    /// it.
    CheckVersionRequest<'a> {
        /// The node.
        path: &'a str,
        /// The version that it must have; -1 for any.
        version: i32,
    }
}

record! {
    /// reconfig
    ReconfigRequest<'a> {
        /// Servers to add, or null.
        joining_servers: Text<'a>,
        /// Ids of servers to remove, or null.
        leaving_servers: Text<'a>,
        /// The whole new membership, or null.
        new_members: Text<'a>,
        /// The configuration to start from; -1 for any.
        cur_config_id: i64,
    }
}
operation!(ReconfigRequest<'_> => RECONFIG, GetDataResponse<'r>);

record! {
    /// getEphemerals
    GetEphemeralsRequest<'a> {
        /// Only paths that start with these characters; null, blank and `/` mean all.
        prefix_path: Text<'a>,
    }
}
operation!(GetEphemeralsRequest<'_> => GET_EPHEMERALS, GetEphemeralsResponse<'r>);

record! {
    /// Answers getEphemerals.
    GetEphemeralsResponse<'a> {
        /// Whole paths, in no order.
        ephemerals: List<'a, &'a str>,
    }
}

record! {
    /// getAllChildrenNumber
    GetAllChildrenNumberRequest<'a> {
        /// The ancestor.
        path: &'a str,
    }
}
operation!(
    GetAllChildrenNumberRequest<'_> => GET_ALL_CHILDREN_NUMBER, GetAllChildrenNumberResponse
);

record! {
    /// Answers getAllChildrenNumber.
    GetAllChildrenNumberResponse {
        /// Descendants at any depth.
        total_number: i32,
    }
}

record! {
    /// whoAmI has no body.
    WhoAmIRequest
}
operation!(WhoAmIRequest => WHO_AM_I, WhoAmIResponse<'r>);

record! {
    /// One identity of a connection.
    ClientInfo<'a> {
        /// The scheme by which it was established.
        auth_scheme: Text<'a>,
        /// The user; a digest shows only the name.
        user: Text<'a>,
    }
}

lists! {
    ClientInfo<'a> => &[
        ClientInfo { auth_scheme: Text::new("ip"), user: Text::new("127.0.0.1") },
        ClientInfo { auth_scheme: Text::NULL, user: Text::NULL },
        ClientInfo { auth_scheme: Text::from_bytes(b"\xed\xa0"), user: Text::new("") },
    ];
}

record! {
    /// Answers whoAmI.
    WhoAmIResponse<'a> {
        /// Every identity of this connection.
        client_info: List<'a, ClientInfo<'a>>,
    }
}

record! {
    /// auth: sent with the xid -4.
    AuthPacket<'a> {
        /// 0.
        kind: i32,
        /// How the identity is established.
        scheme: Text<'a>,
        /// The proof, in the scheme's own form.
        auth: Secret<'a>,
    }
}
operation!(AuthPacket<'_> => AUTH, Empty);

record! {
    /// A step of SASL from the client.
    GetSaslRequest<'a> {
        /// Empty in the first step.
        token: Secret<'a>,
    }
}
operation!(GetSaslRequest<'_> => SASL, SetSaslResponse<'r>);

record! {
    /// A step of SASL from the server.
    SetSaslResponse<'a> {
        /// Null if the server has no SASL, or refuses.
        token: Secret<'a>,
    }
}

record! {
    /// checkWatches
    CheckWatchesRequest<'a> {
        /// The path of the watch.
        path: &'a str,
        /// The kind of watch.
        kind: WatcherType,
    }
}
operation!(CheckWatchesRequest<'_> => CHECK_WATCHES, Empty);

record! {
    /// removeWatches
    RemoveWatchesRequest<'a> {
        /// The path of the watch.
        path: &'a str,
        /// The kind of watch.
        kind: WatcherType,
    }
}
operation!(RemoveWatchesRequest<'_> => REMOVE_WATCHES, Empty);

record! {
    /// addWatch
    AddWatchRequest<'a> {
        /// The path of the watch; the node need not exist.
        path: &'a str,
        /// The node alone, or its whole subtree.
        mode: AddWatchMode,
    }
}
operation!(AddWatchRequest<'_> => ADD_WATCH, ErrorResponse);

record! {
    /// Answers addWatch, and is the body of a failed entry of a multi.
    ErrorResponse {
        /// 0 on success.
        error: crate::codes::ErrorCode,
    }
}
