//! Tests of all scalar functions: slices, constants and columns give the same values, every layout is read, and each function
//! is documented and immutable.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::{DataType, Field};
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility};

use super::testing::{
    Value, call_udf, counts, diploids, fixed_counts, floats, ints, lists, null, strings, views,
};
use super::{all, bound_accessible_bases, bound_is_accessible};
use crate::functions::mask::Mask;

const ROWS: usize = 6;

fn first_counts() -> Value {
    counts(&[
        Some(&[3, 1]),
        Some(&[2, 2, 1]),
        None,
        Some(&[0, 4]),
        Some(&[]),
        Some(&[5, 1]),
    ])
}

fn second_counts() -> Value {
    counts(&[
        Some(&[1, 1]),
        Some(&[4]),
        Some(&[1]),
        Some(&[2, 2]),
        Some(&[1, 0, 3]),
        None,
    ])
}

fn some_diploids() -> Value {
    diploids(&[
        Some([&[3, 1], &[1, 1]]),
        Some([&[2, 2, 0], &[0, 0, 0]]),
        None,
        Some([&[0, 4], &[0, 0]]),
        Some([&[0, 0], &[0, 0]]),
        Some([&[5, 1], &[1, 1]]),
    ])
}

fn some_alleles() -> Value {
    lists(&[
        Some(&[Some("A"), Some("C")]),
        Some(&[Some("A"), Some("*"), Some("T")]),
        Some(&[Some("PASS")]),
        None,
        Some(&[]),
        Some(&[Some("G"), Some("GT")]),
    ])
}

fn some_strings() -> Value {
    strings(&[Some("C"), Some("T"), Some("1"), None, Some("A"), Some("1")])
}

fn some_weights() -> Value {
    strings(&[
        Some("pi"),
        Some("h"),
        Some("l"),
        None,
        Some("singletons"),
        Some("no_singletons"),
    ])
}

fn positions(from: i64) -> Value {
    ints(&[
        Some(from),
        Some(from + 7),
        None,
        Some(from + 70),
        Some(from + 23),
        Some(from + 24),
    ])
}

/// Valid arguments of every function.
fn arguments(name: &str) -> Vec<Value> {
    let sizes = || ints(&[Some(10); ROWS]);
    match name {
        "add_counts" | "site_divergence" | "site_fst_hudson" | "site_differences"
        | "site_comparisons" | "site_f2" => {
            vec![first_counts(), second_counts()]
        }
        "site_f3" | "site_f3_normalized" => vec![first_counts(), second_counts(), first_counts()],
        "site_f4" | "site_patterson_d" => {
            vec![
                first_counts(),
                second_counts(),
                second_counts(),
                first_counts(),
            ]
        }
        "expected_heterozygosity" | "observed_heterozygosity" => vec![some_diploids()],
        "hwe_exact" | "hwe_exact_midp" => vec![some_diploids(), ints(&[Some(1); ROWS])],
        "site_fst_weir_cockerham" => vec![some_diploids(), some_diploids()],
        "polarize" => vec![first_counts(), some_alleles(), some_strings()],
        "is_snp" | "is_biallelic" | "is_pass" => vec![some_alleles()],
        "is_complete" => vec![first_counts(), sizes()],
        "genome_bin" | "site_bin" => vec![positions(3), sizes()],
        "kinship_king" => vec![positions(3), positions(2), positions(5), positions(4)],
        "genome_bins" => vec![positions(3), sizes(), ints(&[Some(4); ROWS])],
        "interval_bins" => vec![positions(3), positions(50), sizes()],
        "is_accessible" => vec![
            some_strings(),
            positions(3),
            strings(&[Some("m.bed"); ROWS]),
        ],
        "accessible_bases" => {
            vec![
                some_strings(),
                positions(3),
                positions(50),
                strings(&[Some("m.bed"); ROWS]),
            ]
        }
        "spectrum_theta" => vec![first_counts(), some_weights()],
        "spectrum_test" => vec![first_counts(), some_weights(), strings(&[Some("w"); ROWS])],
        "bar" => vec![
            floats(&[Some(1.0), Some(2.5), None, Some(-1.0), Some(9.0), Some(0.5)]),
            floats(&[Some(0.0); ROWS]),
            floats(&[Some(8.0), Some(4.0), Some(1.0), Some(1.0), Some(3.0), None]),
            floats(&[Some(5.0); ROWS]),
        ],
        _ => vec![first_counts()],
    }
}

/// Every function in a form that runs.
fn runnable() -> Vec<ScalarUDF> {
    let mask = Arc::new(Mask::from_rows("m.bed", [("1", 20, 30), ("A", 0, 60)]).unwrap());
    all()
        .into_iter()
        .map(|udf| match udf.name() {
            "is_accessible" => bound_is_accessible(Arc::clone(&mask)),
            "accessible_bases" => bound_accessible_bases(Arc::clone(&mask)),
            _ => udf,
        })
        .collect()
}

