//! Splits a stream of bytes into frames, and writes frames into a stream.
//!
//! [`FrameCodec`] is the framing of the protocol and nothing else. The driver reads with
//! [`FrameReader`]: it returns events without a copy, and of a frame above the limit only the head,
//! so that only the request that it answers fails. Requests are framed where they are encoded, in
//! the session.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};
use zk_proto::{DecodeError, EncodeError, Xid, frame};

use crate::error::ProtocolError;
use crate::session::HEAD_BYTES;

/// The first bytes of an event: the xid of notifications.
const EVENT: [u8; 4] = Xid::NOTIFICATION.0.to_be_bytes();

/// The framing of ZooKeeper's protocol, as a codec for tokio-util.
///
/// A frame is a length of four bytes and a payload of that many bytes. The codec is for
/// [`Framed`](tokio_util::codec::Framed).
///
/// The item is a payload: that of a request, a reply or a notification, whose records `zk-proto`
/// decodes. So the codec is for proxies, recorders and servers as well as for clients; the example
/// `proxy` prints the frames between a client and its server.
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use tokio_util::codec::{Decoder, Encoder};
/// use zk_client::FrameCodec;
///
/// # fn main() -> Result<(), zk_client::FrameError> {
/// let mut codec = FrameCodec::new(1024);
/// let mut wire = BytesMut::new();
/// codec.encode(Bytes::from_static(b"ruok"), &mut wire)?;
/// assert_eq!(wire.as_ref(), b"\0\0\0\x04ruok");
/// assert_eq!(codec.decode(&mut wire)?.as_deref(), Some(&b"ruok"[..]));
/// # Ok(())
/// # }
/// ```
///
/// A frame with a payload of more than `max_frame` bytes is an error in both directions. After an
/// error the stream has lost its framing.
#[derive(Clone, Copy, Debug)]
pub struct FrameCodec {
    max_frame: usize,
}

/// Why [`FrameCodec`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The transport failed, or ended inside a frame.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The length of a frame is negative or above the limit.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A payload is above the limit.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl FrameCodec {
    /// A codec for payloads of at most `max_frame` bytes.
    pub const fn new(max_frame: usize) -> Self {
        Self { max_frame }
    }
}

impl Decoder for FrameCodec {
    type Item = Bytes;
    type Error = FrameError;

    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        Ok(frame::split(input, self.max_frame)?)
    }
}

impl Encoder<Bytes> for FrameCodec {
    type Error = FrameError;

    fn encode(&mut self, payload: Bytes, output: &mut BytesMut) -> Result<(), FrameError> {
        Ok(frame::encode(output, self.max_frame, |writer| writer.put(&payload))?)
    }
}

/// Splits the bytes of one connection into frames, for the driver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameReader {
    max_frame: usize,
    /// Bytes of the current event or oversized frame that are still to be skipped.
    skip: usize,
}

/// A frame that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'i> {
    /// A frame that begins as an event does, in the buffer where it was read, since no caller keeps
    /// it.
    Event(&'i [u8]),
    /// Any other frame.
    Whole(Bytes),
    /// The first bytes of a frame that is too long.
    Oversized {
        head: Bytes,
        /// The length of the frame, as its prefix states it.
        len: usize,
    },
}

impl FrameReader {
    /// A reader for the bytes of a new connection.
    pub(crate) fn new(max_frame: usize) -> Self {
        Self { max_frame, skip: 0 }
    }

    /// Takes the next frame off `input`; the bytes of an event are removed by the next call.
    /// Returns `None` if the frame is not complete yet.
    ///
    /// After an error the stream has lost its framing.
    #[inline]
    pub(crate) fn next_frame<'i>(
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

/// The length of the next frame, if it is complete and begins as an event does.
fn event_len(input: &[u8]) -> Option<usize> {
    let (prefix, rest) = input.split_first_chunk::<{ frame::PREFIX }>()?;
    let len = usize::try_from(i32::from_be_bytes(*prefix)).ok()?;
    rest.get(..len)?.starts_with(&EVENT).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts the frames that a reader makes of these payloads, read in pieces of every length.
    fn in_pieces(payloads: &[&[u8]], expected: &[Frame<'_>]) {
        let mut wire = BytesMut::new();
        for payload in payloads {
            frame::encode(&mut wire, usize::MAX, |writer| writer.put(payload)).unwrap();
        }
        for piece in 1..=wire.len() {
            let mut reader = FrameReader::new(32);
            let mut input = BytesMut::new();
            let mut expected = expected.iter();
            for bytes in wire.chunks(piece) {
                input.extend_from_slice(bytes);
                while let Some(frame) = reader.next_frame(&mut input).unwrap() {
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
        // Its end looks like an event, and is discarded.
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
    fn a_payload_above_the_limit_is_refused_in_both_directions() {
        let mut wire = BytesMut::new();
        let refused = FrameCodec::new(3).encode(Bytes::from_static(b"four"), &mut wire);
        assert!(matches!(refused, Err(FrameError::Encode(_))), "{refused:?}");
        assert!(wire.is_empty());
        FrameCodec::new(4).encode(Bytes::from_static(b"four"), &mut wire).unwrap();
        let refused = FrameCodec::new(3).decode(&mut wire);
        let too_long = DecodeError::FrameTooLong { len: 4, limit: 3 };
        assert!(matches!(refused, Err(FrameError::Decode(error)) if error == too_long));
    }

    #[test]
    fn a_stream_that_ends_inside_a_frame_is_an_error() {
        let mut wire = BytesMut::from(&b"\0\0\0\x02a"[..]);
        let mut codec = FrameCodec::new(4);
        assert!(matches!(codec.decode(&mut wire), Ok(None)));
        assert!(matches!(codec.decode_eof(&mut wire), Err(FrameError::Io(_))));
    }

    #[test]
    fn a_negative_length_is_no_frame() {
        let mut input = BytesMut::from(&[0xff; 8][..]);
        let error = FrameReader::new(32).next_frame(&mut input).unwrap_err();
        assert_eq!(error, ProtocolError::from(DecodeError::NegativeLength(-1)));
    }
}
