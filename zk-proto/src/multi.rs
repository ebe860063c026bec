//! multi and multiRead: a list of typed entries that ends with a marker and has no count.
//!
//! An entry of the reply carries its own type, which may differ from the request's: servers before
//! 3.7.2 answer create2 inside a multi as create. So both directions decode by the type that they
//! read.

use std::fmt;

use crate::codes::ErrorCode;
use crate::error::DecodeError;
use crate::jute::{Decode, Encode, Inspect, Name, Reader, Value, Walk, Writer, breakable, record};
use crate::operations::OpCode;
use crate::ops::{
    CheckVersionRequest, Create2Response, CreateRequest, CreateResponse, CreateTtlRequest,
    DeleteRequest, GetChildrenRequest, GetChildrenResponse, GetDataRequest, GetDataResponse,
    Operation, SetDataRequest, SetDataResponse,
};

record! {
    /// The header of an entry; without an entry, it is the end of the list.
    MultiHeader {
        /// The type of the record that follows.
        op: OpCode,
        /// Whether the list ends here.
        done: bool,
        /// -1 in requests; in replies the entry's own result.
        error: ErrorCode,
    }
}

impl MultiHeader {
    const END: Self = Self { op: OpCode::ERROR, done: true, error: ErrorCode(-1) };
}

/// Declares an enum of entries, each of which is a record with an opcode.
macro_rules! entries {
    (
        $(#[$meta:meta])* $name:ident, $error:expr,
        { $($(#[$note:meta])* $variant:ident($record:ty) = $op:ident,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name<'a> { $($(#[$note])* $variant($record),)* }

        impl<'a> $name<'a> {
            /// The type in the entry's header.
            pub const fn op(&self) -> OpCode {
                match self { $(Self::$variant(_) => OpCode::$op,)* }
            }

            fn decode_body(op: OpCode, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                match op {
                    $(OpCode::$op => Decode::decode(reader).map(Self::$variant),)*
                    OpCode(other) => Err(DecodeError::UnknownMultiEntry(other)),
                }
            }
        }

        impl Encode for $name<'_> {
            fn encode(&self, writer: &mut Writer<'_>) {
                let error: fn(&Self) -> ErrorCode = $error;
                MultiHeader { op: self.op(), done: false, error: error(self) }.encode(writer);
                match self { $(Self::$variant(record) => record.encode(writer),)* }
            }
        }

        #[cfg(feature = "arbitrary")]
        impl<'a> ::arbitrary::Arbitrary<'a> for $name<'a> {
            fn arbitrary(from: &mut ::arbitrary::Unstructured<'a>) -> ::arbitrary::Result<Self> {
                let op = *from.choose(&[$(OpCode::$op),*])?;
                match op {
                    $(OpCode::$op => from.arbitrary().map(Self::$variant),)*
                    _ => Err(::arbitrary::Error::IncorrectFormat),
                }
            }
        }

        impl<'a> InspectEntry<'a> for $name<'a> {
            fn inspect_body(op: OpCode, walk: &mut Walk<'a, '_>) -> Option<()> {
                match op {
                    $(OpCode::$op => <$record>::inspect(walk, Name::Field("body")),)*
                    _ => None,
                }
            }
        }

        /// An entry is encoded with its header; the end marker is not an entry.
        impl<'a> Entry<'a> for $name<'a> {
            fn decode_entry(
                header: MultiHeader,
                reader: &mut Reader<'a>,
            ) -> Result<Self, DecodeError> {
                Self::decode_body(header.op, reader)
            }
        }
    };
}

/// An entry of a [`MultiList`].
pub trait Entry<'a>: Encode + Copy {
    /// Reads the record that follows an entry's header.
    fn decode_entry(header: MultiHeader, reader: &mut Reader<'a>) -> Result<Self, DecodeError>;
}

