//! The fuzz targets without a fuzzer: each body over the seeds of its fuzzer, over frames of real
//! peers with a few bytes changed, and over values that are made up, the same ones in every run.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

#[path = "golden/frames.rs"]
mod frames;

use std::collections::{BTreeMap, BTreeSet};

use zk_inputs::Random;
use zk_inputs::corpus::{offer, run};
use zk_proto::{
    CreateMode, Decode, ErrorCode, EventType, KeeperState, OpCode, Reader, ReplyHeader,
    RequestHeader, Xid, frame, fuzz,
};

use frames::{Direction, Frame};

/// Input to file name.
type Seeds = BTreeMap<Vec<u8>, String>;

/// Seeds of one record, each of another length.
const SEEDS_OF_A_RECORD: usize = 5;

/// Seeds of one kind of frame, likewise.
const SEEDS_OF_A_KIND: usize = 3;

/// The frame target's input for a stream: the steps of the cuts, then the stream.
fn frame_input(steps: [u8; fuzz::STEPS], stream: &[u8]) -> Vec<u8> {
    [&steps[..], stream].concat()
}

/// The records target's input: the place of `record` in the table, then its bytes.
fn record_input(record: &str, bytes: &[u8]) -> Vec<u8> {
    let choice = fuzz::RECORDS.iter().position(|known| known.name.eq_ignore_ascii_case(record));
    let choice = choice.unwrap_or_else(|| panic!("{record} is not in the table"));
    [&[u8::try_from(choice).unwrap()], bytes].concat()
}

/// The records of a frame, each with its bytes: a header, if there is one, and a body, if there is
/// one.
fn records(frame: &Frame) -> Vec<(&str, &[u8])> {
    let payload = frame.payload();
    let mut reader = Reader::new(payload);
    let names: Vec<&str> = frame.decoded.as_object().unwrap().keys().map(String::as_str).collect();
    let header = match (frame.opcode, frame.direction) {
        (None, _) => None,
        (_, Direction::Request) => {
            RequestHeader::decode(&mut reader).unwrap();
            Some("RequestHeader")
        }
        (_, Direction::Reply | Direction::Notification) => {
            ReplyHeader::decode(&mut reader).unwrap();
            Some("ReplyHeader")
        }
    };
    let (front, rest) = payload.split_at(payload.len() - reader.remaining());
    let body = names.into_iter().find(|name| Some(*name) != header).map(|name| match name {
        "Multi" => "MultiRequest",
        name => name,
    });
    [header.map(|name| (name, front)), body.map(|name| (name, rest))]
        .into_iter()
        .flatten()
        .collect()
}

/// The any target's input: the kind of frame, the opcode, then the payload.
fn any_input(frame: &Frame) -> Vec<u8> {
    let kind = match (frame.direction, frame.opcode) {
        (Direction::Request, None) => 0,
        (Direction::Reply, None) => 1,
        (Direction::Request, Some(_)) => 2,
        (Direction::Notification, _) => 3,
        (Direction::Reply, Some(_)) => 4,
    };
    [&[kind, frame.opcode.unwrap_or_default() as u8], frame.payload()].concat()
}

/// The directions target's input: the place of a record in its table, then what nobody chose.
fn made_up(random: &mut Random, choice: u8, len: usize) -> Vec<u8> {
    [choice].into_iter().chain(std::iter::repeat_with(|| random.byte()).take(len)).collect()
}

