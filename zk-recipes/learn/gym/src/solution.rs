//! A program for a level, of whichever kind it is.

use std::fmt;
use std::sync::Arc;

use crate::contender::{Lock, RwLock, Withdraw};
use crate::process::{Exclusive, Make, ReadWrite, Teller};

/// A program for a level.
#[derive(Clone)]
pub struct Solution(pub(crate) Make);

impl Solution {
    /// A lock. `make` makes the one of a process, by the name of the process.
    pub fn lock<L: Lock>(make: impl Fn(&str) -> L + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |name| Box::new(Exclusive(make(name)))))
    }

    /// A lock for readers and writers.
    pub fn rw_lock<L: RwLock>(make: impl Fn(&str) -> L + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |name| Box::new(ReadWrite(make(name)))))
    }

    /// A withdrawal.
    pub fn withdraw<L: Withdraw>(make: impl Fn(&str) -> L + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |name| Box::new(Teller(make(name)))))
    }
}

impl fmt::Debug for Solution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Solution")
    }
}
