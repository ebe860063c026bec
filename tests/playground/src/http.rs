//! As much of HTTP as the page takes: one request on a connection, and its answer.
//!
//! A browser opens connections ahead of their use. Since each has a thread of its own and ends with
//! its answer, one that stays silent keeps no request waiting. Does not know what is asked for.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// How long the head of a request may be. That of a browser has some hundred bytes.
const HEAD_BYTES: u64 = 16 * 1024;

/// How long a connection may be silent.
const SILENCE: Duration = Duration::from_secs(10);

/// How much of a refused body is read, so that the answer arrives before the connection ends.
const IGNORED_BYTES: u64 = 1024 * 1024;

/// A request whose head has arrived.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    stream: BufReader<TcpStream>,
}

impl Request {
    /// Reads the head of a request. Returns nothing if it is not one, or too long.
    pub(crate) fn read(stream: TcpStream) -> io::Result<Option<Self>> {
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        let mut stream = BufReader::new(stream);
        let mut lines = Read::by_ref(&mut stream).take(HEAD_BYTES).lines();
        let Some(first) = lines.next().transpose()? else { return Ok(None) };
        let mut words = first.split(' ').map(str::to_owned);
        let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
        let mut headers = Vec::new();
        loop {
            let Some(line) = lines.next().transpose()? else { return Ok(None) };
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else { return Ok(None) };
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        Ok(Some(Self { method, path, headers, stream }))
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Reads the body, up to a number of bytes.
    pub(crate) fn body(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let length = self.header("Content-Length").and_then(|length| length.parse().ok());
        let mut bytes = Vec::new();
        let wanted = length.unwrap_or(0).min(most);
        Read::by_ref(&mut self.stream).take(wanted).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Sends an answer and ends the connection.
    pub(crate) fn answer(
        mut self,
        status: u16,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len()));
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        stream.shutdown(Shutdown::Write)?;
        // Bytes that nobody has read would make the system reset the connection.
        io::copy(&mut self.stream.take(IGNORED_BYTES), &mut io::sink())?;
        Ok(())
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        _ => "Internal Server Error",
    }
}
