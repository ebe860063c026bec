//! SHA-1 and Base64: what ZooKeeper makes digest identities of.
//!
//! SHA-1 is no protection by today's measure, and the protocol asks for no other. Written out here
//! because the two take less code than a dependency takes explaining; knows no identities.

/// The SHA-1 of a message (RFC 3174).
pub(crate) fn sha1(message: &[u8]) -> [u8; 20] {
    let (blocks, rest) = message.as_chunks::<BLOCK>();
    // A one bit, zeros, and the length in bits at the end of a block.
    let mut tail = rest.to_vec();
    tail.push(0x80);
    while tail.len() % BLOCK != BLOCK - size_of::<u64>() {
        tail.push(0);
    }
    let bits = (message.len() as u64).wrapping_mul(8);
    tail.extend_from_slice(&bits.to_be_bytes());
    let (tail, _) = tail.as_chunks::<BLOCK>();

    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in blocks.iter().chain(tail) {
        absorb(&mut state, block);
    }
    let mut hash = [0; 20];
    for (bytes, word) in hash.as_chunks_mut().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    hash
}

const BLOCK: usize = 64;

fn absorb(state: &mut [u32; 5], block: &[u8; BLOCK]) {
    // The sixteen words of the schedule from the current one on.
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for round in 0..80 {
        let (mixed, constant): (u32, u32) = match round {
            0..20 => ((b & c) | (!b & d), 0x5a82_7999),
            20..40 => (b ^ c ^ d, 0x6ed9_eba1),
            40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6),
        };
        let next = a
            .rotate_left(5)
            .wrapping_add(mixed)
            .wrapping_add(e)
            .wrapping_add(words[0])
            .wrapping_add(constant);
        (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);

        let word = words[13] ^ words[8] ^ words[2] ^ words[0];
        words.rotate_left(1);
        words[15] = word.rotate_left(1);
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(add);
    }
}

/// Base64 with padding (RFC 4648, section 4).
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().chain(&[0; 2]).take(3).fold(0, |all, byte| all << 8 | u32::from(*byte));
        for (place, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let sextet = (group >> shift) as u8 & 63;
            text.push(match sextet {
                _ if place > chunk.len() => '=',
                0..26 => char::from(b'A' + sextet),
                26..52 => char::from(b'a' + sextet - 26),
                52..62 => char::from(b'0' + sextet - 52),
                62 => '+',
                _ => '/',
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use sha1::Digest;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn hashes_are_those_of_the_standard() {
        let check = |message: &[u8], expected| assert_eq!(hex(&sha1(message)), expected);
        check(b"", "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        check(b"abc", "a9993e364706816aba3e25717850c26c9cd0d89d");
        check(
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
        );
        check(&[b'a'; 1_000_000], "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
        check(&b"01234567".repeat(80), "dea356a2cddd90c7a7ecedc5ebb563934f460452");
    }

    #[test]
    fn texts_are_those_of_the_standard() {
        let encoded = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (len, expected) in encoded.into_iter().enumerate() {
            let (bytes, _) = b"foobar".split_at(len);
            assert_eq!(base64(bytes), expected);
        }
    }

    /// Every length around the ends of blocks and groups; the bytes differ from length to length.
    #[test]
    fn both_agree_with_other_implementations() {
        let mut state = 1_u32;
        for len in 0..300 {
            let bytes: Vec<u8> = std::iter::repeat_with(|| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .take(len)
            .collect();
            assert_eq!(sha1(&bytes)[..], sha1::Sha1::digest(&bytes)[..], "{len} bytes");
            let expected = base64::prelude::BASE64_STANDARD.encode(&bytes);
            assert_eq!(base64(&bytes), expected, "{len} bytes");
        }
    }
}
