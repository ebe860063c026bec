//! Bytes that say what is not so, and limits.

use bytes::BytesMut;
use zk_proto::*;

/// What a peer may write where -1 is null and nothing else should be negative.
const NEGATIVE: [i32; 3] = [-2, -128, i32::MIN];

fn decoded<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<(), DecodeError> {
    T::decode_exact(bytes).map(drop)
}

/// A length or count followed by `tail`.
fn with_length(length: i32, tail: &[u8]) -> Vec<u8> {
    [&length.to_be_bytes()[..], tail].concat()
}

#[test]
fn rejects_negative_lengths() {
    for length in NEGATIVE {
        let bytes = with_length(length, b"four");
        let error = Err(DecodeError::NegativeLength(length));
        assert_eq!(decoded::<Option<&[u8]>>(&bytes), error);
        assert_eq!(decoded::<&str>(&bytes), error);
        assert_eq!(decoded::<Text<'_>>(&bytes), error);
        assert_eq!(decoded::<Password>(&bytes), error);
    }
}

#[test]
fn reads_negative_counts_as_no_items_and_writes_zero() {
    for count in NEGATIVE {
        let bytes = with_length(count, b"");
        let list = List::<'_, Acl<'_>>::decode_exact(&bytes).unwrap();
        assert!(list.is_empty() && !list.is_null(), "{count}");
        assert_eq!(list, List::new(&[]), "{count}");
        let mut wire = BytesMut::new();
        list.encode(&mut Writer::new(&mut wire, 4));
        assert_eq!(wire, b"\0\0\0\0"[..], "{count}");

        // What follows is the next field, and no item.
        let bytes = with_length(count, b"four");
        assert_eq!(decoded::<List<'_, &str>>(&bytes), Err(DecodeError::TrailingBytes(4)));
    }
}

#[test]
fn rejects_lengths_beyond_the_bytes() {
    for length in [5, 1 << 20, i32::MAX] {
        let bytes = with_length(length, b"four");
        let needed = length as usize - 4;
        let error = Err(DecodeError::Truncated { needed, left: 4 });
        assert_eq!(decoded::<Option<&[u8]>>(&bytes), error);
        assert_eq!(decoded::<&str>(&bytes), error);
        assert_eq!(decoded::<Text<'_>>(&bytes), error);
        assert_eq!(decoded::<Password>(&bytes), error);
    }
}

#[test]
fn rejects_counts_of_items_that_are_not_there() {
    let two = b"\0\0\0\x01a\0\0\0\x01b";
    assert_eq!(decoded::<List<'_, &str>>(&with_length(2, two)), Ok(()));
    for count in [3, i32::MAX] {
        let error = Err(DecodeError::Truncated { needed: 4, left: 0 });
        assert_eq!(decoded::<List<'_, &str>>(&with_length(count, two)), error);
        assert_eq!(decoded::<List<'_, Acl<'_>>>(&with_length(count, b"")), error);
        assert_eq!(decoded::<WhoAmIResponse<'_>>(&with_length(count, b"")), error);
    }
}

#[test]
fn rejects_a_bad_item_when_the_list_is_decoded() {
    let second_is_null = with_length(2, b"\0\0\0\x01a\xff\xff\xff\xff");
    assert_eq!(
        decoded::<GetChildrenResponse<'_>>(&second_is_null),
        Err(DecodeError::UnexpectedNull)
    );
    let second_is_no_text = with_length(2, b"\0\0\0\x01a\0\0\0\x02b\xff");
    assert_eq!(
        decoded::<GetChildrenResponse<'_>>(&second_is_no_text),
        Err(DecodeError::InvalidUtf8 { valid_up_to: 1 })
    );
}

#[test]
fn rejects_null_and_surrogates_in_paths() {
    assert_eq!(decoded::<GetAclRequest<'_>>(b"\xff\xff\xff\xff"), Err(DecodeError::UnexpectedNull));
    let surrogates = b"\0\0\0\x07/\xed\xa0\xbd\xed\xb8\x80";
    assert_eq!(
        decoded::<GetAclRequest<'_>>(surrogates),
        Err(DecodeError::InvalidUtf8 { valid_up_to: 1 })
    );
}

/// Servers answer a sync of null, and a getEphemerals of null with every ephemeral node.
#[test]
fn accepts_null_where_servers_take_any_text() {
    let null = b"\xff\xff\xff\xff";
    assert_eq!(SyncRequest::decode_exact(null), Ok(SyncRequest { path: Text::NULL }));
    let all = GetEphemeralsRequest { prefix_path: Text::NULL };
    assert_eq!(GetEphemeralsRequest::decode_exact(null), Ok(all));
}

#[test]
fn rejects_truncated_session_id() {
    let bytes = [0; 20];
    assert_eq!(
        decoded::<ConnectRequest>(&bytes),
        Err(DecodeError::Truncated { needed: 4, left: 4 })
    );
}

#[test]
fn rejects_a_password_longer_than_any_server_makes() {
    for len in [17, 20, 1000] {
        let bytes = with_length(len, &vec![7; len as usize]);
        assert_eq!(decoded::<Password>(&bytes), Err(DecodeError::PasswordTooLong(len as usize)));
        assert_eq!(
            Password::new(&vec![7; len as usize]),
            Err(DecodeError::PasswordTooLong(len as usize))
        );
    }
}

#[test]
fn accepts_a_null_password_as_an_empty_one() {
    let null = Password::decode_exact(b"\xff\xff\xff\xff").unwrap();
    assert_eq!(null, Password::default());
    assert_eq!(null.expose(), b"");
    assert_ne!(null, Password::ZERO);
}

#[test]
fn reads_any_byte_but_zero_as_true_and_writes_one() {
    assert_eq!(bool::decode_exact(&[0]), Ok(false));
    for byte in 1..=u8::MAX {
        assert_eq!(bool::decode_exact(&[byte]), Ok(true), "{byte}");
    }
    let mut request = *b"\0\0\0\x02/a\x02";
    let decoded = GetDataRequest::decode_exact(&request).unwrap();
    assert_eq!(decoded, GetDataRequest { path: "/a", watch: true });
    let mut wire = BytesMut::new();
    decoded.encode(&mut Writer::new(&mut wire, 64));
    request[6] = 1;
    assert_eq!(wire, request[..]);
}

#[test]
fn rejects_a_multi_without_its_end() {
    assert_eq!(
        decoded::<MultiRequest<'_>>(b""),
        Err(DecodeError::Truncated { needed: 4, left: 0 })
    );
    let entry = b"\0\0\0\x02\0\xff\xff\xff\xff\0\0\0\x02/a\0\0\0\0";
    assert_eq!(
        decoded::<MultiRequest<'_>>(entry),
        Err(DecodeError::Truncated { needed: 4, left: 0 })
    );
}

#[test]
fn rejects_entries_of_a_multi_that_have_no_record() {
    for op in [OpCode::PING, OpCode::MULTI, OpCode::NOTIFICATION, OpCode(i32::MIN)] {
        let bytes = [&op.0.to_be_bytes()[..], b"\0\0\0\0\0"].concat();
        let error = Err(DecodeError::UnknownMultiEntry(op.0));
        assert_eq!(decoded::<MultiRequest<'_>>(&bytes), error);
        assert_eq!(decoded::<MultiResponse<'_>>(&bytes), error);
    }
    // An error is an entry of replies alone, and a container's result is a create2's.
    let error = [&OpCode::ERROR.0.to_be_bytes()[..], b"\0\0\0\0\0"].concat();
    assert_eq!(decoded::<MultiRequest<'_>>(&error), Err(DecodeError::UnknownMultiEntry(-1)));
    let container = [&OpCode::CREATE_CONTAINER.0.to_be_bytes()[..], b"\0\0\0\0\0"].concat();
    assert_eq!(decoded::<MultiResponse<'_>>(&container), Err(DecodeError::UnknownMultiEntry(19)));
}

/// The first fault of a multi counts, in the order of the bytes.
#[test]
fn tells_entries_without_a_record_from_bytes_that_are_missing() {
    let good = b"\0\0\0\x02\0\xff\xff\xff\xff\0\0\0\x02/a\0\0\0\0";
    let unknown = b"\0\0\0\x0b\0\xff\xff\xff\xff";
    let check = |bytes: &[u8], error| assert_eq!(decoded::<MultiRequest<'_>>(bytes), Err(error));
    check(&[&good[..], unknown].concat(), DecodeError::UnknownMultiEntry(11));
    check(&[unknown, &good[..7]].concat(), DecodeError::UnknownMultiEntry(11));
    check(&[&good[..], &unknown[..8]].concat(), DecodeError::Truncated { needed: 1, left: 3 });
}

#[test]
fn knows_the_entries_of_a_multi_read() {
    let write = MultiOp::Delete(DeleteRequest { path: "/a", version: -1 });
    let data = MultiOp::GetData(GetDataRequest { path: "/a", watch: false });
    let children = MultiOp::GetChildren(GetChildrenRequest { path: "/a", watch: false });
    let check = MultiOp::Check(CheckVersionRequest { path: "/a", version: 1 });
    let mut wire = BytesMut::new();
    let mixed = [write, data, children, check];
    MultiRequest::new(&mixed).encode(&mut Writer::new(&mut wire, 1000));
    let decoded = MultiRequest::decode_exact(&wire).unwrap();
    assert!(decoded.iter().map(|op| op.is_read()).eq([false, true, true, false]));
}

#[test]
fn ends_a_multi_by_its_marker_whatever_else_the_marker_says() {
    let marker = b"\0\0\0\x02\x07\0\0\0\x63";
    let multi = MultiResponse::decode_exact(marker).unwrap();
    assert_eq!(multi.iter().count(), 0);
    assert_eq!(multi.failure(), None);
}

#[test]
fn finds_the_entry_that_made_a_multi_fail() {
    let failed = MultiResponse::new(&[
        MultiResult::Error(ErrorCode::OK),
        MultiResult::Error(ErrorCode::BAD_VERSION),
        MultiResult::Error(ErrorCode::RUNTIME_INCONSISTENCY),
    ]);
    assert_eq!(failed.failure(), Some((1, ErrorCode::BAD_VERSION)));
    assert_eq!(MultiResponse::new(&[MultiResult::Check(())]).failure(), None);
}

#[test]
fn leaves_bytes_behind_a_record_in_the_reader() {
    let mut reader = Reader::new(b"\0\0\0\x02/anewer");
    assert_eq!(CreateResponse::decode(&mut reader), Ok(CreateResponse { path: "/a" }));
    assert_eq!(reader.rest(), b"newer");
    assert_eq!(
        CreateResponse::decode_exact(b"\0\0\0\x02/anewer"),
        Err(DecodeError::TrailingBytes(5))
    );
}

#[test]
fn rejects_frames_of_negative_length() {
    for length in [-1, -2, i32::MIN] {
        let mut input = BytesMut::from(&with_length(length, b"payload")[..]);
        assert_eq!(frame::split(&mut input, usize::MAX), Err(DecodeError::NegativeLength(length)));
    }
}

#[test]
fn rejects_frames_above_the_limit_as_soon_as_the_prefix_is_there() {
    for (len, limit) in [(11, 10), (1 << 20, frame::SERVER_FRAME_LIMIT), (i32::MAX as usize, 0)] {
        let mut input = BytesMut::from(&with_length(len as i32, b"")[..]);
        let capacity = input.capacity();
        assert_eq!(frame::split(&mut input, limit), Err(DecodeError::FrameTooLong { len, limit }));
        assert_eq!(input.capacity(), capacity, "nothing is reserved for it");
    }
}

#[test]
fn accepts_frames_of_exactly_the_limit_and_of_nothing() {
    let mut input = BytesMut::from(&b"\0\0\0\x02ok\0\0\0\0"[..]);
    assert_eq!(frame::split(&mut input, 2).unwrap().as_deref(), Some(&b"ok"[..]));
    assert_eq!(frame::split(&mut input, 2).unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(frame::split(&mut input, 2), Ok(None));
}

#[test]
fn reserves_no_more_than_one_frame() {
    let mut input = BytesMut::from(&with_length(1 << 20, b"")[..]);
    assert_eq!(frame::split(&mut input, 1 << 20), Ok(None));
    assert!(input.capacity() >= (1 << 20) + frame::PREFIX, "room for the rest at once");
    assert!(input.capacity() < 2 << 20, "{} bytes reserved", input.capacity());
}

#[test]
fn a_writer_over_its_limit_leaves_the_buffer_and_reports_the_full_length() {
    let record = SetDataRequest { path: "/a", data: Some(&[7; 100]), version: 1 };
    let full = 4 + 2 + 4 + 100 + 4;
    for limit in [0, 1, 5, 9, 10, 11, 112, full - 1] {
        let mut out = BytesMut::from(&b"before"[..]);
        let mut writer = Writer::new(&mut out, limit);
        record.encode(&mut writer);
        assert_eq!(writer.finish(), Err(EncodeError::TooLong { len: full, limit }));
        assert_eq!(out, b"before"[..], "limit {limit}");
    }
    let mut out = BytesMut::from(&b"before"[..]);
    let mut writer = Writer::new(&mut out, full);
    record.encode(&mut writer);
    assert_eq!(writer.finish(), Ok(full));
    assert_eq!(out.len(), 6 + full);
}

#[test]
fn a_writer_over_its_limit_copies_nothing_more() {
    let mut out = BytesMut::new();
    let mut writer = Writer::new(&mut out, 8);
    writer.put(&[1; 6]);
    writer.put(&[2; 1 << 20]);
    writer.put(&[3; 1]);
    assert_eq!(writer.finish(), Err(EncodeError::TooLong { len: 6 + (1 << 20) + 1, limit: 8 }));
    assert!(out.is_empty() && out.capacity() < 1 << 20);
}

#[test]
fn a_frame_over_the_limit_leaves_the_frames_before_it() {
    let mut out = BytesMut::new();
    frame::encode(&mut out, 4, |writer| writer.put(b"fine")).unwrap();
    let before = out.clone();
    assert_eq!(
        frame::encode(&mut out, 4, |writer| writer.put(b"not so")),
        Err(EncodeError::TooLong { len: 6, limit: 4 })
    );
    assert_eq!(out, before);
    frame::encode(&mut out, 4, |writer| writer.put(b"")).unwrap();
    assert_eq!(out, b"\0\0\0\x04fine\0\0\0\0"[..]);
}

#[test]
fn unknown_codes_survive_with_their_numbers_in_display() {
    for code in [23, -999, i32::MIN, i32::MAX] {
        let shown = format!("unknown ({code})");
        assert_eq!(OpCode(code).to_string(), shown);
        assert_eq!(ErrorCode(code).to_string(), shown);
        assert_eq!(CreateMode(code).to_string(), shown);
        assert_eq!(EventType(code).to_string(), shown);
        assert_eq!(KeeperState(code).to_string(), shown);
        assert_eq!(AddWatchMode(code).to_string(), shown);
        assert_eq!(WatcherType(code).to_string(), shown);
        assert_eq!(format!("{:?}", ErrorCode(code)), shown);
        assert_eq!(ErrorCode(code).name(), None);

        let header = ReplyHeader { xid: Xid(1), zxid: Zxid(2), error: ErrorCode(code) };
        let mut wire = BytesMut::new();
        header.encode(&mut Writer::new(&mut wire, 16));
        assert_eq!(ReplyHeader::decode_exact(&wire), Ok(header));
    }
    assert_eq!(ErrorCode::NO_NODE.to_string(), "NoNode");
    assert_eq!(OpCode::GET_CHILDREN2.to_string(), "getChildren2");
}

#[test]
fn a_password_shows_no_byte_of_itself() {
    let secret = Password::new(&[0xab; Password::LEN]).unwrap();
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout: 0,
        session_id: SessionId(0),
        password: secret,
        read_only: None,
    };
    let shown = [format!("{secret:?}"), format!("{request:?}"), format!("{request:#?}")];
    for shown in shown {
        assert!(shown.contains("Password(..)"), "{shown}");
        for byte in ["171", "ab", "AB", "\u{ab}"] {
            let rest = shown.replace("Password(..)", "");
            assert!(!rest.contains(byte), "{byte} in {shown}");
        }
    }
}

#[test]
fn xids_start_again_at_one() {
    assert_eq!(Xid(1).next(), Xid(2));
    assert_eq!(Xid(i32::MAX - 1).next(), Xid(i32::MAX));
    assert_eq!(Xid(i32::MAX).next(), Xid(1));
    for reserved in [Xid::NOTIFICATION, Xid::PING, Xid::AUTH, Xid::SET_WATCHES, Xid(0)] {
        assert_eq!(reserved.next(), Xid::FIRST, "{reserved} is no ordinary request");
    }
}

#[test]
fn an_answer_without_timeout_or_session_is_expired() {
    let alive = ConnectResponse {
        protocol_version: 0,
        timeout: 1,
        session_id: SessionId(-1),
        password: Password::ZERO,
        read_only: None,
    };
    assert!(!alive.is_expired());
    assert!(ConnectResponse { timeout: 0, ..alive }.is_expired());
    assert!(ConnectResponse { timeout: -1, ..alive }.is_expired());
    assert!(ConnectResponse { session_id: SessionId(0), ..alive }.is_expired());
}

#[test]
fn a_multi_of_reads_goes_out_as_a_multi_read() {
    let data = MultiOp::GetData(GetDataRequest { path: "/a", watch: false });
    let children = MultiOp::GetChildren(GetChildrenRequest { path: "/a", watch: false });
    let check = MultiOp::Check(CheckVersionRequest { path: "/a", version: 1 });
    assert_eq!(MultiRequest::new(&[data]).op(), OpCode::MULTI_READ);
    assert_eq!(MultiRequest::new(&[children]).op(), OpCode::MULTI_READ);
    assert_eq!(MultiRequest::new(&[check]).op(), OpCode::MULTI);
    assert_eq!(MultiRequest::new(&[]).op(), OpCode::MULTI);
}

#[test]
fn modes_know_their_kinds() {
    let kinds = |mode: i32| (CreateMode(mode).is_ephemeral(), CreateMode(mode).is_sequential());
    assert_eq!(kinds(0), (false, false));
    assert_eq!(kinds(1), (true, false));
    assert_eq!(kinds(2), (false, true));
    assert_eq!(kinds(3), (true, true));
    assert_eq!(kinds(4), (false, false));
    assert_eq!(kinds(5), (false, false));
    assert_eq!(kinds(6), (false, true));
    assert_eq!(kinds(7), (false, false));
}

/// The numbers as ZooKeeper's sources and documentation have them. Those of operations are compared
/// with the captured frames.
#[test]
fn codes_have_the_names_of_the_protocol() {
    #[rustfmt::skip]
    let errors = [
        (0, "Ok"), (-1, "SystemError"), (-2, "RuntimeInconsistency"), (-3, "DataInconsistency"),
        (-4, "ConnectionLoss"), (-5, "MarshallingError"), (-6, "Unimplemented"),
        (-7, "OperationTimeout"), (-8, "BadArguments"), (-12, "UnknownSession"),
        (-13, "NewConfigNoQuorum"), (-14, "ReconfigInProgress"), (-100, "APIError"),
        (-101, "NoNode"), (-102, "NoAuth"), (-103, "BadVersion"),
        (-108, "NoChildrenForEphemerals"), (-110, "NodeExists"), (-111, "NotEmpty"),
        (-112, "SessionExpired"), (-113, "InvalidCallback"), (-114, "InvalidACL"),
        (-115, "AuthFailed"), (-118, "SessionMoved"), (-119, "NotReadOnly"),
        (-120, "EphemeralOnLocalSession"), (-121, "NoWatcher"), (-122, "RequestTimeout"),
        (-123, "ReconfigDisabled"), (-124, "SessionClosedRequireSaslAuth"),
        (-125, "QuotaExceeded"), (-127, "ThrottledOp"),
    ];
    let events = [
        (-1, "None"),
        (1, "NodeCreated"),
        (2, "NodeDeleted"),
        (3, "NodeDataChanged"),
        (4, "NodeChildrenChanged"),
        (5, "DataWatchRemoved"),
        (6, "ChildWatchRemoved"),
        (7, "PersistentWatchRemoved"),
    ];
    let states = [
        (0, "Disconnected"),
        (3, "SyncConnected"),
        (4, "AuthFailed"),
        (5, "ConnectedReadOnly"),
        (6, "SaslAuthenticated"),
        (7, "Closed"),
        (-112, "Expired"),
    ];
    // No other number has a name.
    let names = |table: &[(i32, &'static str)], name: fn(i32) -> Option<&'static str>| {
        for code in -1000..1000 {
            let expected = table.iter().find(|(known, _)| *known == code).map(|(_, name)| *name);
            assert_eq!(name(code), expected, "{code}");
        }
    };
    names(&errors, |code| ErrorCode(code).name());
    names(&events, |code| EventType(code).name());
    names(&states, |code| KeeperState(code).name());
    names(&[(0, "persistent"), (1, "persistentRecursive")], |code| AddWatchMode(code).name());
}

#[test]
fn a_secret_shows_nothing() {
    let packet = AuthPacket { kind: 0, scheme: "digest".into(), auth: Secret::new(Some(b"u:pw")) };
    let shown = format!("{packet:?}");
    assert!(shown.contains("digest") && !shown.contains("pw"), "{shown}");
    assert!(!shown.contains("112"), "not as numbers either: {shown}");
}
