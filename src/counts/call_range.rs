//! [`CallRange`]: a test of FORMAT values as bounds of 64-bit integers, which every implementation without Rust's types can compare: the
//! kernels do. Lets the same values pass as [`CallMask`](super::CallMask).

use super::call_numbers::{Half, Number, Passing, ValueOrder, float_key};
use super::call_test::CallTest;
use super::error::CountError;
use crate::store::ElementType;

/// The values of a type that pass a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallRange {
    /// How values are compared.
    pub order: ValueOrder,
    /// The smallest that passes, in that order.
    pub low: i64,
    /// The largest that passes, in that order; below `low` if none does.
    pub high: i64,
    /// The bits of the missing value and of fill, which never pass, if the type has them.
    pub nulls: Option<[u64; 2]>,
}

impl CallRange {
    /// The range in which no value is.
    pub const NONE: Self = Self {
        order: ValueOrder::Signed,
        low: 0,
        high: -1,
        nulls: None,
    };

    /// The values of type `element`, among which VCZ's codes stand for missing values and fill, that pass `test`.
    ///
    /// # Errors
    /// [`CountError::Mismatch`] if values of that type have no such test, or are not of fixed width.
    pub fn try_new(element: ElementType, test: &CallTest) -> Result<Self, CountError> {
        let range = match element {
            ElementType::Bool => match test {
                CallTest::Present => Some(Self::of_flags(0, u8::MAX)),
                CallTest::Flag(true) => Some(Self::of_flags(1, u8::MAX)),
                CallTest::Flag(false) => Some(Self::of_flags(0, 0)),
                _ => None,
            },
            ElementType::Int8 => Self::of::<i8>(test),
            ElementType::Int16 => Self::of::<i16>(test),
            ElementType::Int32 => Self::of::<i32>(test),
            ElementType::Int64 => Self::of::<i64>(test),
            ElementType::UInt8 => Self::of::<u8>(test),
            ElementType::UInt16 => Self::of::<u16>(test),
            ElementType::UInt32 => Self::of::<u32>(test),
            ElementType::UInt64 => Self::of::<u64>(test),
            ElementType::Float16 => Self::of::<Half>(test),
            ElementType::Float32 => Self::of::<f32>(test),
            ElementType::Float64 => Self::of::<f64>(test),
            ElementType::Unicode(_)
            | ElementType::Bytes(_)
            | ElementType::Time(_)
            | ElementType::String => None,
        };
        range.ok_or_else(|| {
            CountError::Mismatch(format!("values of type {element} have no test {test:?}"))
        })
    }

    /// Flags from `low` to `high`.
    fn of_flags(low: u8, high: u8) -> Self {
        Self {
            order: ValueOrder::Unsigned,
            low: low.key(),
            high: high.key(),
            nulls: None,
        }
    }

    fn of<T: Number>(test: &CallTest) -> Option<Self> {
        let (low, high) = match test {
            CallTest::Present => (i64::MIN, i64::MAX),
            _ => match T::passing(test)? {
                Passing::Range(low, high) => (low.key(), high.key()),
                Passing::Nothing => return Some(Self::NONE),
            },
        };
        Some(Self {
            order: T::ORDER,
            low,
            high,
            nulls: T::NULLS,
        })
    }

