//! The captured frames: `tests/golden.jsonl`, one JSON object a line.

use serde_json::Value;
use zk_proto::OpCode;

/// Who sends a frame, and what for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Direction {
    Request,
    Reply,
    Notification,
}

/// One frame of a real server or client, and what is in it.
pub(crate) struct Frame {
    pub(crate) name: String,
    pub(crate) direction: Direction,
    /// Of a reply, its request's. `None` is the handshake.
    pub(crate) opcode: Option<i32>,
    /// With the length prefix.
    pub(crate) bytes: Vec<u8>,
    /// Record name to fields, in wire order.
    pub(crate) decoded: Value,
}

impl Frame {
    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes[zk_proto::frame::PREFIX..]
    }
}

pub(crate) fn all() -> Vec<Frame> {
    include_str!("../golden.jsonl").lines().map(parse).collect()
}

fn parse(line: &str) -> Frame {
    let line: Value = serde_json::from_str(line).unwrap();
    let name = line["name"].as_str().unwrap().to_owned();
    let bytes = unhex(line["hex"].as_str().unwrap());
    assert_eq!(line["len"], bytes.len() - zk_proto::frame::PREFIX, "{name}");
    let opcode = line["opcode"].as_i64().map(|code| i32::try_from(code).unwrap());
    // The number and the name as ZooKeeper has them.
    if let Some(known) = opcode.and_then(|code| OpCode(code).name()) {
        assert_eq!(line["op"], known, "{name}");
    }
    Frame {
        direction: match line["direction"].as_str().unwrap() {
            "request" => Direction::Request,
            "reply" => Direction::Reply,
            "notification" => Direction::Notification,
            other => panic!("{name}: a frame that is a {other}"),
        },
        opcode,
        decoded: line["decoded"].clone(),
        name,
        bytes,
    }
}

fn unhex(digits: &str) -> Vec<u8> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).unwrap() as u8;
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    assert!(rest.is_empty());
    pairs.iter().map(|[high, low]| nibble(*high) << 4 | nibble(*low)).collect()
}
