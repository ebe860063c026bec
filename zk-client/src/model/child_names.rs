//! The names of any number of children, in one piece of text.
//!
//! A node may have a hundred thousand children, so a name takes its bytes and four more for the
//! position of its end, and no allocation of its own.

use std::fmt;
use std::iter::FusedIterator;
use std::{slice, vec};

use zk_proto::{Decode, DecodeError, List, Reader, Text};

/// The names of a node's children, in no order.
///
/// They lie one after the other in one `String`, so a name is borrowed from it. Each `String` of a
/// list that is consumed is a copy:
///
/// ```
/// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
/// let mut jobs = client.get_children("/jobs").await?.names;
/// jobs.sort();
/// for name in &jobs {
///     println!("/jobs/{name}");
/// }
/// let owned: Vec<String> = jobs.into_iter().collect();
/// # Ok(())
/// # }
/// ```
///
/// They compare with lists of any kind of text, as in `children.names == ["a", "b"]`.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Names {
    text: String,
    /// Where each name ends in `text`. The next one starts there.
    ends: Vec<u32>,
}

impl Names {
    /// The number of names.
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are none.
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Iterates over the names in the server's order.
    pub fn iter(&self) -> NamesIter<'_> {
        NamesIter { text: &self.text, start: 0, ends: self.ends.iter() }
    }

    /// The name at an index, in constant time.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = match index.checked_sub(1) {
            None => 0,
            Some(before) => *self.ends.get(before)?,
        };
        self.text.get(start as usize..end as usize)
    }

    /// Sorts the names as `Vec<String>` sorts.
    pub fn sort(&mut self) {
        let mut names = self.iter().collect::<Vec<_>>();
        names.sort_unstable();
        *self = names.into_iter().collect();
    }

    /// True if the name is in the list. The search is linear.
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|other| other == name)
    }

    /// Packs a list in one pass over the reply. `None` if anything is wrong with it.
    fn pack(reader: &mut Reader<'_>) -> Option<Self> {
        let count = usize::try_from(i32::decode(reader).ok()?).unwrap_or(0);
        if count == 0 {
            return Some(Self::default());
        }
        // Each announced name came with its length. That is how much is left for text, here and
        // after the list.
        let text = reader.remaining().checked_sub(count.checked_mul(size_of::<i32>())?)?;
        let mut text = Vec::with_capacity(text);
        let mut ends = Vec::with_capacity(count);
        for _ in 0..count {
            text.extend_from_slice(Text::decode(reader).ok()?.as_bytes()?);
            ends.push(u32::try_from(text.len()).ok()?);
        }
        let text = String::from_utf8(text).ok()?;
        // Bytes that are not UTF-8 in two names may be valid where the names meet.
        let whole = ends.iter().all(|end| text.is_char_boundary(*end as usize));
        whole.then_some(Self { text, ends })
    }
}

/// All names are checked at once, where they are packed, and not one by one: checking many short
/// texts is slow. A null list reads as no names.
impl<'a> Decode<'a> for Names {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let start = reader.clone();
        if let Some(names) = Self::pack(reader) {
            return Ok(names);
        }
        // Decodes again to report what is wrong, and with which name.
        *reader = start;
        Ok(List::<&str>::decode(reader)?.iter().collect())
    }
}

/// # Panics
///
/// If they take more than 4 GiB, which no reply does.
impl<S: AsRef<str>> FromIterator<S> for Names {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let names = names.into_iter();
        let mut packed = Self::default();
        packed.ends.reserve(names.size_hint().0);
        for name in names {
            packed.text.push_str(name.as_ref());
            let end = packed.text.len();
            assert!(end <= u32::MAX as usize, "names of more than 4 GiB");
            packed.ends.push(end as u32);
        }
        packed.text.shrink_to_fit();
        packed
    }
}

impl<'n> IntoIterator for &'n Names {
    type Item = &'n str;
    type IntoIter = NamesIter<'n>;

    fn into_iter(self) -> NamesIter<'n> {
        self.iter()
    }
}

impl IntoIterator for Names {
    type Item = String;
    type IntoIter = vec::IntoIter<String>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter().map(str::to_owned).collect::<Vec<_>>().into_iter()
    }
}

/// Prints a list of the names.
impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<T: AsRef<str>> PartialEq<[T]> for Names {
    fn eq(&self, other: &[T]) -> bool {
        self.iter().eq(other.iter().map(AsRef::as_ref))
    }
}

impl<T: AsRef<str>> PartialEq<&[T]> for Names {
    fn eq(&self, other: &&[T]) -> bool {
        self == *other
    }
}

impl<T: AsRef<str>, const N: usize> PartialEq<[T; N]> for Names {
    fn eq(&self, other: &[T; N]) -> bool {
        self == other.as_slice()
    }
}

impl<T: AsRef<str>> PartialEq<Vec<T>> for Names {
    fn eq(&self, other: &Vec<T>) -> bool {
        self == other.as_slice()
    }
}

/// An iterator over [`Names`], from either end.
#[derive(Clone)]
pub struct NamesIter<'n> {
    text: &'n str,
    /// Where the next name starts.
    start: u32,
    ends: slice::Iter<'n, u32>,
}

impl<'n> Iterator for NamesIter<'n> {
    type Item = &'n str;

    fn next(&mut self) -> Option<&'n str> {
        let end = *self.ends.next()?;
        let start = std::mem::replace(&mut self.start, end);
        self.text.get(start as usize..end as usize)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ends.size_hint()
    }
}

