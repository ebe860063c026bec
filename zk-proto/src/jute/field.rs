//! The fields of a record one by one, each with its place in the bytes.
//!
//! [`Inspect`] is the third direction of a record, beside decoding and encoding, and is declared by
//! the same tables. It walks bytes that were decoded before, so an error needs no name here: the
//! walk stops, and its caller shows the rest as bytes.

use std::fmt;

#[cfg(feature = "arbitrary")]
use crate::error::DecodeError;
use crate::jute::list::List;
use crate::jute::text::{Secret, Text};
#[cfg(feature = "arbitrary")]
use crate::jute::wire::Encode;
use crate::jute::wire::{Decode, Reader};

/// How many bytes or characters of a value its `Display` shows.
const SHOWN: usize = 96;

/// The name of a field: what the record calls it, or its place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Name {
    /// A field of a record, as the record's type in this crate names it.
    Field(&'static str),
    /// An item of a list, counted from 0.
    Item(usize),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => f.write_str(name),
            Self::Item(index) => write!(f, "[{index}]"),
        }
    }
}

/// What a field holds. `Display` shows it in one line, with control characters escaped and long
/// values cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A record, by its name; its fields follow one level deeper.
    Record(&'static str),
    /// A list, by its length, or null; its count and its items follow one level deeper.
    List(Option<usize>),
    /// A number.
    Number(i64),
    /// A number that is written in hexadecimal: a zxid or a session id.
    Hex(i64),
    /// A boolean.
    Bool(bool),
    /// A number with a name, if it is a known one.
    Code(i32, Option<&'static str>),
    /// A path, a name or other text, which may be null.
    Text(Text<'a>),
    /// A buffer, which may be null.
    Buffer(Option<&'a [u8]>),
    /// A password or another proof, which is not shown.
    Secret(Secret<'a>),
    /// Bytes that no record is known for.
    Unknown(&'a [u8]),
    /// A field that an older peer omits.
    Absent,
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Record(name) => f.write_str(name),
            Self::List(Some(1)) => f.write_str("1 item"),
            Self::List(Some(len)) => write!(f, "{len} items"),
            Self::Number(number) => number.fmt(f),
            Self::Hex(number) => write!(f, "{number:#x}"),
            Self::Bool(value) => value.fmt(f),
            Self::Code(_, Some(name)) => f.write_str(name),
            Self::Code(code, None) => code.fmt(f),
            Self::Text(text) => match text.as_bytes() {
                None => f.write_str("null"),
                Some(bytes) => write_text(f, bytes),
            },
            Self::Buffer(Some(bytes)) | Self::Unknown(bytes) => write_bytes(f, bytes),
            Self::Secret(secret) => {
                write!(f, "({} secret bytes)", secret.expose().unwrap_or_default().len())
            }
            Self::List(None) | Self::Buffer(None) => f.write_str("null"),
            Self::Absent => f.write_str("absent"),
        }
    }
}

/// Writes text without quotes; nothing in it can end the line or move a terminal's cursor.
fn write_text(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    // A character has at most six bytes in Java's form.
    let text = Text::from_bytes(bytes.get(..SHOWN * 6).unwrap_or(bytes)).to_string_lossy();
    for character in text.chars().take(SHOWN) {
        match character {
            ' '..='~' => write!(f, "{character}")?,
            _ => write!(f, "{}", character.escape_debug())?,
        }
    }
    if text.chars().nth(SHOWN).is_some() {
        write!(f, "... ({} bytes)", bytes.len())
    } else {
        Ok(())
    }
}

/// Writes bytes as text in quotes if all that is shown is printable, and otherwise in hexadecimal.
fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let shown = bytes.get(..SHOWN).unwrap_or(bytes);
    let text = match std::str::from_utf8(shown) {
        // The end is within a character.
        Err(error) if error.error_len().is_none() && shown.len() < bytes.len() => {
            std::str::from_utf8(shown.get(..error.valid_up_to()).unwrap_or_default())
        }
        text => text,
    };
    match text {
        Ok(text) if !text.contains(char::is_control) => write!(f, "{text:?}")?,
        _ => {
            f.write_str("0x")?;
            shown.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
    }
    if shown.len() < bytes.len() { write!(f, "... ({} bytes)", bytes.len()) } else { Ok(()) }
}

/// A field of a frame, in the order of its bytes.
///
/// The leaves, which are all fields but records and lists, cover each byte exactly once. A record
/// or a list covers the fields that follow it and have a greater depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Field<'a> {
    /// The name.
    pub name: Name,
    /// The value.
    pub value: Value<'a>,
    /// Where the field starts, in bytes from the start of the payload.
    pub offset: usize,
    /// How many bytes the field takes, including the length in front of text and buffers.
    pub length: usize,
    /// How many records and lists the field is in.
    pub depth: usize,
}

impl Field<'_> {
    /// Whether the field holds bytes of its own, and is not a record or a list of other fields.
    pub const fn is_leaf(&self) -> bool {
        !matches!(self.value, Value::Record(_) | Value::List(_))
    }
}

/// A value whose fields can be visited.
pub(crate) trait Inspect<'a>: Decode<'a> {
    /// Visits the next value as the field `name`; `None` if the walk has stopped.
    fn inspect(walk: &mut Walk<'a, '_>, name: Name) -> Option<()>;
}

/// A walk through the fields of a payload.
pub(crate) struct Walk<'a, 'v> {
    reader: Reader<'a>,
    len: usize,
    depth: usize,
    exposes: bool,
    /// Takes a field, or stops the walk in front of it.
    visit: &'v mut dyn FnMut(Field<'a>) -> bool,
}

