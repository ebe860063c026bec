//! Reader, writer and the primitive types.
//!
//! Everything is big-endian and self-delimiting. Decoding borrows from the frame and allocates
//! nothing. Encoding appends to a buffer that the caller owns, and may grow it. A field takes a few
//! instructions, fewer than a call, so all of this may be inlined into other crates. This file
//! knows no record.

use byteorder::{BigEndian, ByteOrder};
use bytes::BytesMut;

use crate::error::{DecodeError, EncodeError};

/// A length of -1 stands for null, in buffers, strings and vectors alike.
pub(crate) const NULL: i32 = -1;

/// A value that can be decoded.
pub trait Decode<'a>: Sized {
    /// Reads one value and moves the reader behind it.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Reads one value that must fill `bytes` to the end.
    ///
    /// This is for tests and tools: a newer peer may append fields, so code that talks to servers
    /// calls [`Decode::decode`] and checks [`Reader::remaining`].
    fn decode_exact(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = Self::decode(&mut reader)?;
        match reader.remaining() {
            0 => Ok(value),
            left => Err(DecodeError::TrailingBytes(left)),
        }
    }
}

/// A value that can be encoded.
pub trait Encode {
    /// Appends the value. [`Writer::finish`] reports a value that does not fit.
    fn encode(&self, writer: &mut Writer<'_>);
}

/// Reads values from a borrowed frame, front to back.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Makes a reader at the front of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns how many bytes are not read yet.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns the bytes not read yet, and leaves them in the reader.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes all bytes not read yet.
    #[inline]
    pub fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Takes the next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let Some((head, tail)) = self.rest.split_at_checked(n) else {
            let left = self.rest.len();
            return Err(DecodeError::Truncated { needed: n.saturating_sub(left), left });
        };
        self.rest = tail;
        Ok(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((head, tail)) = self.rest.split_first_chunk::<N>() else {
            let left = self.rest.len();
            return Err(DecodeError::Truncated { needed: N.saturating_sub(left), left });
        };
        self.rest = tail;
        Ok(*head)
    }

    /// The length of a buffer; `None` is null.
    #[inline]
    pub(crate) fn length(&mut self) -> Result<Option<usize>, DecodeError> {
        match i32::decode(self)? {
            NULL => Ok(None),
            n => usize::try_from(n).map(Some).map_err(|_| DecodeError::NegativeLength(n)),
        }
    }
}

/// Appends values to the caller's buffer, up to a limit.
///
/// A value that does not fit is not written, but its length is counted. So an oversized value is
/// never copied, and the error can state how long the frame would have been.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut BytesMut,
    start: usize,
    limit: usize,
    /// The length that `out` may reach.
    end: usize,
    /// Bytes that did not fit.
    unwritten: usize,
}

impl<'a> Writer<'a> {
    /// Makes a writer that appends at most `limit` bytes to `out`.
    ///
    /// It never appends more than 2^31 - 1 bytes, the largest length on the wire.
    #[inline]
    pub fn new(out: &'a mut BytesMut, limit: usize) -> Self {
        let (start, limit) = (out.len(), limit.min(i32::MAX as usize));
        Self { out, start, limit, end: start.saturating_add(limit), unwritten: 0 }
    }

    /// Appends raw bytes.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        if self.out.len() + bytes.len() <= self.end {
            // Not `put_slice`, which would not be inlined.
            self.out.extend_from_slice(bytes);
        } else {
            self.leave_out(bytes.len());
        }
    }

    /// Returns the length that was written, or an error that leaves the buffer unchanged.
    #[inline]
    pub fn finish(self) -> Result<usize, EncodeError> {
        let len = (self.out.len() - self.start).saturating_add(self.unwritten);
        if len > self.limit {
            self.out.truncate(self.start);
            return Err(EncodeError::TooLong { len, limit: self.limit });
        }
        Ok(len)
    }

    /// Appends a length or count. One above `i32::MAX` cannot be written; counting it as that many
    /// bytes exceeds every limit.
    #[inline]
    pub(crate) fn put_length(&mut self, n: usize) {
        match i32::try_from(n) {
            Ok(n) => n.encode(self),
            Err(_) => self.leave_out(n),
        }
    }

    #[cold]
    fn leave_out(&mut self, len: usize) {
        self.unwritten = self.unwritten.saturating_add(len);
    }
}

impl<'a> Decode<'a> for i32 {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.array().map(|bytes: [u8; 4]| BigEndian::read_i32(&bytes))
    }
}

impl Encode for i32 {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        let mut bytes = [0; 4];
        BigEndian::write_i32(&mut bytes, *self);
        writer.put(&bytes);
    }
}

impl<'a> Decode<'a> for i64 {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.array().map(|bytes: [u8; 8]| BigEndian::read_i64(&bytes))
    }
}

impl Encode for i64 {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        let mut bytes = [0; 8];
        BigEndian::write_i64(&mut bytes, *self);
        writer.put(&bytes);
    }
}

/// Any byte except 0 is decoded as true; 0 and 1 are written.
impl<'a> Decode<'a> for bool {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let [byte] = reader.array()?;
        Ok(byte != 0)
    }
}

impl Encode for bool {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.put(&[u8::from(*self)]);
    }
}

/// A buffer; null and empty are different values, also for ZooKeeper.
impl<'a> Decode<'a> for Option<&'a [u8]> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.length()? {
            None => Ok(None),
            Some(len) => reader.take(len).map(Some),
        }
    }
}

impl Encode for Option<&[u8]> {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            None => NULL.encode(writer),
            Some(bytes) => {
                writer.put_length(bytes.len());
                writer.put(bytes);
            }
        }
    }
}

/// A path or name: never null, always UTF-8 (characters that Java would write as surrogates are
/// illegal in paths).
impl<'a> Decode<'a> for &'a str {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let bytes = Option::<&[u8]>::decode(reader)?.ok_or(DecodeError::UnexpectedNull)?;
        std::str::from_utf8(bytes)
            .map_err(|error| DecodeError::InvalidUtf8 { valid_up_to: error.valid_up_to() })
    }
}

impl Encode for &str {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        Some(self.as_bytes()).encode(writer);
    }
}
