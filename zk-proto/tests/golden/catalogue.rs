//! Values of every record that no server need ever have sent: the ends of every integer, null
//! beside empty, long lists, text that is not UTF-8.

use std::collections::BTreeSet;

use bytes::BytesMut;
use zk_proto::*;

/// Checks each value, and takes down the record's name.
///
/// A value encodes and decodes to itself; what was decoded encodes to the same bytes; and every
/// shorter piece of them is truncated, or, of a handshake's bytes but the last, an older peer's.
macro_rules! check {
    ($checked:ident, $record:ident $(<$lt:lifetime>)?: $($value:expr,)*) => {{
        let name = stringify!($record);
        assert!($checked.insert(name), "{name} twice");
        for value in [$($value),*] {
            let value: $record $(<$lt>)? = value;
            let wire = encoded(&value);
            let again = $record::decode_exact(&wire).unwrap();
            assert_eq!(again, value, "{name}");
            assert_eq!(encoded(&again), wire, "{name}: {value:?}");
            for cut in 0..wire.len() {
                match $record::decode_exact(&wire[..cut]) {
                    Err(DecodeError::Truncated { .. }) => {}
                    Err(error) => panic!("{name} cut at {cut}: {error}: {value:?}"),
                    Ok(shorter) => {
                        assert!(name.starts_with("Connect"), "{name} cut at {cut}: {value:?}");
                        assert_eq!(cut, wire.len() - 1, "{name}: {value:?}");
                        assert_ne!(shorter, value, "{name} cut at {cut}");
                    }
                }
            }
        }
    }};
}

fn encoded(value: &impl Encode) -> BytesMut {
    let mut wire = BytesMut::new();
    let mut writer = Writer::new(&mut wire, frame::CLIENT_FRAME_LIMIT);
    value.encode(&mut writer);
    let len = writer.finish().unwrap();
    assert_eq!(len, wire.len());
    wire
}

/// A Stat whose fields are all different.
const STAT: Stat = Stat {
    czxid: Zxid(0x1_0000_0001),
    mzxid: Zxid(0x1_0000_0002),
    ctime: 1_700_000_000_003,
    mtime: 1_700_000_000_004,
    version: 5,
    cversion: 6,
    aversion: 7,
    ephemeral_owner: SessionId(8),
    data_length: 9,
    num_children: 10,
    pzxid: Zxid(11),
};

const LOW: Stat = Stat {
    czxid: Zxid(i64::MIN),
    mzxid: Zxid(i64::MIN),
    ctime: i64::MIN,
    mtime: i64::MIN,
    version: i32::MIN,
    cversion: i32::MIN,
    aversion: i32::MIN,
    ephemeral_owner: SessionId(i64::MIN),
    data_length: i32::MIN,
    num_children: i32::MIN,
    pzxid: Zxid(i64::MIN),
};

const HIGH: Stat = Stat {
    czxid: Zxid(i64::MAX),
    mzxid: Zxid(i64::MAX),
    ctime: i64::MAX,
    mtime: i64::MAX,
    version: i32::MAX,
    cversion: i32::MAX,
    aversion: i32::MAX,
    ephemeral_owner: SessionId(i64::MAX),
    data_length: i32::MAX,
    num_children: i32::MAX,
    pzxid: Zxid(i64::MAX),
};

const NO_ACL: List<'static, Acl<'static>> = List::new(&[]);
const OPEN_ACL: List<'static, Acl<'static>> = List::new(&[Acl::OPEN]);
const NULL_ID: Acl<'static> = Acl { perms: -1, id: Id { scheme: Text::NULL, id: Text::NULL } };
const TWO_ACLS: List<'static, Acl<'static>> = List::new(&[Acl::OPEN, NULL_ID]);

/// A list of each kind: null, empty, of one empty name, of names of all widths.
const NULL: List<'static, &'static str> = List::NULL;
const NONE: List<'static, &'static str> = List::new(&[]);
const BLANK: List<'static, &'static str> = List::new(&[""]);
const NAMES: List<'static, &'static str> = List::new(&["a", "é", "中", "\u{1F600}", "\0", "a/b"]);