    /// Whether a value of `width` bytes passes, given its bits as a number.
    pub fn passes(&self, bits: u64, width: usize) -> bool {
        if self.nulls.is_some_and(|nulls| nulls.contains(&bits)) {
            return false;
        }
        let used = 8 * width.clamp(1, 8) as u32;
        let key = match self.order {
            ValueOrder::Signed => (bits << (64 - used)).cast_signed() >> (64 - used),
            ValueOrder::Unsigned => (bits ^ 1 << 63).cast_signed(),
            ValueOrder::Float => float_key(bits, used),
        };
        (self.low..=self.high).contains(&key)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::call_mask::{CallMask, CallValues};
    use super::super::call_test::FloatBound;
    use super::*;

    const TYPES: [ElementType; 12] = [
        ElementType::Bool,
        ElementType::Int8,
        ElementType::Int16,
        ElementType::Int32,
        ElementType::Int64,
        ElementType::UInt8,
        ElementType::UInt16,
        ElementType::UInt32,
        ElementType::UInt64,
        ElementType::Float16,
        ElementType::Float32,
        ElementType::Float64,
    ];

    /// Bits that are often special: small numbers, codes, infinities, NaN, the ends of a type.
    fn bits() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            (-5i64..5).prop_map(i64::cast_unsigned),
            prop::sample::select(vec![
                0x7C00, 0x7C01, 0x7C02, 0x7E00, 0xFC00, 0x8000, 0x7FFF, 0x80, 0x7F
            ]),
            prop::sample::select(vec![
                0x7F80_0000,
                0x7F80_0001,
                0x7F80_0002,
                0x7FC0_0000,
                0xFF80_0000,
                0x8000_0000,
                1 << 63,
                (1 << 63) - 1,
                0x7FF0_0000_0000_0000,
                0x7FF0_0000_0000_0001,
                0x7FF0_0000_0000_0002,
                0xFFF0_0000_0000_0000,
            ]),
            (-300.0f32..300.0).prop_map(|value| value.to_bits().into()),
            (-300.0f64..300.0).prop_map(f64::to_bits),
        ]
    }

    /// A test that values of this type can have.
    fn test_of(element: ElementType, seed: (u64, u64, u8)) -> CallTest {
        let (one, other, kind) = seed;
        if kind % 8 == 0 {
            return CallTest::Present;
        }
        match element {
            ElementType::Bool => CallTest::Flag(kind & 1 == 0),
            ElementType::Float16 | ElementType::Float32 | ElementType::Float64 => {
                let bound = |bits: u64| {
                    let value = match kind % 3 {
                        0 => f64::from_bits(bits),
                        1 => f64::from(f32::from_bits(bits as u32)),
                        _ => bits as i8 as f64 / 3.0,
                    };
                    FloatBound::new(value)
                };
                let (min, max) = (bound(one), bound(other));
                match kind % 5 {
                    0 if min.is_some() => CallTest::Floats { min, max: None },
                    1 if max.is_some() => CallTest::Floats { min: None, max },
                    _ => CallTest::Floats {
                        min: min.or(max).or(FloatBound::new(1.0)),
                        max,
                    },
                }
            }
            _ => {
                let bound = |bits: u64| match kind % 3 {
                    0 => i128::from(bits.cast_signed()),
                    1 => i128::from(bits as i8),
                    _ => i128::from(bits) - 3,
                };
                CallTest::Integers {
                    min: (kind % 5 != 1).then(|| bound(one)),
                    max: (kind % 5 != 0).then(|| bound(other)),
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn the_same_values_pass_as_on_the_host(
            element in prop::sample::select(TYPES.to_vec()),
            values in prop::collection::vec(bits(), 1..40),
            seed in (bits(), bits(), any::<u8>()),
        ) {
            let test = test_of(element, seed);
            let width = element.size().unwrap();
            // Aligned as any type needs it.
            let mut bytes = vec![0u64; values.len()];
            let len = values.len() * width;
            let slice: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut bytes)[..len];
            for (to, value) in slice.chunks_exact_mut(width).zip(&values) {
                to.copy_from_slice(&value.to_le_bytes()[..width]);
            }
            let mut mask = CallMask::default();
            mask.reset(values.len()).unwrap();
            let values_of = CallValues { bytes: slice, element, per_call: 1, at: 0, coded: true };
            mask.retain_values(values_of, &test).unwrap();
            let mut kept = vec![false; values.len()];
            mask.retain(|at| { kept[at] = true; true });
            let range = CallRange::try_new(element, &test).unwrap();
            for (value, kept) in values.iter().zip(kept) {
                let low = if width == 8 { *value } else { value & ((1 << (8 * width)) - 1) };
                prop_assert_eq!(range.passes(low, width), kept, "{:x} of {}, {:?}: {:?}", low, element, test, range);
            }
        }
    }

    #[test]
    fn other_tests_are_refused() {
        let flag = CallTest::Flag(true);
        let refused = CallRange::try_new(ElementType::Int8, &flag).unwrap_err();
        assert!(refused.to_string().contains("no test"), "{refused}");
        assert!(CallRange::try_new(ElementType::String, &CallTest::Present).is_err());
        assert!(!CallRange::NONE.passes(0, 1) && !CallRange::NONE.passes(u64::MAX, 8));
    }
}
