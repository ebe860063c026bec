//! Claims on frames of any kind: how they are shown, that their fields cover them, and what
//! survives.

use zk_proto::any::{FIELD_LIMIT, Field, Frame, LINE_LIMIT, Name, Value};
use zk_proto::*;

use crate::dissect::{decode, encoded, siblings};
use crate::frames;

/// Payloads that were made by hand: a header, then a body.
fn request(op: OpCode, body: &impl Encode) -> Vec<u8> {
    let header = RequestHeader { xid: Xid(7), op };
    [encoded(&header), encoded(body)].concat()
}

fn reply(error: ErrorCode, body: &impl Encode) -> Vec<u8> {
    let header = ReplyHeader { xid: Xid(7), zxid: Zxid(0x1a), error };
    [encoded(&header), encoded(body)].concat()
}

/// Asserts that the leaves cover each byte once, in order, and that each group covers what is in
/// it.
fn assert_covers(fields: &[Field<'_>], payload: &[u8], name: &str) {
    let mut at = 0;
    for leaf in fields.iter().filter(|field| field.is_leaf()) {
        assert_eq!(leaf.offset, at, "{name}: {leaf:?}");
        at += leaf.length;
    }
    assert_eq!(at, payload.len(), "{name}: {fields:?}");
    let mut groups = vec![fields];
    while let Some(fields) = groups.pop() {
        for (field, inside) in siblings(fields) {
            let length: usize = siblings(inside).iter().map(|(field, _)| field.length).sum();
            if !field.is_leaf() {
                assert_eq!(length, field.length, "{name}: {field:?}");
                groups.push(inside);
            } else {
                assert!(inside.is_empty(), "{name}: {field:?}");
            }
        }
    }
}

#[test]
fn the_fields_of_every_frame_cover_each_byte_once() {
    for frame in frames::all() {
        let fields = decode(&frame, frame.payload()).unwrap();
        assert_covers(&fields.fields(), frame.payload(), &frame.name);
        let longer = [frame.payload(), b"newer"].concat();
        let fields = decode(&frame, &longer).unwrap().fields();
        assert_covers(&fields, &longer, &frame.name);
    }
}

#[test]
fn every_frame_encodes_to_its_bytes_with_those_behind_it() {
    for frame in frames::all() {
        let longer = [frame.payload(), b"newer"].concat();
        for payload in [frame.payload(), &longer[..]] {
            let seen = decode(&frame, payload).unwrap();
            assert_eq!(encoded(&seen)[..], *payload, "{}", frame.name);
            assert_eq!(seen.payload(), payload, "{}", frame.name);
        }
    }
}

#[test]
fn every_frame_is_one_line_and_a_tree_of_its_fields() {
    for frame in frames::all() {
        let seen = decode(&frame, frame.payload()).unwrap();
        let line = seen.to_string();
        assert!((4..=LINE_LIMIT).contains(&line.len()), "{}: {line}", frame.name);
        assert!(!line.contains(char::is_control) && line.trim() == line, "{}: {line}", frame.name);
        let tree = seen.tree().to_string();
        assert_eq!(tree.lines().count(), seen.fields().len(), "{}: {tree}", frame.name);
    }
}

#[test]
fn lines_say_what_is_asked_and_answered() {
    let check = |payload: &[u8], expected: &str| {
        assert_eq!(Frame::request(payload).unwrap().to_string(), expected);
    };
    let acl = List::new(&[Acl::OPEN]);
    let create = CreateRequest {
        path: "/lock/x-",
        data: Some(b"me"),
        acl,
        mode: CreateMode::EPHEMERAL_SEQUENTIAL,
    };
    check(
        &request(OpCode::CREATE2, &create),
        "create2 /lock/x- data=2B acl=1 mode=ephemeralSequential",
    );
    check(&request(OpCode::PING, &()), "ping");
    check(
        &request(OpCode::GET_DATA, &GetDataRequest { path: "/a", watch: true }),
        "getData /a watch",
    );
    check(&request(OpCode(77), &5), "unknown (77) body=4B");
    let delete = DeleteRequest { path: "/a\n\u{1b}[2J\u{e9}", version: -1 };
    check(&request(OpCode::DELETE, &delete), "delete /a\\n\\u{1b}[2J\u{e9} version=-1");
    let ops = [MultiOp::Create(create), MultiOp::Delete(DeleteRequest { path: "/b", version: 3 })];
    check(
        &request(OpCode::MULTI, &MultiList::new(&ops)),
        "multi [ create /lock/x- data=2B acl=1 mode=ephemeralSequential; delete /b version=3 ]",
    );

    let check = |op, payload: &[u8], expected: &str| {
        assert_eq!(Frame::reply(payload, op).unwrap().to_string(), expected);
    };
    check(OpCode::DELETE, &reply(ErrorCode::NO_NODE, &()), "delete NoNode");
    check(OpCode::DELETE, &reply(ErrorCode::OK, &()), "delete Ok zxid=0x1a");
    check(OpCode::DELETE, &reply(ErrorCode::OK, &9), "delete Ok zxid=0x1a trailing=4B");
    let stat = Stat { version: 4, ..Stat::decode_exact(&[0; 68]).unwrap() };
    let data = GetDataResponse { data: Some(b"abc"), stat };
    check(OpCode::GET_DATA, &reply(ErrorCode::OK, &data), "getData Ok zxid=0x1a data=3B version=4");
    let results = [MultiResult::Error(ErrorCode::OK), MultiResult::Error(ErrorCode::NO_NODE)];
    check(
        OpCode::MULTI,
        &reply(ErrorCode::OK, &MultiList::new(&results)),
        "multi Ok zxid=0x1a [ error Ok; error NoNode ]",
    );

    let unknown = reply(ErrorCode::OK, &9);
    let frame = Frame::from_server(&unknown, |_| None).unwrap();
    assert_eq!((frame.op(), &*frame.to_string()), (None, "reply Ok zxid=0x1a body=4B"));
}

#[test]
fn notifications_are_told_from_replies() {
    for frame in frames::all().iter().filter(|frame| frame.opcode.is_some()) {
        let op = match frame.direction {
            frames::Direction::Request => continue,
            frames::Direction::Reply => frame.opcode.map(OpCode),
            frames::Direction::Notification => None,
        };
        let seen = Frame::from_server(frame.payload(), |_| op).unwrap();
        assert_eq!(seen.message(), decode(frame, frame.payload()).unwrap().message());
    }
}

#[test]
fn secrets_are_shown_only_to_who_asks() {
    let auth = AuthPacket { kind: 0, scheme: "digest".into(), auth: Secret::new(Some(b"me:pw")) };
    let packet = request(OpCode::AUTH, &auth);
    let token = request(OpCode::SASL, &GetSaslRequest { token: Secret::new(Some(b"me:pw")) });
    let connect = frames::all().into_iter().find(|frame| frame.name == "connect_new_rsp").unwrap();
    let password = "1f56c117f691b36893d4ae0565834ef0";
    for (frame, secret) in [
        (Frame::request(&packet).unwrap(), "me:pw"),
        (Frame::request(&token).unwrap(), "me:pw"),
        (Frame::connect_response(connect.payload()).unwrap(), password),
    ] {
        let bytes = format!("{:?}", b"me:pw");
        let hidden = [format!("{frame}"), frame.tree().to_string(), format!("{frame:?}")];
        for text in hidden.iter().chain([&format!("{:?}", frame.fields())]) {
            assert!(!text.contains(secret) && !text.contains(&bytes), "{text}");
        }
        assert!(frame.tree().to_string().contains("secret bytes"), "{frame}");
        assert!(frame.exposing_secrets().tree().to_string().contains(secret), "{frame}");
    }
}

#[test]
fn a_frame_differs_from_itself_in_nothing_and_from_others_in_something() {
    let frames = frames::all();
    let seen: Vec<_> = frames.iter().map(|frame| decode(frame, frame.payload()).unwrap()).collect();
    for (a, frame) in seen.iter().zip(&frames) {
        for (b, other) in seen.iter().zip(&frames) {
            let differences = a.differences(b);
            assert_eq!(
                differences.is_empty(),
                (frame.payload(), a.op().is_some()) == (other.payload(), b.op().is_some()),
                "{} and {}: {differences:?}",
                frame.name,
                other.name
            );
        }
    }
}

#[test]
fn differences_have_the_paths_of_fields_and_items() {
    let one = [Acl::OPEN];
    let two = [Acl { perms: Acl::READ, ..Acl::OPEN }, Acl::OPEN];
    let payload = |acl: &[Acl<'_>], mode| {
        let acl = List::new(acl);
        request(OpCode::CREATE2, &CreateRequest { path: "/a", data: None, acl, mode })
    };
    let left = payload(&one, CreateMode::PERSISTENT);
    let right = payload(&two, CreateMode::EPHEMERAL);
    let (left, right) = (Frame::request(&left).unwrap(), Frame::request(&right).unwrap());
    let said: Vec<_> = left.differences(&right).iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "body.acl.count: 1, not 2",
            "body.acl[0].perms: 31, not 1",
            "body.acl[1]: not there, not Acl",
            "body.mode: persistent, not ephemeral",
        ]
    );
    let ping = [request(OpCode::PING, &()), b"more".to_vec()].concat();
    let said: Vec<_> =
        Frame::request(&ping).unwrap().differences(&left).iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "header.op: ping, not create2",
            "body: PingRequest, not CreateRequest",
            "trailing: \"more\", not there",
        ]
    );
}

