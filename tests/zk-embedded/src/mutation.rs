//! Corrupts one frame in a way that a seed decides.
//!
//! It knows frames only as bytes behind a length, so a corrupted frame may still be a valid one.

use bytes::Bytes;
use zk_proto::SessionId;

/// The values of four bytes at which a decoder is likely to be wrong: as lengths, counts or codes.
const EDGES: [i32; 9] = [0, -1, -2, 1, i32::MAX, i32::MIN, 1 << 20, 1 << 24, i32::MAX - 3];

/// The length in front of a frame.
const PREFIX: usize = 4;

/// A reply that [`Fault::mutate`](crate::Fault::mutate) has corrupted.
///
/// Both fields of bytes begin with the length of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mutation {
    /// The seed that decided the change.
    pub seed: u64,
    /// The session of the connection, or 0 in the reply to a handshake that is refused.
    pub session: SessionId,
    /// The reply as it was.
    pub before: Bytes,
    /// The bytes that were sent in its place.
    pub after: Bytes,
}

/// Returns what is sent in place of `frame`, which is never the same bytes.
pub(crate) fn corrupt(frame: &[u8], seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes = frame.to_vec();
    let body = frame.len().saturating_sub(PREFIX);
    match random.below(6) {
        0 => {
            for _ in 0..=random.below(4) {
                let at = PREFIX + random.below(body);
                // Never 0, so that the byte changes.
                let change = 1 + random.below(255) as u8;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= change;
                }
            }
        }
        1 => {
            let at = (PREFIX + random.below(body + 1)).min(bytes.len());
            let more: Vec<u8> = (0..=random.below(8)).map(|_| random.below(256) as u8).collect();
            bytes.splice(at..at, more);
            set_length(&mut bytes);
        }
        2 => {
            let at = (PREFIX + random.below(body)).min(bytes.len());
            let end = (at + 1 + random.below(8)).min(bytes.len());
            bytes.drain(at..end);
            set_length(&mut bytes);
        }
        3 => {
            // The frame's own length, or four bytes that may be one. The fields of a record begin
            // at any byte.
            let at = if random.below(2) == 0 { 0 } else { PREFIX + random.below(body) };
            let edge = EDGES.get(random.below(EDGES.len() + 1)).copied();
            if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
                let was = i32::from_be_bytes(*place);
                let near = was.wrapping_add(random.below(9) as i32 - 4);
                *place = edge.unwrap_or(near).to_be_bytes();
            }
        }
        // At least one byte is left: a client that gets nothing at all waits for ever.
        4 => bytes.truncate(1 + random.below(frame.len().saturating_sub(1))),
        _ => bytes.extend_from_slice(frame),
    }
    if bytes == frame {
        bytes.extend_from_slice(frame);
    }
    bytes
}

/// Makes the length in front of a frame right again.
fn set_length(bytes: &mut [u8]) {
    let length = i32::try_from(bytes.len().saturating_sub(PREFIX)).unwrap_or(i32::MAX);
    if let Some(prefix) = bytes.first_chunk_mut() {
        *prefix = length.to_be_bytes();
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    /// A number below `end`, or 0 if there is none.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        z.checked_rem(end as u64).unwrap_or_default() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_bytes_and_changes_them() {
        for length in 0..40_u8 {
            let frame = [&[0, 0, 0, length][..], &(0..length).collect::<Vec<_>>()].concat();
            for seed in 0..2000 {
                let corrupted = corrupt(&frame, seed);
                assert_ne!(corrupted, frame, "seed {seed}");
                assert_eq!(corrupted, corrupt(&frame, seed));
            }
        }
    }

    #[test]
    fn every_kind_of_corruption_happens() {
        let frame = b"\0\0\0\x0cabcdefghijkl";
        let all: Vec<_> = (0..200).map(|seed| corrupt(frame, seed)).collect();
        let any = |is: &dyn Fn(&[u8]) -> bool| assert!(all.iter().any(|one| is(one)));
        let is_framed = |one: &[u8]| one.len() - 4 == usize::from(one[3]) && one[..3] == [0; 3];
        any(&|one| one.len() == frame.len() && one[..4] == frame[..4]);
        any(&|one| one.len() > frame.len() && is_framed(one));
        any(&|one| one.len() > 4 && one.len() < frame.len() && is_framed(one));
        any(&|one| one.len() == frame.len() && one[..4] != frame[..4]);
        any(&|one| one.len() < frame.len() && frame.starts_with(one));
        any(&|one| one == [&frame[..], frame].concat());
    }
}
