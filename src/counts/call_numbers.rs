//! The types of FORMAT values, as filters of calls compare them: exactly, whatever the bounds' type, and without branches.

use half::f16;

use super::call_test::{CallTest, FloatBound};
use super::gathered::FILL_CODE;

/// How the bits of a value become an integer that is ordered as the values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueOrder {
    /// A signed integer: its value.
    Signed,
    /// An unsigned integer: its value minus 2^63.
    Unsigned,
    /// A floating-point number: its bits without the sign, negative where the sign is set. NaN is beyond the infinities.
    Float,
}

/// The values of a type that pass a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passing<T> {
    /// Those from the first to the second.
    Range(T, T),
    /// None.
    Nothing,
}

/// A type of FORMAT values.
pub(super) trait Number: bytemuck::Pod {
    /// How its bits become [`Number::key`].
    const ORDER: ValueOrder;
    /// The bits of VCZ's codes of missing and fill, if it has them.
    const NULLS: Option<[u64; 2]>;
    /// An integer that is ordered as the values are, as [`ValueOrder`] says.
    fn key(self) -> i64;
    /// The values that pass `test`; `None` if it is no test of this type.
    fn passing(test: &CallTest) -> Option<Passing<Self>>;
    /// Whether `low <= self <= high`; never of NaN.
    fn is_in(self, low: Self, high: Self) -> bool;
    /// Whether it is VCZ's code of missing or fill.
    fn is_null(self) -> bool;
    /// Whether a code of missing or fill is in the range.
    fn has_nulls(low: Self, high: Self) -> bool;
}

macro_rules! integers {
    ($($native:ty: $null:expr),*) => {$(impl Number for $native {
        const ORDER: ValueOrder = match <$native>::MIN {
            0 => ValueOrder::Unsigned,
            _ => ValueOrder::Signed,
        };
        const NULLS: Option<[u64; 2]> = match <$native>::MIN {
            0 => None,
            // Minus one and minus two.
            _ => Some([
                u64::MAX >> (64 - <$native>::BITS),
                u64::MAX >> (64 - <$native>::BITS) & !1,
            ]),
        };
        fn key(self) -> i64 {
            match Self::ORDER {
                ValueOrder::Unsigned => (self as u64 ^ 1 << 63).cast_signed(),
                _ => self as i64,
            }
        }
        fn passing(test: &CallTest) -> Option<Passing<Self>> {
            let CallTest::Integers { min, max } = test else {
                return None;
            };
            let low = min.map_or(<$native>::MIN.into(), |min| min.max(<$native>::MIN.into()));
            let high = max.map_or(<$native>::MAX.into(), |max| max.min(<$native>::MAX.into()));
            Some(match (<$native>::try_from(low), <$native>::try_from(high)) {
                (Ok(low), Ok(high)) if low <= high => Passing::Range(low, high),
                _ => Passing::Nothing,
            })
        }
        #[inline(always)]
        fn is_in(self, low: Self, high: Self) -> bool {
            (low <= self) & (self <= high)
        }
        #[inline(always)]
        fn is_null(self) -> bool {
            let is_null: fn($native) -> bool = $null;
            is_null(self)
        }
        fn has_nulls(low: Self, high: Self) -> bool {
            <$native>::MIN != 0 && i128::from(low) <= -1 && i128::from(high) >= FILL_CODE.into()
        }
    })*};
}
integers!(
    i8: |v| (v == -1) | (v == -2), i16: |v| (v == -1) | (v == -2), i32: |v| (v == -1) | (v == -2),
    i64: |v| (v == -1) | (v == -2), u8: |_| false, u16: |_| false, u32: |_| false, u64: |_| false
);

/// The bounds of `test`, as 64-bit numbers.
fn float_bounds(test: &CallTest) -> Option<(f64, f64)> {
    match test {
        CallTest::Floats { min, max } => Some((
            min.map_or(f64::NEG_INFINITY, FloatBound::value),
            max.map_or(f64::INFINITY, FloatBound::value),
        )),
        _ => None,
    }
}

/// The key of a floating-point number with these bits, whose sign is the last of `width` bits.
pub(super) fn float_key(bits: u64, width: u32) -> i64 {
    let sign = 1 << (width - 1);
    let magnitude = (bits & !sign).cast_signed();
    if bits & sign == 0 {
        magnitude
    } else {
        -magnitude
    }
}

