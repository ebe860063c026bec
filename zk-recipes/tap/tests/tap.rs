//! Whole taps between clients and servers.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zk_client::{Client, CreateOptions};
use zk_proto::{OpCode, frame};
use zk_tap::recording::{self, Entry};
use zk_tap::{Observer, Tap, replay};

const PATIENCE: Duration = Duration::from_secs(10);

/// How many frames pass in each direction in the test of the road.
const FRAMES: usize = 20_000;

/// How many of them pass in a soak.
const SOAK_FRAMES: usize = 1_000_000;

/// Text that a thread writes and a test reads.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut *self.0.lock().unwrap(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

async fn tap(target: &str, observer: Observer) -> (Tap, String) {
    let (listener, address) = listener().await;
    (Tap::start(listener, target.to_owned(), observer).unwrap(), address)
}

/// Frames of all sizes, the same ones for the same seed: mostly short, sometimes longer than a
/// read.
fn stream(seed: u64, frames: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut state = seed;
    let mut next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    (0..frames).map(move |_| {
        let len = if next() % 5000 == 0 { 200_000 } else { next() % 120 };
        let fill = next() as u8;
        let mut frame = (len as u32).to_be_bytes().to_vec();
        frame.extend((0..len).map(|at| fill.wrapping_add(at as u8)));
        frame
    })
}

async fn send(stream_of: impl Iterator<Item = Vec<u8>>, mut out: impl AsyncWriteExt + Unpin) {
    for frames in stream_of.collect::<Vec<_>>().chunks(100) {
        out.write_all(&frames.concat()).await.unwrap();
    }
    out.shutdown().await.unwrap();
}