/// An entry whose fields can be visited.
pub(crate) trait InspectEntry<'a>: Entry<'a> {
    /// Visits the record behind an entry's header.
    fn inspect_body(op: OpCode, walk: &mut Walk<'a, '_>) -> Option<()>;
}

entries! {
    /// One operation of a multi, or one read of a multiRead.
    MultiOp, |_| ErrorCode(-1), {
        /// create, answered with only the path.
        Create(CreateRequest<'a>) = CREATE,
        /// create2, answered with path and Stat by newer servers.
        Create2(CreateRequest<'a>) = CREATE2,
        /// createContainer
        CreateContainer(CreateRequest<'a>) = CREATE_CONTAINER,
        /// createTTL
        CreateTtl(CreateTtlRequest<'a>) = CREATE_TTL,
        /// delete
        Delete(DeleteRequest<'a>) = DELETE,
        /// setData
        SetData(SetDataRequest<'a>) = SET_DATA,
        /// check
        Check(CheckVersionRequest<'a>) = CHECK,
        /// getData, in a multiRead
        GetData(GetDataRequest<'a>) = GET_DATA,
        /// getChildren, in a multiRead
        GetChildren(GetChildrenRequest<'a>) = GET_CHILDREN,
    }
}

entries! {
    /// The result of one entry.
    MultiResult, |result| match result {
        MultiResult::Error(code) => *code,
        _ => ErrorCode::OK,
    }, {
        /// The node's path.
        Create(CreateResponse<'a>) = CREATE,
        /// The node's path and Stat.
        Create2(Create2Response<'a>) = CREATE2,
        /// Deleted.
        Delete(()) = DELETE,
        /// The node's Stat.
        SetData(SetDataResponse) = SET_DATA,
        /// The version is as expected.
        Check(()) = CHECK,
        /// Data and Stat.
        GetData(GetDataResponse<'a>) = GET_DATA,
        /// The names of the children.
        GetChildren(GetChildrenResponse<'a>) = GET_CHILDREN,
        /// Failed, or rolled back: `OK` before the entry that failed and
        /// [`ErrorCode::RUNTIME_INCONSISTENCY`] after it.
        Error(ErrorCode) = ERROR,
    }
}

impl<'a> MultiOp<'a> {
    /// The path of the node that it is about.
    pub const fn path(&self) -> &'a str {
        match self {
            Self::Create(it) | Self::Create2(it) | Self::CreateContainer(it) => it.path,
            Self::CreateTtl(it) => it.path,
            Self::Delete(it) => it.path,
            Self::SetData(it) => it.path,
            Self::Check(it) => it.path,
            Self::GetData(it) => it.path,
            Self::GetChildren(it) => it.path,
        }
    }

    /// Whether this is a read.
    ///
    /// A multiRead contains only reads and a multi none. Otherwise a server refuses the whole
    /// request, as it does after [`DecodeError::UnknownMultiEntry`].
    pub const fn is_read(&self) -> bool {
        matches!(self, Self::GetData(_) | Self::GetChildren(_))
    }
}

/// The entries of a multi: borrowed values to encode, or checked bytes that were received.
#[derive(Clone, Copy)]
pub struct MultiList<'a, T>(Entries<'a, T>);

#[derive(Clone, Copy)]
enum Entries<'a, T> {
    Values(&'a [T]),
    /// The bytes were checked when the list was decoded, including the end marker.
    Wire(&'a [u8]),
}

/// The body of a multi or multiRead request. Either request decodes the entries of both.
pub type MultiRequest<'a> = MultiList<'a, MultiOp<'a>>;

/// The body of the reply to a multi or multiRead.
///
/// The header's error is 0 even if the multi failed: see [`MultiResponse::failure`].
pub type MultiResponse<'a> = MultiList<'a, MultiResult<'a>>;

impl<'a, T: Entry<'a>> MultiList<'a, T> {
    /// Makes a list of the caller's entries.
    pub const fn new(entries: &'a [T]) -> Self {
        Self(Entries::Values(entries))
    }

    /// Iterates over the entries in order, decoding each on demand.
    pub fn iter(&self) -> MultiIter<'a, T> {
        MultiIter(self.0)
    }

    fn next_entry(reader: &mut Reader<'a>) -> Result<Option<T>, DecodeError> {
        let header = MultiHeader::decode(reader)?;
        if header.done { Ok(None) } else { T::decode_entry(header, reader).map(Some) }
    }
}

impl MultiResponse<'_> {
    /// Returns the index and the error of the entry that made a multi fail.
    ///
    /// For a multiRead, whose entries fail one by one, this is the first that failed.
    pub fn failure(&self) -> Option<(usize, ErrorCode)> {
        self.iter().enumerate().find_map(|(index, result)| match result {
            MultiResult::Error(code) if code != ErrorCode::OK => Some((index, code)),
            _ => None,
        })
    }
}

/// The entries of a [`MultiList`].
#[derive(Clone)]
pub struct MultiIter<'a, T>(Entries<'a, T>);

impl<'a, T: Entry<'a>> Iterator for MultiIter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.0 {
            Entries::Values(values) => {
                let (first, rest) = values.split_first()?;
                *values = rest;
                Some(*first)
            }
            Entries::Wire(bytes) => {
                let mut reader = Reader::new(bytes);
                let entry = MultiList::next_entry(&mut reader).ok()??;
                *bytes = reader.take_rest();
                Some(entry)
            }
        }
    }
}

impl<T> fmt::Debug for MultiIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiIter").finish_non_exhaustive()
    }
}

impl<'a, T: Entry<'a> + fmt::Debug> fmt::Debug for MultiList<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: Entry<'a> + PartialEq> PartialEq for MultiList<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Entry<'a>> Decode<'a> for MultiList<'a, T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let mut walk = reader.clone();
        while Self::next_entry(&mut walk)?.is_some() {}
        let bytes = reader.take(reader.remaining() - walk.remaining())?;
        Ok(Self(Entries::Wire(bytes)))
    }
}

impl<T: Encode> Encode for MultiList<'_, T> {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self.0 {
            Entries::Values(values) => {
                for value in values {
                    value.encode(writer);
                }
                MultiHeader::END.encode(writer);
            }
            Entries::Wire(bytes) => writer.put(bytes),
        }
    }
}

