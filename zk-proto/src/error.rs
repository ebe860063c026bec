//! What can be wrong with bytes, and with values that do not fit into bytes.
//!
//! Decoding blames the peer, encoding blames the caller; the two never mix in one type.

use std::fmt;

/// Bytes that are not a record of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end inside a value.
    Truncated {
        /// Bytes that the value at hand still takes.
        needed: usize,
        /// Bytes that are there.
        left: usize,
    },
    /// The length of a string or buffer below -1, which stands for null, or of a frame below 0.
    NegativeLength(i32),
    /// A string or record list is null where the protocol wants a value.
    UnexpectedNull,
    /// A path or name that is not UTF-8.
    InvalidUtf8 {
        /// Bytes before the first bad one.
        valid_up_to: usize,
    },
    /// A frame whose length prefix is above the reader's cap.
    FrameTooLong {
        /// The announced payload length.
        len: usize,
        /// The reader's cap.
        limit: usize,
    },
    /// An entry of a multi whose type has no record.
    UnknownMultiEntry(i32),
    /// The answer to a multi has another number of results than the multi has operations.
    MultiLength {
        /// What was asked.
        operations: usize,
        /// What came.
        results: usize,
    },
    /// A result in the answer to a multi is of another kind than its operation.
    MultiMismatch {
        /// What was asked.
        operation: i32,
        /// What came.
        result: i32,
    },
    /// A password that is longer than any server makes.
    PasswordTooLong(usize),
    /// Bytes left over where a record must end.
    TrailingBytes(usize),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { needed, left } => {
                write!(f, "truncated: {needed} more bytes expected, {left} left")
            }
            Self::NegativeLength(inner) => write!(f, "negative length {inner}"),
            Self::UnexpectedNull => f.write_str("null where a value is required"),
            Self::InvalidUtf8 { valid_up_to } => {
                write!(f, "text is not UTF-8 (first bad byte at {valid_up_to})")
            }
            Self::FrameTooLong { len, limit } => {
                write!(f, "frame of {len} bytes is above the limit of {limit}")
            }
            Self::UnknownMultiEntry(inner) => write!(f, "a multi has no entry of type {inner}"),
            Self::MultiLength { operations, results } => {
                write!(f, "{results} results of a multi of {operations}")
            }
            Self::MultiMismatch { operation, result } => {
                write!(f, "a result of type {result} to a multi's operation of type {operation}")
            }
            Self::PasswordTooLong(inner) => write!(f, "session password of {inner} bytes"),
            Self::TrailingBytes(inner) => write!(f, "{inner} bytes after the end of the record"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// A value that the wire cannot carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The frame would be longer than the limit that the writer was given.
    TooLong {
        /// Payload bytes that the whole frame would take.
        len: usize,
        /// The writer's cap.
        limit: usize,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { len, limit } => {
                write!(f, "the frame takes {len} bytes, above the limit of {limit}")
            }
        }
    }
}

impl std::error::Error for EncodeError {}
