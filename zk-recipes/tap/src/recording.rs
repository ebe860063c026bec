//! The format of recordings: JSON, an object a line.
//!
//! ```text
//! {"format":"zk-tap","version":1}
//! {"at":1234,"connection":1,"from":"client","hex":"00000000..."}
//! {"at":1301,"connection":1,"from":"server","hex":"00000000..."}
//! {"at":2000,"dropped":3}
//! {"at":2500,"connection":1,"closed":true}
//! ```
//!
//! * `at`: microseconds since the tap was started; they never decrease for one side of a
//!   connection.
//! * `connection`: a number for each connection, from 1.
//! * `from` and `hex`: the sender and the payload of a frame, without the length in front of it.
//! * `dropped`: how many events are missing from about here on, because the observer was too slow.
//! * `closed`: the connection is over.
//!
//! A recording has the bytes as they are, passwords included: keep it as you would keep these.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hex;
use crate::queue::{Side, Stamp};

/// The longest line that is read: a frame of 16 MiB in hexadecimal, and the rest of its object.
const LINE_LIMIT: u64 = 2 * (16 << 20) + 1024;

/// The version of the format that is written, and the only one that is read.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
}

/// A line of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// A frame.
    Frame {
        /// When it passed.
        at: Stamp,
        /// Its connection.
        connection: u64,
        /// Its sender.
        from: Side,
        /// Its payload.
        payload: Vec<u8>,
    },
    /// Events are missing here.
    Dropped {
        /// When that was noticed.
        at: Stamp,
        /// How many.
        dropped: u64,
    },
    /// A connection is over.
    Closed {
        /// When.
        at: Stamp,
        /// Which.
        connection: u64,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Side>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<bool>,
}

/// Creates a file for a recording, or for what is made of one, which only its owner may read.
///
/// # Errors
///
/// The file exists, or cannot be created.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Writes the first line of a recording.
pub fn start(out: &mut dyn Write) -> io::Result<()> {
    write_line(out, &Header { format: "zk-tap".to_owned(), version: VERSION })
}

/// Appends a line.
pub fn write(out: &mut dyn Write, entry: &Entry) -> io::Result<()> {
    let line = |at: &Stamp| Line {
        at: u64::try_from(at.as_micros()).unwrap_or(u64::MAX),
        connection: None,
        from: None,
        hex: None,
        dropped: None,
        closed: None,
    };
    let line = match entry {
        Entry::Frame { at, connection, from, payload } => Line {
            connection: Some(*connection),
            from: Some(*from),
            hex: Some(hex::encode(payload)),
            ..line(at)
        },
        Entry::Dropped { at, dropped } => Line { dropped: Some(*dropped), ..line(at) },
        Entry::Closed { at, connection } => {
            Line { connection: Some(*connection), closed: Some(true), ..line(at) }
        }
    };
    write_line(out, &line)
}

fn write_line(out: &mut dyn Write, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    out.write_all(&text)
}

/// A line that is not one of a recording.
#[derive(Debug)]
pub struct ReadError {
    line: usize,
    problem: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the recording: {}", self.line, self.problem)
    }
}

impl std::error::Error for ReadError {}

/// Reads a whole recording. A last line that was cut short is left out: see [`read_to_the_end`].
///
/// # Errors
///
/// The first line that does not have the format, with its number.
pub fn read(input: impl BufRead) -> Result<Vec<Entry>, ReadError> {
    read_to_the_end(input).map(|(entries, _)| entries)
}

/// Reads a whole recording, and returns true if its last line was cut short and is left out: the
/// tap was killed, or its disk was full.
///
/// # Errors
///
/// The first line that does not have the format, with its number.
pub fn read_to_the_end(mut input: impl BufRead) -> Result<(Vec<Entry>, bool), ReadError> {
    let mut entries = Vec::new();
    for number in 1.. {
        let error = |problem: String| ReadError { line: number, problem };
        let mut text = Vec::new();
        let mut limited = io::Read::take(&mut input, LINE_LIMIT);
        limited.read_until(b'\n', &mut text).map_err(|problem| error(problem.to_string()))?;
        if number == 1 {
            let header: Header =
                serde_json::from_slice(&text).map_err(|problem| error(problem.to_string()))?;
            if (&*header.format, header.version) != ("zk-tap", VERSION) {
                return Err(error(format!("not a recording of version {VERSION}")));
            }
        } else if text.is_empty() {
            break;
        } else {
            let line = match serde_json::from_slice(&text) {
                Ok(line) => line,
                Err(_) if !text.ends_with(b"\n") && (text.len() as u64) < LINE_LIMIT => {
                    return Ok((entries, true));
                }
                Err(problem) => return Err(error(problem.to_string())),
            };
            entries.push(entry(line).ok_or_else(|| error("not an event".to_owned()))?);
        }
    }
    Ok((entries, false))
}

fn entry(line: Line) -> Option<Entry> {
    let at = Duration::from_micros(line.at);
    match line {
        Line { connection: Some(connection), from: Some(from), hex: Some(digits), .. } => {
            Some(Entry::Frame { at, connection, from, payload: hex::decode(&digits)? })
        }
        Line { dropped: Some(dropped), .. } => Some(Entry::Dropped { at, dropped }),
        Line { connection: Some(connection), closed: Some(true), .. } => {
            Some(Entry::Closed { at, connection })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let at = Duration::from_micros(1234);
        let entries = vec![
            Entry::Frame { at, connection: 1, from: Side::Client, payload: vec![0, 0x1f, 0xff] },
            Entry::Frame { at, connection: 2, from: Side::Server, payload: Vec::new() },
            Entry::Dropped { at, dropped: 3 },
            Entry::Closed { at, connection: 1 },
        ];
        let mut text = Vec::new();
        start(&mut text).unwrap();
        entries.iter().for_each(|entry| write(&mut text, entry).unwrap());
        assert_eq!(read_to_the_end(&text[..]).unwrap(), (entries.clone(), false));
        // The tap was killed while it wrote the last line.
        text.truncate(text.len() - 3);
        assert_eq!(read_to_the_end(&text[..]).unwrap(), (entries[..3].to_vec(), true));
        let first = "{\"at\":1234,\"connection\":1,\"from\":\"client\",\"hex\":\"001fff\"}";
        assert_eq!(String::from_utf8(text).unwrap().lines().nth(1), Some(first));
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let check = |text: &str, line| assert_eq!(read(text.as_bytes()).unwrap_err().line, line);
        let header = "{\"format\":\"zk-tap\",\"version\":1}\n";
        check("", 1);
        check("{\"format\":\"zk-tap\",\"version\":2}\n", 1);
        check(&format!("{header}{{\"at\":1}}\n"), 2);
        let odd = "{\"at\":1,\"connection\":1,\"from\":\"client\",\"hex\":\"0\"}\n";
        check(&format!("{header}{{\"at\":1,\"dropped\":2}}\n{odd}"), 3);
        check(&format!("{header}\n"), 2);
    }
}
