//! Vectors of records, without a vector in memory.
//!
//! One type serves both directions: a slice of the caller's values to be encoded, or bytes of a
//! frame that were checked once and are decoded as they are walked.

use std::fmt;

use crate::error::DecodeError;
use crate::jute::wire::{Decode, Encode, NULL, Reader, Writer};

/// A vector: borrowed values to encode, or checked but undecoded bytes that were received.
///
/// ```
/// use bytes::BytesMut;
/// use zk_proto::{Decode, Encode, List, Writer};
///
/// let mut wire = BytesMut::new();
/// List::new(&["a", "b"]).encode(&mut Writer::new(&mut wire, 64));
/// let names = List::<&str>::decode_exact(&wire)?;
/// assert_eq!(names.iter().collect::<Vec<_>>(), ["a", "b"]);
/// # Ok::<(), zk_proto::DecodeError>(())
/// ```
#[derive(Clone, Copy)]
pub struct List<'a, T>(Items<'a, T>);

#[derive(Clone, Copy)]
enum Items<'a, T> {
    Null,
    Values(&'a [T]),
    /// The bytes were checked when the list was decoded: they are exactly `count` items.
    Wire {
        count: usize,
        bytes: &'a [u8],
    },
}

impl<'a, T> List<'a, T> {
    /// The null vector, which some servers treat differently from the empty one.
    pub const NULL: Self = Self(Items::Null);

    /// Makes a list of the caller's values.
    pub const fn new(values: &'a [T]) -> Self {
        Self(Items::Values(values))
    }

    /// Whether this is the null vector.
    pub const fn is_null(&self) -> bool {
        matches!(self.0, Items::Null)
    }

    /// The number of items; 0 for the null vector.
    pub const fn len(&self) -> usize {
        match self.0 {
            Items::Null => 0,
            Items::Values(values) => values.len(),
            Items::Wire { count, .. } => count,
        }
    }

    /// Whether there are no items.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a, T: Decode<'a> + Copy> List<'a, T> {
    /// Iterates over the items in wire order, decoding each on demand.
    pub fn iter(&self) -> ListIter<'a, T> {
        ListIter(match self.0 {
            Items::Null => Items::Values(&[]),
            items => items,
        })
    }
}

/// The items of a [`List`].
#[derive(Clone)]
pub struct ListIter<'a, T>(Items<'a, T>);

impl<'a, T: Decode<'a> + Copy> Iterator for ListIter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.0 {
            Items::Null => None,
            Items::Values(values) => {
                let (first, rest) = values.split_first()?;
                *values = rest;
                Some(*first)
            }
            Items::Wire { count, bytes } => {
                *count = count.checked_sub(1)?;
                let mut reader = Reader::new(bytes);
                let item = T::decode(&mut reader).ok()?;
                *bytes = reader.take_rest();
                Some(item)
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Items::Null => 0,
            Items::Values(values) => values.len(),
            Items::Wire { count, .. } => *count,
        };
        (left, Some(left))
    }
}

impl<'a, T: Decode<'a> + Copy> ExactSizeIterator for ListIter<'a, T> {}

impl<T> fmt::Debug for ListIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListIter").finish_non_exhaustive()
    }
}

impl<'a, T: Decode<'a> + Copy> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Decode<'a> + Copy + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_null() {
            return f.write_str("null");
        }
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: Decode<'a> + Copy + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.is_null() == other.is_null() && self.iter().eq(other.iter())
    }
}

impl<'a, T: Decode<'a> + Copy + Eq> Eq for List<'a, T> {}

/// The whole list is walked once, so a bad item is an error here and never later. No memory is
/// reserved for the announced count: a false count ends as [`DecodeError::Truncated`]. A negative
/// count other than that of null is an empty list, as in ZooKeeper's own reader, so that a server
/// refuses such an access list because it is empty, and not because it does not decode.
impl<'a, T: Decode<'a>> Decode<'a> for List<'a, T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = match i32::decode(reader)? {
            NULL => return Ok(Self::NULL),
            count => usize::try_from(count).unwrap_or(0),
        };
        let bytes = reader.rest();
        for _ in 0..count {
            T::decode(reader)?;
        }
        let (bytes, _) = bytes.split_at(bytes.len() - reader.remaining());
        Ok(Self(Items::Wire { count, bytes }))
    }
}

impl<T: Encode> Encode for List<'_, T> {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self.0 {
            Items::Null => NULL.encode(writer),
            Items::Values(values) => {
                writer.put_length(values.len());
                for value in values {
                    value.encode(writer);
                }
            }
            Items::Wire { count, bytes } => {
                writer.put_length(count);
                writer.put(bytes);
            }
        }
    }
}

/// Declares lists that are parts of a table, or items in their form on the wire.
macro_rules! lists {
    ($($item:ty => $table:expr;)*) => {
        $(#[cfg(feature = "arbitrary")]
        impl<'a> ::arbitrary::Arbitrary<'a> for $crate::jute::List<'a, $item> {
            fn arbitrary(
                from: &mut ::arbitrary::Unstructured<'a>,
            ) -> ::arbitrary::Result<Self> {
                let table: &'static [_] = const { $table };
                Ok(match from.int_in_range(0..=7)? {
                    0 => Self::NULL,
                    1 => {
                        let len = from.arbitrary_len::<u8>()?;
                        let bytes = from.bytes(len)?;
                        $crate::jute::Decode::decode(&mut $crate::jute::Reader::new(bytes))
                            .unwrap_or(Self::NULL)
                    }
                    _ => Self::new($crate::jute::part(table, from)?),
                })
            }
        })*
    };
}
pub(crate) use lists;

/// A part of a table.
#[cfg(feature = "arbitrary")]
pub(crate) fn part<T>(
    table: &'static [T],
    from: &mut ::arbitrary::Unstructured<'_>,
) -> ::arbitrary::Result<&'static [T]> {
    let (_, part) = table.split_at(from.int_in_range(0..=table.len())?);
    let (part, _) = part.split_at(from.int_in_range(0..=part.len())?);
    Ok(part)
}
