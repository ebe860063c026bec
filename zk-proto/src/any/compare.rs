//! Two frames field by field.
//!
//! Fields are matched by their names, items by their places. Where two values are of different
//! kinds of records, that is the difference, and what is inside them is not compared.

use std::fmt;

use crate::any::frame::Frame;
use crate::jute::{Field, Name, Value};

/// A field that two frames do not agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference<'a, 'b> {
    /// The names on the way to the field, such as `body.acl[0].perms`.
    pub path: String,
    /// The value in the first frame, if it has the field.
    pub left: Option<Value<'a>>,
    /// The value in the second frame, if it has the field.
    pub right: Option<Value<'b>>,
}

impl fmt::Display for Difference<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path)?;
        match (&self.left, &self.right) {
            // Values that differ behind what is shown of them, or in a secret, look the same.
            (Some(left), Some(right)) => write!(f, "{left}, not {right}"),
            (Some(left), None) => write!(f, "{left}, not there"),
            (None, Some(right)) => write!(f, "not there, not {right}"),
            (None, None) => Ok(()),
        }
    }
}

impl<'a> Frame<'a> {
    /// Compares the fields of two frames, and returns those that differ, in the order of their
    /// bytes.
    ///
    /// The fields are those of [`Frame::fields`], and all bytes are in one of them. Frames without
    /// a difference may still differ in bytes that mean the same, such as a boolean of 2.
    ///
    /// ```
    /// use zk_proto::any::Frame;
    ///
    /// let any = Frame::request(b"\0\0\0\x07\0\0\0\x02\0\0\0\x02/a\xff\xff\xff\xff")?;
    /// let five = Frame::request(b"\0\0\0\x07\0\0\0\x02\0\0\0\x02/b\0\0\0\x05")?;
    /// let differences: Vec<_> = any.differences(&five).iter().map(ToString::to_string).collect();
    /// assert_eq!(differences, ["body.path: /a, not /b", "body.version: -1, not 5"]);
    /// # Ok::<(), zk_proto::DecodeError>(())
    /// ```
    pub fn differences<'b>(&self, other: &Frame<'b>) -> Vec<Difference<'a, 'b>> {
        let mut found = Vec::new();
        compare(&self.fields(), &other.fields(), "", &mut found);
        found
    }
}

/// Compares fields of the same depth, each with the deeper ones behind it.
fn compare<'a, 'b>(
    mut left: &[Field<'a>],
    mut right: &[Field<'b>],
    path: &str,
    found: &mut Vec<Difference<'a, 'b>>,
) {
    while let Some(name) = next_name(left, right) {
        let (a, a_inside) = take(&mut left, name);
        let (b, b_inside) = take(&mut right, name);
        let path = match name {
            Name::Field(name) if path.is_empty() => name.to_owned(),
            Name::Field(name) => format!("{path}.{name}"),
            Name::Item(_) => format!("{path}{name}"),
        };
        let (a, b) = (a.map(|field| field.value), b.map(|field| field.value));
        match (&a, &b) {
            (Some(x), Some(y)) if x == y => compare(a_inside, b_inside, &path, found),
            (Some(Value::List(_)), Some(Value::List(_))) => {
                compare(a_inside, b_inside, &path, found);
            }
            _ => found.push(Difference { path, left: a, right: b }),
        }
    }
}

/// The name of the field that is compared next.
///
/// Items come before the fields behind them. Fields whose names differ are few, because they are
/// those of a frame: one of them may have a body or trailing bytes that the other has not.
fn next_name(left: &[Field<'_>], right: &[Field<'_>]) -> Option<Name> {
    match (left.first().map(|field| field.name), right.first().map(|field| field.name)) {
        (Some(Name::Field(_)), Some(item @ Name::Item(_))) => Some(item),
        (Some(Name::Field(a)), Some(b @ Name::Field(name)))
            if a != name && !left.iter().any(|field| field.name == b) =>
        {
            Some(b)
        }
        (a, b) => a.or(b),
    }
}

/// Takes the first field if it has the name, and the fields inside it.
fn take<'f, 'a>(
    fields: &mut &'f [Field<'a>],
    name: Name,
) -> (Option<&'f Field<'a>>, &'f [Field<'a>]) {
    match fields.split_first() {
        Some((first, rest)) if first.name == name => {
            let deeper = rest.iter().take_while(|field| field.depth > first.depth).count();
            let (inside, rest) = rest.split_at(deeper);
            *fields = rest;
            (Some(first), inside)
        }
        _ => (None, &[]),
    }
}
