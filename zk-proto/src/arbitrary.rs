//! Values and wrong bytes for fuzzers: what the macros of records and codes cannot declare.
//!
//! Every record implements [`Arbitrary`]. Strings and buffers are pieces of the fuzzer's bytes, as
//! a caller's value borrows its contents. A list borrows its items too, so it is either a part of a
//! table below, or items that the fuzzer's bytes decode to.

use std::marker::PhantomData;

use arbitrary::{Arbitrary, Result, Unstructured};
use bytes::BytesMut;

use crate::acl::Acl;
use crate::codes::{CreateMode, ErrorCode};
use crate::connect::{Password, SessionId};
use crate::error::DecodeError;
use crate::frame::PREFIX;
use crate::header::{Xid, Zxid};
pub use crate::jute::Breakable;
use crate::jute::{List, Secret, Text, Writer, lists, part};
use crate::multi::{MultiList, MultiOp, MultiResult};
use crate::ops::{
    CheckVersionRequest, CreateRequest, CreateResponse, CreateTtlRequest, DeleteRequest,
    GetChildrenRequest, GetChildrenResponse, GetDataRequest, SetDataRequest,
};

/// Names and paths of every length class, with characters of all widths.
const NAMES: &[&str] = &[
    "/",
    "/a",
    "/a/b",
    "",
    "n-0000000007",
    "\u{e9}",
    "\u{4e2d}/x",
    "\u{1f600}",
    "\0",
    "a/b",
    concat!(
        "/a-longer-name-than-most",
        "/one/that/takes/more/than/one/hundred/bytes/in/all/with/",
        "each/of/its/many/components/to/make/a/length/above/127"
    ),
];

const OPS: &[MultiOp<'static>] = &[
    MultiOp::Create(CREATE),
    MultiOp::Create2(CreateRequest { mode: CreateMode::EPHEMERAL_SEQUENTIAL, ..CREATE }),
    MultiOp::CreateContainer(CreateRequest { acl: List::NULL, ..CREATE }),
    MultiOp::CreateTtl(CreateTtlRequest {
        path: "/a",
        data: None,
        acl: List::new(&[Acl::OPEN, Acl::OPEN]),
        mode: CreateMode::PERSISTENT_WITH_TTL,
        ttl: 1000,
    }),
    MultiOp::Delete(DeleteRequest { path: "/a", version: -1 }),
    MultiOp::SetData(SetDataRequest { path: "/\u{e9}", data: Some(b"x"), version: i32::MIN }),
    MultiOp::Check(CheckVersionRequest { path: "", version: 3 }),
    MultiOp::GetData(GetDataRequest { path: "/a", watch: false }),
    MultiOp::GetChildren(GetChildrenRequest { path: "/", watch: true }),
];

const CREATE: CreateRequest<'static> = CreateRequest {
    path: "/a",
    data: Some(b""),
    acl: List::new(&[Acl::OPEN]),
    mode: CreateMode::PERSISTENT,
};

const RESULTS: &[MultiResult<'static>] = &[
    MultiResult::Create(CreateResponse { path: "/a" }),
    MultiResult::Delete(()),
    MultiResult::Check(()),
    MultiResult::GetChildren(GetChildrenResponse { children: List::new(NAMES) }),
    MultiResult::Error(ErrorCode::OK),
    MultiResult::Error(ErrorCode::NO_NODE),
    MultiResult::Error(ErrorCode::RUNTIME_INCONSISTENCY),
];

/// Two surrogates as Java writes them, and half of one.
const NOT_UTF8: Text<'static> = Text::from_bytes(b"\xed\xa0\xbd\xed\xb8\x80\xed\xa0");

/// Declares numbers that have no names.
macro_rules! numbers {
    ($($number:ident),*) => {
        $(impl<'a> Arbitrary<'a> for $number {
            fn arbitrary(from: &mut Unstructured<'a>) -> Result<Self> {
                from.arbitrary().map(Self)
            }
        })*
    };
}

numbers! { Xid, Zxid, SessionId }

impl<'a> Arbitrary<'a> for Text<'a> {
    fn arbitrary(from: &mut Unstructured<'a>) -> Result<Self> {
        Ok(match from.int_in_range(0..=3)? {
            0 => Self::NULL,
            1 => NOT_UTF8,
            _ => Self::new(from.arbitrary()?),
        })
    }
}

impl<'a> Arbitrary<'a> for Secret<'a> {
    fn arbitrary(from: &mut Unstructured<'a>) -> Result<Self> {
        from.arbitrary().map(Self::new)
    }
}

impl<'a> Arbitrary<'a> for Password {
    fn arbitrary(from: &mut Unstructured<'a>) -> Result<Self> {
        let len = from.int_in_range(0..=Self::LEN)?.min(from.len());
        Ok(Self::new(from.bytes(len)?).unwrap_or_default())
    }
}

// A list of records is declared beside the record.
lists! {
    &'a str => NAMES;
}

/// Declares lists of entries that are parts of a table.
macro_rules! multis {
    ($($entry:ident => $table:ident;)*) => {
        $(impl<'a> Arbitrary<'a> for MultiList<'a, $entry<'a>> {
            fn arbitrary(from: &mut Unstructured<'a>) -> Result<Self> {
                let table: &'static [_] = $table;
                part(table, from).map(Self::new)
            }
        })*
    };
}

multis! {
    MultiOp => OPS;
    MultiResult => RESULTS;
}

/// The way in which [`Broken`] bytes are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The bytes end inside the record.
    Truncated,
    /// There are bytes behind the record.
    TrailingBytes,
    /// A length is below that of null.
    NegativeLength,
    /// A length is above what is left.
    LengthBeyondTheEnd,
    /// A path or a name is null.
    Null,
    /// A path or a name is not UTF-8.
    NotUtf8,
}