/// Reads to the end, and compares every byte.
async fn expect(expected: impl Iterator<Item = Vec<u8>>, mut input: impl AsyncReadExt + Unpin) {
    for frame in expected {
        let mut read = vec![0; frame.len()];
        input.read_exact(&mut read).await.unwrap();
        assert!(read == frame, "a frame of {} bytes was changed", frame.len());
    }
    assert_eq!(input.read(&mut [0]).await.unwrap(), 0, "bytes that nobody sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_byte_passes_unchanged_in_both_directions() {
    let frames = if std::env::var_os("ZK_SOAK").is_some() { SOAK_FRAMES } else { FRAMES };
    let (server, target) = listener().await;
    let (tap, address) = tap(&target, Observer::new()).await;
    let serve = tokio::spawn(async move {
        let (input, out) = server.accept().await.unwrap().0.into_split();
        tokio::join!(send(stream(2, frames), out), expect(stream(1, frames), input));
    });
    let (input, out) = TcpStream::connect(address).await.unwrap().into_split();
    tokio::join!(send(stream(1, frames), out), expect(stream(2, frames), input));
    serve.await.unwrap();
    let report = tap.stop().await.unwrap();
    // Each connection is one more event, and may be dropped like any other.
    let events = report.frames + report.dropped;
    assert!((2 * frames as u64..=2 * frames as u64 + 1).contains(&events), "{report:?}");
}

/// What a client does to a server through a tap.
async fn work(address: &str) {
    let client = Client::connect(address).await.unwrap();
    client.create("/a", b"1", &CreateOptions::persistent()).await.unwrap();
    client.get_data("/a").await.unwrap();
    client.get_data("/none").await.unwrap_err();
    client.close().await;
}

#[tokio::test]
async fn frames_are_shown_timed_and_counted() {
    let server = zk_embedded::Server::start().await.unwrap();
    let page = Page::default();
    let (tap, address) = tap(server.address(), Observer::new().lines(page.clone())).await;
    work(&address).await;
    let report = tap.stop().await.unwrap();
    let text = page.text();
    for part in [
        "#1 > connect timeout=",
        "#1 < connected timeout=",
        "> 1: create2 /a data=1B acl=1 mode=persistent\n",
        "< 1: create2 Ok zxid=",
        "< 2: getData Ok",
        "> 3: getData /none\n",
        "< 3: getData NoNode (",
        " ms)\n",
        "closeSession",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let get = report.summary.of(OpCode::GET_DATA, "/none").unwrap();
    assert_eq!((get.count(), get.errors()), (1, 1));
    assert_eq!(report.summary.of(OpCode::CREATE2, "/a").unwrap().count(), 1);
    assert_eq!((report.dropped, report.undecodable, report.unshown), (0, 0, 0), "{text}");
    assert_eq!(report.frames, 10, "{text}");
}

/// A writer that waits for a word before it writes anything.
struct Gate(Option<Receiver<()>>);

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(gate) = self.0.take() {
            gate.recv().map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_that_stands_still_slows_nothing_and_its_losses_are_counted() {
    const PASSED: usize = 150_000;
    let (open, gate) = channel();
    let (server, target) = listener().await;
    let (tap, address) = tap(&target, Observer::new().lines(Gate(Some(gate)))).await;
    let serve = tokio::spawn(async move {
        let (input, mut out) = server.accept().await.unwrap().0.into_split();
        expect(stream(1, PASSED), input).await;
        out.write_all(b"\0\0\0\x01!").await.unwrap();
    });
    let (mut input, out) = TcpStream::connect(address).await.unwrap().into_split();
    send(stream(1, PASSED), out).await;
    // All of it has passed before the observer has shown one line.
    let mut answer = Vec::new();
    input.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"\0\0\0\x01!");
    serve.await.unwrap();
    open.send(()).unwrap();
    let report = tap.stop().await.unwrap();
    assert!(report.dropped > 0 && report.unshown > 0, "{report:?}");
    let events = report.frames + report.dropped;
    assert!((PASSED as u64 + 1..=PASSED as u64 + 2).contains(&events), "{report:?}");
}

#[tokio::test]
async fn a_recording_is_played_by_a_client_and_by_a_server() {
    let server = zk_embedded::Server::start().await.unwrap();
    let page = Page::default();
    let (tap, address) = tap(server.address(), Observer::new().recording(page.clone())).await;
    work(&address).await;
    let report = tap.stop().await.unwrap();
    assert!(report.recording_error.is_none());
    let entries = recording::read(page.text().as_bytes()).unwrap();
    let frames = entries.iter().filter(|entry| matches!(entry, Entry::Frame { .. })).count();
    assert_eq!(frames, 10, "{entries:?}");
    assert!(matches!(entries.last(), Some(Entry::Closed { connection: 1, .. })), "{entries:?}");

    let fresh = zk_embedded::Server::start().await.unwrap();
    let outcome = replay::as_client(&entries, fresh.address(), PATIENCE).await.unwrap();
    assert_eq!((outcome.sent, outcome.same, outcome.missing), (5, 5, 0), "{outcome}");
    // The node is there by now.
    let outcome = replay::as_client(&entries, fresh.address(), PATIENCE).await.unwrap();
    assert_eq!((outcome.same, outcome.different.len()), (4, 1), "{outcome}");
    assert!(outcome.different[0].contains("create2 NodeExists"), "{outcome}");

    // The client of the test does the same as the recorded one, so the recorded server serves it.
    let (listener, address) = listener().await;
    let play = tokio::spawn(async move { replay::as_server(&entries, &listener, PATIENCE).await });
    work(&address).await;
    let outcome = play.await.unwrap().unwrap();
    assert_eq!((outcome.sent, outcome.same, outcome.missing), (5, 5, 0), "{outcome}");
}

#[tokio::test]
async fn bytes_that_are_no_frames_pass_and_are_reported() {
    let (server, target) = listener().await;
    let page = Page::default();
    let (tap, address) = tap(&target, Observer::new().lines(page.clone())).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"srvr").await.unwrap();
    let (mut stream, _) = server.accept().await.unwrap();
    let mut word = [0; 4];
    stream.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"srvr");
    stream.write_all(b"Zookeeper version: 3.9").await.unwrap();
    drop(stream);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"Zookeeper version: 3.9");
    drop(client);
    tap.stop().await.unwrap();
    assert!(page.text().contains("> bytes that are no frames"), "{}", page.text());
}

#[tokio::test]
async fn a_frame_that_does_not_decode_passes_and_is_counted() {
    let (server, target) = listener().await;
    let page = Page::default();
    let (tap, address) = tap(&target, Observer::new().lines(page.clone())).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"\0\0\0\x02no").await.unwrap();
    let (mut stream, _) = server.accept().await.unwrap();
    let mut input = BytesMut::new();
    let payload = loop {
        if let Some(payload) = frame::split(&mut input, 10).unwrap() {
            break payload;
        }
        stream.read_buf(&mut input).await.unwrap();
    };
    assert_eq!(&payload[..], b"no");
    drop((client, stream));
    let report = tap.stop().await.unwrap();
    assert_eq!(report.undecodable, 1);
    assert!(page.text().contains("> 2 bytes: truncated"), "{}", page.text());
}

/// A disk that is full.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_recording_that_ends_early_is_told_at_once_and_once() {
    let server = zk_embedded::Server::start().await.unwrap();
    let (told, telling) = channel();
    let observer = Observer::new()
        .recording(Full)
        .on_recording_error(move |error| told.send(error.kind()).unwrap());
    let (tap, address) = tap(server.address(), observer).await;
    // Before the tap is stopped.
    assert_eq!(telling.recv().unwrap(), io::ErrorKind::StorageFull);
    work(&address).await;
    let report = tap.stop().await.unwrap();
    assert!(report.recording_error.is_some());
    assert!(telling.recv().is_err());
}
