//! Tests frames against all ways in which a stream can be cut.
//!
//! The network may cut a stream anywhere, so a cut must not change the result. This file knows no
//! record.

use bytes::{Bytes, BytesMut};

use crate::error::DecodeError;
use crate::frame::{self, PREFIX};

/// The limit on frames of [`frame()`]: as long as its longest inputs.
pub const FRAME_LIMIT: usize = 4096;

/// The number of leading bytes of an input of [`frame()`] that set how it is cut.
///
/// Each byte sets the length of one step; the steps are used in turn.
pub const STEPS: usize = 4;

/// Asserts that a stream gives the same frames, rest and error wherever it is cut.
///
/// The frames also encode to the bytes that they were split from.
pub fn frame(data: &[u8]) {
    let Some((steps, stream)) = data.split_first_chunk::<STEPS>() else {
        return;
    };

    let whole = feed([stream]);
    let mut uncut = stream;
    let mut steps = steps.iter().cycle();
    let pieces = std::iter::from_fn(|| {
        let step = steps.next().map_or(1, |step| usize::from(*step) + 1);
        let (piece, rest) = uncut.split_at(step.min(uncut.len()));
        uncut = rest;
        (!piece.is_empty()).then_some(piece)
    });
    let (frames, end) = feed(pieces);
    assert_eq!((&frames, &end), (&whole.0, &whole.1), "cut or whole");

    let mut wire = BytesMut::new();
    for payload in &frames {
        let encoded = frame::encode(&mut wire, FRAME_LIMIT, |writer| writer.put(payload));
        assert_eq!(encoded, Ok(()), "a frame that was read can be written");
    }
    let (read, rest) = stream.split_at(wire.len());
    assert_eq!(read, wire, "frames encode to the bytes that they came from");

    let announced = rest.first_chunk::<PREFIX>().map(|prefix| i32::from_be_bytes(*prefix));
    match (end, announced) {
        (Ok(left), None) => assert_eq!(left, rest),
        (Ok(left), Some(len)) => {
            assert_eq!(left, rest);
            assert!((0..=FRAME_LIMIT as i64).contains(&i64::from(len)), "{len} passed the cap");
            assert!(rest.len() - PREFIX < len as usize, "a whole frame was left behind");
        }
        (Err(DecodeError::NegativeLength(len)), announced) => {
            assert!(len < 0 && announced == Some(len), "{len} is not negative");
        }
        (Err(DecodeError::FrameTooLong { len, limit }), Some(announced)) => {
            assert!(len > limit && limit == FRAME_LIMIT && announced as usize == len);
        }
        (Err(error), _) => unreachable!("no error of a frame: {error}"),
    }
}

/// The result of a stream that arrives in `pieces`: whole frames, then the rest or an error.
fn feed<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Bytes>, Result<BytesMut, DecodeError>) {
    let mut input = BytesMut::new();
    let mut frames = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            match frame::split(&mut input, FRAME_LIMIT) {
                Ok(Some(payload)) => frames.push(payload),
                Ok(None) => break,
                Err(error) => return (frames, Err(error)),
            }
        }
    }
    (frames, Ok(input))
}
