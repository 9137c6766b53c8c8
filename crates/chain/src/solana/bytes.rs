//! Borsh, as far as the registry uses it: fixed sizes, options and strings, little-endian. Every read is checked against the end.

use alloy_primitives::B256;

use super::Pubkey;

/// Reads from the front. `None`: the bytes end too early, or a flag is neither 0 nor 1.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]: [u8; 1]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn i128(&mut self) -> Option<i128> {
        self.array().map(i128::from_le_bytes)
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn key(&mut self) -> Option<Pubkey> {
        self.array().map(Pubkey)
    }

    pub(super) fn hash(&mut self) -> Option<B256> {
        self.array().map(B256::new)
    }

    /// An option, whose value `read` reads.
    pub(super) fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Some(None) }
    }

    /// A string of `limit` bytes at most.
    pub(super) fn text(&mut self, limit: usize) -> Option<&'a str> {
        let length = usize::try_from(u32::from_le_bytes(self.array()?)).ok().filter(|length| *length <= limit)?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    /// A length in the form of transactions: seven bits a byte, the lowest first, three bytes at most.
    pub(super) fn short_length(&mut self) -> Option<usize> {
        let mut length = 0;
        for shift in [0, 7, 14] {
            let byte = self.u8()?;
            length |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                // One spelling only: no empty byte at the end, and nothing above 16 bits.
                let canonical = (byte != 0 || shift == 0) && length <= usize::from(u16::MAX);
                return canonical.then_some(length);
            }
        }
        None
    }
}

/// Writes a length in the form of transactions.
pub(super) fn put_short_length(out: &mut Vec<u8>, length: u16) {
    let mut rest = length;
    while rest > 0x7f {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Writes a string.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lengths_have_one_spelling() {
        // Vectors of the format's description.
        let known: [(u16, &[u8]); 6] = [
            (0, &[0]),
            (0x7f, &[0x7f]),
            (0x80, &[0x80, 0x01]),
            (0x3fff, &[0xff, 0x7f]),
            (0x4000, &[0x80, 0x80, 0x01]),
            (0xffff, &[0xff, 0xff, 0x03]),
        ];
        for (length, bytes) in known {
            let mut out = Vec::new();
            put_short_length(&mut out, length);
            assert_eq!(out, bytes);
            assert_eq!(Cursor(bytes).short_length(), Some(usize::from(length)));
        }
        for bad in [&[][..], &[0x80], &[0x80, 0x00], &[0xff, 0xff, 0x04], &[0x80, 0x80, 0x80, 0x01]] {
            assert_eq!(Cursor(bad).short_length(), None, "{bad:?}");
        }
    }

    #[test]
    fn nothing_is_read_past_the_end() {
        assert_eq!(Cursor(&[4, 0, 0, 0, b'a']).text(10), None);
        assert_eq!(Cursor(&[1, 0, 0, 0, b'a']).text(0), None);
        assert_eq!(Cursor(&[1, 0, 0, 0, b'a']).text(1), Some("a"));
        assert_eq!(Cursor(&[1, 0, 0, 0, 0xff]).text(1), None);
        assert_eq!(Cursor(&[2]).option(Cursor::u8), None);
        assert_eq!(Cursor(&[0]).option(Cursor::u8), Some(None));
        assert_eq!(Cursor(&[1, 9]).option(Cursor::u8), Some(Some(9)));
        assert_eq!(Cursor(&[0; 15]).i128(), None);
    }
}
