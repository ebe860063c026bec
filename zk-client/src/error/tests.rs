//! What every error says, and what follows from it.

use std::io;
use std::time::Duration;

use zk_proto::{DecodeError, EncodeError, ErrorCode, OpCode, PathRule, SessionId, Zxid};

use super::*;
use crate::auth::failure::AuthFailure;

const SECOND: Duration = Duration::from_secs(1);

/// One of each kind, and more of those that have several causes.
fn faults() -> Vec<Fault> {
    let (op, path) = (OpCode::GET_DATA, || "/a".to_owned());
    let decode = DecodeError::Truncated { needed: 4, left: 0 };
    let attempts = || vec![Attempt::new("zk1:2181", Hangup::Eof.to_string())];
    let hangups = [
        Hangup::Eof,
        Hangup::NoHandshake,
        Hangup::OnRequest { size: 9 },
        Hangup::Io(io::ErrorKind::ConnectionRefused),
        Hangup::Silence(SECOND),
        Hangup::AttemptTimedOut(SECOND),
        Hangup::Unanswered(SECOND),
        Hangup::Protocol(ProtocolError::Undecodable(decode)),
        Hangup::Sasl,
        Hangup::Rearm(ErrorCode::NO_AUTH),
        Hangup::Moving,
        Hangup::Ended(Ended::Expired),
    ];
    let mut faults = vec![
        Fault::ConnectString { string: "a b".into(), rule: "a rule".into() },
        Fault::Path { path: "a".into(), rule: PathRule::Relative },
        Fault::Setting("a setting".into()),
        Fault::WatchSpent { path: path() },
        Fault::TooLarge { op, path: path(), cause: EncodeError::TooLong { len: 9, limit: 8 } },
        Fault::Limit { op, path: path(), limit: Limit::Requests(1) },
        Fault::NoRuntime,
        Fault::NoServer { timeout: Some(SECOND), attempts: attempts() },
        Fault::NoServer { timeout: None, attempts: Vec::new() },
        Fault::Word { word: "ruok".into(), attempt: Attempt::new("zk1:2181", "refused") },
        Fault::ChrootNotFound { chroot: path() },
        Fault::Behind { wanted: Zxid(2), seen: Zxid(1), timeout: SECOND },
        Fault::OpRefused { index: 1, op, path: path(), code: ErrorCode::NO_NODE, no_root: None },
        Fault::Options { path: path(), rule: "a rule" },
        Fault::InvalidOp { index: 1, op, path: path(), rule: "a rule" },
        Fault::NotOwned { path: path(), owner: SessionId(1) },
        Fault::AlreadyOwned { path: path() },
        Fault::TimedOut { op, path: path(), limit: SECOND, sent: true },
        Fault::UndecodableReply { op, path: path(), cause: decode },
        Fault::ReplyTooLarge { op, path: path(), len: 9, limit: 8 },
    ];
    for code in [ErrorCode::NO_NODE, ErrorCode::THROTTLED_OP, ErrorCode(-999)] {
        faults.push(Fault::Refused { op, path: path(), code, no_root: None });
    }
    for why in hangups {
        faults.push(Fault::ConnectionLoss { op, path: path(), sent: true, why });
    }
    for ended in [Ended::Expired, Ended::Closed, Ended::AuthFailed(AuthFailure::SaslUser)] {
        faults.push(Fault::Ended { request: Some((op, path())), ended, sent: true });
        faults.push(Fault::Ended { request: None, ended, sent: false });
    }
    faults
}

fn is_chain_free_of_repeats(error: &(dyn std::error::Error + 'static)) {
    let mut parent = error;
    while let Some(source) = parent.source() {
        assert!(!parent.to_string().contains(&source.to_string()), "{parent} / {source}");
        parent = source;
    }
}

#[test]
fn no_error_says_twice_what_its_source_says() {
    for fault in faults() {
        is_chain_free_of_repeats(&fault);
        if let Fault::ConnectionLoss { why, .. } = &fault {
            is_chain_free_of_repeats(why);
        }
        is_chain_free_of_repeats(&Error::from(fault));
    }
    let decode = DecodeError::UnexpectedNull;
    is_chain_free_of_repeats(&ProtocolError::from(decode));
    is_chain_free_of_repeats(&crate::FrameError::from(decode));
    is_chain_free_of_repeats(&Rejected::from(Ended::Expired));
}

#[test]
fn what_may_pass_says_so_in_its_source() {
    for error in faults().into_iter().map(Error::from) {
        let mark = match error.kind() {
            ErrorKind::ConnectionLoss => Some(Transient::Fault),
            _ if error.code() == Some(ErrorCode::THROTTLED_OP) => Some(Transient::Overload),
            _ => None,
        };
        assert_eq!(Transient::of(&error), mark, "{error}");
        assert_eq!(error.is_transient(), mark.is_some(), "{error}");
        // An `io::Error` shows the source of what it is made of, and not that itself.
        assert_eq!(Transient::of(&io::Error::other(error)), mark);
    }
}

#[test]
fn errors_say_what_is_wrong_in_the_words_of_callers() {
    use crate::error::Ended::{Closed, Expired};
    let refused = |op, code| Fault::Refused { op, path: "/a".into(), code, no_root: None };
    let ended = |ended| Fault::Ended { request: None, ended, sent: false };
    let http = DecodeError::FrameTooLong { len: 0x4854_5450, limit: 8 };
    let http = Hangup::Protocol(ProtocolError::Undecodable(http)).to_string();
    let why = Hangup::OnRequest { size: 2_000_000 };
    let large = Fault::ConnectionLoss { op: OpCode::CREATE2, path: "/a".into(), sent: true, why };
    let no_time = Fault::NoServer { timeout: Some(Duration::ZERO), attempts: Vec::new() };
    let http = Fault::NoServer { timeout: None, attempts: vec![Attempt::new("zk", http)] };
    let cases = [
        (refused(OpCode::CREATE2, ErrorCode::NO_NODE), "create /a: NoNode; the parent does not"),
        (refused(OpCode::CREATE_CONTAINER, ErrorCode::NO_AUTH), "create /a: NoAuth; the parent's"),
        (refused(OpCode::DELETE, ErrorCode::NO_AUTH), "let this client delete"),
        (refused(OpCode::GET_DATA, ErrorCode::NO_AUTH), "see add_auth"),
        (refused(OpCode::SET_DATA, ErrorCode::NOT_READ_ONLY), "cut off from its ensemble"),
        (ended(Expired), "only a new client helps"),
        (ended(Closed), "with the runtime"),
        (no_time, "before any server was tried"),
        (http, "web server"),
        (large, "request of 2000000 bytes had no reply, which may be why: servers hang up without"),
    ];
    for (fault, text) in cases {
        let said = Error::from(fault).to_string();
        assert!(said.contains(text), "{said}");
    }
}
