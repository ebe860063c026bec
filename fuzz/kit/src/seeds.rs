//! A recording of `zk tap` as seeds of the targets in `fuzz`.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use zk_proto::any::{Frame, Message};
use zk_tap::recording::Entry;
use zk_tap::{Dialog, Side};

/// The longest seed: libFuzzer makes its inputs no longer than this by default.
const LONGEST: usize = 4096;

/// The steps that decide how the target `frame` cuts a stream.
const CUTS: [u8; 4] = [0, 200, 16, 5];

/// The first byte of a seed of the target `any`.
mod kind {
    pub(super) const CONNECT_REQUEST: u8 = 0;
    pub(super) const CONNECT_RESPONSE: u8 = 1;
    pub(super) const REQUEST: u8 = 2;
    pub(super) const NOTIFICATION: u8 = 3;
    pub(super) const REPLY: u8 = 4;
}

/// The seeds by their targets, and by names that say what they are and end with a hash of them, so
/// that those of several recordings can be in one folder.
pub type Seeds = BTreeMap<&'static str, BTreeMap<String, Vec<u8>>>;

/// Makes seeds of the frames of a recording: for `frame` all of them, in streams as each side sent
/// them, and for `any` the first of each kind, operation and length that can be decoded. Frames too
/// long for a seed of 4096 bytes are left out.
pub fn seeds(entries: &[Entry]) -> Seeds {
    let mut seeds = Seeds::new();
    let mut dialogs = HashMap::<u64, Dialog>::new();
    let mut streams = BTreeMap::<String, Vec<u8>>::new();
    for entry in entries {
        let Entry::Frame { at, connection, from, payload } = entry else { continue };
        let side = if *from == Side::Client { "client" } else { "server" };
        let name = format!("{side}-{connection}");
        let stream = streams.entry(name.clone()).or_insert_with(|| CUTS.to_vec());
        if stream.len() + 4 + payload.len() > LONGEST {
            put_stream(&mut seeds, &name, std::mem::replace(stream, CUTS.to_vec()));
        }
        if CUTS.len() + 4 + payload.len() <= LONGEST {
            stream.extend_from_slice(&(payload.len() as u32).to_be_bytes());
            stream.extend_from_slice(payload);
        }
        let (frame, _) = dialogs.entry(*connection).or_default().frame(*from, *at, payload);
        if let Ok(frame) = frame
            && let Some((name, seed)) = any(&frame)
            && seed.len() <= LONGEST
        {
            seeds.entry("any").or_default().entry(name).or_insert(seed);
        }
    }
    for (name, stream) in streams {
        put_stream(&mut seeds, &name, stream);
    }
    let hashed = |(name, seed): (String, Vec<u8>)| {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        (format!("{name}-{:016x}", hasher.finish()), seed)
    };
    let hashed = |seeds: BTreeMap<String, Vec<u8>>| seeds.into_iter().map(hashed).collect();
    seeds.into_iter().map(|(target, seeds)| (target, hashed(seeds))).collect()
}

/// A seed of the target `any`, with its name. `None` for a reply to nothing, and for an operation
/// that does not fit the byte that the target has for it.
fn any(frame: &Frame<'_>) -> Option<(String, Vec<u8>)> {
    let (kind, what) = match frame.message() {
        Message::ConnectRequest(_) => (kind::CONNECT_REQUEST, "request-connect".to_owned()),
        Message::ConnectResponse(_) => (kind::CONNECT_RESPONSE, "reply-connect".to_owned()),
        Message::Notification(..) => (kind::NOTIFICATION, "notification".to_owned()),
        Message::Request(header, _) => (kind::REQUEST, format!("request-{}", header.op)),
        Message::Reply(..) => (kind::REPLY, format!("reply-{}", frame.op()?)),
        _ => return None,
    };
    let op = i8::try_from(frame.op().map_or(0, |op| op.0)).ok()?;
    let payload = frame.payload();
    let seed = [&[kind, op.cast_unsigned()], payload].concat();
    Some((format!("{what}-{}", payload.len()), seed))
}

fn put_stream(seeds: &mut Seeds, name: &str, stream: Vec<u8>) {
    if stream.len() > CUTS.len() {
        let streams = seeds.entry("frame").or_default();
        streams.insert(format!("{name}-{}", streams.len()), stream);
    }
}