#[test]
fn every_record_round_trips_and_is_truncated_at_every_byte() {
    let many: Vec<String> = (0..200).map(|n| format!("lock-{n:010}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let many = List::new(&many);
    let acls = vec![Acl { perms: i32::MIN, id: Acl::OPEN.id }; 100];
    let acls = List::new(&acls);
    let deep = "/x".repeat(500);
    let block = vec![0xff; 2000];
    let (empty, block) = (Some(&[][..]), Some(&block[..]));
    // An emoji as Java writes it, and bytes that are no text at all.
    let java: Text<'_> = Text::decode_exact(b"\0\0\0\x06\xed\xa0\xbd\xed\xb8\x80").unwrap();
    let garbage: Text<'_> = Text::decode_exact(b"\0\0\0\x04\xff\xc0\xed\xa0").unwrap();

    let mut checked = BTreeSet::new();
    check! { checked, RequestHeader:
        RequestHeader { xid: Xid(i32::MIN), op: OpCode(i32::MAX) },
        RequestHeader { xid: Xid(i32::MAX), op: OpCode(i32::MIN) },
        RequestHeader { xid: Xid::PING, op: OpCode::PING },
    }
    check! { checked, ReplyHeader:
        ReplyHeader { xid: Xid(i32::MIN), zxid: Zxid(i64::MAX), error: ErrorCode(i32::MIN) },
        ReplyHeader { xid: Xid(i32::MAX), zxid: Zxid(i64::MIN), error: ErrorCode(i32::MAX) },
        ReplyHeader { xid: Xid::NOTIFICATION, zxid: Zxid(-1), error: ErrorCode::OK },
    }
    let connect = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(i64::MAX),
        timeout: i32::MAX,
        session_id: SessionId(i64::MIN),
        password: Password::ZERO,
        read_only: None,
    };
    check! { checked, ConnectRequest:
        connect,
        ConnectRequest { read_only: Some(false), ..connect },
        ConnectRequest { read_only: Some(true), timeout: i32::MIN, ..connect },
        ConnectRequest { password: Password::default(), read_only: Some(true), ..connect },
        ConnectRequest { password: Password::new(b"shortest").unwrap(), ..connect },
        ConnectRequest { protocol_version: -1, last_zxid_seen: Zxid(i64::MIN), ..connect },
    }
    let connected = ConnectResponse {
        protocol_version: 0,
        timeout: i32::MIN,
        session_id: SessionId(i64::MAX),
        password: Password::ZERO,
        read_only: None,
    };
    check! { checked, ConnectResponse:
        connected,
        ConnectResponse { read_only: Some(false), ..connected },
        ConnectResponse { read_only: Some(true), timeout: i32::MAX, ..connected },
        ConnectResponse { password: Password::default(), read_only: Some(false), ..connected },
        ConnectResponse { password: Password::new(&[0xff; 16]).unwrap(), ..connected },
        ConnectResponse { protocol_version: i32::MIN, session_id: SessionId(-1), ..connected },
    }
    check! { checked, Id<'_>:
        Id { scheme: Text::NULL, id: Text::new("") },
        Id { scheme: Text::new(""), id: Text::NULL },
        Id { scheme: Text::new("ip"), id: java },
        Id { scheme: garbage, id: Text::new("\u{1F600}") },
    }
    check! { checked, Acl<'_>:
        Acl::OPEN,
        NULL_ID,
        Acl { perms: i32::MAX, id: Id { scheme: java, id: garbage } },
        Acl { perms: i32::MIN, id: Acl::OPEN.id },
    }
    check! { checked, Stat:
        STAT, LOW, HIGH,
    }
    check! { checked, CreateRequest<'_>:
        CreateRequest { path: "", data: None, acl: List::NULL, mode: CreateMode(i32::MIN) },
        CreateRequest { path: "/", data: empty, acl: NO_ACL, mode: CreateMode(i32::MAX) },
        CreateRequest { path: "/é", data: block, acl: TWO_ACLS, mode: CreateMode::EPHEMERAL },
        CreateRequest { path: &deep, data: None, acl: acls, mode: CreateMode::PERSISTENT },
    }
    check! { checked, CreateTtlRequest<'_>:
        CreateTtlRequest {
            path: "",
            data: None,
            acl: List::NULL,
            mode: CreateMode(i32::MIN),
            ttl: i64::MIN,
        },
        CreateTtlRequest {
            path: "/t",
            data: empty,
            acl: TWO_ACLS,
            mode: CreateMode::PERSISTENT_WITH_TTL,
            ttl: i64::MAX,
        },
    }
    check! { checked, CreateResponse<'_>:
        CreateResponse { path: "" },
        CreateResponse { path: "/lock-2147483647" },
        CreateResponse { path: &deep },
    }
    check! { checked, Create2Response<'_>:
        Create2Response { path: "", stat: LOW },
        Create2Response { path: &deep, stat: HIGH },
        Create2Response { path: "/lock--2147483648", stat: STAT },
    }
    check! { checked, DeleteRequest<'_>:
        DeleteRequest { path: "", version: i32::MIN },
        DeleteRequest { path: "/\u{1F600}", version: i32::MAX },
        DeleteRequest { path: &deep, version: -1 },
    }
    check! { checked, DeleteContainerRequest<'_>:
        DeleteContainerRequest { path: Text::NULL },
        DeleteContainerRequest { path: Text::new("") },
        DeleteContainerRequest { path: Text::new(&deep) },
        DeleteContainerRequest { path: garbage },
    }
    check! { checked, ExistsRequest<'_>:
        ExistsRequest { path: "", watch: false }, ExistsRequest { path: &deep, watch: true },
    }
    check! { checked, ExistsResponse:
        ExistsResponse { stat: STAT },
        ExistsResponse { stat: LOW },
        ExistsResponse { stat: HIGH },
    }
    check! { checked, GetDataRequest<'_>:
        GetDataRequest { path: "", watch: true }, GetDataRequest { path: &deep, watch: false },
    }
    check! { checked, GetDataResponse<'_>:
        GetDataResponse { data: None, stat: LOW },
        GetDataResponse { data: empty, stat: HIGH },
        GetDataResponse { data: block, stat: STAT },
    }
    check! { checked, SetDataRequest<'_>:
        SetDataRequest { path: "", data: None, version: i32::MIN },
        SetDataRequest { path: "/", data: empty, version: i32::MAX },
        SetDataRequest { path: &deep, data: block, version: -1 },
    }
    check! { checked, SetDataResponse:
        SetDataResponse { stat: STAT },
        SetDataResponse { stat: LOW },
        SetDataResponse { stat: HIGH },
    }
    check! { checked, GetAclRequest<'_>:
        GetAclRequest { path: "" }, GetAclRequest { path: &deep },
    }
    check! { checked, GetAclResponse<'_>:
        GetAclResponse { acl: List::NULL, stat: LOW },
        GetAclResponse { acl: NO_ACL, stat: HIGH },
        GetAclResponse { acl: TWO_ACLS, stat: STAT },
        GetAclResponse { acl: acls, stat: STAT },
    }
    check! { checked, SetAclRequest<'_>:
        SetAclRequest { path: "", acl: List::NULL, version: i32::MIN },
        SetAclRequest { path: "/", acl: NO_ACL, version: i32::MAX },
        SetAclRequest { path: &deep, acl: TWO_ACLS, version: -1 },
    }
    check! { checked, SetAclResponse:
        SetAclResponse { stat: STAT },
        SetAclResponse { stat: LOW },
        SetAclResponse { stat: HIGH },
    }
    check! { checked, GetChildrenRequest<'_>:
        GetChildrenRequest { path: "", watch: false },
        GetChildrenRequest { path: &deep, watch: true },
    }
    check! { checked, GetChildrenResponse<'_>:
        GetChildrenResponse { children: NULL },
        GetChildrenResponse { children: NONE },
        GetChildrenResponse { children: BLANK },
        GetChildrenResponse { children: NAMES },
        GetChildrenResponse { children: many },
    }
    check! { checked, GetChildren2Request<'_>:
        GetChildren2Request { path: "", watch: true },
        GetChildren2Request { path: &deep, watch: false },
    }
    check! { checked, GetChildren2Response<'_>:
        GetChildren2Response { children: NULL, stat: LOW },
        GetChildren2Response { children: NONE, stat: HIGH },
        GetChildren2Response { children: NAMES, stat: STAT },
        GetChildren2Response { children: many, stat: STAT },
    }
    check! { checked, SyncRequest<'_>:
        SyncRequest { path: Text::NULL },
        SyncRequest { path: Text::new("") },
        SyncRequest { path: Text::new(&deep) },
        SyncRequest { path: java },
        SyncRequest { path: garbage },
    }
    check! { checked, SyncResponse<'_>:
        SyncResponse { path: Text::NULL },
        SyncResponse { path: Text::new("") },
        SyncResponse { path: java },
        SyncResponse { path: garbage },
    }
    check! { checked, PingRequest:
        PingRequest,
    }
    check! { checked, CloseSessionRequest:
        CloseSessionRequest,
    }
    check! { checked, CheckVersionRequest<'_>:
        CheckVersionRequest { path: "", version: i32::MIN },
        CheckVersionRequest { path: &deep, version: i32::MAX },
    }
    check! { checked, ReconfigRequest<'_>:
        ReconfigRequest {
            joining_servers: Text::NULL,
            leaving_servers: Text::NULL,
            new_members: Text::NULL,
            cur_config_id: i64::MIN,
        },
        ReconfigRequest {
            joining_servers: Text::new("server.4=zk4:2888:3888;2181"),
            leaving_servers: Text::new("1,2"),
            new_members: Text::new(""),
            cur_config_id: i64::MAX,
        },
    }
    check! { checked, GetEphemeralsRequest<'_>:
        GetEphemeralsRequest { prefix_path: Text::NULL },
        GetEphemeralsRequest { prefix_path: Text::new("") },
        GetEphemeralsRequest { prefix_path: Text::new(&deep) },
        GetEphemeralsRequest { prefix_path: java },
        GetEphemeralsRequest { prefix_path: garbage },
    }
    check! { checked, GetEphemeralsResponse<'_>:
        GetEphemeralsResponse { ephemerals: NULL },
        GetEphemeralsResponse { ephemerals: NONE },
        GetEphemeralsResponse { ephemerals: NAMES },
        GetEphemeralsResponse { ephemerals: many },
    }
    check! { checked, GetAllChildrenNumberRequest<'_>:
        GetAllChildrenNumberRequest { path: "" }, GetAllChildrenNumberRequest { path: &deep },
    }
    check! { checked, GetAllChildrenNumberResponse:
        GetAllChildrenNumberResponse { total_number: i32::MIN },
        GetAllChildrenNumberResponse { total_number: i32::MAX },
    }
    check! { checked, WhoAmIRequest:
        WhoAmIRequest,
    }
    let nobody = ClientInfo { auth_scheme: Text::NULL, user: Text::NULL };
    let somebody = ClientInfo { auth_scheme: Text::new("digest"), user: java };
    check! { checked, ClientInfo<'_>:
        nobody, somebody,
    }
    check! { checked, WhoAmIResponse<'_>:
        WhoAmIResponse { client_info: List::NULL },
        WhoAmIResponse { client_info: List::new(&[]) },
        WhoAmIResponse { client_info: List::new(&[nobody, somebody, nobody]) },
    }
    check! { checked, AuthPacket<'_>:
        AuthPacket { kind: i32::MIN, scheme: Text::NULL, auth: Secret::new(None) },
        AuthPacket { kind: i32::MAX, scheme: Text::new(""), auth: Secret::new(empty) },
        AuthPacket { kind: 0, scheme: Text::new("digest"), auth: Secret::new(block) },
    }
    check! { checked, GetSaslRequest<'_>:
        GetSaslRequest { token: Secret::new(None) },
        GetSaslRequest { token: Secret::new(empty) },
        GetSaslRequest { token: Secret::new(block) },
    }
    check! { checked, SetSaslResponse<'_>:
        SetSaslResponse { token: Secret::new(None) },
        SetSaslResponse { token: Secret::new(empty) },
        SetSaslResponse { token: Secret::new(block) },
    }
    check! { checked, CheckWatchesRequest<'_>:
        CheckWatchesRequest { path: "", kind: WatcherType(i32::MIN) },
        CheckWatchesRequest { path: &deep, kind: WatcherType(i32::MAX) },
    }
    check! { checked, RemoveWatchesRequest<'_>:
        RemoveWatchesRequest { path: "", kind: WatcherType(i32::MIN) },
        RemoveWatchesRequest { path: &deep, kind: WatcherType(i32::MAX) },
    }
    check! { checked, AddWatchRequest<'_>:
        AddWatchRequest { path: "", mode: AddWatchMode(i32::MIN) },
        AddWatchRequest { path: &deep, mode: AddWatchMode(i32::MAX) },
    }
    check! { checked, ErrorResponse:
        ErrorResponse { error: ErrorCode(i32::MIN) },
        ErrorResponse { error: ErrorCode(i32::MAX) },
    }
    check! { checked, WatcherEvent<'_>:
        WatcherEvent { kind: EventType(i32::MIN), state: KeeperState(i32::MAX), path: "" },
        WatcherEvent { kind: EventType(i32::MAX), state: KeeperState(i32::MIN), path: &deep },
    }
    check! { checked, SetWatches<'_>:
        SetWatches { relative_zxid: Zxid(i64::MIN), data: NULL, exist: NONE, child: BLANK },
        SetWatches { relative_zxid: Zxid(i64::MAX), data: NAMES, exist: NULL, child: NONE },
        SetWatches { relative_zxid: Zxid(0), data: NONE, exist: NAMES, child: many },
    }
    check! { checked, SetWatches2<'_>:
        SetWatches2 {
            relative_zxid: Zxid(i64::MIN),
            data: NULL,
            exist: NONE,
            child: BLANK,
            persistent: NAMES,
            persistent_recursive: NULL,
        },
        SetWatches2 {
            relative_zxid: Zxid(i64::MAX),
            data: many,
            exist: BLANK,
            child: NONE,
            persistent: NULL,
            persistent_recursive: NAMES,
        },
    }
    check! { checked, MultiHeader:
        MultiHeader { op: OpCode(i32::MIN), done: true, error: ErrorCode(i32::MAX) },
        MultiHeader { op: OpCode(i32::MAX), done: false, error: ErrorCode(i32::MIN) },
    }

    let create = CreateRequest {
        path: "/c",
        data: None,
        acl: OPEN_ACL,
        mode: CreateMode::PERSISTENT_SEQUENTIAL,
    };
    let ttl = CreateTtlRequest {
        path: "/t",
        data: empty,
        acl: TWO_ACLS,
        mode: CreateMode::PERSISTENT_WITH_TTL,
        ttl: 1,
    };
    let set = SetDataRequest { path: "/s", data: block, version: i32::MAX };
    check! { checked, MultiRequest<'_>:
        MultiRequest::new(&[]),
        MultiRequest::new(&[
            MultiOp::Create(create),
            MultiOp::Create2(create),
            MultiOp::CreateContainer(create),
            MultiOp::CreateTtl(ttl),
            MultiOp::Delete(DeleteRequest { path: "/d", version: i32::MIN }),
            MultiOp::SetData(set),
            MultiOp::Check(CheckVersionRequest { path: "/v", version: -1 }),
        ]),
        MultiRequest::new(&[
            MultiOp::GetData(GetDataRequest { path: "/g", watch: true }),
            MultiOp::GetChildren(GetChildrenRequest { path: "", watch: false }),
        ]),
        MultiRequest::new(&[MultiOp::Create(create); 20]),
    }
    check! { checked, MultiResponse<'_>:
        MultiResponse::new(&[]),
        MultiResponse::new(&[
            MultiResult::Create(CreateResponse { path: "/c" }),
            MultiResult::Create2(Create2Response { path: "/c2", stat: STAT }),
            MultiResult::Delete(()),
            MultiResult::SetData(SetDataResponse { stat: HIGH }),
            MultiResult::Check(()),
            MultiResult::GetData(GetDataResponse { data: None, stat: LOW }),
            MultiResult::GetChildren(GetChildrenResponse { children: NAMES }),
            MultiResult::GetChildren(GetChildrenResponse { children: NULL }),
            MultiResult::Error(ErrorCode::OK),
            MultiResult::Error(ErrorCode(i32::MIN)),
            MultiResult::Error(ErrorCode(i32::MAX)),
        ]),
        MultiResponse::new(&[MultiResult::Delete(()); 100]),
    }
}

/// What clients and servers say to each other, by the names of ZooKeeper 3.9's own list. Records
/// that are only part of another are left out.
const PROTOCOL: &[&str] = &[
    "ACL",
    "AddWatchRequest",
    "AuthPacket",
    "CheckVersionRequest",
    "CheckWatchesRequest",
    "ConnectRequest",
    "ConnectResponse",
    "Create2Response",
    "CreateRequest",
    "CreateResponse",
    "CreateTTLRequest",
    "DeleteContainerRequest",
    "DeleteRequest",
    "ErrorResponse",
    "ExistsRequest",
    "ExistsResponse",
    "GetACLRequest",
    "GetACLResponse",
    "GetAllChildrenNumberRequest",
    "GetAllChildrenNumberResponse",
    "GetChildren2Request",
    "GetChildren2Response",
    "GetChildrenRequest",
    "GetChildrenResponse",
    "GetDataRequest",
    "GetDataResponse",
    "GetEphemeralsRequest",
    "GetEphemeralsResponse",
    "GetSASLRequest",
    "Id",
    "MultiHeader",
    "ReconfigRequest",
    "RemoveWatchesRequest",
    "ReplyHeader",
    "RequestHeader",
    "SetACLRequest",
    "SetACLResponse",
    "SetDataRequest",
    "SetDataResponse",
    "SetSASLResponse",
    "SetWatches",
    "SetWatches2",
    "Stat",
    "SyncRequest",
    "SyncResponse",
    "WatcherEvent",
    "WhoAmIResponse",
];

/// What ZooKeeper's list leaves out: bodies that are empty, or end in a marker.
const UNLISTED: &[&str] =
    &["CloseSessionRequest", "MultiRequest", "MultiResponse", "PingRequest", "WhoAmIRequest"];

#[test]
fn the_records_of_the_protocol_are_there() {
    let lower = |names: &[&str]| names.iter().map(|name| name.to_lowercase()).collect::<Vec<_>>();
    let ours: Vec<_> = fuzz::RECORDS.iter().map(|record| record.name.to_lowercase()).collect();
    for name in [lower(PROTOCOL), lower(UNLISTED)].concat() {
        assert!(ours.contains(&name), "there is no {name}");
    }
}

#[test]
fn the_integers_of_the_wire_round_trip_at_their_ends() {
    for value in [i32::MIN, -1, 0, 1, i32::MAX] {
        assert_eq!(encoded(&value), value.to_be_bytes()[..]);
        assert_eq!(i32::decode_exact(&encoded(&value)), Ok(value));
        assert_eq!(Xid::decode_exact(&encoded(&Xid(value))), Ok(Xid(value)));
        assert_eq!(OpCode::decode_exact(&encoded(&OpCode(value))), Ok(OpCode(value)));
    }
    for value in [i64::MIN, -1, 0, 1, i64::MAX] {
        assert_eq!(encoded(&value), value.to_be_bytes()[..]);
        assert_eq!(i64::decode_exact(&encoded(&value)), Ok(value));
        assert_eq!(Zxid::decode_exact(&encoded(&Zxid(value))), Ok(Zxid(value)));
        assert_eq!(SessionId::decode_exact(&encoded(&SessionId(value))), Ok(SessionId(value)));
    }
}

#[test]
fn null_and_empty_stay_apart() {
    let null = b"\xff\xff\xff\xff";
    let empty = b"\0\0\0\0";
    assert_eq!(Option::<&[u8]>::decode_exact(null), Ok(None));
    assert_eq!(Option::<&[u8]>::decode_exact(empty), Ok(Some(&[][..])));
    assert_eq!(Text::decode_exact(null), Ok(Text::NULL));
    assert_eq!(Text::decode_exact(empty), Ok(Text::new("")));
    assert_ne!(Text::NULL, Text::new(""));
    assert_eq!(List::<&str>::decode_exact(null), Ok(NULL));
    assert_eq!(List::<&str>::decode_exact(empty), Ok(NONE));
    assert_ne!(NULL, NONE);
    assert_eq!((NULL.len(), NULL.iter().count(), NONE.len()), (0, 0, 0));
    assert_eq!((encoded(&NULL), encoded(&NONE)), (null[..].into(), empty[..].into()));
}

#[test]
fn a_list_of_a_hundred_thousand_names_round_trips() {
    let names: Vec<String> = (0..100_000).map(|n| format!("{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let wire = encoded(&GetChildrenResponse { children: List::new(&names) });
    let GetChildrenResponse { children } = GetChildrenResponse::decode_exact(&wire).unwrap();
    assert_eq!(children.len(), names.len());
    assert!(children.iter().eq(names.iter().copied()));
    assert_eq!(encoded(&children), wire);
}

#[test]
fn a_text_keeps_the_bytes_that_java_wrote() {
    let java = b"\0\0\0\x08a\xed\xa0\xbd\xed\xb8\x80z";
    let text = Text::decode_exact(java).unwrap();
    assert_eq!(text.as_str(), None);
    assert_eq!(text.to_string_lossy(), "a\u{1F600}z");
    assert_eq!(format!("{text:?}"), "\"a\u{1F600}z\"");
    assert_eq!(encoded(&text), java[..]);
    assert_ne!(text, Text::new("a\u{1F600}z"), "equality is that of the bytes");
}

#[test]
fn a_text_joins_the_first_and_the_last_surrogate_pairs() {
    let pair = |bytes: &'static [u8; 10]| Text::decode_exact(bytes).unwrap().to_string_lossy();
    assert_eq!(pair(b"\0\0\0\x06\xed\xa0\x80\xed\xb0\x80"), "\u{10000}");
    assert_eq!(pair(b"\0\0\0\x06\xed\xaf\xbf\xed\xbf\xbf"), "\u{10FFFF}");
}

#[test]
fn a_text_replaces_what_is_no_character() {
    let shown = |bytes: &[u8]| Text::from_bytes(bytes).to_string_lossy();
    assert_eq!(shown(b"\xff"), "\u{FFFD}");
    assert_eq!(shown(b"a\xed\xa0\xbdb"), "a\u{FFFD}b", "half a pair");
    assert_eq!(shown(b"\xed\xb8\x80\xed\xa0\xbd"), "\u{FFFD}\u{FFFD}", "a pair turned round");
    assert_eq!(shown(b"\xed\xa0\xbd\xed\xb8"), "\u{FFFD}\u{FFFD}", "a pair cut short");
    assert_eq!(shown(b"\xed\xa0b"), "\u{FFFD}b", "a surrogate cut short");
    assert_eq!(shown(b"\xef\xed\xaf"), "\u{FFFD}\u{FFFD}", "two characters cut short");
    assert_eq!(shown(b"\xf0\x90\x80"), "\u{FFFD}", "a long character cut short");
    assert_eq!(shown(b"\xc0\x80"), "\u{FFFD}\u{FFFD}", "NUL as Java's own UTF-8 has it");
    assert_eq!(shown("caf\u{e9}".as_bytes()), "caf\u{e9}");
    let pair = Text::from_bytes(b"a\xed\xa0\xbd\xed\xb8\x80z");
    assert_eq!(pair.to_java_string(), "a\u{FFFD}\u{FFFD}z", "Java does not read what it writes");
    assert_eq!(Text::new("a\u{1F600}z").to_java_string(), "a\u{1F600}z");
}
