//! The mark of an error that may pass.
//!
//! It stands at the end of the chain of sources and not in a type, so it is found through the error
//! types of applications, also through those that forward their source. Knows no single error.

use std::error::Error;

/// The source of every error that may pass: the same call may succeed if it is made again.
///
/// The errors of this crate and of zk-recipes that are transient have this mark as their
/// [`source`](Error::source). So [`of`](Self::of) finds it in any error that was made of one of
/// them and has a source: a variant with `#[from]`, also one with `#[error(transparent)]`, an
/// `io::Error`, a box, the context of anyhow. An error type of your own can have the mark as the
/// source of what may pass too, such as a busy database.
///
/// ```
/// # use zk_client::Transient;
/// #[derive(Debug)]
/// struct Busy;
///
/// # impl std::fmt::Display for Busy {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
/// #         f.write_str("the database is busy")
/// #     }
/// # }
/// impl std::error::Error for Busy {
///     fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
///         Some(&Transient::Overload)
///     }
/// }
/// assert_eq!(Transient::of(&Busy), Some(Transient::Overload));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Transient {
    /// The connection broke, or a lock was lost or not acquired. No pause is needed.
    #[error("this may pass, and the call may be made again")]
    Fault,
    /// The server had too many requests: leave it alone for a while.
    #[error("this may pass, and the call may be made again after a pause")]
    Overload,
}

impl Transient {
    /// Finds the mark in an error or in one of its sources.
    ///
    /// `None` if the same call would most likely fail again.
    pub fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut link = Some(error);
        while let Some(error) = link {
            if let Some(mark) = error.downcast_ref() {
                return Some(*mark);
            }
            link = error.source();
        }
        None
    }

    /// The mark as a source.
    pub(crate) fn as_source(self) -> &'static (dyn Error + 'static) {
        match self {
            Self::Fault => &Self::Fault,
            Self::Overload => &Self::Overload,
        }
    }
}
