//! Recordings as inputs of the fuzz targets.

use std::fs::File;
use std::io::BufReader;
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::TcpListener;
use zk_fuzz_kit::differential::{Case, Pair, Scope};
use zk_fuzz_kit::seeds::seeds;
use zk_proto::any::Frame;
use zk_proto::{OpCode, frame, fuzz};
use zk_tap::{Observer, Tap, recording};

use crate::server::embedded;

/// Each frame of a recording is in an input, and the targets take all of them.
#[tokio::test]
async fn a_recording_becomes_inputs_of_the_targets() {
    let (one, two) = (embedded().await, embedded().await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.jsonl");
    let observer = Observer::new().recording(File::create(&file).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tap = Tap::start(listener, one.address().to_owned(), observer).unwrap();
    let address = tap.address().to_string();
    let servers = [("one", &*address), ("two", two.address())];
    let mut pair = Pair::new(servers, Duration::from_secs(5));
    assert_eq!(pair.run(&Case::of_seed(3, Scope::Own, 400, 0)).await.unwrap(), None);
    tap.stop().await.unwrap();
    let entries = recording::read(BufReader::new(File::open(&file).unwrap())).unwrap();
    let made = seeds(&entries);
    assert_eq!(made.keys().copied().collect::<Vec<_>>(), ["any", "frame"]);
    let payloads: Vec<_> = entries
        .iter()
        .filter_map(|entry| match entry {
            recording::Entry::Frame { payload, .. } => Some(payload.as_slice()),
            _ => None,
        })
        .collect();
    assert!(made["any"].len() > 30, "{}", made["any"].len());
    for (name, input) in &made["any"] {
        assert!(payloads.contains(&&input[2..]), "{name}");
        // Otherwise the target passes over it.
        let op = OpCode(i32::from(input[1].cast_signed()));
        let frame = match input[0] {
            0 => Frame::connect_request(&input[2..]),
            1 => Frame::connect_response(&input[2..]),
            2 => Frame::request(&input[2..]),
            3 => Frame::notification(&input[2..]),
            _ => Frame::reply(&input[2..], op),
        };
        let frame = frame.unwrap();
        assert!(frame.op().is_none_or(|known| known == op), "{name}: {frame}");
        fuzz::any(input);
    }
    for name in ["request-connect", "reply-connect", "request-create2", "reply-multi"] {
        assert!(made["any"].keys().any(|key| key.starts_with(name)), "{name}");
    }
    let mut frames = 0;
    for input in made["frame"].values() {
        assert!(input.len() <= 4096);
        fuzz::frame(input);
        let mut stream = BytesMut::from(&input[fuzz::STEPS..]);
        while let Some(payload) = frame::split(&mut stream, usize::MAX).unwrap() {
            assert!(payloads.contains(&&payload[..]));
            frames += 1;
        }
        assert!(stream.is_empty());
    }
    let short = payloads.iter().filter(|payload| payload.len() <= 4088);
    assert_eq!(frames, short.count());
}
