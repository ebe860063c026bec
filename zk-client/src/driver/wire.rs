//! The bytes of one connection: buffers that are filled from the transport and emptied into it, and
//! the frames in what was read.
//!
//! Reads share one large buffer, so that frames are slices of it and few of them cost an
//! allocation. An event is returned without a copy, and of a frame above the limit only the head,
//! so that only the request that it answers fails. This file knows no session.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncWrite;
use tokio_util::io::poll_read_buf;
use zk_proto::{DecodeError, Xid, frame};

use crate::error::{Hangup, ProtocolError};
use crate::net::transport::Transport;
use crate::session::HEAD_BYTES;

/// Room for one read: enough for a burst of small replies.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// An output buffer that a burst of requests has made larger than this is not kept.
const KEPT_OUTPUT: usize = 64 * 1024;

/// The least room for a read: small enough that one buffer serves many reads.
const MIN_ROOM: usize = 4 * 1024;

/// The first bytes of an event: the xid of notifications.
const EVENT: [u8; 4] = Xid::NOTIFICATION.0.to_be_bytes();

/// A connection, with the bytes that are read or written only in part.
pub(crate) struct Wire {
    io: Box<dyn Transport>,
    pub(crate) reader: FrameReader,
    pub(crate) input: BytesMut,
    pub(crate) output: BytesMut,
    /// How many bytes of the output are written.
    written: usize,
    /// If the input has less room than this, the next read gets a new buffer: as much as the last
    /// reads took.
    room: usize,
    /// Whether the transport may still hold bytes that need a flush.
    unflushed: bool,
    /// Why nothing can be written any more. Replies that came before may still be read.
    unwritable: Option<Hangup>,
    /// The transport's error, which says more than its kind.
    pub(crate) broken: Option<io::Error>,
}

impl Wire {
    /// A new connection, whose frames have at most `max_frame` bytes.
    pub(crate) fn new(io: Box<dyn Transport>, max_frame: usize) -> Self {
        let (input, output) = (BytesMut::new(), BytesMut::new());
        Self {
            io,
            reader: FrameReader { max_frame, skip: 0 },
            input,
            output,
            written: 0,
            room: MIN_ROOM,
            unflushed: false,
            unwritable: None,
            broken: None,
        }
    }

    fn broken(&mut self, error: io::Error) -> Hangup {
        Hangup::Io(self.broken.insert(error).kind())
    }

    /// Reads the available bytes, but no more than a buffer full. Ready if there may be more.
    ///
    /// The error is the first one of the transport, be it of a read or of a write.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Hangup>> {
        let left = self.input.len();
        if self.input.capacity() - left < self.room {
            // The start of a frame moves to the front of the buffer, which need not grow for that.
            let rest = READ_BYTES.checked_sub(left).filter(|rest| *rest >= MIN_ROOM);
            self.input.reserve(rest.unwrap_or(READ_BYTES));
        }
        let before = self.input.len();
        while self.input.len() < self.input.capacity() {
            match ready!(poll_read_buf(Pin::new(&mut self.io), cx, &mut self.input)) {
                Ok(0) => return Poll::Ready(Err(self.unwritable.take().unwrap_or(Hangup::Eof))),
                Ok(_) => self.room = (self.input.len() - before).clamp(MIN_ROOM, READ_BYTES),
                Err(error) => {
                    let why = self.unwritable.take();
                    return Poll::Ready(Err(why.unwrap_or_else(|| self.broken(error))));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// True if everything was written, and more can be.
    pub(crate) fn is_writable(&self) -> bool {
        self.output.is_empty() && self.unwritable.is_none()
    }

    /// Writes as much as the transport accepts. The task is woken when the rest can be written, and
    /// calls this again. After an error nothing is written any more.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) {
        if self.unwritable.is_none() {
            self.unwritable = self.try_write(cx).err();
        }
    }

    fn try_write(&mut self, cx: &mut Context<'_>) -> Result<(), Hangup> {
        while let Some(rest @ [_, ..]) = self.output.get(self.written..) {
            match Pin::new(&mut self.io).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Err(Hangup::Io(io::ErrorKind::WriteZero)),
                Poll::Ready(Ok(n)) => self.written += n,
                Poll::Ready(Err(error)) => return Err(self.broken(error)),
                Poll::Pending => return Ok(()),
            }
            self.unflushed = true;
        }
        self.written = 0;
        self.output.clear();
        if self.output.capacity() > KEPT_OUTPUT {
            self.output = BytesMut::new();
        }
        if self.unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.io).poll_flush(cx)
        {
            flushed.map_err(|error| self.broken(error))?;
            self.unflushed = false;
        }
        Ok(())
    }
}

/// Splits the bytes of one connection into frames.
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
            let mut reader = FrameReader { max_frame: 32, skip: 0 };
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
    fn a_negative_length_is_no_frame() {
        let mut input = BytesMut::from(&[0xff; 8][..]);
        let error = FrameReader { max_frame: 32, skip: 0 }.next_frame(&mut input).unwrap_err();
        assert_eq!(error, ProtocolError::from(DecodeError::NegativeLength(-1)));
    }
}
