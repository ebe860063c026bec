//! Bytes as hexadecimal digits.

pub(crate) fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `None` if it is not pairs of digits.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let nibble = |digit: &u8| char::from(*digit).to_digit(16);
    let bytes = pairs.iter().map(|[high, low]| Some((nibble(high)? << 4 | nibble(low)?) as u8));
    bytes.collect::<Option<_>>().filter(|_| rest.is_empty())
}
