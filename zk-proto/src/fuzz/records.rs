//! Decodes bytes as each record: a decoded record must encode to the same bytes.
//!
//! A few records have more than one form on the wire. The table states the form that the encoder
//! chooses for them, so that nothing else may differ.

use std::fmt::Debug;

use crate::acl::{Acl, Id};
use crate::connect::{ConnectRequest, ConnectResponse};
use crate::error::DecodeError;
use crate::frame::PREFIX;
use crate::fuzz::encoded::encoded;
use crate::header::{ReplyHeader, RequestHeader, Zxid};
use crate::jute::{Decode, Encode, List, Reader};
use crate::multi::{MultiHeader, MultiList, MultiOp, MultiRequest, MultiResponse, MultiResult};
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

/// The first byte chooses a record of [`RECORDS`]; the others are decoded as that record.
pub fn records(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    if let Some((_, check)) = RECORDS.get(usize::from(*choice) % RECORDS.len()) {
        check(bytes);
    }
}

/// Declares [`RECORDS`]: each record, what its encoder changes in the bytes that it was decoded
/// from, and how its lists are walked.
macro_rules! table {
    ($($record:ident $(<$lt:lifetime>)?: $canonical:expr $(, $walk:expr)?;)*) => {
        /// Every record by name, with the claims on it.
        ///
        /// A decoded record can be printed and walked, encodes to the bytes that it was decoded
        /// from, and does not decode to the same value with a byte less. New records go to the end,
        /// so that the corpus keeps its meaning.
        pub const RECORDS: &[(&str, fn(&[u8]))] = &[$((stringify!($record), |bytes| {
            type Record<'a> = table!(@type $record $($lt)?);
            let mut reader = Reader::new(bytes);
            let Ok(value) = Record::decode(&mut reader) else {
                return;
            };
            assert!(!format!("{value:?}").is_empty());
            $(let walk: fn(&Record<'_>) = $walk; walk(&value);)?

            let wire = encoded(&value);
            assert_eq!(Record::decode_exact(&wire), Ok(value), "decoded again");

            let (read, _) = bytes.split_at(bytes.len() - reader.remaining());
            let mut expected = read.to_vec();
            let canonical: fn(&mut [u8]) = $canonical;
            canonical(&mut expected);
            assert_eq!(wire, expected, "encoded again");

            if let Some((_, shorter)) = read.split_last() {
                assert_ne!(Record::decode_exact(shorter), Ok(value), "a byte less");
            }
        }),)*];
    };
    (@type $record:ident) => { $record };
    (@type $record:ident $lt:lifetime) => { $record<'a> };
}

table! {
    RequestHeader: exact;
    ReplyHeader: exact;
    ConnectRequest: |bytes| handshake(bytes, 24);
    ConnectResponse: |bytes| handshake(bytes, 16);
    Id<'_>: exact;
    Acl<'_>: exact;
    Stat: exact;
    CreateRequest<'_>: |bytes| count(bytes, path_and_data), |record| list(record.acl);
    CreateTtlRequest<'_>: |bytes| count(bytes, path_and_data), |record| list(record.acl);
    CreateResponse<'_>: exact;
    Create2Response<'_>: exact;
    DeleteRequest<'_>: exact;
    ExistsRequest<'_>: flag_last;
    ExistsResponse: exact;
    GetDataRequest<'_>: flag_last;
    GetDataResponse<'_>: exact;
    SetDataRequest<'_>: exact;
    SetDataResponse: exact;
    GetAclRequest<'_>: exact;
    GetAclResponse<'_>: list_first, |record| list(record.acl);
    SetAclRequest<'_>: |bytes| count(bytes, path), |record| list(record.acl);
    SetAclResponse: exact;
    GetChildrenRequest<'_>: flag_last;
    GetChildrenResponse<'_>: list_first, |record| list(record.children);
    GetChildren2Request<'_>: flag_last;
    GetChildren2Response<'_>: list_first, |record| list(record.children);
    SyncRequest<'_>: exact;
    SyncResponse<'_>: exact;
    PingRequest: exact;
    CloseSessionRequest: exact;
    CheckVersionRequest<'_>: exact;
    ReconfigRequest<'_>: exact;
    GetEphemeralsRequest<'_>: exact;
    GetEphemeralsResponse<'_>: list_first, |record| list(record.ephemerals);
    GetAllChildrenNumberRequest<'_>: exact;
    GetAllChildrenNumberResponse: exact;
    WhoAmIRequest: exact;
    ClientInfo<'_>: exact;
    WhoAmIResponse<'_>: list_first, |record| list(record.client_info);
    AuthPacket<'_>: exact;
    GetSaslRequest<'_>: exact;
    SetSaslResponse<'_>: exact;
    CheckWatchesRequest<'_>: exact;
    RemoveWatchesRequest<'_>: exact;
    AddWatchRequest<'_>: exact;
    ErrorResponse: exact;
    WatcherEvent<'_>: exact;
    SetWatches<'_>: |bytes| watches(bytes, 3), |record| {
        list(record.data);
        list(record.exist);
        list(record.child);
    };
    SetWatches2<'_>: |bytes| watches(bytes, 5), |record| {
        list(record.data);
        list(record.exist);
        list(record.child);
        list(record.persistent);
        list(record.persistent_recursive);
    };
    MultiHeader: |bytes| flag(bytes.get_mut(4));
    MultiRequest<'_>: exact, |record| multi_request(*record);
    MultiResponse<'_>: exact, |record| multi_response(*record);
    DeleteContainerRequest<'_>: exact;
}

/// The record has only one form, and its encoder must produce it.
fn exact(_: &mut [u8]) {}

/// The record ends in a boolean, for which any byte except 0 is true.
fn flag_last(bytes: &mut [u8]) {
    flag(bytes.last_mut());
}

fn flag(byte: Option<&mut u8>) {
    if let Some(byte) = byte {
        *byte = (*byte).min(1);
    }
}

/// A count below -1 is decoded as 0. This is the count of the list behind what `front` reads.
fn count(bytes: &mut [u8], front: impl Fn(&mut Reader<'_>) -> Result<(), DecodeError>) {
    let mut reader = Reader::new(bytes);
    if front(&mut reader).is_err() {
        return;
    }
    let at = bytes.len() - reader.remaining();
    let count = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<PREFIX>);
    if let Some(count) = count.filter(|count| i32::from_be_bytes(**count) < -1) {
        *count = [0; PREFIX];
    }
}

fn list_first(bytes: &mut [u8]) {
    count(bytes, |_| Ok(()));
}

fn path(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    <&str>::decode(reader).map(drop)
}

fn path_and_data(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    path(reader)?;
    Option::<&[u8]>::decode(reader).map(drop)
}

/// A zxid and as many lists of paths.
fn watches(bytes: &mut [u8], lists: usize) {
    for before in 0..lists {
        count(bytes, |reader| {
            Zxid::decode(reader)?;
            (0..before).try_for_each(|_| List::<&str>::decode(reader).map(drop))
        });
    }
}

/// A null password, whose length is at `at`, is decoded as an empty one; a boolean may follow.
fn handshake(bytes: &mut [u8], at: usize) {
    let Some((length, tail)) =
        bytes.get_mut(at..).and_then(<[u8]>::split_first_chunk_mut::<PREFIX>)
    else {
        return;
    };
    if *length == [0xff; PREFIX] {
        *length = [0; PREFIX];
    }
    flag(tail.get_mut(u32::from_be_bytes(*length) as usize));
}

/// Asserts that a list has as many items as it states, and encodes the same from its items as from
/// its bytes.
fn list<'a, T: Decode<'a> + Encode + Copy + PartialEq + Debug>(list: List<'a, T>) {
    let items: Vec<T> = list.iter().collect();
    assert_eq!((items.len(), items.is_empty()), (list.len(), list.is_empty()));
    assert_eq!(list.iter().len(), list.len());
    if list.is_null() {
        assert!(items.is_empty());
    } else {
        assert_eq!(encoded(&List::new(&items)), encoded(&list));
    }
}

fn multi_request(list_of: MultiRequest<'_>) {
    let entries: Vec<MultiOp<'_>> = list_of.iter().collect();
    for entry in &entries {
        match entry {
            MultiOp::Create(op) | MultiOp::Create2(op) | MultiOp::CreateContainer(op) => {
                list(op.acl);
            }
            MultiOp::CreateTtl(op) => list(op.acl),
            _ => {}
        }
    }
    // Compare only the lengths: the headers in the peer's bytes may contain values that nothing
    // reads.
    let wire = encoded(&MultiList::new(&entries));
    assert_eq!(wire.len(), encoded(&list_of).len());
    assert_eq!(MultiRequest::decode_exact(&wire), Ok(list_of));
}

fn multi_response(list_of: MultiResponse<'_>) {
    let results: Vec<_> = list_of.iter().collect();
    if let Some((index, code)) = list_of.failure() {
        assert_eq!(results.get(index), Some(&MultiResult::Error(code)));
    }
    let wire = encoded(&MultiList::new(&results));
    assert_eq!(wire.len(), encoded(&list_of).len());
    assert_eq!(MultiResponse::decode_exact(&wire), Ok(list_of));
}