/// A few seeds for each record, and a frame of each length, so that the corpus stays small: what
/// has the same length differs in little more than numbers.
fn seeds(target: &str) -> Seeds {
    let frames = frames::all();
    let mut seeds = Seeds::new();
    let mut lengths = BTreeMap::<&str, BTreeSet<usize>>::new();
    match target {
        "frame" => {
            for (index, frame) in frames.iter().enumerate() {
                if lengths.entry("").or_default().insert(frame.bytes.len()) {
                    let input = frame_input([index as u8, 3, 0, 96], &frame.bytes);
                    seeds.insert(input, frame.name.clone());
                }
            }
            // Whole exchanges: requests, events and replies in one stream.
            for group in frames.chunks(12).take(12) {
                let stream: Vec<u8> = group.iter().flat_map(|frame| frame.bytes.clone()).collect();
                let input = frame_input([0, 200, 16, 5], &stream);
                seeds.insert(input, format!("from_{}", group[0].name));
            }
        }
        "records" => {
            for (frame, (record, bytes)) in frames
                .iter()
                .flat_map(|frame| records(frame).into_iter().map(move |of| (frame, of)))
            {
                let lengths = lengths.entry(record).or_default();
                if lengths.len() < SEEDS_OF_A_RECORD && lengths.insert(bytes.len()) {
                    let name = format!("{}_{}", frame.name, record.to_ascii_lowercase());
                    seeds.insert(record_input(record, bytes), name);
                }
            }
        }
        "any" => {
            for frame in &frames {
                let lengths = lengths.entry(records(frame).last().unwrap().0).or_default();
                if lengths.len() < SEEDS_OF_A_KIND && lengths.insert(frame.bytes.len()) {
                    seeds.insert(any_input(frame), frame.name.clone());
                }
            }
        }
        "directions" => {
            for (choice, fuzz::Record { name, .. }) in (0..).zip(&*fuzz::RECORDS) {
                let input = made_up(&mut Random::new(u64::from(choice)), choice, 192);
                seeds.insert(input, name.to_ascii_lowercase());
            }
        }
        other => panic!("no seeds for {other}"),
    }
    seeds
}

/// Changes one to four things: a byte, a bit, a length, the end, or the order.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            bytes.push(random.byte());
        }
        let at = random.below(bytes.len());
        match random.below(7) {
            0 => bytes[at] = random.byte(),
            1 => bytes[at] ^= 1 << random.below(8),
            2 => {
                let lie = [-1, -2, 0, 1, 5, 0x1000, 0x1001, i32::MAX, i32::MIN][random.below(9)];
                let end = bytes.len().min(at + 4);
                bytes[at..end].copy_from_slice(&lie.to_be_bytes()[..end - at]);
            }
            3 => bytes.truncate(at),
            4 => bytes.insert(at, random.byte()),
            5 => {
                bytes.remove(at);
            }
            _ => {
                let piece = bytes[at..bytes.len().min(at + 1 + random.below(32))].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
        }
    }
}

/// Runs the seeds of a target, which are what a fuzzer starts from.
fn run_seeds(target: &str, body: fn(&[u8])) {
    let seeds = seeds(target);
    assert!((50..=120).contains(&seeds.len()), "{target}: {} seeds", seeds.len());
    for (input, name) in &seeds {
        run(body, name, input);
        offer(&format!("seeds/{target}/{name}"), input);
    }
}

#[test]
fn the_targets_hold_over_their_seeds() {
    run_seeds("frame", fuzz::frame);
    run_seeds("records", fuzz::records);
    run_seeds("directions", fuzz::directions);
    run_seeds("any", fuzz::any);
}

/// The entries of the dictionary of libFuzzer: numbers that mean something on the wire, with what
/// they mean.
fn dictionary() -> String {
    let mut text = String::new();
    let mut seen = BTreeSet::new();
    let mut add = |kind: &str, name: &str, bytes: &[u8]| {
        if seen.insert(bytes.to_vec()) {
            let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
            let hex: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            text += &format!("{kind}_{name}=\"{hex}\"\n");
        }
    };
    for op in OpCode::NAMED {
        add("op", &op.to_string(), &op.0.to_be_bytes());
    }
    for xid in [Xid::NOTIFICATION, Xid::PING, Xid::AUTH, Xid::SET_WATCHES, Xid::FIRST] {
        add(
            "xid",
            &format!("{}{}", if xid.0 < 0 { "minus" } else { "" }, xid.0.unsigned_abs()),
            &xid.0.to_be_bytes(),
        );
    }
    for error in ErrorCode::NAMED {
        add("error", &error.to_string(), &error.0.to_be_bytes());
    }
    for kind in EventType::NAMED {
        add("event", &kind.to_string(), &kind.0.to_be_bytes());
    }
    for state in KeeperState::NAMED {
        add("state", &state.to_string(), &state.0.to_be_bytes());
    }
    for mode in CreateMode::NAMED {
        add("mode", &mode.to_string(), &mode.0.to_be_bytes());
    }
    let limits = [frame::SERVER_FRAME_LIMIT, frame::CLIENT_FRAME_LIMIT, fuzz::FRAME_LIMIT];
    let beside = |limit: usize| [limit as i32 - 1, limit as i32, limit as i32 + 1];
    let edges = [-1, -2, 0, 16, 128, i32::MAX, i32::MIN];
    for length in edges.into_iter().chain(limits.into_iter().flat_map(beside)) {
        let sign = if length < 0 { "minus" } else { "" };
        add("length", &format!("{sign}{}", length.unsigned_abs()), &length.to_be_bytes());
    }
    for zxid in [i64::MAX, i64::MIN, -1, 1 << 32] {
        add("zxid", &format!("{:x}", zxid), &zxid.to_be_bytes());
    }
    for text in ["/", "/a", "world", "anyone", "digest", "ip", "auth", "sasl", "x509", "zookeeper"]
    {
        let wire = [&(text.len() as i32).to_be_bytes(), text.as_bytes()].concat();
        add("text", if text == "/" { "root" } else { text }, &wire);
    }
    for (name, bytes) in [("surrogates", &b"\xed\xa0\xbd\xed\xb8\x80"[..]), ("bad", b"\xff")] {
        add("text", name, bytes);
    }
    text
}

