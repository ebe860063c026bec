//! Bytes that are wrong in one chosen way are refused for that, in every record that can have it.

use zk_proto::arbitrary::{Breakable, Broken, Fault};
use zk_proto::*;

const CREATE: CreateRequest<'static> = CreateRequest {
    path: "/a",
    data: Some(b"data"),
    acl: List::new(&[Acl::OPEN]),
    mode: CreateMode::PERSISTENT,
};

/// The faults that a value can have, wherever the choice falls.
fn faults<T: Breakable>(value: &T) -> Vec<Fault> {
    let can_be = |fault: &&Fault| {
        let broken: Vec<_> = (0..50).map(|at| Broken::new(value, **fault, at)).collect();
        assert!(broken.iter().all(|at| at.is_some() == broken[0].is_some()), "{fault:?}");
        broken[0].is_some()
    };
    Fault::ALL.iter().filter(can_be).copied().collect()
}

#[test]
fn a_record_can_be_wrong_in_each_way_that_its_fields_allow() {
    use Fault::*;
    let of_text = [Truncated, TrailingBytes, NegativeLength, LengthBeyondTheEnd];
    assert_eq!(faults(&CREATE), Fault::ALL);
    assert_eq!(faults(&GetDataRequest { path: "/a", watch: true }), Fault::ALL);
    assert_eq!(faults(&SyncRequest { path: "/a".into() }), of_text, "its path may be anything");
    assert_eq!(faults(&GetSaslRequest { token: Secret::new(None) }), of_text);
    assert_eq!(faults(&PingRequest), [TrailingBytes]);
    assert_eq!(
        faults(&RequestHeader { xid: Xid(1), op: OpCode::PING }),
        [Truncated, TrailingBytes]
    );
    assert_eq!(faults(&MultiList::new(&[MultiOp::Create(CREATE)])), Fault::ALL);
}

#[test]
fn the_bytes_are_refused_for_their_fault() {
    for at in 0..50 {
        let error_of = |fault| {
            let broken = Broken::new(&CREATE, fault, at).unwrap();
            let error = CreateRequest::decode_exact(broken.bytes()).unwrap_err();
            assert_eq!((broken.error(), broken.fault()), (error, fault));
            error
        };
        assert!(matches!(error_of(Fault::Truncated), DecodeError::Truncated { .. }));
        assert_eq!(error_of(Fault::TrailingBytes), DecodeError::TrailingBytes(3));
        assert_eq!(error_of(Fault::NegativeLength), DecodeError::NegativeLength(i32::MIN));
        assert!(matches!(error_of(Fault::LengthBeyondTheEnd), DecodeError::Truncated { .. }));
        assert_eq!(error_of(Fault::Null), DecodeError::UnexpectedNull);
        assert_eq!(error_of(Fault::NotUtf8), DecodeError::InvalidUtf8 { valid_up_to: 0 });
    }
}