/// The bytes of a record `T` that are wrong in one way.
///
/// ```
/// use arbitrary::{Arbitrary, Unstructured};
/// use zk_proto::{Decode, DeleteRequest, arbitrary::Broken};
///
/// let broken = Broken::<DeleteRequest<'_>>::arbitrary(&mut Unstructured::new(&[7; 64]))?;
/// assert_eq!(DeleteRequest::decode_exact(broken.bytes()), Err(broken.error()));
/// # Ok::<(), arbitrary::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken<T> {
    bytes: Vec<u8>,
    fault: Fault,
    error: DecodeError,
    record: PhantomData<fn() -> T>,
}

impl<T: Breakable> Broken<T> {
    /// Breaks a value in one way, at the field that `choice` falls on.
    ///
    /// Returns `None` if no field of the value can be wrong in this way.
    pub fn new(value: &T, fault: Fault, choice: usize) -> Option<Self> {
        let mut wire = BytesMut::new();
        value.encode(&mut Writer::new(&mut wire, usize::MAX));
        let (lengths, absent) = T::lengths(&wire);
        // Each field is tried once, from the chosen one on, because only some are paths.
        let places = match fault {
            Fault::Truncated => wire.len(),
            Fault::TrailingBytes => 1,
            _ => lengths.len(),
        };
        (0..places).find_map(|step| {
            let place = choice.wrapping_add(step) % places;
            let field = lengths.get(place).copied().unwrap_or_default();
            let (bytes, error) = match fault {
                Fault::Truncated => {
                    let bytes = wire.split_at_checked(place)?.0.to_vec();
                    // Older peers omit optional fields, so not every cut is a fault.
                    let error = T::error_of(&bytes)?;
                    (bytes, error)
                }
                Fault::TrailingBytes => {
                    let bytes = [&wire[..], &[0x5a; TRAILING]].concat();
                    // An optional field that is absent takes the first of them.
                    (bytes, DecodeError::TrailingBytes(TRAILING - absent))
                }
                Fault::NegativeLength => {
                    let bytes = replaced(&wire, field, i32::MIN, &[]);
                    (bytes, DecodeError::NegativeLength(i32::MIN))
                }
                Fault::LengthBeyondTheEnd => {
                    let left = wire.len() - field.0 - PREFIX;
                    let rest = wire.split_at_checked(field.0 + PREFIX)?.1;
                    let end = (field.0, wire.len() - field.0);
                    let needed = i32::MAX as usize - left;
                    let bytes = replaced(&wire, end, i32::MAX, rest);
                    (bytes, DecodeError::Truncated { needed, left })
                }
                // A path or a name must be neither of these, and nothing else refuses one of them.
                // So each field that refuses the one has to refuse the other.
                Fault::Null => {
                    let other = T::error_of(&replaced(&wire, field, 1, &[0xff]));
                    (other == Some(NOT_A_CHARACTER)).then_some(())?;
                    (replaced(&wire, field, -1, &[]), DecodeError::UnexpectedNull)
                }
                Fault::NotUtf8 => {
                    let other = T::error_of(&replaced(&wire, field, -1, &[]));
                    (other == Some(DecodeError::UnexpectedNull)).then_some(())?;
                    (replaced(&wire, field, 1, &[0xff]), NOT_A_CHARACTER)
                }
            };
            Some(Self { bytes, fault, error, record: PhantomData })
        })
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns in which way they are wrong.
    pub fn fault(&self) -> Fault {
        self.fault
    }

    /// Returns the error that [`Decode::decode_exact`](crate::Decode::decode_exact) must have for
    /// them.
    ///
    /// It follows from the fault and not from decoding the bytes, except where they are truncated:
    /// what a decoder needs there depends on the record.
    pub fn error(&self) -> DecodeError {
        self.error
    }
}

/// How many bytes are behind a record with the fault [`Fault::TrailingBytes`].
const TRAILING: usize = 3;

/// The error of a text whose first byte is none of UTF-8.
const NOT_A_CHARACTER: DecodeError = DecodeError::InvalidUtf8 { valid_up_to: 0 };

/// The bytes with another length and other contents at a field.
fn replaced(bytes: &[u8], (offset, length): (usize, usize), new: i32, contents: &[u8]) -> Vec<u8> {
    let (front, rest) = bytes.split_at_checked(offset).unwrap_or((bytes, &[]));
    let back = rest.get(length..).unwrap_or_default();
    [front, &new.to_be_bytes(), contents, back].concat()
}

impl Fault {
    /// Every fault.
    pub const ALL: &'static [Self] = &[
        Self::Truncated,
        Self::TrailingBytes,
        Self::NegativeLength,
        Self::LengthBeyondTheEnd,
        Self::Null,
        Self::NotUtf8,
    ];
}

impl<'a> Arbitrary<'a> for Fault {
    fn arbitrary(from: &mut Unstructured<'a>) -> Result<Self> {
        from.choose(Self::ALL).copied()
    }
}

/// The value and the fault are the fuzzer's choice. A fault that the record cannot have is replaced
/// by one that every record can: bytes behind it.
impl<'a, T: Breakable + Arbitrary<'a>> Arbitrary<'a> for Broken<T> {
    fn arbitrary(from: &mut Unstructured<'a>) -> Result<Self> {
        let (fault, choice) = (from.arbitrary()?, from.arbitrary::<u16>()?);
        let value = from.arbitrary()?;
        Self::new(&value, fault, choice.into())
            .or_else(|| Self::new(&value, Fault::TrailingBytes, 0))
            .ok_or(arbitrary::Error::IncorrectFormat)
    }
}