impl<'a, 'v> Walk<'a, 'v> {
    /// Starts at the front of `payload`. Secrets are shown as buffers if `exposes` is true.
    pub(crate) fn new(
        payload: &'a [u8],
        exposes: bool,
        visit: &'v mut dyn FnMut(Field<'a>) -> bool,
    ) -> Self {
        Self { reader: Reader::new(payload), len: payload.len(), depth: 0, exposes, visit }
    }

    /// Visits one value that has no fields of its own.
    pub(crate) fn leaf<T: Decode<'a>>(
        &mut self,
        name: Name,
        value: impl FnOnce(T) -> Value<'a>,
    ) -> Option<()> {
        let mut end = self.reader.clone();
        let value = value(T::decode(&mut end).ok()?);
        self.visit(name, value, end.remaining())?;
        self.reader = end;
        Some(())
    }

    /// Visits a record or a list, which `read` reads as a whole, and then the fields inside it.
    pub(crate) fn group(
        &mut self,
        name: Name,
        read: impl FnOnce(&mut Reader<'a>) -> Option<Value<'a>>,
        inside: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let mut end = self.reader.clone();
        let value = read(&mut end)?;
        self.visit(name, value, end.remaining())?;
        self.depth += 1;
        let walked = inside(self);
        self.depth -= 1;
        walked
    }

    /// Visits a record.
    pub(crate) fn record<T: Decode<'a>>(
        &mut self,
        name: Name,
        record: &'static str,
        inside: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let read = |reader: &mut Reader<'a>| T::decode(reader).ok().map(|_| Value::Record(record));
        self.group(name, read, inside)
    }

    /// Visits all bytes that are left, if there are any.
    pub(crate) fn rest(&mut self, name: &'static str) {
        let rest = self.reader.take_rest();
        if !rest.is_empty() {
            let (offset, length) = (self.len - rest.len(), rest.len());
            let value = Value::Unknown(rest);
            (self.visit)(Field { name: Name::Field(name), value, offset, length, depth: 0 });
        }
    }

    /// The bytes that are left.
    pub(crate) fn reader(&self) -> Reader<'a> {
        self.reader.clone()
    }

    fn visit(&mut self, name: Name, value: Value<'a>, remaining: usize) -> Option<()> {
        let offset = self.len - self.reader.remaining();
        let length = self.reader.remaining() - remaining;
        let value = match value {
            Value::Secret(secret) if self.exposes => Value::Buffer(secret.expose()),
            value => value,
        };
        (self.visit)(Field { name, value, offset, length, depth: self.depth }).then_some(())
    }
}

