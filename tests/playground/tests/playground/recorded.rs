//! Recordings as scenes.

use std::collections::BTreeMap;
use std::time::Duration;

use zk_playground::{Event, FrameEvent, catalogue, page, recorded};
use zk_proto::{AuthPacket, ConnectRequest, ConnectResponse, Encode, OpCode, RequestHeader};
use zk_proto::{Password, Secret, SessionId, Writer, Xid, Zxid};
use zk_tap::Side;
use zk_tap::recording::Entry;

fn frames<'s>(events: &'s [Event]) -> Vec<&'s FrameEvent> {
    let frame = |event: &'s Event| match event {
        Event::Frame(frame) => Some(frame.as_ref()),
        _ => None,
    };
    events.iter().filter_map(frame).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(pair).collect()
}

fn hello() -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout: 1000,
        session_id: SessionId(0),
        password: Password::default(),
        read_only: Some(false),
    }
}

fn welcome(session_id: SessionId) -> ConnectResponse {
    let ConnectRequest { protocol_version, timeout, password, read_only, .. } = hello();
    ConnectResponse { protocol_version, timeout, session_id, password, read_only }
}

/// The frames of a scene, as a tap would have recorded them: a frame a millisecond.
fn recording(id: &str) -> (Vec<Event>, Vec<Entry>) {
    let ready = catalogue::scenes().into_iter().find(|ready| ready.id == id).unwrap();
    let scene = ready.play().unwrap();
    let mut connections = BTreeMap::new();
    let mut entries = Vec::new();
    for (index, frame) in frames(&scene.events).into_iter().enumerate() {
        let (from, client) = match &*frame.from {
            "server" => (Side::Server, &frame.to),
            client => (Side::Client, &client.to_owned()),
        };
        let count = connections.len() as u64 + 1;
        let connection = *connections.entry(client.clone()).or_insert(count);
        let at = Duration::from_millis(index as u64);
        let payload = bytes(&frame.bytes)[4..].to_vec();
        entries.push(Entry::Frame { at, connection, from, payload });
    }
    (scene.events, entries)
}

#[test]
fn a_recording_says_what_the_scene_said_whose_frames_it_has() {
    let (events, entries) = recording("queue");
    let scene = recorded("queue.jsonl", &entries, Duration::ZERO);
    let (played, read) = (frames(&events), frames(&scene.events));
    assert_eq!(played.len(), read.len());
    assert!(read.len() > 50);
    let lanes: Vec<_> = scene.lanes.iter().map(|lane| lane.id.as_str()).collect();
    assert_eq!(lanes, ["client 1", "client 2", "client 3", "server"]);
    for (index, (played, read)) in played.into_iter().zip(read).enumerate() {
        assert_eq!(read.content.summary, played.content.summary, "frame {index}");
        assert_eq!(read.content.fields, played.content.fields, "frame {index}");
        assert_eq!(
            (read.content.role, &read.content.op),
            (played.content.role, &played.content.op)
        );
        assert_eq!(read.request_us.is_some(), played.request_us.is_some(), "frame {index}");
        assert_eq!(read.at_us, index as u64 * 1000);
        assert_eq!(read.bytes.len(), played.bytes.len());
    }
    // A later begin shows the same frames, and knows which requests came before it.
    let late = recorded("queue.jsonl", &entries, Duration::from_millis(30));
    assert_eq!(frames(&late.events), frames(&scene.events)[30..]);
}

#[test]
fn connections_of_one_session_share_a_lane_and_gaps_are_told() {
    let at = Duration::from_millis;
    let frame = |time, connection, from, body: &dyn Fn(&mut Writer<'_>)| {
        let mut payload = bytes::BytesMut::new();
        body(&mut Writer::new(&mut payload, usize::MAX));
        Entry::Frame { at: at(time), connection, from, payload: payload.to_vec() }
    };
    let (hello, welcome) = (hello(), welcome(SessionId(7)));
    let mut entries = Vec::new();
    for connection in [1, 2] {
        let time = connection * 10;
        entries.push(frame(time, connection, Side::Client, &|to| hello.encode(to)));
        entries.push(frame(time + 1, connection, Side::Server, &|to| welcome.encode(to)));
        entries.push(Entry::Closed { at: at(time + 2), connection });
    }
    // This one is not answered, and cannot be decoded.
    entries.push(frame(30, 3, Side::Client, &|to| 7_i32.encode(to)));
    entries.push(Entry::Dropped { at: at(31), dropped: 5 });
    let scene = recorded("x", &entries, Duration::ZERO);
    let lanes: Vec<_> = scene.lanes.iter().map(|lane| lane.id.as_str()).collect();
    assert_eq!(lanes, ["client 1", "client 2", "server"]);
    let notes: Vec<_> = scene
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Note { who, text, .. } => Some(format!("{who} {text}")),
            _ => None,
        })
        .collect();
    assert_eq!(
        notes,
        [
            "client 1 has no connection any more",
            "client 1 has no connection any more",
            "server the tap was too slow: 5 events are missing here",
        ]
    );
    assert_eq!(scene.text.as_deref(), Some("x: 8 events."));
}

#[test]
fn passwords_are_not_in_the_page() {
    let secret = b"correct horse";
    let mut hello = bytes::BytesMut::new();
    self::hello().encode(&mut Writer::new(&mut hello, usize::MAX));
    let mut payload = bytes::BytesMut::new();
    let mut writer = Writer::new(&mut payload, usize::MAX);
    RequestHeader { xid: Xid::AUTH, op: OpCode::AUTH }.encode(&mut writer);
    let auth = Secret::new(Some(secret));
    AuthPacket { kind: 0, scheme: "digest".into(), auth }.encode(&mut writer);
    let frame = |payload: &[u8]| Entry::Frame {
        at: Duration::ZERO,
        connection: 1,
        from: Side::Client,
        payload: payload.to_vec(),
    };
    let entries = [frame(&hello), frame(&payload)];
    let scene = recorded("x", &entries, Duration::ZERO);
    let shown = frames(&scene.events)[1];
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert!(hex(&payload).contains(&hex(secret)));
    assert_eq!(shown.bytes.len(), 8 + 2 * payload.len());
    assert!(shown.bytes.contains(&format!("{:08x}{}", secret.len(), "00".repeat(secret.len()))));
    assert!(shown.bytes.contains(&hex(b"digest")));
    let whole = page::of_recording(scene).unwrap();
    assert!(!whole.contains(&hex(secret)) && !whole.contains("correct horse"));
    assert!(whole.contains("\"A recording\""));
}

#[test]
fn a_long_recording_is_cut_and_says_so() {
    let closed = |at| Entry::Closed { at: Duration::from_millis(at), connection: 1 };
    let (_, mut entries) = recording("queue");
    let frames = entries.len() as u64;
    entries.extend((0..5000).map(|index| closed(10_000 + index)));
    let scene = recorded("x", &entries, Duration::ZERO);
    assert_eq!((scene.events.len(), scene.states.len()), (4000, 4000));
    let more = frames + 5000 - 4000;
    assert_eq!(scene.text, Some(format!("x: the first 4000 events, and {more} more.")));
    assert_eq!(scene.ended_us, scene.events.last().unwrap().at_us());
}
