//! The thread behind the road: it decodes frames, shows them, times them and records them.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use bytes::Bytes;
use zk_proto::any::Message;

use crate::dialog::Dialog;
use crate::queue::{Event, Queue, Side, Stamp};
use crate::recording::{self, Entry};
use crate::summary::Summary;

/// What is done with the frames that pass.
#[derive(Default)]
pub struct Observer {
    lines: Option<Box<dyn Write + Send>>,
    recording: Option<Box<dyn Write + Send>>,
    /// Is told at once why the recording ends early.
    on_recording_error: Option<OnError>,
    report: Report,
    dialogs: HashMap<u64, Dialog>,
}

/// Is told of an error.
type OnError = Box<dyn FnOnce(&io::Error) + Send>;

/// What was seen.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The latencies.
    pub summary: Summary,
    /// The number of frames that were decoded, of both sides.
    pub frames: u64,
    /// The number of frames that do not decode.
    pub undecodable: u64,
    /// The number of lines that were not shown, because the observer was behind.
    pub unshown: u64,
    /// The number of events that were neither shown, nor timed, nor recorded, because too many were
    /// waiting.
    pub dropped: u64,
    /// Why the recording ends early, if it does.
    pub recording_error: Option<io::Error>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary.fmt(f)?;
        write!(f, "{} frames", self.frames)?;
        for (count, what) in [
            (self.undecodable, "did not decode"),
            (self.unshown, "were not shown, because showing them was too slow"),
            (self.dropped, "were dropped, because too many were waiting"),
        ] {
            if count > 0 {
                write!(f, "; {count} {what}")?;
            }
        }
        if let Some(error) = &self.recording_error {
            write!(f, "; the recording ends early: {error}")?;
        }
        writeln!(f)
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("report", &self.report).finish_non_exhaustive()
    }
}

impl Observer {
    /// Makes an observer that only times.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a line for each frame. If a line cannot be written, no more are.
    pub fn lines(self, out: impl Write + Send + 'static) -> Self {
        Self { lines: Some(Box::new(out)), ..self }
    }

    /// Writes a recording.
    pub fn recording(self, out: impl Write + Send + 'static) -> Self {
        Self { recording: Some(Box::new(out)), ..self }
    }

    /// Calls `tell`, on the observer's thread, when the recording cannot be written any more. The
    /// tap goes on without it.
    pub fn on_recording_error(self, tell: impl FnOnce(&io::Error) + Send + 'static) -> Self {
        Self { on_recording_error: Some(Box::new(tell)), ..self }
    }

    /// Observes until the tap is stopped.
    pub(crate) fn run(mut self, queue: &Queue) -> Report {
        self.record_with(|out| recording::start(out));
        // Connections that are over, and may still have frames in the queue.
        let mut closing = Vec::new();
        while let Some(event) = queue.next() {
            if self.note_dropped(queue.dropped(), &event) {
                closing.extend(queue.closed());
            }
            match event {
                Event::Frame { connection, side, at, payload } => {
                    self.frame(connection, side, at, &payload, queue.is_late());
                    self.record(Entry::Frame {
                        at,
                        connection,
                        from: side,
                        payload: self.recorded(&payload),
                    });
                }
                Event::Unreadable { connection, side, at } => {
                    let sender = if side == Side::Client { ">" } else { "<" };
                    self.show(at, connection, format_args!("{sender} bytes that are no frames"));
                }
                Event::Closed { connection, at } => {
                    self.dialogs.remove(&connection);
                    self.show(at, connection, format_args!("closed"));
                    self.record(Entry::Closed { at, connection });
                }
                Event::Stop => break,
            }
            if queue.is_empty() {
                closing.drain(..).for_each(|connection| drop(self.dialogs.remove(&connection)));
                self.flush();
            }
        }
        self.flush();
        self.report.dropped = queue.dropped();
        self.report
    }

    fn frame(&mut self, connection: u64, side: Side, at: Stamp, payload: &Bytes, is_late: bool) {
        self.report.frames += 1;
        let dialog = self.dialogs.entry(connection).or_default();
        let (frame, answered) = dialog.frame(side, at, payload);
        let latency = answered.as_ref().map(|asked| at.saturating_sub(asked.at));
        match &frame {
            Ok(frame) => match (frame.message(), answered, latency) {
                (Message::Reply(header, _), Some(asked), Some(latency)) => {
                    self.report.summary.add(asked.op, asked.path, latency, header.error);
                }
                (Message::Notification(..), ..) => self.report.summary.add_notification(),
                _ => {}
            },
            Err(_) => self.report.undecodable += 1,
        }
        if self.lines.is_none() {
            return;
        }
        if is_late {
            self.report.unshown += 1;
            return;
        }
        let sender = if side == Side::Client { '>' } else { '<' };
        match frame {
            Ok(frame) => {
                let xid = frame.xid().map(|xid| format!("{xid}: ")).unwrap_or_default();
                let after = Latency(latency);
                self.show(at, connection, format_args!("{sender} {xid}{frame}{after}"));
            }
            Err(error) => {
                let len = payload.len();
                self.show(at, connection, format_args!("{sender} {len} bytes: {error}"));
            }
        }
    }

    fn show(&mut self, at: Stamp, connection: u64, text: fmt::Arguments<'_>) {
        if let Some(out) = &mut self.lines
            && writeln!(out, "{:12.6} #{connection} {text}", at.as_secs_f64()).is_err()
        {
            self.lines = None;
        }
    }

    /// The bytes for a recording; none if there is no recording.
    fn recorded(&self, payload: &Bytes) -> Vec<u8> {
        if self.recording.is_some() { payload.to_vec() } else { Vec::new() }
    }

    fn record(&mut self, entry: Entry) {
        self.record_with(|out| recording::write(out, &entry));
    }

    fn record_with(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if let Some(out) = &mut self.recording
            && let Err(error) = write(&mut **out)
        {
            self.recording = None;
            if let Some(tell) = self.on_recording_error.take() {
                tell(&error);
            }
            self.report.recording_error = Some(error);
        }
    }

    /// Records that events were dropped ahead of this one, and returns true if so.
    fn note_dropped(&mut self, dropped: u64, event: &Event) -> bool {
        let news = dropped - self.report.dropped;
        self.report.dropped = dropped;
        if news == 0 {
            return false;
        }
        let at = match event {
            Event::Frame { at, .. } | Event::Unreadable { at, .. } | Event::Closed { at, .. } => {
                *at
            }
            Event::Stop => Duration::ZERO,
        };
        self.record(Entry::Dropped { at, dropped: news });
        true
    }

    fn flush(&mut self) {
        if let Some(out) = &mut self.lines
            && out.flush().is_err()
        {
            self.lines = None;
        }
        self.record_with(|out| out.flush());
    }
}

/// How long a reply took, in parentheses.
struct Latency(Option<Duration>);

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => Ok(()),
            Some(latency) => write!(f, " ({:.3} ms)", latency.as_secs_f64() * 1000.0),
        }
    }
}
