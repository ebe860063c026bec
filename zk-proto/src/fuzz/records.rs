//! The claims on a record that is decoded from bytes: it encodes to the same bytes.
//!
//! A few values have more than one form on the wire. The encoder chooses one of them, and nothing
//! else may differ.

use std::fmt::Debug;

use crate::frame::PREFIX;
use crate::fuzz::encoded::encoded;
use crate::jute::{Decode, Encode, Field, List, Name, Value, Walk};
use crate::multi::{MultiList, MultiOp, MultiRequest, MultiResponse, MultiResult};

/// The claims on a record that is decoded from bytes: it can be printed, encodes to the bytes that
/// it was decoded from, and does not decode to the same value with a byte less.
macro_rules! from_bytes {
    ($record:ty, $walk:expr) => {
        |bytes| {
            type Record<'a> = $record;
            let mut reader = $crate::jute::Reader::new(bytes);
            let Ok(value) = <Record<'_> as $crate::jute::Decode>::decode(&mut reader) else {
                return;
            };
            assert!(!format!("{value:?}").is_empty());
            let walk: fn(&Record<'_>) = $walk;
            walk(&value);

            let wire = $crate::fuzz::encoded::encoded(&value);
            assert_eq!(<Record<'_>>::decode_exact(&wire), Ok(value), "decoded again");

            let (read, _) = bytes.split_at(bytes.len() - reader.remaining());
            let inspect = |walk: &mut $crate::jute::Walk<'_, '_>| {
                <Record<'_> as $crate::jute::Inspect>::inspect(
                    walk,
                    $crate::jute::Name::Field("record"),
                )
            };
            let expected = $crate::fuzz::records::canonical(read, inspect);
            assert_eq!(wire, expected, "encoded again");

            if let Some((_, shorter)) = read.split_last() {
                assert_ne!(<Record<'_>>::decode_exact(shorter), Ok(value), "a byte less");
            }
        }
    };
}
pub(crate) use from_bytes;

/// The bytes of a record in the form that the encoder chooses: booleans are 0 or 1, counts below -1
/// are 0, and a null password is an empty one. The items of a list are encoded as they were read.
pub(crate) fn canonical<'a>(
    read: &'a [u8],
    inspect: impl FnOnce(&mut Walk<'a, '_>) -> Option<()>,
) -> Vec<u8> {
    let mut bytes = read.to_vec();
    // The depth of the list that the next field may be in.
    let mut list = None;
    let mut visit = |field: Field<'a>| {
        list = list.filter(|depth| field.depth > *depth);
        let is_count = list == field.depth.checked_sub(1) && field.name == Name::Field("count");
        let is_item = list.is_some() && !is_count;
        let place = bytes.get_mut(field.offset..).unwrap_or_default();
        match (field.value, place.first_chunk_mut::<PREFIX>()) {
            (Value::List(_), _) if list.is_none() => list = Some(field.depth),
            (Value::Bool(value), _) if !is_item => {
                place.iter_mut().take(1).for_each(|byte| *byte = value.into());
            }
            (Value::Number(..-1), Some(count)) if is_count => *count = [0; PREFIX],
            (Value::Secret(secret), Some(length))
                if field.name == Name::Field("password") && secret.expose().is_none() =>
            {
                *length = [0; PREFIX];
            }
            _ => {}
        }
        true
    };
    let walked = inspect(&mut Walk::new(read, false, &mut visit));
    assert!(walked.is_some(), "what is decoded can be walked");
    bytes
}

/// Asserts that a list has as many items as it states, and encodes the same from its items as from
/// its bytes.
pub(crate) fn list<'a, T: Decode<'a> + Encode + Copy + PartialEq + Debug>(list: List<'a, T>) {
    let items: Vec<T> = list.iter().collect();
    assert_eq!((items.len(), items.is_empty()), (list.len(), list.is_empty()));
    assert_eq!(list.iter().len(), list.len());
    if list.is_null() {
        assert!(items.is_empty());
    } else {
        assert_eq!(encoded(&List::new(&items)), encoded(&list));
    }
}

pub(crate) fn multi_request(list_of: MultiRequest<'_>) {
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

pub(crate) fn multi_response(list_of: MultiResponse<'_>) {
    let results: Vec<_> = list_of.iter().collect();
    if let Some((index, code)) = list_of.failure() {
        assert_eq!(results.get(index), Some(&MultiResult::Error(code)));
    }
    let wire = encoded(&MultiList::new(&results));
    assert_eq!(wire.len(), encoded(&list_of).len());
    assert_eq!(MultiResponse::decode_exact(&wire), Ok(list_of));
}