#[test]
fn slices_and_constants_agree_with_columns() {
    for udf in runnable() {
        let args = arguments(udf.name());
        let whole = call_udf(&udf, &args).unwrap();
        for from in 0..ROWS {
            for count in 0..=ROWS - from {
                let sliced: Vec<Value> = args.iter().map(|arg| arg.slice(from, count)).collect();
                let found = call_udf(&udf, &sliced).unwrap();
                assert_eq!(
                    found,
                    whole.slice(from, count),
                    "{} from {from}, {count} rows",
                    udf.name()
                );
            }
        }
        for row in 0..ROWS {
            let constants: Vec<Value> = args.iter().map(|arg| arg.row(row)).collect();
            let found = call_udf(&udf, &constants).unwrap();
            assert_eq!(
                found,
                whole.row(row),
                "{} of constants, row {row}",
                udf.name()
            );
            // All but the first argument constant, then only the first.
            for columns in [0..1, 1..args.len()] {
                let mixed: Vec<Value> = (0..args.len())
                    .map(|at| {
                        if columns.contains(&at) {
                            args[at].clone()
                        } else {
                            args[at].row(row)
                        }
                    })
                    .collect();
                // Arguments of different rows may not fit each other, which is an error.
                if let Ok(found) = call_udf(&udf, &mixed) {
                    let expected = whole.row(row);
                    let expected = match &found.0 {
                        ColumnarValue::Array(_) => (found.row(row), expected),
                        ColumnarValue::Scalar(_) => (found, expected),
                    };
                    assert_eq!(expected.0, expected.1, "{} of a mix, row {row}", udf.name());
                }
            }
        }
    }
}

#[test]
fn a_null_argument_gives_null() {
    for udf in runnable() {
        let args = arguments(udf.name());
        for at in 0..args.len() {
            if matches!(udf.name(), "is_accessible" | "accessible_bases") && at + 1 == args.len() {
                continue; // The mask is bound, so its argument is ignored.
            }
            let mut args = args.clone();
            args[at] = null();
            let found = call_udf(&udf, &args).unwrap().0.to_array(1).unwrap();
            assert_eq!(
                found.null_count(),
                found.len(),
                "{} with NULL as argument {}",
                udf.name(),
                at + 1
            );
        }
    }
}

#[test]
fn every_layout_is_read() {
    let cast = |value: &Value, to: &DataType| Value(value.0.cast_to(to, None).unwrap());
    let list = |item: DataType| DataType::new_list(item, true);
    let large = |item: DataType| DataType::LargeList(Arc::new(Field::new_list_field(item, true)));
    for udf in runnable() {
        let args = arguments(udf.name());
        let expected = call_udf(&udf, &args).unwrap();
        for (at, arg) in args.iter().enumerate() {
            let others = match arg.data_type() {
                DataType::Int64 => vec![
                    DataType::Int8,
                    DataType::Int32,
                    DataType::UInt16,
                    DataType::UInt64,
                ],
                // Coerced before the function is called.
                DataType::Float64 => vec![],
                DataType::Utf8 => vec![DataType::Utf8View, DataType::LargeUtf8],
                DataType::List(item) if item.data_type().is_integer() => {
                    vec![
                        list(DataType::Int64),
                        list(DataType::UInt8),
                        large(DataType::Int32),
                    ]
                }
                DataType::Struct(fields) => {
                    let of = |item: DataType| {
                        let fields = fields
                            .iter()
                            .map(|field| field.as_ref().clone().with_data_type(list(item.clone())));
                        DataType::Struct(fields.collect())
                    };
                    vec![of(DataType::Int64), of(DataType::UInt8)]
                }
                _ => vec![
                    list(DataType::Utf8View),
                    list(DataType::LargeUtf8),
                    large(DataType::Utf8),
                ],
            };
            for other in others {
                let mut args = args.clone();
                args[at] = cast(arg, &other);
                assert_eq!(
                    call_udf(&udf, &args).unwrap(),
                    expected,
                    "{} of {other}",
                    udf.name()
                );
            }
        }
    }
    let fixed = fixed_counts(2, &[Some(&[3, 1]), None]);
    let udf = runnable()
        .into_iter()
        .find(|udf| udf.name() == "derived_count")
        .unwrap();
    assert_eq!(call_udf(&udf, &[fixed.slice(1, 1)]).unwrap(), ints(&[None]));
    let udf = runnable()
        .into_iter()
        .find(|udf| udf.name() == "is_accessible")
        .unwrap();
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let args = arguments("is_accessible");
    let encoded = vec![
        cast(&views(&[Some("1"); ROWS]), &dictionary),
        args[1].clone(),
        args[2].clone(),
    ];
    let plain = vec![
        strings(&[Some("1"); ROWS]),
        args[1].clone(),
        args[2].clone(),
    ];
    assert_eq!(
        call_udf(&udf, &encoded).unwrap(),
        call_udf(&udf, &plain).unwrap()
    );
}

#[test]
fn every_function_is_documented_and_immutable() {
    let mut names: Vec<String> = Vec::new();
    for udf in all() {
        let documentation = udf.documentation().unwrap();
        assert!(
            documentation
                .syntax_example
                .starts_with(&format!("{}(", udf.name())),
            "{}",
            udf.name()
        );
        assert!(
            documentation
                .sql_example
                .as_ref()
                .is_some_and(|sql| sql.contains(udf.name())),
            "{}",
            udf.name()
        );
        assert!(
            documentation
                .arguments
                .as_ref()
                .is_some_and(|arguments| !arguments.is_empty())
        );
        assert_eq!(udf.signature().volatility, Volatility::Immutable);
        names.push(udf.name().to_string());
    }
    let mut unique = names.clone();
    unique.dedup();
    assert_eq!(names, unique);
    assert!(names.is_sorted());
}
