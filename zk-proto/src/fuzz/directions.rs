//! The claims on the codec's two directions together, starting with values: a value that can be
//! built must survive encoding and decoding.
//!
//! Bytes that are decoded first can only contain what the reader allows. A value can be anything
//! that the types allow, so it finds what can be written but not read.

use std::fmt::Debug;

use arbitrary::{Arbitrary, Unstructured};

use crate::error::DecodeError;
use crate::fuzz::encoded::encoded;
use crate::jute::{Decode, Encode};

/// The claims on a value that is made of bytes, and on wrong bytes that are made of the value.
/// Older peers omit the last bytes, as many as are given.
macro_rules! from_values {
    ($record:ty, $optional:literal) => {
        |input| {
            use $crate::arbitrary::Broken;
            use $crate::fuzz::directions::{made, there_and_back};

            type Record<'a> = $record;
            made(input, |value: Record<'_>| {
                there_and_back(&value, &$crate::fuzz::encoded::encoded(&value), $optional);
            });
            made(input, |broken: Broken<Record<'_>>| {
                let error = <Record<'_>>::decode_exact(broken.bytes()).err();
                assert_eq!(error, Some(broken.error()), "{:?}", broken.fault());
            });
        }
    };
}
pub(crate) use from_values;

/// Asserts that a value decodes to itself from all of the bytes that it encodes to, and that the
/// decoded value, which consists of pieces of those bytes, encodes to the same bytes. No proper
/// prefix of them is a record, unless only the `optional` bytes are missing, which older peers
/// omit.
pub(crate) fn there_and_back<'w, T>(value: &T, wire: &'w [u8], optional: usize)
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
pub(crate) fn made<'a, T: Arbitrary<'a>>(input: &'a [u8], check: impl FnOnce(T)) {
    if let Ok(value) = Unstructured::new(input).arbitrary() {
        check(value);
    }
}
