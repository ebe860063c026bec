//! Text that need not be UTF-8, and secret bytes.
//!
//! Java writes characters above U+FFFF as two surrogates of three bytes each, so a strict decoder
//! would fail on an access list with an emoji in it.

use std::borrow::Cow;
use std::char::REPLACEMENT_CHARACTER;
use std::fmt;

use crate::error::DecodeError;
use crate::jute::wire::{Decode, Encode, Reader, Writer};

/// Text outside of paths, which may be null and need not be UTF-8.
///
/// Java writes a character above U+FFFF as two surrogates of three bytes each, which is not UTF-8.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Text<'a>(Option<&'a [u8]>);

impl<'a> Text<'a> {
    /// The null string.
    pub const NULL: Self = Self(None);

    /// Makes text of a string, which is written as plain UTF-8.
    pub const fn new(text: &'a str) -> Self {
        Self(Some(text.as_bytes()))
    }

    /// Makes text of the bytes that go over the wire.
    pub const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self(Some(bytes))
    }

    /// Returns the bytes that Java writes for `text`.
    ///
    /// They are UTF-8, except that a character above U+FFFF is two surrogates. A server that
    /// imitates a real one writes them.
    ///
    /// ```
    /// use zk_proto::Text;
    ///
    /// assert_eq!(&*Text::java_bytes("zk\u{1F600}"), b"zk\xed\xa0\xbd\xed\xb8\x80");
    /// ```
    pub fn java_bytes(text: &str) -> Cow<'_, [u8]> {
        if text.bytes().all(|byte| byte < 0xf0) {
            return Cow::Borrowed(text.as_bytes());
        }
        let mut bytes = Vec::with_capacity(text.len());
        for character in text.chars() {
            match character {
                '\0'..='\u{ffff}' => {
                    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        let low = |bits: u16| 0x80 | (bits & 0x3f) as u8;
                        bytes.extend([0xe0 | (*unit >> 12) as u8, low(*unit >> 6), low(*unit)]);
                    }
                }
            }
        }
        Cow::Owned(bytes)
    }

    /// Returns the bytes as they are on the wire, or `None` for null.
    pub const fn as_bytes(&self) -> Option<&'a [u8]> {
        self.0
    }

    /// Returns the text if it is valid UTF-8.
    pub fn as_str(&self) -> Option<&'a str> {
        self.0.and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Returns the text as a string, with surrogate pairs joined; null is empty.
    ///
    /// Whatever else is not UTF-8 is replaced by U+FFFD, as Java does. That is right for what a
    /// server has written: see [`java_bytes`](Self::java_bytes).
    ///
    /// ```
    /// use zk_proto::{Decode, Text};
    ///
    /// let java = b"\x00\x00\x00\x06\xed\xa0\xbd\xed\xb8\x80";
    /// assert_eq!(Text::decode_exact(java)?.to_string_lossy(), "\u{1F600}");
    /// # Ok::<(), zk_proto::DecodeError>(())
    /// ```
    pub fn to_string_lossy(&self) -> String {
        self.decode(surrogate_pair)
    }

    /// Returns the text as Java reads it; null is empty.
    ///
    /// This is [`to_string_lossy`](Self::to_string_lossy) without joining surrogates: Java does not
    /// read what it has written, and replaces each of them by U+FFFD (seen at 3.8.0 and 3.9.3 on
    /// Java 17). A server that imitates a real one reads so.
    ///
    /// ```
    /// use zk_proto::Text;
    ///
    /// let text = Text::from_bytes(b"zk\xed\xa0\xbd\xed\xb8\x80");
    /// assert_eq!(text.to_java_string(), "zk\u{FFFD}\u{FFFD}");
    /// ```
    pub fn to_java_string(&self) -> String {
        self.decode(|_| None)
    }

    /// Decodes the bytes, six of them by `pair` where it finds a character in them.
    fn decode(&self, pair: impl Fn(&[u8]) -> Option<char>) -> String {
        let mut rest = self.0.unwrap_or_default();
        let mut text = String::with_capacity(rest.len());
        while !rest.is_empty() {
            let (valid, bad) = match std::str::from_utf8(rest) {
                Ok(valid) => (valid, None),
                Err(error) => {
                    let (head, _) = rest.split_at(error.valid_up_to());
                    (std::str::from_utf8(head).unwrap_or_default(), Some(error))
                }
            };
            text.push_str(valid);
            rest = rest.get(valid.len()..).unwrap_or_default();
            if let Some(bad) = bad {
                let (character, used) = match (pair(rest), rest) {
                    (Some(character), _) => (character, 6),
                    // A surrogate, whole or cut off, is one broken character in Java.
                    (None, [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..]) => (REPLACEMENT_CHARACTER, 3),
                    (None, [0xed, 0xa0..=0xbf, ..]) => (REPLACEMENT_CHARACTER, 2),
                    (None, _) => (REPLACEMENT_CHARACTER, bad.error_len().unwrap_or(rest.len())),
                };
                text.push(character);
                rest = rest.get(used..).unwrap_or_default();
            }
        }
        text
    }
}

/// The character that the six bytes `ed a0..af xx ed b0..bf xx` encode.
fn surrogate_pair(bytes: &[u8]) -> Option<char> {
    let &[
        0xed,
        high @ 0xa0..=0xaf,
        high_low @ 0x80..=0xbf,
        0xed,
        low @ 0xb0..=0xbf,
        low_low @ 0x80..=0xbf,
        ..,
    ] = bytes
    else {
        return None;
    };
    let unit = |a: u8, b: u8| 0xd000 | (u32::from(a & 0x3f) << 6) | u32::from(b & 0x3f);
    let high = unit(high, high_low).wrapping_sub(0xd800);
    let low = unit(low, low_low).wrapping_sub(0xdc00);
    char::from_u32(0x1_0000 + (high << 10) + low)
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("null"),
            Some(_) => fmt::Debug::fmt(&self.to_string_lossy(), f),
        }
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::new(text)
    }
}

impl<'a> Decode<'a> for Text<'a> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Option::decode(reader).map(Self)
    }
}

impl Encode for Text<'_> {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        self.0.encode(writer);
    }
}

/// A buffer that proves an identity. `Debug` does not show it.
///
/// On the wire it is a buffer like any other.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Secret<'a>(Option<&'a [u8]>);

impl<'a> Secret<'a> {
    /// Makes a secret, or null.
    pub const fn new(bytes: Option<&'a [u8]>) -> Self {
        Self(bytes)
    }

    /// Returns the secret itself.
    pub const fn expose(&self) -> Option<&'a [u8]> {
        self.0
    }
}

impl fmt::Debug for Secret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl<'a> Decode<'a> for Secret<'a> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Option::decode(reader).map(Self)
    }
}

impl Encode for Secret<'_> {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        self.0.encode(writer);
    }
}