impl<'a> Inspect<'a> for () {
    fn inspect(_: &mut Walk<'a, '_>, _: Name) -> Option<()> {
        Some(())
    }
}

/// Declares how values without fields are shown.
macro_rules! leaf {
    ($($kind:ty => $value:expr;)*) => {
        $(impl<'a> $crate::jute::Inspect<'a> for $kind {
            fn inspect(
                walk: &mut $crate::jute::Walk<'a, '_>,
                name: $crate::jute::Name,
            ) -> Option<()> {
                walk.leaf(name, $value)
            }
        })*
    };
}
pub(crate) use leaf;

leaf! {
    i32 => |number: i32| Value::Number(number.into());
    i64 => Value::Number;
    bool => Value::Bool;
    Option<bool> => |value: Option<bool>| value.map_or(Value::Absent, Value::Bool);
    &'a str => |text| Value::Text(Text::new(text));
    Text<'a> => Value::Text;
    Option<&'a [u8]> => Value::Buffer;
    Secret<'a> => Value::Secret;
}

impl<'a, T: Inspect<'a>> Inspect<'a> for List<'a, T> {
    fn inspect(walk: &mut Walk<'a, '_>, name: Name) -> Option<()> {
        let list = Self::decode(&mut walk.reader()).ok()?;
        let len = (!list.is_null()).then(|| list.len());
        let read = |reader: &mut Reader<'a>| Self::decode(reader).ok().map(|_| Value::List(len));
        walk.group(name, read, |walk| {
            i32::inspect(walk, Name::Field("count"))?;
            (0..list.len()).try_for_each(|index| T::inspect(walk, Name::Item(index)))
        })
    }
}

/// A record whose bytes can be made wrong in a chosen way.
#[cfg(feature = "arbitrary")]
pub trait Breakable: Encode {
    /// Returns the offsets and lengths of the fields that start with a length, and how many
    /// optional fields are absent.
    #[doc(hidden)]
    fn lengths(bytes: &[u8]) -> (Vec<(usize, usize)>, usize);

    /// Returns the error of decoding exactly these bytes.
    #[doc(hidden)]
    fn error_of(bytes: &[u8]) -> Option<DecodeError>;
}

#[cfg(feature = "arbitrary")]
impl Breakable for () {
    fn lengths(_: &[u8]) -> (Vec<(usize, usize)>, usize) {
        (Vec::new(), 0)
    }

    fn error_of(bytes: &[u8]) -> Option<DecodeError> {
        Self::decode_exact(bytes).err()
    }
}

/// Collects the offsets and lengths of the fields that start with a length, and counts those that
/// are absent.
#[cfg(feature = "arbitrary")]
pub(crate) fn lengths<'a>(
    bytes: &'a [u8],
    inspect: impl FnOnce(&mut Walk<'a, '_>) -> Option<()>,
) -> (Vec<(usize, usize)>, usize) {
    let (mut lengths, mut absent) = (Vec::new(), 0);
    let mut visit = |field: Field<'a>| {
        match field.value {
            Value::Text(_) | Value::Buffer(_) | Value::Secret(_) => {
                lengths.push((field.offset, field.length));
            }
            Value::Absent => absent += 1,
            _ => {}
        }
        true
    };
    let walked = inspect(&mut Walk::new(bytes, false, &mut visit));
    if walked.is_none() {
        lengths.clear();
    }
    (lengths, absent)
}