impl DoubleEndedIterator for NamesIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let end = *self.ends.next_back()?;
        let start = *self.ends.as_slice().last().unwrap_or(&self.start);
        self.text.get(start as usize..end as usize)
    }
}

impl ExactSizeIterator for NamesIter<'_> {}

impl FusedIterator for NamesIter<'_> {}

impl fmt::Debug for NamesIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use zk_proto::{Encode, Writer};

    use super::*;

    fn encoded<T: Encode>(value: &T) -> BytesMut {
        let mut wire = BytesMut::new();
        value.encode(&mut Writer::new(&mut wire, usize::MAX));
        wire
    }

    /// A plain list of the same bytes gives the same result.
    #[track_caller]
    fn check(texts: &[&[u8]]) {
        let list: Vec<Text<'_>> = texts.iter().map(|text| Text::from_bytes(text)).collect();
        let mut wire = encoded(&List::new(&list));
        let len = wire.len();
        wire.extend_from_slice(b"behind");

        let mut reader = Reader::new(&wire);
        let decoded = Names::decode(&mut reader);
        let plain = List::<&str>::decode(&mut Reader::new(&wire))
            .map(|list| list.iter().map(str::to_owned).collect::<Vec<_>>());
        let (names, plain) = match (decoded, plain) {
            (Ok(names), Ok(plain)) => (names, plain),
            (decoded, plain) => return assert_eq!(decoded.err(), plain.err(), "{texts:?}"),
        };

        assert_eq!(reader.remaining(), wire.len() - len);
        assert_eq!(names, plain);
        assert_eq!((names.len(), names.is_empty()), (plain.len(), plain.is_empty()));
        assert_eq!((names.iter().len(), names.iter().count()), (plain.len(), plain.len()));
        assert!(names.iter().rev().eq(plain.iter().rev()));
        assert_eq!(format!("{names:?}"), format!("{plain:?}"));
        for (index, name) in plain.iter().enumerate() {
            assert_eq!(names.get(index), Some(name.as_str()));
            assert!(names.contains(name));
        }
        assert_eq!(names.get(plain.len()), None);
        assert!(!names.contains("nobody"));
        assert_eq!(names, plain.iter().map(String::as_str).collect::<Names>());
        assert_eq!(encoded(&List::new(&names.iter().collect::<Vec<_>>())), wire[..len]);
        let bytes: usize = plain.iter().map(String::len).sum();
        assert!(names.text.capacity() <= bytes + b"behind".len());
        assert_eq!(names.ends.capacity(), plain.len());

        // From both ends at once.
        let mut seen = names.iter();
        let mut left = plain.iter();
        while let Some(name) = left.next() {
            assert_eq!(seen.next(), Some(name.as_str()));
            assert_eq!(seen.next_back(), left.next_back().map(String::as_str));
            assert_eq!(seen.len(), left.len());
        }
        assert_eq!((seen.next(), seen.next_back()), (None, None));
    }

    #[test]
    fn are_what_a_list_of_strings_is() {
        let parts: [&[u8]; 9] = [
            b"",
            b"a",
            b"lock-0000000001",
            "\u{e9}".as_bytes(),
            "\u{20ac}\u{1f600}".as_bytes(),
            b"\0",
            b"\xc3",
            b"\xa9",
            b"x\xff",
        ];
        check(&[]);
        for a in parts {
            check(&[a]);
            for b in parts {
                check(&[a, b]);
                for c in parts {
                    check(&[a, b, c]);
                    check(&[a, b, b, a, c]);
                }
            }
        }
    }

    #[test]
    fn of_null_there_are_none_and_no_name_is_null() {
        assert_eq!(Names::decode_exact(&encoded(&List::<&str>::NULL)), Ok(Names::default()));
        assert_eq!(Names::decode_exact(&encoded(&-2_i32)), Ok(Names::default()));
        let null = encoded(&List::new(&[Text::new("a"), Text::NULL]));
        assert_eq!(Names::decode_exact(&null), Err(DecodeError::UnexpectedNull));
        for len in 0..null.len() {
            assert!(Names::decode_exact(&null[..len]).is_err());
        }
    }

    #[test]
    fn sort_and_collect_as_a_vector_of_strings_does() {
        let plain = ["b", "a", "", "ab", "\u{e9}", "a"].map(str::to_owned).to_vec();
        let mut names = plain.iter().collect::<Names>();
        assert_eq!(names.clone().into_iter().collect::<Vec<String>>(), plain);
        assert_eq!(plain.clone().into_iter().collect::<Names>(), names);
        let mut sorted = plain;
        sorted.sort();
        names.sort();
        assert_eq!(names, sorted);
        assert_eq!(names, sorted.iter().collect::<Names>());
    }

    #[test]
    fn compare_in_order_and_not_by_their_text_alone() {
        let names: Names = ["ab", "c"].into_iter().collect();
        assert_eq!(names, ["ab", "c"]);
        assert_eq!(names, vec!["ab".to_owned(), "c".to_owned()]);
        assert_eq!(names, &["ab", "c"][..]);
        assert_ne!(names, ["a", "bc"]);
        assert_ne!(names, ["a", "bc"].into_iter().collect::<Names>());
        assert_ne!(names, ["c", "ab"]);
        assert_ne!(names, ["ab"]);
    }
}
