//! Every record, with the claims on it: those of the table of operations, and what is part of other
//! records or comes before them.

use std::sync::LazyLock;

use crate::acl::{Acl, Id};
use crate::connect::{ConnectRequest, ConnectResponse};
use crate::fuzz::directions::{from_values, made, there_and_back};
use crate::fuzz::encoded::encoded;
use crate::fuzz::records::{from_bytes, list, multi_request, multi_response};
use crate::header::{ReplyHeader, RequestHeader};
use crate::jute::Decode;
use crate::multi::{MultiHeader, MultiOp, MultiRequest, MultiResponse, MultiResult};
use crate::operations::operations;
use crate::ops::*;
use crate::stat::Stat;
use crate::watch::{SetWatches, SetWatches2, WatcherEvent};

/// A record, with the claims on bytes that are decoded as it, and on its values.
#[derive(Debug)]
pub struct Record {
    /// The record's name.
    pub name: &'static str,
    from_bytes: fn(&[u8]),
    from_values: fn(&[u8]),
}

/// The first byte chooses a record of [`RECORDS`]; the others are decoded as that record.
pub fn records(data: &[u8]) {
    run(data, |record| record.from_bytes);
}

/// The first byte chooses a record of [`RECORDS`]; the other bytes make the value.
pub fn directions(data: &[u8]) {
    run(data, |record| record.from_values);
}

fn run(data: &[u8], claims: impl FnOnce(&Record) -> fn(&[u8])) {
    if let Some((choice, input)) = data.split_first()
        && let Some(record) = RECORDS.get(usize::from(*choice) % RECORDS.len())
    {
        claims(record)(input);
    }
}

/// Every record.
pub static RECORDS: LazyLock<Vec<Record>> = LazyLock::new(|| {
    let mut records = Vec::<Record>::new();
    for record in OTHERS.into_iter().chain(bodies()) {
        // Requests have a lifetime and a record may belong to several operations. `()` is none.
        let name = record.name.split('<').next().unwrap_or_default().trim_end();
        if name != "()" && records.iter().all(|known| known.name != name) {
            records.push(Record { name, ..record });
        }
    }
    records
});

/// Declares a record by its type, and how it is walked.
macro_rules! record {
    ($record:ty) => {
        record!($record, |_| (), 0)
    };
    ($record:ty, $walk:expr, $optional:literal) => {
        Record {
            name: stringify!($record),
            from_bytes: from_bytes!($record, $walk),
            from_values: from_values!($record, $optional),
        }
    };
}

const OTHERS: [Record; 15] = [
    record!(RequestHeader),
    record!(ReplyHeader),
    record!(ConnectRequest, |_| (), 1),
    record!(ConnectResponse, |_| (), 1),
    record!(Id<'a>),
    record!(Acl<'a>),
    record!(Stat),
    record!(CreateRequest<'a>, |record| list(record.acl), 0),
    record!(GetChildrenResponse<'a>, |record| list(record.children), 0),
    record!(WhoAmIResponse<'a>, |record| list(record.client_info), 0),
    record!(ClientInfo<'a>),
    record!(WatcherEvent<'a>),
    record!(MultiHeader),
    Record {
        from_values: |input| {
            made(input, |ops: Vec<MultiOp<'_>>| {
                let value = MultiRequest::new(&ops);
                there_and_back(&value, &encoded(&value), 0);
            });
        },
        ..record!(MultiRequest<'a>, |record| multi_request(*record), 0)
    },
    Record {
        from_values: |input| {
            made(input, |results: Vec<MultiResult<'_>>| {
                let value = MultiResponse::new(&results);
                there_and_back(&value, &encoded(&value), 0);
            });
        },
        ..record!(MultiResponse<'a>, |record| multi_response(*record), 0)
    },
];

/// Declares the records of the table of operations.
macro_rules! bodies {
    ($(
        $(#[$note:meta])* $op:ident = $code:literal $info:tt
        $($variant:ident: $request:ty => $reply:ty)?;
    )*) => {
        fn bodies() -> Vec<Record> {
            vec![$($(record!($request), record!($reply),)?)*]
        }
    };
}
operations!(bodies);
