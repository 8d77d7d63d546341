use std::collections::HashMap;
use std::sync::Arc;

use super::*;

fn test_of(data_type: &DataType, bounds: &[ScalarValue]) -> Result<CallTest> {
    call_test("call_X", data_type, &bounds.iter().collect::<Vec<_>>())
}

fn int(value: i64) -> ScalarValue {
    ScalarValue::Int64(Some(value))
}

#[test]
fn bounds_are_of_the_values_kind() {
    let range = |min, max| CallTest::Integers { min, max };
    let null = ScalarValue::Null;
    let i8 = DataType::Int8;
    assert_eq!(test_of(&i8, &[]).unwrap(), CallTest::Present);
    assert_eq!(
        test_of(&i8, &[null.clone(), ScalarValue::Int32(None)]).unwrap(),
        CallTest::Present
    );
    assert_eq!(test_of(&i8, &[int(20)]).unwrap(), range(Some(20), None));
    assert_eq!(
        test_of(&i8, &[null.clone(), int(300)]).unwrap(),
        range(None, Some(300))
    );
    // Bounds that are not integers.
    let halves = [19.5, 30.5].map(|bound| ScalarValue::Float64(Some(bound)));
    assert_eq!(test_of(&i8, &halves).unwrap(), range(Some(20), Some(30)));
    let decimal = ScalarValue::Decimal128(Some(-195), 3, 1);
    assert_eq!(test_of(&i8, &[decimal]).unwrap(), range(Some(-19), None));
    let largest = ScalarValue::UInt64(Some(u64::MAX));
    assert_eq!(
        test_of(&DataType::UInt64, &[largest]).unwrap(),
        range(Some(u64::MAX.into()), None)
    );
    let infinite = ScalarValue::Float64(Some(f64::INFINITY));
    assert_eq!(
        test_of(&i8, &[infinite]).unwrap(),
        range(Some(i128::MAX), None)
    );
    let real = |value| Some(FloatBound::new(value).unwrap());
    assert_eq!(
        test_of(&DataType::Float32, &[int(20), halves[1].clone()]).unwrap(),
        CallTest::Floats {
            min: real(20.0),
            max: real(30.5)
        }
    );
    assert_eq!(
        test_of(&DataType::Utf8View, &["PASS".into(), null]).unwrap(),
        CallTest::Text("PASS".to_string())
    );
    assert_eq!(
        test_of(&DataType::Boolean, &[true.into()]).unwrap(),
        CallTest::Flag(true)
    );
}

#[test]
fn other_bounds_are_refused() {
    for (data_type, bounds, expected) in [
        (DataType::Int8, vec!["20".into()], "compared with numbers"),
        (DataType::Int8, vec![true.into()], "compared with numbers"),
        (DataType::Utf8View, vec![int(1)], "compared with a string"),
        (
            DataType::Boolean,
            vec![int(1)],
            "compared with true or false",
        ),
        (
            DataType::Utf8View,
            vec!["a".into(), "b".into()],
            "found a second, b",
        ),
        (
            DataType::Boolean,
            vec![ScalarValue::Null, true.into()],
            "one flag",
        ),
        (
            DataType::Int8,
            vec![int(30), int(20)],
            "at least 30 and at most 20",
        ),
        (
            DataType::Float64,
            vec![ScalarValue::Float64(Some(f64::NAN))],
            "found NaN",
        ),
        (
            DataType::Int8,
            vec![ScalarValue::Float64(Some(f64::NAN))],
            "found NaN",
        ),
    ] {
        let error = test_of(&data_type, &bounds).unwrap_err().to_string();
        assert!(
            error.contains(expected) && error.contains("'call_X'"),
            "{error}"
        );
    }
}

#[test]
fn fields_must_be_of_the_same_calls() {
    let list = |item: DataType, size| {
        DataType::FixedSizeList(Arc::new(Field::new_list_field(item, true)), size)
    };
    let marked = |field: Field, keys: &[(&str, &str)]| {
        let keys = keys
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()));
        field.with_metadata(keys.collect::<HashMap<_, _>>())
    };
    let here = [(STORE_KEY, "a.vcz"), (SAMPLES_KEY, "3:x")];
    let genotypes = |keys: &[(&str, &str)]| {
        let data_type = list(list(DataType::Int8, 2), 3);
        marked(Field::new("call_genotype", data_type, false), keys)
    };
    let field = |samples, keys: &[(&str, &str)]| {
        marked(
            Field::new("call_GQ", list(DataType::Int8, samples), true),
            keys,
        )
    };
    assert!(check_field(&genotypes(&here), &field(3, &here)).is_ok());
    assert!(check_field(&genotypes(&[]), &field(3, &[])).is_ok());
    // A UNION drops the store of its columns and keeps the samples.
    let united = [(SAMPLES_KEY, "3:x")];
    assert!(check_field(&genotypes(&united), &field(3, &united)).is_ok());
    let deferred = [(SAMPLES_KEY, SAMPLES_DEFERRED)];
    assert!(check_field(&genotypes(&deferred), &field(4, &here)).is_ok());
    let refused = |genotypes: Field, field: Field, expected: &str| {
        let error = check_field(&genotypes, &field).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(genotypes(&here), field(4, &here), "values of 4 samples");
    refused(genotypes(&here), field(3, &[]), "are unknown");
    let other_store = [(STORE_KEY, "b.vcz"), (SAMPLES_KEY, "3:x")];
    refused(
        genotypes(&here),
        field(3, &other_store),
        "is of store 'b.vcz'",
    );
    let other_samples = [(STORE_KEY, "a.vcz"), (SAMPLES_KEY, "3:y")];
    refused(genotypes(&here), field(3, &other_samples), "own store");
    let several = Field::new("call_AD", list(list(DataType::Int16, 4), 3), true);
    refused(genotypes(&here), several, "call_value(call_AD, 1)");
    let site = Field::new("variant_DP", DataType::Int32, true);
    refused(
        genotypes(&here),
        site.clone(),
        "found 'variant_DP' of type Int32",
    );
    refused(site, field(3, &here), "must be genotypes");
}