impl Number for f64 {
    const ORDER: ValueOrder = ValueOrder::Float;
    const NULLS: Option<[u64; 2]> = Some([0x7FF0_0000_0000_0001, 0x7FF0_0000_0000_0002]);
    fn key(self) -> i64 {
        float_key(self.to_bits(), u64::BITS)
    }
    fn passing(test: &CallTest) -> Option<Passing<Self>> {
        float_bounds(test).map(|(low, high)| Passing::Range(low, high))
    }
    #[inline(always)]
    fn is_in(self, low: Self, high: Self) -> bool {
        (low <= self) & (self <= high)
    }
    #[inline(always)]
    fn is_null(self) -> bool {
        let bits = self.to_bits();
        (bits == 0x7FF0_0000_0000_0001) | (bits == 0x7FF0_0000_0000_0002)
    }
    fn has_nulls(_: Self, _: Self) -> bool {
        false // the codes are NaN
    }
}

impl Number for f32 {
    const ORDER: ValueOrder = ValueOrder::Float;
    const NULLS: Option<[u64; 2]> = Some([0x7F80_0001, 0x7F80_0002]);
    fn key(self) -> i64 {
        float_key(self.to_bits().into(), u32::BITS)
    }
    fn passing(test: &CallTest) -> Option<Passing<Self>> {
        // The narrowest bounds between which the same values lie.
        float_bounds(test).map(|(low, high)| {
            let (near_low, near_high) = (low as f32, high as f32);
            let low = match f64::from(near_low) < low {
                true => near_low.next_up(),
                false => near_low,
            };
            let high = match f64::from(near_high) > high {
                true => near_high.next_down(),
                false => near_high,
            };
            Passing::Range(low, high)
        })
    }
    #[inline(always)]
    fn is_in(self, low: Self, high: Self) -> bool {
        (low <= self) & (self <= high)
    }
    #[inline(always)]
    fn is_null(self) -> bool {
        let bits = self.to_bits();
        (bits == 0x7F80_0001) | (bits == 0x7F80_0002)
    }
    fn has_nulls(_: Self, _: Self) -> bool {
        false // the codes are NaN
    }
}

/// The bits of a 16-bit floating-point number.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Half(u16);

// SAFETY: a transparent wrapper of `u16`, which is zeroable.
unsafe impl bytemuck::Zeroable for Half {}
// SAFETY: a transparent wrapper of `u16`, which is plain data.
unsafe impl bytemuck::Pod for Half {}

impl Half {
    fn value(self) -> f64 {
        f16::from_bits(self.0).to_f64()
    }
    /// The bits as a number that is ordered as the values are, both zeros alike.
    #[inline(always)]
    fn order(self) -> i16 {
        let magnitude = (self.0 & 0x7FFF) as i16;
        if self.0 & 0x8000 == 0 {
            magnitude
        } else {
            -magnitude
        }
    }
    fn of_order(key: i16) -> Self {
        Self(key.unsigned_abs() | if key < 0 { 0x8000 } else { 0 })
    }
}

/// The key of infinity.
const HALF_INFINITY: i16 = 0x7C00;

impl Number for Half {
    const ORDER: ValueOrder = ValueOrder::Float;
    const NULLS: Option<[u64; 2]> = Some([0x7C01, 0x7C02]);
    fn key(self) -> i64 {
        float_key(self.0.into(), u16::BITS)
    }
    fn passing(test: &CallTest) -> Option<Passing<Self>> {
        float_bounds(test).map(|(low, high)| {
            // Keys ascend with values, so the bounds are found by bisection.
            let first = |is_past: &dyn Fn(f64) -> bool| {
                let (mut from, mut to) = (-HALF_INFINITY, HALF_INFINITY + 1);
                while from < to {
                    let middle = (i32::from(from) + i32::from(to)).div_euclid(2) as i16;
                    if is_past(Self::of_order(middle).value()) {
                        to = middle;
                    } else {
                        from = middle + 1;
                    }
                }
                from
            };
            let (from, to) = (first(&|v| v >= low), first(&|v| v > high));
            match from < to {
                true => Passing::Range(Self::of_order(from), Self::of_order(to - 1)),
                false => Passing::Nothing,
            }
        })
    }
    #[inline(always)]
    fn is_in(self, low: Self, high: Self) -> bool {
        // NaN has keys beyond those of the infinities.
        (low.order() <= self.order()) & (self.order() <= high.order())
    }
    #[inline(always)]
    fn is_null(self) -> bool {
        (self.0 == 0x7C01) | (self.0 == 0x7C02)
    }
    fn has_nulls(_: Self, _: Self) -> bool {
        false // the codes are NaN
    }
}
