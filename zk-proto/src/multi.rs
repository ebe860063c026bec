//! multi and multiRead: a list of typed entries that ends in a marker and not after a count.
//!
//! An entry of the reply carries its own type, which need not be the request's: servers before
//! 3.7.2 answer create2 inside a multi as create. So both directions dispatch on what they read.

use std::fmt;

use crate::codes::{ErrorCode, OpCode};
use crate::error::DecodeError;
use crate::jute::{Decode, Encode, Reader, Writer, record};
use crate::ops::{
    CheckVersionRequest, Create2Response, CreateRequest, CreateResponse, CreateTtlRequest,
    DeleteRequest, GetChildrenRequest, GetChildrenResponse, GetDataRequest, GetDataResponse,
    Operation, SetDataRequest, SetDataResponse,
};

record! {
    /// The front of an entry, and alone the end of the list.
    MultiHeader {
        /// Which record follows.
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

/// Declares an enum of entries, each a record under an opcode.
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

        /// One entry with its header; the end marker is not an entry.
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

/// What a [`MultiList`] holds.
pub trait Entry<'a>: Encode + Copy {
    /// Reads what follows an entry's header.
    fn decode_entry(header: MultiHeader, reader: &mut Reader<'a>) -> Result<Self, DecodeError>;
}

entries! {
    /// One operation of a multi, or one read of a multiRead.
    MultiOp, |_| ErrorCode(-1), {
        /// create, answered with the path alone.
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
        /// [`ErrorCode::RUNTIME_INCONSISTENCY`] behind it.
        Error(ErrorCode) = ERROR,
    }
}

impl MultiOp<'_> {
    /// Whether it reads. A multiRead holds nothing else and a multi none; a server refuses the
    /// whole request otherwise, as it does after [`DecodeError::UnknownMultiEntry`].
    pub const fn is_read(&self) -> bool {
        matches!(self, Self::GetData(_) | Self::GetChildren(_))
    }
}

/// The entries of a multi: borrowed values on the way out, checked bytes on the way in.
#[derive(Clone, Copy)]
pub struct MultiList<'a, T>(Entries<'a, T>);

#[derive(Clone, Copy)]
enum Entries<'a, T> {
    Values(&'a [T]),
    /// Checked when it was decoded, end marker included.
    Wire(&'a [u8]),
}

/// The body of a multi or multiRead request. Entries of either decode under both.
pub type MultiRequest<'a> = MultiList<'a, MultiOp<'a>>;

/// The body of the reply. The header's error is 0 even if the multi failed: see
/// [`MultiResponse::failure`].
pub type MultiResponse<'a> = MultiList<'a, MultiResult<'a>>;

impl<'a, T: Entry<'a>> MultiList<'a, T> {
    /// Entries of the caller's.
    pub const fn new(entries: &'a [T]) -> Self {
        Self(Entries::Values(entries))
    }

    /// The entries in order, each decoded as it is asked for.
    pub fn iter(&self) -> MultiIter<'a, T> {
        MultiIter(self.0)
    }

    fn next_entry(reader: &mut Reader<'a>) -> Result<Option<T>, DecodeError> {
        let header = MultiHeader::decode(reader)?;
        if header.done { Ok(None) } else { T::decode_entry(header, reader).map(Some) }
    }
}

impl MultiResponse<'_> {
    /// The entry that made a multi fail, and how.
    ///
    /// Of a multiRead, whose entries fail one by one, this is the first that failed.
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

/// A multi: a list of reads goes out as a multiRead.
impl Operation for MultiRequest<'_> {
    type Reply<'r> = MultiResponse<'r>;

    fn op(&self) -> OpCode {
        match self.iter().next() {
            Some(first) if first.is_read() => OpCode::MULTI_READ,
            _ => OpCode::MULTI,
        }
    }
}
