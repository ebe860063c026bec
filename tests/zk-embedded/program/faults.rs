//! Faults as words: the request that a fault waits for, and the names of operations and errors.

use zk_embedded::{ErrorCode, Fault, OpCode};

use crate::escape;

/// Narrows a fault down by a word: `op=OP`, `path=PREFIX`, `session=ID` or `after=COUNT`.
pub(crate) fn narrow(fault: Fault, word: &str) -> Result<Fault, String> {
    let wrong = || format!("{word} is no filter: op=, path=, session= and after= are");
    let (name, value) = word.split_once('=').ok_or_else(wrong)?;
    match name {
        "op" => Ok(fault.op(op(value)?)),
        "path" => Ok(fault.path(path(value)?)),
        "session" => Ok(fault.session(session(value)?)),
        "after" => Ok(fault.after(number(value)?)),
        _ => Err(wrong()),
    }
}

pub(crate) fn path(word: &str) -> Result<String, String> {
    escape::decode(word).ok_or_else(|| format!("{word} is not percent-encoded UTF-8"))
}

pub(crate) fn session(word: &str) -> Result<zk_embedded::SessionId, String> {
    let id = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
        None => word.parse().ok(),
    };
    id.map(zk_embedded::SessionId).ok_or_else(|| format!("{word} is no session"))
}

pub(crate) fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{word} is no number, or is out of range"))
}

/// An operation by its name or number.
fn op(word: &str) -> Result<OpCode, String> {
    let named = OpCode::ALL.iter().find(|op| op.name() == Some(word)).copied();
    let op = named.or_else(|| word.parse().ok().map(OpCode));
    op.ok_or_else(|| format!("{word} is no operation, such as create2, setData or multi"))
}

/// An error by its name or number.
pub(crate) fn code(word: &str) -> Result<ErrorCode, String> {
    let named = (-200..=0).map(ErrorCode).find(|code| code.name() == Some(word));
    let code = named.or_else(|| word.parse().ok().map(ErrorCode));
    code.ok_or_else(|| format!("{word} is no error, such as ThrottledOp or -127"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_zookeeper() {
        for op in OpCode::ALL {
            assert_eq!(super::op(op.name().unwrap()), Ok(*op));
        }
        assert_eq!(op("14"), Ok(OpCode::MULTI));
        assert!(op("nonsense").is_err());
        assert_eq!(code("ThrottledOp"), Ok(ErrorCode::THROTTLED_OP));
        assert_eq!(code("-101"), Ok(ErrorCode::NO_NODE));
    }

    #[test]
    fn sessions_are_hexadecimal_or_decimal() {
        assert_eq!(session("0xff"), session("255"));
        assert_eq!(session("0xffffffffffffffff"), session("-1"));
        assert!(session("ff").is_err() && session("0x").is_err());
    }
}
