//! Why a script is not played: an error for the page and for people.

use std::fmt;

use serde::Serialize;

/// A script that is refused, or a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Error {
    /// The kind of the error.
    pub code: Code,
    /// A sentence for people.
    pub text: String,
    /// The index of the action that is meant, if it is one.
    pub action: Option<usize>,
}

/// The kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Code {
    /// The bytes are not a script.
    Syntax,
    /// There is no such kind of lock.
    UnknownLock,
    /// The contenders are too many or none, or their names or modes are no good.
    BadContenders,
    /// There are too many actions.
    TooManyActions,
    /// An action names a contender that the script does not have.
    UnknownContender,
    /// The lock does not know the action, or its time is missing or too long.
    BadAction,
    /// A time is beyond the limit.
    BadTime,
    /// The body of a request is too large.
    TooLarge,
    /// There is nothing at this address.
    NotFound,
    /// The request does not come from the page.
    Forbidden,
    /// The address is not asked like this.
    BadMethod,
    /// The playground itself failed.
    Failed,
}

impl Error {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), action: None }
    }

    pub(crate) fn of_action(code: Code, action: usize, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), action: Some(action) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
