//! What every error says, and what follows from it.

use std::io;
use std::time::Duration;

use zk_proto::{DecodeError, EncodeError, ErrorCode, OpCode, PathRule, SessionId, Zxid};

use super::*;
use crate::auth::failure::AuthFailure;

const SECOND: Duration = Duration::from_secs(1);

/// One of each kind, and more of those that have several causes.
fn causes() -> Vec<Cause> {
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
    let mut causes = vec![
        Cause::ConnectString { string: "a b".into(), rule: "a rule".into() },
        Cause::Path { path: "a".into(), rule: PathRule::Relative },
        Cause::Setting("a setting".into()),
        Cause::WatchSpent { path: path() },
        Cause::TooLarge { op, path: path(), why: EncodeError::TooLong { len: 9, limit: 8 } },
        Cause::Limit { op, path: path(), limit: Limit::Requests(1) },
        Cause::NoRuntime,
        Cause::NoServer { timeout: Some(SECOND), attempts: attempts() },
        Cause::NoServer { timeout: None, attempts: Vec::new() },
        Cause::Word { word: "ruok".into(), attempt: Attempt::new("zk1:2181", "refused") },
        Cause::ChrootNotFound { chroot: path() },
        Cause::Behind { wanted: Zxid(2), seen: Zxid(1), timeout: SECOND },
        Cause::OpRefused { index: 1, op, path: path(), code: ErrorCode::NO_NODE, no_root: None },
        Cause::Options { path: path(), rule: "a rule" },
        Cause::InvalidOp { index: 1, op, path: path(), rule: "a rule" },
        Cause::NotOwned { path: path(), owner: SessionId(1) },
        Cause::AlreadyOwned { path: path() },
        Cause::TimedOut { op, path: path(), limit: SECOND, sent: true },
        Cause::UndecodableReply { op, path: path(), why: decode },
        Cause::ReplyTooLarge { op, path: path(), len: 9, limit: 8 },
    ];
    for code in [ErrorCode::NO_NODE, ErrorCode::THROTTLED_OP, ErrorCode(-999)] {
        causes.push(Cause::Refused { op, path: path(), code, no_root: None });
    }
    for why in hangups {
        causes.push(Cause::ConnectionLoss { op, path: path(), sent: true, why });
    }
    for ended in [Ended::Expired, Ended::Closed, Ended::AuthFailed(AuthFailure::SaslUser)] {
        causes.push(Cause::Ended { request: Some((op, path())), ended, sent: true });
        causes.push(Cause::Ended { request: None, ended, sent: false });
    }
    causes
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
    for cause in causes() {
        is_chain_free_of_repeats(&cause);
        if let Cause::ConnectionLoss { why, .. } = &cause {
            is_chain_free_of_repeats(why);
        }
        is_chain_free_of_repeats(&Error::from(cause));
    }
    let decode = DecodeError::UnexpectedNull;
    is_chain_free_of_repeats(&ProtocolError::from(decode));
    is_chain_free_of_repeats(&crate::FrameError::from(decode));
    is_chain_free_of_repeats(&Rejected::from(Ended::Expired));
}

#[test]
fn what_may_pass_says_so_in_its_source() {
    for error in causes().into_iter().map(Error::from) {
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
    let refused = |op, code| Cause::Refused { op, path: "/a".into(), code, no_root: None };
    let ended = |ended| Cause::Ended { request: None, ended, sent: false };
    let http = DecodeError::FrameTooLong { len: 0x4854_5450, limit: 8 };
    let http = Hangup::Protocol(ProtocolError::Undecodable(http)).to_string();
    let why = Hangup::OnRequest { size: 2_000_000 };
    let large = Cause::ConnectionLoss { op: OpCode::CREATE2, path: "/a".into(), sent: true, why };
    let no_time = Cause::NoServer { timeout: Some(Duration::ZERO), attempts: Vec::new() };
    let http = Cause::NoServer { timeout: None, attempts: vec![Attempt::new("zk", http)] };
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
    for (cause, text) in cases {
        let said = Error::from(cause).to_string();
        assert!(said.contains(text), "{said}");
    }
}
