use half::f16;

use super::super::call_test::FloatBound;
use super::*;

fn kept(bytes: &[u8], element: ElementType, coded: bool, test: &CallTest) -> Vec<bool> {
    let mut mask = CallMask::default();
    let calls = bytes.len() / element.size().unwrap();
    mask.reset(calls).unwrap();
    let values = CallValues {
        bytes,
        element,
        per_call: 1,
        at: 0,
        coded,
    };
    mask.retain_values(values, test).unwrap();
    mask.bytes.iter().map(|byte| *byte == 0xFF).collect()
}

fn integers(min: Option<i128>, max: Option<i128>) -> CallTest {
    CallTest::Integers { min, max }
}

fn floats(min: Option<f64>, max: Option<f64>) -> CallTest {
    let bound = |bound: Option<f64>| bound.map(|value| FloatBound::new(value).unwrap());
    CallTest::Floats {
        min: bound(min),
        max: bound(max),
    }
}

#[test]
fn integers_pass_within_bounds_and_codes_never_do() {
    let values: Vec<i8> = vec![-128, -3, -2, -1, 0, 5, 127];
    let bytes: &[u8] = bytemuck::cast_slice(&values);
    let mut tests = vec![CallTest::Present];
    for min in [None, Some(-1000), Some(-2), Some(0), Some(5), Some(1000)] {
        for max in [None, Some(-1000), Some(-1), Some(5), Some(126), Some(1000)] {
            if min.is_some() || max.is_some() {
                tests.push(integers(min, max));
            }
        }
    }
    for coded in [false, true] {
        for test in &tests {
            let expected: Vec<bool> = values
                .iter()
                .map(|&v| {
                    let inside = match *test {
                        CallTest::Integers { min, max } => {
                            min.is_none_or(|m| m <= v.into()) && max.is_none_or(|m| m >= v.into())
                        }
                        _ => true,
                    };
                    inside && !(coded && (v == -1 || v == -2))
                })
                .collect();
            assert_eq!(
                kept(bytes, ElementType::Int8, coded, test),
                expected,
                "{test}"
            );
        }
    }
    let bytes: &[u8] = bytemuck::cast_slice(&[0u64, 1, u64::MAX]);
    let of_u64 = |test: &CallTest| kept(bytes, ElementType::UInt64, true, test);
    assert_eq!(of_u64(&CallTest::Present), [true, true, true]);
    assert_eq!(
        of_u64(&integers(Some(-1), Some(1 << 64))),
        [true, true, true]
    );
    assert_eq!(of_u64(&integers(Some(1), None)), [false, true, true]);
    assert_eq!(of_u64(&integers(None, Some(-1))), [false, false, false]);
}

#[test]
fn floats_are_compared_as_64_bit_numbers() {
    let of_f32 = |test: &CallTest| {
        let values = [0.1f32, -0.0, f32::NAN, f32::INFINITY, f32::MAX];
        let mut bytes: Vec<u32> = values.iter().map(|v| v.to_bits()).collect();
        bytes.extend([0x7F80_0001, 0x7F80_0002]);
        kept(
            bytemuck::cast_slice(&bytes),
            ElementType::Float32,
            true,
            test,
        )
    };
    let (y, n) = (true, false);
    assert_eq!(of_f32(&CallTest::Present), [y, y, y, y, y, n, n]);
    // The 32-bit number next to 0.1 is larger.
    assert_eq!(of_f32(&floats(Some(0.1), None)), [y, n, n, y, y, n, n]);
    assert_eq!(of_f32(&floats(None, Some(0.1))), [n, y, n, n, n, n, n]);
    assert_eq!(of_f32(&floats(Some(0.0), Some(0.0))), [n, y, n, n, n, n, n]);
    assert_eq!(of_f32(&floats(Some(1e300), None)), [n, n, n, y, n, n, n]);
    let infinite = floats(Some(f64::NEG_INFINITY), Some(f64::INFINITY));
    assert_eq!(of_f32(&infinite), [y, y, n, y, y, n, n]);

    let halves: Vec<u16> = (0..=u16::MAX).collect();
    for (min, max) in [
        (Some(0.1), None),
        (None, Some(-0.1)),
        (Some(-2.0), Some(3.5)),
        (Some(0.0), Some(0.0)),
        (Some(1e9), None),
        (Some(0.1), Some(0.100001)),
    ] {
        let test = floats(min, max);
        let found = kept(
            bytemuck::cast_slice(&halves),
            ElementType::Float16,
            true,
            &test,
        );
        for (bits, found) in halves.iter().zip(found) {
            let value = f16::from_bits(*bits).to_f64();
            let expected =
                value >= min.unwrap_or(f64::NEG_INFINITY) && value <= max.unwrap_or(f64::INFINITY);
            assert_eq!(found, expected, "{test}: {value}");
        }
    }
}