#[test]
fn a_list_of_millions_has_a_limited_number_of_fields() {
    let names = vec![""; 3 * FIELD_LIMIT];
    let payload = reply(ErrorCode::OK, &GetChildrenResponse { children: List::new(&names) });
    let frame = Frame::reply(&payload, OpCode::GET_CHILDREN).unwrap();
    let fields = frame.fields();
    assert_eq!(fields.len(), FIELD_LIMIT + 1);
    let rest = fields.last().unwrap();
    assert_eq!((rest.name, rest.depth), (Name::Field("rest"), 0));
    assert!(matches!(rest.value, Value::Unknown(_)));
    let leaves = fields.iter().filter(|field| field.is_leaf());
    assert_eq!(leaves.map(|field| field.length).sum::<usize>(), payload.len());
    assert_eq!(frame.to_string(), "getChildren Ok zxid=0x1a children=196608");
}

#[test]
fn a_long_line_is_cut() {
    let delete =
        MultiOp::Delete(DeleteRequest { path: "/\u{1F600}\u{1F600}\u{1F600}", version: 3 });
    for len in 1..99 {
        let payload = request(OpCode::MULTI, &MultiList::new(&vec![delete; len]));
        let line = Frame::request(&payload).unwrap().to_string();
        assert!(line.len() <= LINE_LIMIT, "{line}");
        assert_ne!(line.ends_with("..."), line.ends_with(" ]"), "{line}");
        assert_eq!(line.ends_with("..."), len > 31, "{len}: {line}");
    }
}
