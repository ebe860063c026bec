//! Two trees side by side, as two sorted lists are merged.

use std::cmp::Ordering;

use crate::failure::Failure;
use crate::trees::entry::{Entry, order};
use crate::trees::source::Source;

/// The nodes at one path.
#[derive(Debug)]
pub(crate) enum Pair {
    First(Entry),
    Second(Entry),
    Both(Entry, Entry),
}

/// Two trees that are read together.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) first: Source,
    second: Source,
    /// The next nodes of both, where they were read.
    next: Option<(Option<Entry>, Option<Entry>)>,
}

impl Comparison {
    pub(crate) fn new(first: Source, second: Source) -> Self {
        Self { first, second, next: None }
    }

    /// The nodes at the next path.
    pub(crate) async fn next(&mut self) -> Result<Option<Pair>, Failure> {
        let (one, other) = match self.next.take() {
            Some(read) => read,
            None => (self.first.next().await?, self.second.next().await?),
        };
        let (pair, next) = match (one, other) {
            (None, None) => return Ok(None),
            (Some(one), None) => (Pair::First(one), (self.first.next().await?, None)),
            (None, Some(other)) => (Pair::Second(other), (None, self.second.next().await?)),
            (Some(one), Some(other)) => match order(&one.path, &other.path) {
                Ordering::Less => (Pair::First(one), (self.first.next().await?, Some(other))),
                Ordering::Greater => (Pair::Second(other), (Some(one), self.second.next().await?)),
                Ordering::Equal => {
                    let next = (self.first.next().await?, self.second.next().await?);
                    (Pair::Both(one, other), next)
                }
            },
        };
        self.next = Some(next);
        Ok(Some(pair))
    }
}