#[test]
fn the_dictionary_is_that_of_the_codes() {
    let dictionary = dictionary();
    assert!(dictionary.lines().count() > 80, "{dictionary}");
    offer("zookeeper.dict", dictionary.as_bytes());
}

/// The claims say nothing of bytes that do not decode; these all do.
#[test]
fn records_hold_over_every_captured_frame() {
    for frame in frames::all() {
        for (record, bytes) in records(&frame) {
            run(fuzz::records, &frame.name, &record_input(record, bytes));
        }
    }
}

#[test]
fn frame_holds_over_changed_frames() {
    let frames = frames::all();
    let mut random = Random::new(1);
    for round in 0..5000 {
        let mut stream = Vec::new();
        for _ in 0..=random.below(4) {
            stream.extend(&frames[random.below(frames.len())].bytes);
        }
        mutate(&mut random, &mut stream);
        let steps = [random.byte(), random.byte(), random.byte(), random.byte()];
        run(fuzz::frame, &format!("round {round}"), &frame_input(steps, &stream));
    }
}

#[test]
fn any_holds_over_every_captured_frame_and_over_changed_ones() {
    let frames = frames::all();
    let mut random = Random::new(4);
    for round in 0..20000 {
        let frame = &frames[round % frames.len()];
        let mut input = any_input(frame);
        // The first round is that of the frames as they are.
        if round >= frames.len() {
            mutate(&mut random, &mut input);
        }
        run(fuzz::any, &format!("round {round}, {}", frame.name), &input);
    }
}

#[test]
fn records_hold_over_changed_records() {
    let frames = frames::all();
    let records: Vec<(&str, &[u8])> = frames.iter().flat_map(records).collect();
    let mut random = Random::new(2);
    for round in 0..20000 {
        let (record, bytes) = records[round % records.len()];
        let mut bytes = bytes.to_vec();
        mutate(&mut random, &mut bytes);
        run(fuzz::records, &format!("round {round}, {record}"), &record_input(record, &bytes));
    }
}

#[test]
fn directions_hold_over_values_of_every_record() {
    let mut random = Random::new(3);
    for round in 0..200 {
        for (choice, fuzz::Record { name, .. }) in (0..).zip(&*fuzz::RECORDS) {
            let len = random.below(600);
            let input = made_up(&mut random, choice, len);
            run(fuzz::directions, &format!("round {round}, {name}"), &input);
        }
    }
}

/// A record's bytes read as each other record: most are refused, and what is not must hold too.
#[test]
fn records_hold_over_each_other() {
    for input in seeds("records").keys() {
        for (choice, record) in fuzz::RECORDS.iter().enumerate() {
            let input = [&[u8::try_from(choice).unwrap()], &input[1..]].concat();
            run(fuzz::records, record.name, &input);
        }
    }
}

/// A record that no fuzzer knows would be decoded without any claim on it.
#[test]
fn every_record_of_the_source_is_in_the_table() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sources = files.filter(|path| path.is_file()).map(std::fs::read_to_string);
    let mut declared = 0;
    for source in sources.map(Result::unwrap) {
        for record in source.split("\nrecord! {\n").skip(1) {
            let mut lines = record.lines().map(str::trim_start);
            let first = lines.find(|line| !line.starts_with(['/', '#'])).unwrap();
            let name = first.split(['<', ' ']).next().unwrap();
            assert!(fuzz::RECORDS.iter().any(|record| record.name == name), "{name}");
            declared += 1;
        }
    }
    assert!(declared > 40, "{declared}");
}
