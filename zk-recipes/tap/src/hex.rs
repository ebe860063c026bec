//! Bytes as hexadecimal digits, two for each.

/// Writes bytes as lower-case digits.
pub fn encode(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Reads digits, upper or lower case. `None` if they are not pairs of digits.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> = pairs
        .iter()
        .map(|[high, low]| u8::try_from(nibble(*high)? << 4 | nibble(*low)?).ok())
        .collect();
    bytes.filter(|_| rest.is_empty())
}
