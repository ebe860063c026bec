//! Tests the codec's two directions against each other, starting with values: a value that can be
//! built must survive encoding and decoding.
//!
//! Bytes that are decoded first can only contain what the reader allows. A value can be anything
//! that the types allow, so it finds what can be written but not read.

use std::fmt::Debug;

use crate::acl::{Acl, Id};
use crate::connect::{ConnectRequest, ConnectResponse};
use crate::error::DecodeError;
use crate::fuzz::encoded::encoded;
use crate::fuzz::values::{Cursor, Lists, Value};
use crate::header::{ReplyHeader, RequestHeader};
use crate::jute::{Decode, Encode};
use crate::multi::{MultiHeader, MultiOp, MultiRequest, MultiResponse, MultiResult};
use crate::ops::{
    AddWatchRequest, AuthPacket, CheckVersionRequest, CheckWatchesRequest, ClientInfo,
    CloseSessionRequest, Create2Response, CreateRequest, CreateResponse, CreateTtlRequest,
    DeleteContainerRequest, DeleteRequest, ErrorResponse, ExistsRequest, ExistsResponse,
    GetAclRequest, GetAclResponse, GetAllChildrenNumberRequest, GetAllChildrenNumberResponse,
    GetChildren2Request, GetChildren2Response, GetChildrenRequest, GetChildrenResponse,
    GetDataRequest, GetDataResponse, GetEphemeralsRequest, GetEphemeralsResponse, GetSaslRequest,
    PingRequest, ReconfigRequest, RemoveWatchesRequest, SetAclRequest, SetAclResponse,
    SetDataRequest, SetDataResponse, SetSaslResponse, SyncRequest, SyncResponse, WhoAmIRequest,
    WhoAmIResponse,
};
use crate::stat::Stat;
use crate::watch::{SetWatches, SetWatches2, WatcherEvent};

/// The first byte chooses a record of [`VALUES`]; the other bytes make the value.
pub fn directions(data: &[u8]) {
    let Some((choice, input)) = data.split_first() else {
        return;
    };
    if let Some((_, check)) = VALUES.get(usize::from(*choice) % VALUES.len()) {
        check(input);
    }
}

/// Asserts that a value decodes to itself from all of the bytes that it encodes to, and that the
/// decoded value, which consists of pieces of those bytes, encodes to the same bytes. No proper
/// prefix of them is a record, unless only the `optional` bytes are missing, which older peers
/// omit.
fn there_and_back<'w, T>(value: &T, wire: &'w [u8], optional: usize)
where
    T: Decode<'w> + Encode + PartialEq + Debug,
{
    match T::decode_exact(wire) {
        Ok(again) => {
            assert_eq!(again, *value, "there and back");
            assert_eq!(encoded(&again), wire, "there again");
        }
        Err(error) => unreachable!("{error}: {value:?}"),
    }
    for cut in 0..wire.len() {
        let (front, _) = wire.split_at(cut);
        match T::decode_exact(front) {
            Err(DecodeError::Truncated { .. }) => {}
            Ok(older) if cut + optional == wire.len() => {
                assert_ne!(older, *value, "cut at {cut}");
            }
            other => unreachable!("cut at {cut}: {other:?}: {value:?}"),
        }
    }
}

