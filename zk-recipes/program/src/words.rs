//! The words of a line, quoted as in a shell.
//!
//! In single quotes every letter is itself. In double quotes there are the escapes of JSON, so that
//! each string of JSON is a word, and `\xHH` and `\u{HEX}`, which this program prints. What a shell
//! would take in silence for something else is an error.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The words of a line: none if it is empty or a comment. The error says what is wrong.
pub(crate) fn split(line: &[u8]) -> Result<Vec<OsString>, String> {
    let (mut words, mut rest) = (Vec::new(), line.trim_ascii_start());
    if rest.starts_with(b"#") {
        return Ok(words);
    }
    while !rest.is_empty() {
        if rest.starts_with(b"#") {
            return Err("a comment has a line of its own: quote a word that begins with #".into());
        }
        let mut word = Vec::new();
        rest = take_word(rest, &mut word)?.trim_ascii_start();
        words.push(OsString::from_vec(word));
    }
    Ok(words)
}

/// Takes the first word. Returns what is behind it.
fn take_word<'a>(mut text: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], String> {
    while let [letter, behind @ ..] = text {
        text = match letter {
            b'\'' => {
                let mut parts = behind.splitn(2, |letter| *letter == b'\'');
                word.extend_from_slice(parts.next().unwrap_or_default());
                parts.next().ok_or("a ' has no other one behind it")?
            }
            b'"' => take_quoted(behind, word)?,
            b'\\' => return Err("a backslash is an escape in double quotes only: quote it".into()),
            letter if letter.is_ascii_whitespace() => break,
            letter => {
                word.push(*letter);
                behind
            }
        };
    }
    Ok(text)
}

/// Takes what is in double quotes, behind the first of them.
fn take_quoted<'a>(mut text: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], String> {
    loop {
        text = match text {
            [] => return Err("a \" has no other one behind it".into()),
            [b'"', behind @ ..] => return Ok(behind),
            [b'\\', escape @ ..] => take_escape(escape, word)?,
            [letter, behind @ ..] => {
                word.push(*letter);
                behind
            }
        };
    }
}

/// Takes an escape, behind its backslash.
fn take_escape<'a>(text: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], String> {
    let (letter, behind) = match text {
        [letter @ (b'"' | b'\\' | b'/'), behind @ ..] => (char::from(*letter), behind),
        [b'n', behind @ ..] => ('\n', behind),
        [b'r', behind @ ..] => ('\r', behind),
        [b't', behind @ ..] => ('\t', behind),
        [b'b', behind @ ..] => ('\u{8}', behind),
        [b'f', behind @ ..] => ('\u{c}', behind),
        [b'x', high, low, behind @ ..] => {
            let byte = number(&[*high, *low]).and_then(|byte| u8::try_from(byte).ok());
            word.push(byte.ok_or("\\x has two hexadecimal digits behind it")?);
            return Ok(behind);
        }
        [b'u', b'{', behind @ ..] => {
            let mut parts = behind.splitn(2, |letter| *letter == b'}');
            let letter = parts.next().and_then(number).and_then(char::from_u32);
            letter.zip(parts.next()).ok_or("\\u{ is the number of no letter")?
        }
        [b'u', behind @ ..] => take_utf16(behind).ok_or("\\u is the number of no letter")?,
        _ => {
            let letter = String::from_utf8_lossy(text.get(..1).unwrap_or_default());
            return Err(format!("\\{letter} is no escape: see zk txn --help"));
        }
    };
    word.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(behind)
}

/// Takes four hexadecimal digits, and four more if JSON writes the letter as a pair.
fn take_utf16(text: &[u8]) -> Option<(char, &[u8])> {
    let unit = |text: &[u8]| number(text).and_then(|unit| u16::try_from(unit).ok());
    let (digits, behind) = text.split_at_checked(4)?;
    let first = unit(digits)?;
    if let Some(letter) = char::from_u32(first.into()) {
        return Some((letter, behind));
    }
    let (digits, behind) = behind.strip_prefix(b"\\u")?.split_at_checked(4)?;
    let letter = char::decode_utf16([first, unit(digits)?]).next()?.ok()?;
    Some((letter, behind))
}

/// A number of hexadecimal digits.
fn number(digits: &[u8]) -> Option<u32> {
    let digits = str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::output::{escaped, quoted};

    fn check(line: &[u8], words: &[&[u8]]) {
        let found = split(line).unwrap();
        let found = found.iter().map(|word| word.as_bytes()).collect::<Vec<_>>();
        assert_eq!(found, words, "{}", String::from_utf8_lossy(line));
    }

    #[test]
    fn words_are_parted_by_spaces_unless_they_are_quoted() {
        check(b"set /a  b\t\r", &[b"set", b"/a", b"b"]);
        check(b"  ", &[]);
        check(b" # set /a 'b", &[]);
        check(b"a#b '#c' ''", &[b"a#b", b"#c", b""]);
        check(b"'a \\n\" b'\"it's\"c", &[b"a \\n\" bit'sc"]);
        check(
            b"\"\\x00\\xFF\xfe\\u{e9}\\u00e9\\ud83d\\ude00\"",
            &[b"\x00\xff\xfe\xc3\xa9\xc3\xa9\xf0\x9f\x98\x80"],
        );
    }

    #[test]
    fn what_json_and_this_program_write_is_read_as_it_was() {
        let text = "\"\\/\n\r\t\u{8}\u{c}\u{1}\u{7f} ü\u{1f600}";
        check(quoted(text).as_bytes(), &[text.as_bytes()]);
        check(serde_json::to_string(text).unwrap().as_bytes(), &[text.as_bytes()]);
        for bytes in [text.as_bytes(), b"\xff\0\n"] {
            let word = escaped(bytes).replace('"', "\\\"");
            check(format!("\"{word}\"").as_bytes(), &[bytes]);
        }
    }

    #[test]
    fn what_a_shell_would_take_for_something_else_is_refused() {
        for line in [
            "'a",
            "\"a",
            "\"a\\\"",
            "a\\ b",
            "a #b",
            "\"\\q\"",
            "\"\\",
            "\"\\xf\"",
            "\"\\x+1\"",
            "\"\\xé\"",
            "\"\\u{}\"",
            "\"\\u{110000}\"",
            "\"\\u{41\"",
            "\"\\ud83d\"",
            "\"\\ud83dx\\ude00\"",
            "\"\\u12\"",
        ] {
            assert!(split(line.as_bytes()).is_err(), "{line}");
        }
    }
}
