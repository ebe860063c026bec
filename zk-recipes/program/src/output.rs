//! What the program prints: bytes and lines on stdout, and objects of JSON, one a line.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use humantime::format_rfc3339_millis;
use zk_client::Stat;
use zk_tap::hex;

use crate::failure::Failure;

/// The standard output. A reader that has gone ends the program in silence.
#[derive(Debug)]
pub(crate) struct Output(io::StdoutLock<'static>);

impl Output {
    pub(crate) fn new() -> Self {
        Self(io::stdout().lock())
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.0.write_all(bytes).and_then(|()| self.0.flush()).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::silent(),
            _ => Failure::of("cannot write", error),
        })
    }

    /// Writes bytes and the end of a line.
    pub(crate) fn line(&mut self, line: &[u8]) -> Result<(), Failure> {
        self.bytes(&[line, b"\n"].concat())
    }
}

/// Bytes as a part of a line for a terminal: control characters, backslashes and what is not UTF-8
/// as escapes.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text += "\\\\",
                letter if letter.is_control() => text.extend(letter.escape_default()),
                letter => text.push(letter),
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// An object of JSON, as it is written member by member.
#[derive(Debug)]
pub(crate) struct Json(String);

impl Json {
    pub(crate) fn object() -> Self {
        Self("{".to_owned())
    }

    pub(crate) fn text(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        self.quote(value);
        self
    }

    pub(crate) fn number(mut self, name: &str, value: i64) -> Self {
        self.name(name);
        self.0 += &value.to_string();
        self
    }

    pub(crate) fn flag(mut self, name: &str, value: bool) -> Self {
        self.name(name);
        self.0 += &value.to_string();
        self
    }

    /// A value that is JSON already.
    pub(crate) fn value(mut self, name: &str, value: &serde_json::Value) -> Self {
        self.name(name);
        self.0 += &value.to_string();
        self
    }

    /// A list of values that are JSON already.
    pub(crate) fn list(mut self, name: &str, values: impl IntoIterator<Item = String>) -> Self {
        self.name(name);
        let values = values.into_iter().collect::<Vec<_>>();
        self.0 += &format!("[{}]", values.join(","));
        self
    }

    pub(crate) fn null(mut self, name: &str) -> Self {
        self.name(name);
        self.0 += "null";
        self
    }

    /// Bytes as text where they are UTF-8. Others have a member `NAME_hex` of hexadecimal digits.
    pub(crate) fn bytes(mut self, name: &str, value: &[u8]) -> Self {
        match str::from_utf8(value) {
            Ok(text) => self.text(name, text),
            Err(_) => {
                self.name(&format!("{name}_hex"));
                self.quote(&hex::encode(value));
                self
            }
        }
    }

    /// The metadata of a node, by the names of the fields of `Stat`.
    pub(crate) fn stat(mut self, stat: &Stat) -> Self {
        self.name("stat");
        let members = fields(stat).into_iter();
        let object = members.fold(Self::object(), |object, (_, name, value)| match value {
            Field::Number(value) => object.number(name, value),
            // As the servers write it.
            Field::Session(value) => object.text(name, &format!("{value:#x}")),
        });
        self.0 += &object.end();
        self
    }

    pub(crate) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn name(&mut self, name: &str) {
        if !self.0.ends_with('{') {
            self.0.push(',');
        }
        self.quote(name);
        self.0.push(':');
    }

    fn quote(&mut self, text: &str) {
        self.0.push('"');
        for letter in text.chars() {
            match letter {
                '"' => self.0 += "\\\"",
                '\\' => self.0 += "\\\\",
                '\n' => self.0 += "\\n",
                '\r' => self.0 += "\\r",
                '\t' => self.0 += "\\t",
                control if control < ' ' => {
                    // A String takes everything.
                    write!(self.0, "\\u{:04x}", u32::from(control)).unwrap_or_default();
                }
                other => self.0.push(other),
            }
        }
        self.0.push('"');
    }
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    let mut json = Json(String::new());
    json.quote(text);
    json.0
}

/// A field of a stat.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field {
    Number(i64),
    Session(i64),
}

/// The fields of a stat: the names that `zkCli.sh` prints, ours, and the values.
pub(crate) fn fields(stat: &Stat) -> [(&'static str, &'static str, Field); 11] {
    use Field::{Number, Session};
    [
        ("cZxid", "czxid", Number(stat.czxid.0)),
        ("ctime", "ctime", Number(stat.ctime)),
        ("mZxid", "mzxid", Number(stat.mzxid.0)),
        ("mtime", "mtime", Number(stat.mtime)),
        ("pZxid", "pzxid", Number(stat.pzxid.0)),
        ("cversion", "cversion", Number(stat.cversion.into())),
        ("dataVersion", "version", Number(stat.version.into())),
        ("aclVersion", "aversion", Number(stat.aversion.into())),
        ("ephemeralOwner", "ephemeral_owner", Session(stat.ephemeral_owner.0)),
        ("dataLength", "data_length", Number(stat.data_length.into())),
        ("numChildren", "num_children", Number(stat.num_children.into())),
    ]
}

/// The first year that has no calendar time here, in milliseconds since 1970.
const YEAR_10000: u64 = 253_402_300_800_000;

/// A stat in lines, as `zkCli.sh` prints it. Times are in milliseconds since 1970, and beside that
/// as people read them.
pub(crate) fn stat_lines(stat: &Stat) -> String {
    let lines = fields(stat).into_iter().map(|(name, _, value)| match value {
        Field::Number(value) if name.ends_with("Zxid") => format!("{name} = {value:#x}"),
        Field::Number(value) if name.ends_with("time") => {
            format!("{name} = {value}{}", calendar_time(value))
        }
        Field::Number(value) => format!("{name} = {value}"),
        Field::Session(value) => format!("{name} = {value:#x}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A time in milliseconds since 1970 as people read it, in parentheses, if it has a date.
fn calendar_time(milliseconds: i64) -> String {
    date(milliseconds).map(|date| format!(" ({date})")).unwrap_or_default()
}

/// A time in milliseconds since 1970 as people read it, if it has a date.
pub(crate) fn date(milliseconds: i64) -> Option<String> {
    let since = u64::try_from(milliseconds).ok().filter(|since| *since < YEAR_10000)?;
    let time = UNIX_EPOCH + Duration::from_millis(since);
    Some(format_rfc3339_millis(time).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_people_read_them_if_they_have_a_date() {
        assert_eq!(calendar_time(1_700_000_000_123), " (2023-11-14T22:13:20.123Z)");
        assert_eq!(calendar_time(i64::try_from(YEAR_10000).unwrap()), "");
        assert_eq!((calendar_time(i64::MAX), calendar_time(-1)), (String::new(), String::new()));
    }

    #[test]
    fn every_text_is_one_line_of_json() {
        let line = Json::object().text("a", "\"\\\n\r\t\u{1}ü").number("b", -1).null("c").end();
        assert_eq!(line, "{\"a\":\"\\\"\\\\\\n\\r\\t\\u0001ü\",\"b\":-1,\"c\":null}");
        let line = Json::object().bytes("data", b"x").bytes("data", b"\xff\0").end();
        assert_eq!(line, "{\"data\":\"x\",\"data_hex\":\"ff00\"}");
    }
}