#[test]
fn one_value_of_several_is_tested() {
    let values: [i16; 6] = [1, 10, 2, 20, 3, -1];
    let mut mask = CallMask::default();
    mask.reset(3).unwrap();
    let of = |at| CallValues {
        bytes: bytemuck::cast_slice(&values),
        element: ElementType::Int16,
        per_call: 2,
        at,
        coded: true,
    };
    mask.retain_values(of(0), &integers(Some(2), None)).unwrap();
    assert_eq!(mask.bytes, [0, 0xFF, 0xFF]);
    mask.retain_values(of(1), &CallTest::Present).unwrap();
    assert_eq!(mask.bytes, [0, 0xFF, 0]);
    mask.retain(|at| at != 1);
    assert_eq!(mask.bytes, [0, 0, 0]);
    for wrong in [
        of(2),
        CallValues {
            per_call: 3,
            ..of(0)
        },
    ] {
        assert!(mask.retain_values(wrong, &CallTest::Present).is_err());
    }
    assert!(mask.retain_values(of(0), &CallTest::Flag(true)).is_err());
}

#[test]
fn copies_of_failing_calls_become_missing_and_fill_stays() {
    fn check<T: Code + From<i8> + PartialEq + std::fmt::Debug>(element: ElementType) {
        for ploidy in 1..=4usize {
            // Long enough for vector instructions, and not a multiple of their length.
            let calls = 131;
            let code = |i: usize| [0i8, 1, -1, -2, 3, -3, 100][i * i % 7];
            let codes: Vec<T> = (0..calls * ploidy).map(|i| T::from(code(i))).collect();
            let passes = |call: usize| !call.is_multiple_of(3);
            let mut mask = CallMask::default();
            mask.reset(calls).unwrap();
            mask.retain(passes);
            let mut out = vec![];
            mask.apply(bytemuck::cast_slice(&codes), element, ploidy, &mut out)
                .unwrap();
            let out: &[T] = &bytemuck::cast_slice(&out)[..codes.len()];
            for (i, found) in out.iter().enumerate() {
                let expected = match code(i) {
                    -2 => -2,
                    _ if !passes(i / ploidy) => -1,
                    code => code,
                };
                assert_eq!(
                    *found,
                    T::from(expected),
                    "{element}, ploidy {ploidy}, copy {i}"
                );
            }
        }
    }
    check::<i8>(ElementType::Int8);
    check::<i16>(ElementType::Int16);
    check::<i32>(ElementType::Int32);
    check::<i64>(ElementType::Int64);
    let mut mask = CallMask::default();
    mask.reset(2).unwrap();
    for (codes, element) in [(3, ElementType::Int8), (4, ElementType::UInt8)] {
        assert!(
            mask.apply(&vec![0; codes], element, 2, &mut vec![])
                .is_err()
        );
    }
}

#[test]
fn tests_read_as_arguments() {
    assert_eq!(integers(Some(20), None).to_string(), "20, NULL");
    assert_eq!(floats(None, Some(0.5)).to_string(), "NULL, 0.5");
    assert_eq!(CallTest::Text("it's".into()).to_string(), "'it''s'");
    assert_eq!(CallTest::Flag(true).to_string(), "true");
    assert_eq!(CallTest::Present.to_string(), "NULL, NULL");
    assert_eq!(FloatBound::new(-0.0), FloatBound::new(0.0));
    assert_eq!(FloatBound::new(f64::NAN), None);
}