breakable! { <'a> MultiRequest<'a>, MultiRequest }
breakable! { <'a> MultiResponse<'a>, MultiResponse }

/// Visits the entries and the end marker, each with its header; the marker is no item.
impl<'a, T: InspectEntry<'a>> Inspect<'a> for MultiList<'a, T> {
    fn inspect(walk: &mut Walk<'a, '_>, name: Name) -> Option<()> {
        let len = Self::decode(&mut walk.reader()).ok()?.iter().count();
        let list =
            |reader: &mut Reader<'a>| Self::decode(reader).ok().map(|_| Value::List(Some(len)));
        let entry = |reader: &mut Reader<'a>| {
            Self::next_entry(reader).ok()?.map(|_| Value::Record("Entry"))
        };
        walk.group(name, list, |walk| {
            (0..len).try_for_each(|index| {
                let op = MultiHeader::decode(&mut walk.reader()).ok()?.op;
                walk.group(Name::Item(index), entry, |walk| {
                    MultiHeader::inspect(walk, Name::Field("header"))?;
                    T::inspect_body(op, walk)
                })
            })?;
            MultiHeader::inspect(walk, Name::Field("end"))
        })
    }
}

/// A list that begins with a read is sent as a multiRead, any other as a multi.
impl Operation for MultiRequest<'_> {
    type Reply<'r> = MultiResponse<'r>;

    fn op(&self) -> OpCode {
        match self.iter().next() {
            Some(first) if first.is_read() => OpCode::MULTI_READ,
            _ => OpCode::MULTI,
        }
    }
}
