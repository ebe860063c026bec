//! Claims on every frame that was captured from a real server or client.

use std::collections::BTreeSet;

use bytes::BytesMut;
use serde_json::Value as Json;
use zk_proto::any::Value;
use zk_proto::fuzz::Record;
use zk_proto::{DecodeError, OpCode, frame};

use crate::dissect::{assert_entries_encode_alike, dissect};
use crate::frames::{self, Direction, Frame};

/// How many there were at least; each operation and each record has some of its own.
const FRAMES: usize = 269;

/// No client sends it.
const NEVER_CAPTURED: &str = "DeleteContainerRequest";

/// The only error with a body behind it: a refused step of SASL carries a null token, which a
/// client ignores.
const ERROR_WITH_A_BODY: &str = "sasl_wrong_password_rsp";

/// A cut at this length leaves a whole payload that says something else, instead of an error.
fn whole_at(frame: &Frame) -> Option<usize> {
    let len = frame.payload().len();
    match frame.opcode {
        // A handshake without the readOnly byte is that of an older peer.
        None if !is_without_read_only(frame) => Some(len - 1),
        // An error without a body is that of any operation.
        Some(_) if frame.name == ERROR_WITH_A_BODY => Some(len - 4),
        _ => None,
    }
}

fn is_without_read_only(frame: &Frame) -> bool {
    ["connect_no_readonly_byte_req", "connect_no_readonly_byte_rsp"].contains(&frame.name.as_str())
}

#[test]
fn every_frame_is_there_under_its_own_name() {
    let frames = frames::all();
    assert!(frames.len() >= FRAMES);
    let names: BTreeSet<&str> = frames.iter().map(|frame| frame.name.as_str()).collect();
    assert_eq!(names.len(), frames.len());
    let of = |direction| frames.iter().filter(|frame| frame.direction == direction).count();
    assert!(of(Direction::Request) >= 137);
    assert!(of(Direction::Reply) >= 107);
    assert!(of(Direction::Notification) >= 25);
}

