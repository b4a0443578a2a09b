//! Rounding to f8e4m3: to the nearest number, halves to the even one, and what is too large to the largest.

use tilewright_reference::float8::{MOST, decoded, rounded};

#[test]
fn every_number_is_its_own_nearest() {
    for byte in (0..=255_u8).filter(|byte| byte & 127 != 127) {
        let number = decoded(byte);
        assert_eq!(rounded(number).to_bits(), number.to_bits(), "{byte:#x}");
    }
    assert!(decoded(0x7F).is_nan() && rounded(f32::NAN).is_nan());
}

#[test]
fn what_lies_between_two_numbers_goes_to_the_nearer_or_the_even_one() {
    for byte in 0..126_u8 {
        let [low, high] = [byte, byte + 1].map(decoded);
        let middle = f32::midpoint(low, high);
        let even = if byte % 2 == 0 { low } else { high };
        assert_eq!(rounded(middle), even);
        assert_eq!(rounded(middle.next_down()), low);
        assert_eq!(rounded(-middle.next_up()), -high);
    }
}

#[test]
fn what_is_too_large_saturates() {
    assert_eq!([449.0, 1e30, f32::INFINITY, -464.0].map(rounded), [MOST, MOST, MOST, -MOST]);
    assert_eq!([0.0, 1e-30, -0.0].map(|x: f32| rounded(x).to_bits()), [0, 0, 0x8000_0000]);
}
