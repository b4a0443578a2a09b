//! Bits of integers, by arithmetic: a bit is there if what is left reaches its worth.

use tilewright_base::invariant::OrBroken;
use tilewright_graph::{Binary, BuildResult, Builder, Data, Dtype, Type, ValueId};

use crate::error::ImportResult;
use crate::onnx::node::Call;
use crate::onnx::ops::Outputs;

/// An operand that must be an integer.
fn integer(call: &Call<'_, '_>, at: usize) -> ImportResult<ValueId> {
    let x = call.input(at)?;
    let dtype = call.reader.b.dtype(x);
    if dtype.is_integer() {
        return Ok(x);
    }
    let what = format!("operand {at} is of {dtype}");
    Err(call.refuse(what).allowed("an integer type").instead("`And`, `Or`, `Xor`, `Not` for bool"))
}

/// An integer of any size as a scalar.
fn number(b: &mut Builder, dtype: Dtype, number: i64) -> BuildResult<ValueId> {
    b.constant(Type::new(dtype, []), Data::Ints(vec![number]))
}

/// Minus one minus the number; of unsigned types the largest minus the number.
pub(super) fn not(call: &mut Call<'_, '_>) -> Outputs {
    let x = integer(call, 0)?;
    Ok(vec![call.build(|b| {
        let dtype = b.dtype(x);
        let (least, most) = dtype.integer_range().or_broken("operands are integers");
        let all = number(b, dtype, if least < 0 { -1 } else { most })?;
        b.sub(all, x)
    })?])
}

/// The bits of two numbers, from the highest that is no sign: of each a condition and its worth.
struct Bits {
    /// What is left of both numbers.
    left: [ValueId; 2],
}

impl Bits {
    /// Whether each number has the bit, which is then taken away.
    fn next(&mut self, b: &mut Builder, worth: ValueId) -> BuildResult<[ValueId; 2]> {
        let mut found = self.left;
        for (left, found) in self.left.iter_mut().zip(&mut found) {
            *found = b.binary(Binary::Ge, *left, worth)?;
            let less = b.sub(*left, worth)?;
            *left = b.select(*found, less, *left)?;
        }
        Ok(found)
    }
}

pub(super) fn pairwise(call: &mut Call<'_, '_>) -> Outputs {
    let operands = [integer(call, 0)?, integer(call, 1)?];
    let logic = match call.node.op.as_str() {
        "BitwiseAnd" => Binary::And,
        "BitwiseOr" => Binary::Or,
        _ => Binary::Xor,
    };
    Ok(vec![call.build(|b| {
        let dtype = b.dtype(operands[0]);
        let (least, most) = dtype.integer_range().or_broken("operands are integers");
        let zero = number(b, dtype, 0)?;
        let mut bits = Bits { left: operands };
        let mut sum = zero;
        if least < 0 {
            // What is left of a negative number without its sign is as far above the least one.
            let lowest = number(b, dtype, least)?;
            let mut signs = operands;
            for (left, sign) in bits.left.iter_mut().zip(&mut signs) {
                *sign = b.binary(Binary::Lt, *left, zero)?;
                let above = b.sub(*left, lowest)?;
                *left = b.select(*sign, above, *left)?;
            }
            let sign = b.binary(logic, signs[0], signs[1])?;
            sum = b.select(sign, lowest, zero)?;
        }
        let mut worth = i64::try_from(most.unsigned_abs().div_ceil(2)).or_broken("half of a number is one");
        while worth > 0 {
            let of = number(b, dtype, worth)?;
            let found = bits.next(b, of)?;
            let both = b.binary(logic, found[0], found[1])?;
            let part = b.select(both, of, zero)?;
            sum = b.add(sum, part)?;
            worth /= 2;
        }
        Ok(sum)
    })?])
}

/// To the left a product with a power of two, whose upper bits go away; to the right a quotient. Numbers are
/// unsigned.
pub(super) fn shift(call: &mut Call<'_, '_>) -> Outputs {
    let (x, by) = (integer(call, 0)?, integer(call, 1)?);
    let dtype = call.reader.b.dtype(x);
    let (least, most) = dtype.integer_range().or_broken("operands are integers");
    if least < 0 {
        return Err(call.refuse(format!("a shift of {dtype}")).allowed("unsigned integers: u8"));
    }
    let is_left = match call.word("direction", "").as_str() {
        "LEFT" => true,
        "RIGHT" => false,
        other => {
            return Err(call.refuse(format!("`direction` is `{other}`")).allowed("LEFT, RIGHT"));
        }
    };
    let width = i64::from(64 - most.leading_zeros());
    Ok(vec![call.build(|b| {
        // By as many bits as there are nothing is left; each of fewer is a case of its own.
        let zero = number(b, dtype, 0)?;
        let mut y = zero;
        for count in 0..width {
            let by_this = number(b, dtype, count)?;
            let is_this = b.binary(Binary::Eq, by, by_this)?;
            let power = number(b, dtype, 1 << count)?;
            let moved = if is_left { b.mul(x, power)? } else { b.div(x, power)? };
            y = b.select(is_this, moved, y)?;
        }
        Ok(y)
    })?])
}
