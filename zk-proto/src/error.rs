//! Errors of bytes that are no record, and of values that do not fit on the wire.
//!
//! A decoding error is the peer's fault, an encoding error the caller's, so they are two types.

use thiserror::Error;

/// Bytes that are not a record of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end inside a value.
    #[error("truncated: {needed} more bytes expected, {left} left")]
    Truncated {
        /// Bytes that the current value still needs.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// The length of a string or buffer is below -1 (which stands for null), or that of a frame
    /// below 0.
    #[error("negative length {0}")]
    NegativeLength(i32),
    /// A string or a list of records is null where the protocol requires a value.
    #[error("null where a value is required")]
    UnexpectedNull,
    /// A path or name that is not UTF-8.
    #[error("text is not UTF-8 (first bad byte at {valid_up_to})")]
    InvalidUtf8 {
        /// Bytes before the first bad one.
        valid_up_to: usize,
    },
    /// A frame whose length prefix is above the reader's limit.
    #[error("frame of {len} bytes is above the limit of {limit}")]
    FrameTooLong {
        /// The announced payload length.
        len: usize,
        /// The reader's limit.
        limit: usize,
    },
    /// An entry of a multi whose type has no record.
    #[error("a multi has no entry of type {0}")]
    UnknownMultiEntry(i32),
    /// The reply to a multi has another number of results than the multi has operations.
    #[error("{results} results of a multi of {operations}")]
    MultiLength {
        /// The number of operations in the multi.
        operations: usize,
        /// The number of results in the reply.
        results: usize,
    },
    /// A result in the reply to a multi is of another kind than its operation.
    #[error("a result of type {result} to a multi's operation of type {operation}")]
    MultiMismatch {
        /// The type of the operation.
        operation: i32,
        /// The type of the result.
        result: i32,
    },
    /// A password that is longer than any server makes.
    #[error("session password of {0} bytes")]
    PasswordTooLong(usize),
    /// Bytes that remain where a record must end.
    #[error("{0} bytes after the end of the record")]
    TrailingBytes(usize),
}

/// A value that the wire cannot carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The frame would be longer than the limit that the writer was given.
    #[error("the frame takes {len} bytes, above the limit of {limit}")]
    TooLong {
        /// The payload bytes that the whole frame would need.
        len: usize,
        /// The writer's limit.
        limit: usize,
    },
}
