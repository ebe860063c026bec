//! Recordings as scenes.

use std::collections::BTreeMap;
use std::time::Duration;

use zk_playground::{Event, FrameEvent, catalogue, page, recorded};
use zk_proto::{
    AuthPacket, ConnectRequest, ConnectResponse, Encode, ErrorCode, OpCode, Password, ReplyHeader,
    RequestHeader, SessionId, Writer, Xid, Zxid,
};
use zk_tap::recording::Entry;
use zk_tap::{Side, hex};

fn frames<'s>(events: &'s [Event]) -> Vec<&'s FrameEvent> {
    let frame = |event: &'s Event| match event {
        Event::Frame(frame) => Some(frame.as_ref()),
        _ => None,
    };
    events.iter().filter_map(frame).collect()
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
        let payload = hex::decode(&frame.bytes).unwrap()[4..].to_vec();
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
            "client 1 the connection of client 1 is over",
            "client 1 the connection of client 1 is over",
            "server the tap was too slow: from about here on 5 events are missing",
        ]
    );
    assert_eq!(scene.text.as_deref(), Some("x: 8 events."));
}

/// A frame with this text in a place where a proof of identity is, or may be.
struct Secret {
    what: &'static str,
    /// Frames in front of it on the same connection.
    before: Vec<Entry>,
    frame: Entry,
}

/// Sixteen letters, the length of a session's password.
const TEXT: &[u8; 16] = b"xq7vjk29zwplmfty";

fn entry(from: Side, body: &dyn Fn(&mut Writer<'_>)) -> Entry {
    let mut payload = bytes::BytesMut::new();
    body(&mut Writer::new(&mut payload, usize::MAX));
    Entry::Frame { at: Duration::ZERO, connection: 1, from, payload: payload.to_vec() }
}

fn secrets() -> Vec<Secret> {
    let password = Password::new(TEXT).unwrap();
    let hello = entry(Side::Client, &|to| hello().encode(to));
    let welcome = entry(Side::Server, &|to| welcome(SessionId(7)).encode(to));
    let auth = |to: &mut Writer<'_>| {
        RequestHeader { xid: Xid::AUTH, op: OpCode::AUTH }.encode(to);
        let auth = zk_proto::Secret::new(Some(TEXT));
        AuthPacket { kind: 0, scheme: "digest".into(), auth }.encode(to);
    };
    let ask_sasl = |to: &mut Writer<'_>| {
        RequestHeader { xid: Xid(1), op: OpCode::SASL }.encode(to);
        Some(&TEXT[..]).encode(to);
    };
    let answer = |to: &mut Writer<'_>| {
        ReplyHeader { xid: Xid(1), zxid: Zxid(0), error: ErrorCode::OK }.encode(to);
        Some(&TEXT[..]).encode(to);
    };
    let both = || vec![hello.clone(), welcome.clone()];
    let asked = || [both(), vec![entry(Side::Client, &ask_sasl)]].concat();
    let client = |what, before, body: &dyn Fn(&mut Writer<'_>)| Secret {
        what,
        before,
        frame: entry(Side::Client, body),
    };
    let server = |what, before, body: &dyn Fn(&mut Writer<'_>)| Secret {
        what,
        before,
        frame: entry(Side::Server, body),
    };
    let mut secrets = vec![
        client("the password of a session to resume", vec![], &|to| {
            ConnectRequest { password, ..self::hello() }.encode(to);
        }),
        server("the password of a new session", vec![hello.clone()], &|to| {
            ConnectResponse { password, ..self::welcome(SessionId(7)) }.encode(to);
        }),
        client("a credential", both(), &auth),
        client("a credential without the frames before it", vec![], &auth),
        client("a token", both(), &ask_sasl),
        client("a token without the frames before it", vec![], &ask_sasl),
        server("the answer to a token", asked(), &answer),
        server("the answer to a token that is missing", both(), &answer),
        server("the answer to a token without the frames before it", vec![], &answer),
        server("the answer to a session that was opened by a request", both(), &|to| {
            ConnectResponse { password, ..self::welcome(SessionId(7)) }.encode(to);
        }),
        client("a handshake with more behind it", vec![], &|to| {
            self::hello().encode(to);
            Some(&TEXT[..]).encode(to);
        }),
    ];
    // The end of a frame is missing.
    let mut cut = client("a credential that is cut short", both(), &auth);
    if let Entry::Frame { payload, .. } = &mut cut.frame {
        payload.pop();
    }
    secrets.push(cut);
    secrets
}

#[test]
fn no_proof_of_identity_is_in_the_page() {
    for Secret { what, before, frame } in secrets() {
        let Entry::Frame { payload, .. } = &frame else { unreachable!() };
        // All of it but the last letter, which one of them lacks.
        let text = &TEXT[..TEXT.len() - 1];
        assert!(hex::encode(payload).contains(&hex::encode(text)), "{what}");
        let length = payload.len();
        let entries = [before, vec![frame]].concat();
        let scene = recorded("x", &entries, Duration::ZERO);
        let shown = frames(&scene.events);
        assert_eq!(shown.last().unwrap().bytes.len(), 8 + 2 * length, "{what}");
        let whole = page::of_recording(scene).unwrap();
        assert!(whole.contains("\"A recording\""));
        for part in text.windows(6) {
            assert!(!whole.contains(&hex::encode(part)), "{what}");
            assert!(!whole.contains(str::from_utf8(part).unwrap()), "{what}");
        }
    }
    // What is not secret is still there.
    let credential = secrets().into_iter().find(|secret| secret.what == "a credential").unwrap();
    let entries = [credential.before, vec![credential.frame]].concat();
    let scene = recorded("x", &entries, Duration::ZERO);
    let shown = frames(&scene.events).last().unwrap().bytes.clone();
    assert!(shown.contains(&hex::encode(b"digest")), "{shown}");
    assert!(shown.ends_with(&format!("{:08x}{}", TEXT.len(), "00".repeat(TEXT.len()))), "{shown}");
}

#[test]
fn a_connection_that_began_before_the_recording_is_shown() {
    let (events, entries) = recording("queue");
    let late: Vec<_> = entries.into_iter().skip(12).collect();
    let scene = recorded("x", &late, Duration::ZERO);
    let played = frames(&events).split_off(12);
    let read = frames(&scene.events);
    let mut requests = 0;
    for (played, read) in played.into_iter().zip(read) {
        if played.to == "server" {
            assert_eq!(read.content.summary, played.content.summary);
            requests += 1;
        }
    }
    assert!(requests > 10, "{requests}");
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
    assert_eq!(scene.text, Some(format!("x: the first 4000 events. There are {more} more.")));
    assert_eq!(scene.ended_us, scene.events.last().unwrap().at_us());
}

#[test]
fn large_frames_are_cut_too_and_nothing_is_a_scene_as_well() {
    let large = vec![7; 1 << 20];
    let frame = |at| Entry::Frame {
        at: Duration::from_millis(at),
        connection: 1,
        from: Side::Client,
        payload: large.clone(),
    };
    let entries: Vec<_> = (0..9).map(frame).collect();
    let scene = recorded("x", &entries, Duration::ZERO);
    assert_eq!(scene.text.as_deref(), Some("x: the first 3 events. There are 6 more."));
    let scene = recorded("x", &entries, Duration::from_secs(1));
    assert_eq!((scene.events.len(), scene.states.len()), (0, 1));
    assert_eq!(scene.text.as_deref(), Some("x: 0 events from 1s on."));
}