/// Makes the lists, and then the value from their parts.
fn with_lists(input: &[u8], make: impl FnOnce(&mut Cursor<'_>)) {
    let mut from = Cursor::new(input, Lists::NONE);
    let lists = Lists { names: from.several(), acls: from.several(), infos: from.several() };
    make(&mut Cursor::new(from.rest(), &lists));
}

/// Declares [`VALUES`]: each record with its fields, and how many bytes older peers omit. A field
/// that is missing here does not compile.
macro_rules! values {
    ($($record:ident $(<$lt:lifetime>)? { $($field:ident),* } $(less $optional:literal)?;)*) => {
        $(impl<'a> Value<'a> for $record $(<$lt>)? {
            fn value(_from: &mut Cursor<'a>) -> Self {
                Self { $($field: _from.value(),)* }
            }
        })*

        /// Every record by name, with the claims on a value that is made of bytes.
        ///
        /// New records go to the end, so that the corpus keeps its meaning.
        pub const VALUES: &[(&str, fn(&[u8]))] = &[
            ("MultiRequest", |input| with_lists(input, |from| {
                let ops: Vec<MultiOp<'_>> = from.several();
                let value = MultiRequest::new(&ops);
                there_and_back(&value, &encoded(&value), 0);
            })),
            ("MultiResponse", |input| with_lists(input, |from| {
                let results: Vec<MultiResult<'_>> = from.several();
                let value = MultiResponse::new(&results);
                there_and_back(&value, &encoded(&value), 0);
            })),
            $((stringify!($record), |input| with_lists(input, |from| {
                let value: $record = from.value();
                there_and_back(&value, &encoded(&value), 0 $(+ $optional)?);
            })),)*
        ];
    };
}

values! {
    RequestHeader { xid, op };
    ReplyHeader { xid, zxid, error };
    ConnectRequest {
        protocol_version, last_zxid_seen, timeout, session_id, password, read_only
    } less 1;
    ConnectResponse { protocol_version, timeout, session_id, password, read_only } less 1;
    Id<'a> { scheme, id };
    Acl<'a> { perms, id };
    Stat {
        czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeral_owner, data_length,
        num_children, pzxid
    };
    CreateRequest<'a> { path, data, acl, mode };
    CreateTtlRequest<'a> { path, data, acl, mode, ttl };
    CreateResponse<'a> { path };
    Create2Response<'a> { path, stat };
    DeleteRequest<'a> { path, version };
    DeleteContainerRequest<'a> { path };
    ExistsRequest<'a> { path, watch };
    ExistsResponse { stat };
    GetDataRequest<'a> { path, watch };
    GetDataResponse<'a> { data, stat };
    SetDataRequest<'a> { path, data, version };
    SetDataResponse { stat };
    GetAclRequest<'a> { path };
    GetAclResponse<'a> { acl, stat };
    SetAclRequest<'a> { path, acl, version };
    SetAclResponse { stat };
    GetChildrenRequest<'a> { path, watch };
    GetChildrenResponse<'a> { children };
    GetChildren2Request<'a> { path, watch };
    GetChildren2Response<'a> { children, stat };
    SyncRequest<'a> { path };
    SyncResponse<'a> { path };
    PingRequest {};
    CloseSessionRequest {};
    CheckVersionRequest<'a> { path, version };
    ReconfigRequest<'a> { joining_servers, leaving_servers, new_members, cur_config_id };
    GetEphemeralsRequest<'a> { prefix_path };
    GetEphemeralsResponse<'a> { ephemerals };
    GetAllChildrenNumberRequest<'a> { path };
    GetAllChildrenNumberResponse { total_number };
    WhoAmIRequest {};
    ClientInfo<'a> { auth_scheme, user };
    WhoAmIResponse<'a> { client_info };
    AuthPacket<'a> { kind, scheme, auth };
    GetSaslRequest<'a> { token };
    SetSaslResponse<'a> { token };
    CheckWatchesRequest<'a> { path, kind };
    RemoveWatchesRequest<'a> { path, kind };
    AddWatchRequest<'a> { path, mode };
    ErrorResponse { error };
    WatcherEvent<'a> { kind, state, path };
    SetWatches<'a> { relative_zxid, data, exist, child };
    SetWatches2<'a> { relative_zxid, data, exist, child, persistent, persistent_recursive };
    MultiHeader { op, done, error };
}

/// Chooses among the variants of an enum. A variant that is missing here does not compile.
macro_rules! one_of {
    ($name:ident { $($variant:ident),* }) => {
        impl<'a> Value<'a> for $name<'a> {
            fn value(from: &mut Cursor<'a>) -> Self {
                let variants: &[fn(&mut Cursor<'a>) -> Self] =
                    &[$(|from| Self::$variant(from.value())),*];
                let choice = from.below(variants.len());
                let chosen = variants.get(choice).map(|make| make(from));
                match chosen.unwrap_or_else(|| unreachable!("a choice below their number")) {
                    $(chosen @ Self::$variant(_) => chosen,)*
                }
            }
        }
    };
}

one_of! {
    MultiOp {
        Create, Create2, CreateContainer, CreateTtl, Delete, SetData, Check, GetData, GetChildren
    }
}
one_of! { MultiResult { Create, Create2, Delete, SetData, Check, GetData, GetChildren, Error } }
