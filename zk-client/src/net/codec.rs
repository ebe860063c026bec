//! Frames out of a stream of bytes.
//!
//! A frame above the limit is told by its head alone, and the rest of it is thrown away as it
//! comes: whoever knows what was asked can fail that request and no other. There is no encoder:
//! requests are framed where they are encoded, in the session.

use bytes::{Buf, Bytes, BytesMut};
use zk_proto::{DecodeError, Xid, frame};

use crate::error::ProtocolError;
use crate::session::HEAD_BYTES;

/// How an event begins.
const EVENT: [u8; 4] = Xid::NOTIFICATION.0.to_be_bytes();

/// Splits one connection's bytes into frames of at most `max_frame` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameCodec {
    max_frame: usize,
    /// What is to be thrown away of the last frame, whether it has come or not.
    skip: usize,
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'i> {
    /// One that begins as an event does, where it was read: nobody keeps any of it.
    Event(&'i [u8]),
    /// Any other.
    Whole(Bytes),
    /// The first bytes of a frame that is too long.
    Oversized {
        head: Bytes,
        /// Of the frame, if it is what it says.
        len: usize,
    },
}

impl FrameCodec {
    /// For the bytes of a new connection.
    pub(crate) fn new(max_frame: usize) -> Self {
        Self { max_frame, skip: 0 }
    }

    /// Takes the next frame off `input`; an event goes with the next call. `None` if it is not all
    /// there yet.
    ///
    /// After an error the stream has lost its framing.
    #[inline]
    pub(crate) fn decode<'i>(
        &mut self,
        input: &'i mut BytesMut,
    ) -> Result<Option<Frame<'i>>, ProtocolError> {
        if self.skip > 0 {
            let skipped = self.skip.min(input.len());
            input.advance(skipped);
            self.skip -= skipped;
        }
        if let Some(len) = event_len(input).filter(|len| *len <= self.max_frame) {
            self.skip = frame::PREFIX + len;
            return Ok(input.get(frame::PREFIX..self.skip).map(Frame::Event));
        }
        match frame::split(input, self.max_frame) {
            Ok(frame) => Ok(frame.map(Frame::Whole)),
            Err(DecodeError::FrameTooLong { len, .. }) => {
                let head = len.min(HEAD_BYTES);
                if input.len() < frame::PREFIX + head {
                    return Ok(None);
                }
                input.advance(frame::PREFIX);
                self.skip = len - head;
                Ok(Some(Frame::Oversized { head: input.split_to(head).freeze(), len }))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// How long the frame is that comes next, if all of it is there and it begins as an event does.
fn event_len(input: &[u8]) -> Option<usize> {
    let (prefix, rest) = input.split_first_chunk::<{ frame::PREFIX }>()?;
    let len = usize::try_from(i32::from_be_bytes(*prefix)).ok()?;
    rest.get(..len)?.starts_with(&EVENT).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a codec makes of these payloads, read in pieces of every length.
    fn in_pieces(payloads: &[&[u8]], expected: &[Frame<'_>]) {
        let mut wire = BytesMut::new();
        for payload in payloads {
            frame::encode(&mut wire, usize::MAX, |writer| writer.put(payload)).unwrap();
        }
        for piece in 1..=wire.len() {
            let mut codec = FrameCodec::new(32);
            let mut input = BytesMut::new();
            let mut expected = expected.iter();
            for bytes in wire.chunks(piece) {
                input.extend_from_slice(bytes);
                while let Some(frame) = codec.decode(&mut input).unwrap() {
                    assert_eq!(Some(&frame), expected.next(), "in pieces of {piece}");
                }
                assert!(input.len() < frame::PREFIX + 32, "{} bytes are kept", input.len());
            }
            assert_eq!(expected.next(), None, "in pieces of {piece}");
            assert!(input.is_empty());
        }
    }

    fn small(byte: u8, len: usize) -> Frame<'static> {
        Frame::Whole(Bytes::from(vec![byte; len]))
    }

    #[test]
    fn a_frame_above_the_limit_is_its_head_however_it_is_cut() {
        let large = Frame::Oversized { head: Bytes::from_static(&[2; HEAD_BYTES]), len: 100 };
        in_pieces(&[&[1; 8], &[2; 100], &[3; 32]], &[small(1, 8), large, small(3, 32)]);
    }

    #[test]
    fn an_event_is_seen_where_a_frame_begins_once_it_is_whole() {
        let (event, longest) = ([0xff; 20], [0xff; 32]);
        let large = Frame::Oversized { head: Bytes::from_static(&[0xff; HEAD_BYTES]), len: 33 };
        // Its end looks like an event, and is thrown away.
        let odd = [&[1; 40][..], &[0, 0, 0, 20], &event].concat();
        let odd_head = Frame::Oversized { head: Bytes::from_static(&[1; HEAD_BYTES]), len: 64 };
        in_pieces(
            &[&event, &[1; 8], &odd, &longest, &[], &event, &[0xff; 33], &event[..4], &event[..3]],
            &[
                Frame::Event(&event),
                small(1, 8),
                odd_head,
                Frame::Event(&longest),
                small(0, 0),
                Frame::Event(&event),
                large,
                Frame::Event(&event[..4]),
                small(0xff, 3),
            ],
        );
    }

    #[test]
    fn a_negative_length_is_no_frame() {
        let mut input = BytesMut::from(&[0xff; 8][..]);
        let error = FrameCodec::new(32).decode(&mut input).unwrap_err();
        assert_eq!(error, ProtocolError::from(DecodeError::NegativeLength(-1)));
    }
}
