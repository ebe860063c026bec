//! Tests the codec's two directions against each other, starting with values: a value that can be
//! built must survive encoding and decoding.
//!
//! Bytes that are decoded first can only contain what the reader allows. A value can be anything
//! that the types allow, so it finds what can be written but not read.

use std::fmt::Debug;

use arbitrary::{Arbitrary, Unstructured};

use crate::acl::{Acl, Id};
use crate::arbitrary::Broken;
use crate::connect::{ConnectRequest, ConnectResponse};
use crate::error::DecodeError;
use crate::fuzz::encoded::encoded;
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

/// Makes a value of the input; bytes that are none make no claim.
fn made<'a, T: Arbitrary<'a>>(input: &'a [u8], check: impl FnOnce(T)) {
    if let Ok(value) = Unstructured::new(input).arbitrary() {
        check(value);
    }
}

/// Declares [`VALUES`]: each record, and how many bytes older peers omit.
macro_rules! values {
    ($($record:ident $(less $optional:literal)?;)*) => {
        /// Every record by name, with the claims on a value that is made of bytes, and on wrong
        /// bytes that are made of the value.
        ///
        /// New records go to the end, so that the corpus keeps its meaning.
        pub const VALUES: &[(&str, fn(&[u8]))] = &[
            ("MultiRequest", |input| made(input, |ops: Vec<MultiOp<'_>>| {
                let value = MultiRequest::new(&ops);
                there_and_back(&value, &encoded(&value), 0);
            })),
            ("MultiResponse", |input| made(input, |results: Vec<MultiResult<'_>>| {
                let value = MultiResponse::new(&results);
                there_and_back(&value, &encoded(&value), 0);
            })),
            $((stringify!($record), |input| {
                made(input, |value: $record| {
                    there_and_back(&value, &encoded(&value), 0 $(+ $optional)?);
                });
                made(input, |broken: Broken<$record>| {
                    let error = $record::decode_exact(broken.bytes()).err();
                    assert_eq!(error, Some(broken.error()), "{:?}", broken.fault());
                });
            }),)*
        ];
    };
}

values! {
    RequestHeader;
    ReplyHeader;
    ConnectRequest less 1;
    ConnectResponse less 1;
    Id;
    Acl;
    Stat;
    CreateRequest;
    CreateTtlRequest;
    CreateResponse;
    Create2Response;
    DeleteRequest;
    DeleteContainerRequest;
    ExistsRequest;
    ExistsResponse;
    GetDataRequest;
    GetDataResponse;
    SetDataRequest;
    SetDataResponse;
    GetAclRequest;
    GetAclResponse;
    SetAclRequest;
    SetAclResponse;
    GetChildrenRequest;
    GetChildrenResponse;
    GetChildren2Request;
    GetChildren2Response;
    SyncRequest;
    SyncResponse;
    PingRequest;
    CloseSessionRequest;
    CheckVersionRequest;
    ReconfigRequest;
    GetEphemeralsRequest;
    GetEphemeralsResponse;
    GetAllChildrenNumberRequest;
    GetAllChildrenNumberResponse;
    WhoAmIRequest;
    ClientInfo;
    WhoAmIResponse;
    AuthPacket;
    GetSaslRequest;
    SetSaslResponse;
    CheckWatchesRequest;
    RemoveWatchesRequest;
    AddWatchRequest;
    ErrorResponse;
    WatcherEvent;
    SetWatches;
    SetWatches2;
    MultiHeader;
}
