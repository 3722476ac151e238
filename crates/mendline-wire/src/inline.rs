//! Short byte strings without an allocation.
//!
//! Ids and patches usually have a few digits. Up to [`INLINE`] bytes are stored in the value itself; longer ones are
//! shared, so that a clone is cheap.

use std::sync::Arc;

/// The inline capacity: the longest `u64` (20 digits) and short string ids.
const INLINE: usize = 23;

/// The decimal digits of 00 to 99.
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut number = 0;
    while number < 100 {
        pairs[number * 2] = b'0' + (number / 10) as u8;
        pairs[number * 2 + 1] = b'0' + (number % 10) as u8;
        number += 1;
    }
    pairs
};

#[derive(Clone)]
pub(crate) enum Inline {
    Here(Short),
    Shared(Arc<[u8]>),
}

/// Aligned, so that it is copied in whole words.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Short {
    bytes: [u8; INLINE],
    len: u8,
}

impl Inline {
    pub(crate) fn copy(from: &[u8]) -> Inline {
        match Inline::empty(from.len()) {
            Some((len, mut bytes)) => {
                bytes[..from.len()].copy_from_slice(from);
                Inline::Here(Short { len, bytes })
            }
            None => Inline::Shared(from.into()),
        }
    }

    /// Writes the decimal digits of a number from the end, two at a time.
    pub(crate) fn decimal(mut number: u64) -> Inline {
        let len = number.checked_ilog10().unwrap_or(0) as usize + 1;
        let mut bytes = [b'0'; INLINE];
        let mut end = len;
        while number >= 10 {
            let pair = (number % 100) as usize * 2;
            bytes[end - 2..end].copy_from_slice(&PAIRS[pair..pair + 2]);
            number /= 100;
            end -= 2;
        }
        if end == 1 {
            bytes[0] = b'0' + number as u8;
        }
        Inline::Here(Short { len: len as u8, bytes })
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Inline::Here(Short { len, bytes }) => &bytes[..usize::from(*len)],
            Inline::Shared(bytes) => bytes,
        }
    }

    fn empty(len: usize) -> Option<(u8, [u8; INLINE])> {
        (len <= INLINE).then_some((len as u8, [0; INLINE]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_decimal() {
        let powers = (0..20).map(|power| 10u64.pow(power)).flat_map(|power| [power - 1, power, power + 1]);
        for number in powers.chain([7, 12_345, u64::from(u32::MAX), u64::MAX]) {
            assert_eq!(Inline::decimal(number).as_bytes(), number.to_string().as_bytes());
        }
    }

    #[test]
    fn bytes_are_kept_on_both_sides_of_the_limit() {
        for len in [0, 1, INLINE - 1, INLINE, INLINE + 1, 5_000] {
            let bytes = vec![b'x'; len];
            let kept = Inline::copy(&bytes);
            assert_eq!(kept.as_bytes(), bytes);
            assert_eq!(matches!(kept, Inline::Shared(_)), len > INLINE);
        }
        assert_eq!(size_of::<Inline>(), 32);
    }
}
