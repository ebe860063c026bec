//! The request and the reply of every operation, each as one type.
//!
//! Both are made of the table of operations.

use crate::error::DecodeError;
use crate::jute::{Decode, Encode, Inspect, Name, Reader, Walk, Writer};
use crate::multi::{MultiRequest, MultiResponse};
use crate::operations::{OpCode, operations};
use crate::ops::*;
use crate::watch::{SetWatches, SetWatches2};

/// The name of the field that holds the record behind a header.
const BODY: &str = "body";

/// Declares [`Request`] and [`Reply`], with a variant for each operation.
macro_rules! bodies {
    ($(
        $(#[$note:meta])* $op:ident = $code:literal ($name:literal, $($info:tt)*)
        $($variant:ident: $request:ty => $reply:ty)?;
    )*) => {
        /// The body of a request.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Request<'a> {
            $($(#[doc = $name] $variant($request),)?)*
            /// The body of an operation that this crate does not know.
            Unknown(&'a [u8]),
        }

        /// The body of a reply.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Reply<'a> {
            $($(#[doc = $name] $variant($reply),)?)*
            /// A reply with an error, which has no body.
            Failed,
            /// The body of the reply to an operation that this crate does not know.
            Unknown(&'a [u8]),
        }

        impl<'a> Request<'a> {
            pub(crate) fn decode(op: OpCode, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                match op {
                    $($(OpCode::$op => Decode::decode(reader).map(Self::$variant),)?)*
                    _ => Ok(Self::Unknown(reader.take_rest())),
                }
            }

            pub(crate) fn inspect(&self, walk: &mut Walk<'a, '_>) -> Option<()> {
                match self {
                    $($(Self::$variant(_) => <$request>::inspect(walk, Name::Field(BODY)),)?)*
                    Self::Unknown(_) => Some(walk.rest(BODY)),
                }
            }
        }

        impl<'a> Reply<'a> {
            pub(crate) fn decode(op: OpCode, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                match op {
                    $($(OpCode::$op => Decode::decode(reader).map(Self::$variant),)?)*
                    _ => Ok(Self::Unknown(reader.take_rest())),
                }
            }

            pub(crate) fn inspect(&self, walk: &mut Walk<'a, '_>) -> Option<()> {
                match self {
                    $($(Self::$variant(_) => <$reply>::inspect(walk, Name::Field(BODY)),)?)*
                    Self::Failed => Some(()),
                    Self::Unknown(_) => Some(walk.rest(BODY)),
                }
            }
        }

        impl Encode for Request<'_> {
            fn encode(&self, writer: &mut Writer<'_>) {
                match self {
                    $($(Self::$variant(record) => record.encode(writer),)?)*
                    Self::Unknown(bytes) => writer.put(bytes),
                }
            }
        }

        impl Encode for Reply<'_> {
            fn encode(&self, writer: &mut Writer<'_>) {
                match self {
                    $($(Self::$variant(record) => record.encode(writer),)?)*
                    Self::Failed => {}
                    Self::Unknown(bytes) => writer.put(bytes),
                }
            }
        }
    };
}

operations!(bodies);
