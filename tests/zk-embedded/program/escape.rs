//! Words without spaces: what is no graphic ASCII character is `%` and two hexadecimal digits, as
//! in URLs.

/// Makes one word of any bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut word = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_graphic() && *byte != b'%' {
            word.push(char::from(*byte));
        } else {
            word.push_str(&format!("%{byte:02X}"));
        }
    }
    word
}

/// The text of a word. `None` if a `%` stands without its digits, or if it is not UTF-8.
pub(crate) fn decode(word: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            _ => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| digit.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_one_word_and_comes_back() {
        for text in ["", "/a/b", "a b", "100%", "\u{e4}\n\u{1F600}", "%41"] {
            let word = encode(text.as_bytes());
            assert!(word.bytes().all(|byte| byte.is_ascii_graphic()), "{word}");
            assert_eq!(decode(&word).as_deref(), Some(text));
        }
        assert_eq!(encode(&[0, 0xff, b'a']), "%00%FFa");
        assert_eq!(decode("\u{e4}%c3%a4").as_deref(), Some("\u{e4}\u{e4}"));
    }

    #[test]
    fn broken_words_are_refused() {
        for word in ["%", "%4", "%4g", "%g4", "%ff", "%+1"] {
            assert_eq!(decode(word), None, "{word}");
        }
    }
}
