//! Makes values out of a fuzzer's bytes, front to back.
//!
//! Strings and buffers are pieces of the input, and lists are parts of lists that were made before,
//! so that a value borrows all of its contents, as a caller's value does. After the end of the
//! input, everything is zero, empty or null. This file knows no record.

use crate::acl::Acl;
use crate::codes::{
    AddWatchMode, CreateMode, ErrorCode, EventType, KeeperState, OpCode, WatcherType,
};
use crate::connect::{Password, SessionId};
use crate::header::{Xid, Zxid};
use crate::jute::{Decode, List, Secret, Text};
use crate::ops::ClientInfo;

/// A value that can be made of any bytes.
pub(crate) trait Value<'a>: Sized {
    fn value(from: &mut Cursor<'a>) -> Self;
}

/// The lists that the lists of a record are parts of.
pub(crate) struct Lists<'a> {
    pub(crate) names: Vec<&'a str>,
    pub(crate) acls: Vec<Acl<'a>>,
    pub(crate) infos: Vec<ClientInfo<'a>>,
}

impl Lists<'_> {
    pub(crate) const NONE: &'static Lists<'static> =
        &Lists { names: Vec::new(), acls: Vec::new(), infos: Vec::new() };
}

/// The remaining input, and the lists that were made of the input before it.
pub(crate) struct Cursor<'a> {
    input: &'a [u8],
    lists: &'a Lists<'a>,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(input: &'a [u8], lists: &'a Lists<'a>) -> Self {
        Self { input, lists }
    }

    /// The remaining input.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.input
    }

    pub(crate) fn value<T: Value<'a>>(&mut self) -> T {
        T::value(self)
    }

    /// Up to seven values.
    pub(crate) fn several<T: Value<'a>>(&mut self) -> Vec<T> {
        let count = self.below(8);
        std::iter::repeat_with(|| self.value()).take(count).collect()
    }

    /// A number below `end`, or 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()).checked_rem(end).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        for (byte, from) in array.iter_mut().zip(self.take(N)) {
            *byte = *from;
        }
        array
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.input.split_at(len.min(self.input.len()));
        self.input = rest;
        taken
    }

    /// A few bytes, and sometimes more than the last byte of a length can express.
    fn piece(&mut self) -> &'a [u8] {
        let len = match self.byte() {
            len @ 0..240 => usize::from(len % 16),
            _ => 300,
        };
        self.take(len)
    }

    fn part<T>(&mut self, all: &'a [T]) -> List<'a, T> {
        if self.below(4) == 0 {
            return List::NULL;
        }
        let (_, part) = all.split_at(self.below(all.len() + 1));
        let (part, _) = part.split_at(self.below(part.len() + 1));
        List::new(part)
    }
}

impl<'a> Value<'a> for () {
    fn value(_: &mut Cursor<'a>) -> Self {}
}

impl<'a> Value<'a> for i32 {
    fn value(from: &mut Cursor<'a>) -> Self {
        Self::from_be_bytes(from.array())
    }
}

impl<'a> Value<'a> for i64 {
    fn value(from: &mut Cursor<'a>) -> Self {
        Self::from_be_bytes(from.array())
    }
}

impl<'a> Value<'a> for bool {
    fn value(from: &mut Cursor<'a>) -> Self {
        from.below(2) == 1
    }
}

impl<'a> Value<'a> for Option<bool> {
    fn value(from: &mut Cursor<'a>) -> Self {
        (from.below(2) == 1).then(|| from.value())
    }
}

impl<'a> Value<'a> for Option<&'a [u8]> {
    fn value(from: &mut Cursor<'a>) -> Self {
        (from.below(4) > 0).then(|| from.piece())
    }
}

/// The part of a piece that is UTF-8.
impl<'a> Value<'a> for &'a str {
    fn value(from: &mut Cursor<'a>) -> Self {
        let piece = from.piece();
        str::from_utf8(piece).unwrap_or_else(|error| {
            let (text, _) = piece.split_at(error.valid_up_to());
            str::from_utf8(text).unwrap_or_default()
        })
    }
}

impl<'a> Value<'a> for Text<'a> {
    fn value(from: &mut Cursor<'a>) -> Self {
        match from.below(4) {
            0 => Self::NULL,
            1 => Self::decode_exact(NOT_UTF8).unwrap_or_default(),
            _ => Self::new(from.value()),
        }
    }
}

/// Two surrogates as Java writes them, and half of one, with their length in front.
const NOT_UTF8: &[u8] = b"\0\0\0\x08\xed\xa0\xbd\xed\xb8\x80\xed\xa0";

impl<'a> Value<'a> for Secret<'a> {
    fn value(from: &mut Cursor<'a>) -> Self {
        Self::new(from.value())
    }
}

impl<'a> Value<'a> for Password {
    fn value(from: &mut Cursor<'a>) -> Self {
        let len = from.below(Self::LEN + 1);
        Self::new(from.take(len)).unwrap_or_default()
    }
}

impl<'a> Value<'a> for List<'a, &'a str> {
    fn value(from: &mut Cursor<'a>) -> Self {
        from.part(&from.lists.names)
    }
}

impl<'a> Value<'a> for List<'a, Acl<'a>> {
    fn value(from: &mut Cursor<'a>) -> Self {
        from.part(&from.lists.acls)
    }
}

impl<'a> Value<'a> for List<'a, ClientInfo<'a>> {
    fn value(from: &mut Cursor<'a>) -> Self {
        from.part(&from.lists.infos)
    }
}

macro_rules! numbers {
    ($($number:ident),*) => {
        $(impl<'a> Value<'a> for $number {
            fn value(from: &mut Cursor<'a>) -> Self {
                Self(from.value())
            }
        })*
    };
}

numbers! {
    Xid, Zxid, SessionId, OpCode, ErrorCode, CreateMode, EventType, KeeperState, AddWatchMode,
    WatcherType
}
