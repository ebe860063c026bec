//! The fencing token: orders the holders of a lock, for resources that must not trust any of them.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// Orders the holders of a lock, so that a resource can refuse writes of earlier holders.
///
/// Each holder's token is greater than the tokens of all earlier holders of the lock, also after
/// the folder was deleted and created again: it begins with the number of the transaction that
/// created the holder's node. Readers that hold a lock together have tokens in no order, all of
/// them greater than that of the writer before, and smaller than that of the next writer. A
/// resource to which readers write, too, must not refuse the smaller of their tokens.
///
/// Send it to the resource with every write, and let the resource refuse a token that is smaller
/// than the greatest one that it has seen. If a write depends on an earlier read from the resource,
/// send the token with the read too: otherwise an earlier holder could still write in between. Then
/// a holder that was stopped and lost the lock cannot do harm.
///
/// ```
/// # use zk_recipes::FencingToken;
/// # fn write(newest: &mut Option<FencingToken>, token: FencingToken) -> bool {
/// if newest.is_some_and(|newest| token < newest) {
///     return false;
/// }
/// *newest = Some(token);
/// true
/// # }
/// ```
///
/// A store in another process receives it as text, which [`parse`](str::parse) turns into a token
/// again, or as the pair `(token.czxid(), token.pass())` for [`new`](Self::new).
///
/// The ensemble numbers its transactions. An ensemble that was set up anew, or from a backup,
/// begins with lower numbers: resources must then forget what they have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken {
    czxid: i64,
    pass: u32,
}

impl FencingToken {
    /// Makes a token from its parts, as another process sent them.
    pub const fn new(czxid: i64, pass: u32) -> Self {
        Self { czxid, pass }
    }

    /// The transaction that created the holder's node.
    ///
    /// For a reader that was a writer, it is the transaction that created the writer's node.
    pub const fn czxid(&self) -> i64 {
        self.czxid
    }

    /// Distinguishes holders that had one node, or one place in the queue, one after another.
    ///
    /// It is always 0, except for two-level locks such as a
    /// [`ReentrantLock`](crate::ReentrantLock), for a reader that was a writer, and for a lock that
    /// was [resumed](crate::Lock::resume) by a ticket.
    pub const fn pass(&self) -> u32 {
        self.pass
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}.{}", self.czxid, self.pass)
    }
}

/// Parses what [`Display`](fmt::Display) writes.
///
/// ```
/// use zk_recipes::FencingToken;
///
/// let token = FencingToken::new(0x1_0000_0007, 2);
/// assert_eq!(token.to_string(), "0x100000007.2");
/// assert_eq!(token.to_string().parse(), Ok(token));
/// ```
impl FromStr for FencingToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let parts = text.strip_prefix("0x").and_then(|text| text.split_once('.'));
        let (czxid, pass) = parts.ok_or(InvalidToken)?;
        let digits = |text: &str| !text.starts_with(['+', '-']);
        if !(digits(czxid) && digits(pass)) {
            return Err(InvalidToken);
        }
        let invalid = |_: ParseIntError| InvalidToken;
        let czxid = i64::from_str_radix(czxid, 16).map_err(invalid)?;
        Ok(Self { czxid, pass: pass.parse().map_err(invalid)? })
    }
}

/// The error for a text that is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no fencing token: it reads like 0x100000007.2")]
#[non_exhaustive]
pub struct InvalidToken;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_token_is_refused() {
        for text in
            ["", "7.2", "0x7", "0x.2", "0x7.", "0x7.-2", "0x-7.2", "0x7.2x", "0x7.4294967296"]
        {
            assert_eq!(text.parse::<FencingToken>(), Err(InvalidToken), "{text}");
        }
    }

    #[test]
    fn tokens_are_ordered_by_the_node_and_then_by_the_pass() {
        let token = FencingToken::new;
        assert!(token(1, 9) < token(2, 0));
        assert!(token(2, 0) < token(2, 1));
    }
}
