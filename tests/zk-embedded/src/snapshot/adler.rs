//! The checksum Adler-32, which snapshots have behind each part.

/// The checksum of what was added.
pub(super) struct Adler {
    low: u32,
    high: u32,
}

impl Default for Adler {
    fn default() -> Self {
        Self { low: 1, high: 0 }
    }
}

impl Adler {
    const MODULUS: u32 = 65_521;

    /// So many bytes can be added before the sums overflow.
    const CHUNK: usize = 5552;

    pub(super) fn add(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(Self::CHUNK) {
            for byte in chunk {
                self.low += u32::from(*byte);
                self.high += self.low;
            }
            self.low %= Self::MODULUS;
            self.high %= Self::MODULUS;
        }
    }

    pub(super) fn value(&self) -> i64 {
        i64::from(self.high << 16 | self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_adlers() {
        let mut sum = Adler::default();
        sum.add(b"Wikipedia");
        assert_eq!(sum.value(), 0x11e6_0398);
        let (mut whole, mut parts) = (Adler::default(), Adler::default());
        let bytes = vec![0xff; 3 * Adler::CHUNK + 7];
        whole.add(&bytes);
        bytes.chunks(1000).for_each(|chunk| parts.add(chunk));
        assert_eq!(whole.value(), parts.value());
    }
}