#[test]
fn every_frame_decodes_to_what_is_known_of_it() {
    for frame in frames::all() {
        let name = &frame.name;
        let mut input = BytesMut::from(&frame.bytes[..]);
        let payload = frame::split(&mut input, frame::SERVER_FRAME_LIMIT).unwrap().unwrap();
        assert!(input.is_empty(), "{name}: bytes behind the frame");
        match dissect(&frame, &payload) {
            Ok(seen) => assert_eq!(Json::from(seen.json), frame.decoded, "{name}"),
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

#[test]
fn every_frame_encodes_to_the_same_bytes() {
    for frame in frames::all() {
        let seen = dissect(&frame, frame.payload()).unwrap();
        let mut wire = BytesMut::from(&b"before"[..]);
        frame::encode(&mut wire, frame::SERVER_FRAME_LIMIT, |out| out.put(&seen.wire)).unwrap();
        assert_eq!(wire[..6], b"before"[..], "{}", frame.name);
        assert_eq!(wire[6..], frame.bytes, "{}", frame.name);
        assert_entries_encode_alike(&seen.frame);
    }
}

#[test]
fn a_payload_that_is_cut_anywhere_is_truncated() {
    for frame in frames::all() {
        let payload = frame.payload();
        for cut in (0..payload.len()).filter(|cut| Some(*cut) != whole_at(&frame)) {
            match dissect(&frame, &payload[..cut]) {
                Err(DecodeError::Truncated { needed, left }) => {
                    assert!(needed > 0 && left < payload.len(), "{} at {cut}", frame.name);
                }
                Err(error) => panic!("{} cut at {cut}: {error}", frame.name),
                Ok(seen) => panic!("{} cut at {cut} reads as {:?}", frame.name, seen.json),
            }
        }
    }
}

#[test]
fn a_handshake_cut_before_its_last_byte_is_that_of_an_older_peer() {
    let frames = frames::all();
    let handshakes = frames.iter().filter(|frame| frame.opcode.is_none());
    let cut = handshakes.filter_map(|frame| Some((frame, whole_at(frame)?)));
    let mut count = 0;
    for (frame, at) in cut {
        let mut expected = frame.decoded.clone();
        let [record] = &mut expected.as_object_mut().unwrap().values_mut().collect::<Vec<_>>()[..]
        else {
            panic!("{}: a handshake is one record", frame.name);
        };
        assert!(record["readOnly"].is_boolean(), "{}", frame.name);
        record["readOnly"] = "absent".into();
        let seen = dissect(frame, &frame.payload()[..at]).unwrap();
        assert_eq!(Json::from(seen.json), expected, "{}", frame.name);
        count += 1;
    }
    assert_eq!(count, 16);
}

#[test]
fn a_frame_that_is_cut_anywhere_is_waited_for() {
    for frame in frames::all() {
        for cut in 0..frame.bytes.len() {
            let mut input = BytesMut::from(&frame.bytes[..cut]);
            assert_eq!(frame::split(&mut input, 4096), Ok(None), "{} at {cut}", frame.name);
            assert_eq!(input[..], frame.bytes[..cut], "{} at {cut}", frame.name);
            input.extend_from_slice(&frame.bytes[cut..]);
            let payload = frame::split(&mut input, 4096).unwrap();
            assert_eq!(payload.as_deref(), Some(frame.payload()), "{} at {cut}", frame.name);
        }
    }
}

#[test]
fn bytes_behind_a_payload_are_seen() {
    for frame in frames::all() {
        let mut longer = frame.payload().to_vec();
        longer.extend(b"newer");
        let error = dissect(&frame, &longer).err();
        // The first byte behind an old handshake is its readOnly.
        let left = if is_without_read_only(&frame) { 4 } else { 5 };
        assert_eq!(error, Some(DecodeError::TrailingBytes(left)), "{}", frame.name);
    }
}

#[test]
fn frames_in_one_stream_come_out_in_order() {
    let frames = frames::all();
    let mut input: BytesMut = frames.iter().flat_map(|frame| frame.bytes.clone()).collect();
    for frame in &frames {
        let payload = frame::split(&mut input, 4096).unwrap();
        assert_eq!(payload.as_deref(), Some(frame.payload()), "{}", frame.name);
    }
    assert!(input.is_empty());
}

/// A frame is compared with the name of its operation when it is read.
#[test]
fn every_operation_is_in_some_frame() {
    let unseen =
        [(OpCode(20), "deleteContainer"), (OpCode(-10), "createSession"), (OpCode(-1), "error")];
    let frames = frames::all();
    for op in OpCode::ALL {
        let is_seen = frames.iter().any(|frame| frame.opcode == Some(op.0));
        let is_unseen = unseen.iter().any(|(code, name)| code == op && op.name() == Some(name));
        assert!(is_seen != is_unseen, "{op}");
    }
}

#[test]
fn every_record_is_in_some_frame() {
    let mut seen = BTreeSet::new();
    for frame in frames::all() {
        collect_names(&frame.decoded, &mut seen);
        // Records without a byte have no name in the vectors.
        for field in dissect(&frame, frame.payload()).unwrap().frame.fields() {
            if let (Value::Record(name), 0) = (field.value, field.length) {
                seen.insert(name.to_ascii_lowercase());
            }
        }
    }
    for Record { name, .. } in zk_proto::fuzz::RECORDS.iter() {
        let is_there = seen.contains(&name.to_ascii_lowercase());
        assert_eq!(is_there, *name != NEVER_CAPTURED, "frames with a {name}");
    }
}

/// The records of a frame, in lower case: the vectors write `ACL` where Rust writes `Acl`.
fn collect_names(value: &Json, names: &mut BTreeSet<String>) {
    match value {
        Json::Object(fields) => {
            for (name, field) in fields {
                names.insert(match name.as_str() {
                    "Multi" => "multirequest".to_owned(),
                    "header" => "multiheader".to_owned(),
                    "clientInfo" => "clientinfo".to_owned(),
                    name => name.to_ascii_lowercase(),
                });
                collect_names(field, names);
            }
        }
        Json::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
        _ => {}
    }
}
