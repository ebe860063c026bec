//! A program: bytes that are taken one by one, and zeros after its end.

/// The remaining bytes.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.next().unwrap_or_default()
    }

    pub(super) fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        head
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let byte = usize::from(self.byte());
        of.get(byte.checked_rem(of.len())?).copied()
    }
}
