//! Numbers as text: varints one after the other, in base64. A page decodes a million of them in a moment.

/// Unsigned numbers on their way into a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberColumn {
    bytes: Vec<u8>,
}

impl NumberColumn {
    /// Adds a number, seven bits a byte, the least first (LEB128).
    pub(crate) fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(low_bits(value) | 0x80);
            value >>= 7;
        }
        self.bytes.push(low_bits(value));
    }

    /// All of it as base64 (RFC 4648).
    pub(crate) fn base64(&self) -> String {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::with_capacity(self.bytes.len().div_ceil(3) * 4);
        for chunk in self.bytes.chunks(3) {
            let word = chunk.iter().fold(0_u32, |all, byte| (all << 8) | u32::from(*byte));
            let word = word << (8 * (3 - chunk.len()));
            for at in 0..4 {
                let digit = (word >> (18 - 6 * at)) & 63;
                text.push(if at <= chunk.len() { char::from(DIGITS[digit as usize]) } else { '=' });
            }
        }
        text
    }
}

fn low_bits(value: u64) -> u8 {
    (value & 0x7F) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_leb128_in_base64() {
        let mut column = NumberColumn::default();
        assert_eq!(column.base64(), "");
        for value in [0, 127, 128, 300, u64::MAX] {
            column.push(value);
        }
        assert_eq!(column.bytes, b"\x00\x7f\x80\x01\xac\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
        assert_eq!(column.base64(), "AH+AAawC////////////AQ==");
    }
}
