//! Laws that the aggregates obey, on random sites; above all that the way of computing does not show.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue};
use proptest::collection::vec;
use proptest::prelude::*;

use super::harness::{
    Call, Counts, DEFERRED, Deal, assert_all_ways_agree, assert_close, counts, counts_field,
    floats, integers, sites, udaf,
};

/// Copies of each population in these tests.
const N: i32 = 6;

/// Counts of up to three alleles, n from 0 to N, half of them complete; now and then NULL, or fewer alleles.
fn site() -> impl Strategy<Value = Counts> {
    let some = (0..=N, 0..=N, 0..=N, 0..=2 * N).prop_map(|(a, b, c, called)| {
        let called = called.min(N);
        let first = a.min(called);
        let second = b.min(called - first);
        let third = c.min(called - first - second);
        match called - first - second - third {
            0 => vec![first, second, third],
            rest => vec![first + rest, second, third],
        }
    });
    prop_oneof![
        8 => some.clone().prop_map(Some),
        1 => some.prop_map(|counts| Some(vec![counts[0], counts[1]])),
        1 => Just(None),
    ]
}

fn population(rows: usize) -> impl Strategy<Value = Vec<Counts>> {
    vec(site(), rows)
}

fn deal(rows: usize) -> impl Strategy<Value = Deal> {
    let filter = prop_oneof![4 => Just(Some(true)), 1 => Just(Some(false)), 1 => Just(None)];
    // Groups in runs, as windows give them, and mixed.
    let runs = vec(0..4usize, rows).prop_map(|mut groups| {
        groups.sort_unstable();
        groups
    });
    (
        prop_oneof![runs, vec(0..4usize, rows)],
        vec(filter, rows),
        0..=rows,
    )
        .prop_map(|(groups, filter, cut)| Deal {
            groups,
            filter,
            cut,
        })
}

type Case = (Vec<Counts>, Vec<Counts>, Deal);

fn case() -> impl Strategy<Value = Case> {
    (0..40usize).prop_flat_map(|rows| (population(rows), population(rows), deal(rows)))
}

/// Name, counts arguments and constants of every aggregate over counts.
const CALLS: [(&str, usize, &[i64]); 27] = [
    ("sfs", 1, &[]),
    ("sfs_folded", 1, &[]),
    ("project_sfs", 1, &[4]),
    ("project_sfs_folded", 1, &[3]),
    ("joint_sfs", 2, &[]),
    ("joint_sfs_folded", 2, &[]),
    ("project_joint_sfs", 2, &[2, 3]),
    ("project_joint_sfs_folded", 2, &[2, 4]),
    ("diversity", 1, &[]),
    ("divergence", 2, &[]),
    ("theta_w", 1, &[]),
    ("segregating_sites", 1, &[]),
    ("tajimas_d", 1, &[]),
    ("tajimas_d", 1, &[6]),
    ("fst_hudson", 2, &[]),
    ("theta_h", 1, &[]),
    ("theta_l", 1, &[]),
    ("fay_wu_h", 1, &[]),
    ("fay_wu_h_norm", 1, &[]),
    ("zeng_e", 1, &[]),
    ("fu_li_d", 1, &[]),
    ("fu_li_f", 1, &[]),
    ("fu_li_f", 1, &[6]),
    ("fu_li_d_star", 1, &[]),
    ("fu_li_f_star", 1, &[]),
    ("singletons", 1, &[]),
    ("singletons_folded", 1, &[]),
];

fn call(name: &str, arguments: usize, constants: &[i64]) -> Call {
    Call::new(name, &vec![Some(N as u64); arguments], constants).unwrap()
}

fn value(name: &str, columns: &[ArrayRef], constants: &[i64]) -> ScalarValue {
    call(name, columns.len(), constants).value(columns).unwrap()
}

/// The first allele swapped with the second, of sites with two alleles.
fn swapped(rows: &[Counts]) -> Vec<Counts> {
    rows.iter()
        .map(|row| row.as_ref().map(|row| vec![row[1], row[0]]))
        .collect()
}

fn biallelic(rows: &[Counts]) -> Vec<Counts> {
    rows.iter()
        .map(|row| row.as_ref().map(|row| row[..2].to_vec()))
        .collect()
}

fn called(row: &Counts) -> Option<i32> {
    row.as_ref().map(|row| row.iter().sum())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn all_ways_agree((first, second, deal) in case()) {
        for (name, arguments, constants) in CALLS {
            let columns = [counts(&first), counts(&second)];
            let call = call(name, arguments, constants);
            assert_all_ways_agree(&call, &columns[..arguments], &deal);
        }
    }

    #[test]
    fn exact_sums_agree(
        (numbers, deal) in (0..40usize).prop_flat_map(|rows| {
            let number = prop_oneof![4 => any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Some), 1 => Just(None)];
            (vec(number, rows), deal(rows))
        })
    ) {
        let call = Call::on("exact_sum", vec![Field::new("x", DataType::Float64, true)], &[]).unwrap();
        let column: ArrayRef = Arc::new(Float64Array::from(numbers));
        assert_all_ways_agree(&call, &[column], &deal);
    }

    #[test]
    fn spectra_hold_the_complete_sites((first, second, _) in case()) {
        let complete = |row: &&Counts| called(row) == Some(N);
        let expected = first.iter().filter(complete).count() as i64;
        let column = counts(&first);
        for name in ["sfs", "sfs_folded"] {
            let found = integers(&value(name, &[Arc::clone(&column)], &[]));
            prop_assert_eq!(found.iter().sum::<i64>(), expected);
        }
        // The margins of the joint spectrum are the spectra of the sites complete in both.
        let both: Vec<(Counts, Counts)> = first
            .into_iter()
            .zip(second)
            .filter(|(one, other)| complete(&one) && complete(&other))
            .collect();
        let (first, second): (Vec<_>, Vec<_>) = both.into_iter().unzip();
        let columns = [counts(&first), counts(&second)];
        let joint = integers(&value("joint_sfs", &columns, &[]));
        let width = N as usize + 1;
        let rows: Vec<i64> = joint.chunks(width).map(|row| row.iter().sum()).collect();
        let across: Vec<i64> =
            (0..width).map(|j| joint.iter().skip(j).step_by(width).sum()).collect();
        prop_assert_eq!(rows, integers(&value("sfs", &columns[..1], &[])));
        prop_assert_eq!(across, integers(&value("sfs", &columns[1..], &[])));
    }

    #[test]
    fn projecting_to_all_copies_changes_nothing((first, second, _) in case()) {
        let columns = [counts(&first), counts(&second)];
        let n = i64::from(N);
        for (name, projected) in [("sfs", "project_sfs"), ("sfs_folded", "project_sfs_folded")] {
            let plain = integers(&value(name, &columns[..1], &[]));
            let projected = floats(&value(projected, &columns[..1], &[n]));
            prop_assert_eq!(plain.iter().map(|&x| x as f64).collect::<Vec<_>>(), projected);
        }
        let plain = integers(&value("joint_sfs", &columns, &[]));
        let projected = floats(&value("project_joint_sfs", &columns, &[n, n]));
        prop_assert_eq!(plain.iter().map(|&x| x as f64).collect::<Vec<_>>(), projected);
        let plain = floats(&value("joint_sfs_folded", &columns, &[]));
        let projected = floats(&value("project_joint_sfs_folded", &columns, &[n, n]));
        prop_assert_eq!(plain, projected);
    }

    #[test]
    fn projections_conserve_sites((first, second, _) in case(), m1 in 1..=N, m2 in 1..=N) {
        let enough = |row: &Counts, m: i32| called(row).is_some_and(|n| n >= m);
        let expected = first.iter().filter(|row| enough(row, m1)).count() as f64;
        let columns = [counts(&first), counts(&second)];
        let (m1, m2) = (i64::from(m1), i64::from(m2));
        for name in ["project_sfs", "project_sfs_folded"] {
            let total: f64 = floats(&value(name, &columns[..1], &[m1])).iter().sum();
            prop_assert!((total - expected).abs() < 1e-12 * (1.0 + expected));
        }
        let both = first.iter().zip(&second);
        let expected =
            both.filter(|(a, b)| enough(a, m1 as i32) && enough(b, m2 as i32)).count() as f64;
        for name in ["project_joint_sfs", "project_joint_sfs_folded"] {
            let total: f64 = floats(&value(name, &columns, &[m1, m2])).iter().sum();
            prop_assert!((total - expected).abs() < 1e-12 * (1.0 + expected));
        }
    }

    #[test]
    fn folding_forgets_which_allele_is_first((first, second, _) in case()) {
        let (first, second) = (biallelic(&first), biallelic(&second));
        let plain = [counts(&first), counts(&second)];
        let other = [counts(&swapped(&first)), counts(&swapped(&second))];
        prop_assert_eq!(
            value("sfs_folded", &plain[..1], &[]),
            value("sfs_folded", &other[..1], &[])
        );
        prop_assert_eq!(
            value("joint_sfs_folded", &plain, &[]),
            value("joint_sfs_folded", &other, &[])
        );
        let close = |name: &str, arguments: usize, constants: &[i64]| {
            let one = floats(&value(name, &plain[..arguments], constants));
            let two = floats(&value(name, &other[..arguments], constants));
            assert_close(&one, &two, 1e-12);
        };
        close("project_sfs_folded", 1, &[4]);
        close("project_joint_sfs_folded", 2, &[3, 4]);
        // And so do the statistics that treat alleles alike.
        for (name, arguments) in [
            ("diversity", 1), ("theta_w", 1), ("divergence", 2), ("fst_hudson", 2),
            ("singletons_folded", 1), ("fu_li_d_star", 1), ("fu_li_f_star", 1),
        ] {
            let (plain, other) = (&plain[..arguments], &other[..arguments]);
            prop_assert_eq!(value(name, plain, &[]), value(name, other, &[]));
        }
    }
}

#[test]
fn no_rows() {
    for (name, arguments, constants) in CALLS {
        let call = call(name, arguments, constants);
        let nothing = vec![counts(&[]); arguments];
        let nulls = vec![counts(&[None, None]); arguments];
        let (empty, default) = (call.value(&nothing).unwrap(), call.default_value());
        assert_eq!(call.value(&nulls).unwrap(), empty);
        match name {
            "tajimas_d" | "fst_hudson" | "fay_wu_h_norm" | "zeng_e" | "fu_li_d" | "fu_li_f"
            | "fu_li_d_star" | "fu_li_f_star" => assert!(empty.is_null() && default.is_null()),
            "segregating_sites" | "singletons" | "singletons_folded" => {
                assert_eq!((&empty, &default), (&0i64.into(), &0i64.into()));
            }
            "diversity" | "divergence" | "theta_w" | "theta_h" | "theta_l" | "fay_wu_h" => {
                assert_eq!((&empty, &default), (&0f64.into(), &0f64.into()));
            }
            _ => {
                assert!(default.is_null() && !empty.is_null());
                let zeros = if empty.data_type().to_string().contains("Float64") {
                    floats(&empty).iter().all(|&x| x == 0.0)
                } else {
                    integers(&empty).iter().all(|&x| x == 0)
                };
                assert!(zeros, "{name}: {empty:?}");
            }
        }
        assert_eq!(udaf(name).is_nullable(), default.is_null(), "{name}");
    }
}

fn planning_error(name: &str, fields: Vec<Field>, constants: &[i64]) -> String {
    match Call::on(name, fields, constants) {
        Ok(_) => panic!("{name} must not plan"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn spectra_need_the_number_of_copies() {
    for name in ["sfs", "sfs_folded"] {
        let error = planning_error(name, vec![counts_field("ac", None)], &[]);
        assert!(error.contains("project_sfs") && error.contains("GROUP BY derived_count(ac)"));
        assert!(error.contains("allele_number(ac)"), "{error}");
    }
    for name in ["joint_sfs", "joint_sfs_folded"] {
        let fields = vec![counts_field("a", Some("4")), counts_field("b", None)];
        let error = planning_error(name, fields, &[]);
        assert!(error.contains("project_joint_sfs") && error.contains("GROUP BY derived_count"));
    }
    // A population that planning has still to find is fine while planning, and an error afterwards.
    let call = Call::on("sfs", vec![counts_field("ac", Some(DEFERRED))], &[]).unwrap();
    let error = call.value(&[sites(&[[1, 1]])]).unwrap_err().to_string();
    assert!(error.contains("subquery"), "{error}");
    let error = planning_error("sfs", vec![counts_field("ac", Some("many"))], &[]);
    assert!(error.contains("vcz.copies"), "{error}");
}

#[test]
fn joint_spectra_have_a_limit() {
    let fields = |[first, second]: [&str; 2]| {
        vec![
            counts_field("ac1", Some(first)),
            counts_field("ac2", Some(second)),
        ]
    };
    let error = planning_error("joint_sfs", fields(["10000", "10000"]), &[]);
    assert!(
        error.contains("project_joint_sfs") && error.contains("GROUP BY"),
        "{error}"
    );
    // 2^26 cells are allowed, and shared by all groups.
    let call = Call::on("joint_sfs", fields(["8191", "8191"]), &[]).unwrap();
    assert!(call.groups(1).is_ok());
    let error = call.groups(2).unwrap_err().to_string();
    assert!(error.contains("project_joint_sfs"), "{error}");
    // Nothing is allocated for a hostile N.
    let error = planning_error("sfs", vec![counts_field("ac", Some("9999999999"))], &[]);
    assert!(error.contains("too large"), "{error}");
}

#[test]
fn many_groups_stay_sparse() {
    let groups = 100_000;
    let call = Call::new("sfs", &[Some(20_000)], &[]).unwrap();
    let size = call
        .filled(&sites(&vec![[19_999, 1]; groups]), groups)
        .unwrap()
        .size();
    // The size includes the values, which are only made when the groups are evaluated.
    let values = groups * 20_001 * size_of::<i64>();
    assert!(size > values && size - values < 64 << 20, "{size}");
    assert!(
        call.groups(groups)
            .unwrap_err()
            .to_string()
            .contains("project_sfs")
    );
}

#[test]
fn more_calls_than_copies_are_an_error() {
    for (name, arguments, constants) in CALLS.into_iter().filter(|(name, ..)| name.contains("sfs"))
    {
        let column = sites(&[[4, 3]]);
        let error = call(name, arguments, constants)
            .value(&vec![column; arguments])
            .unwrap_err();
        assert!(error.to_string().contains("[4, 3]"), "{error}");
    }
}

#[test]
fn constants_are_checked() {
    let column = || sites(&[[3, 3]]);
    for (name, arguments, constants) in [
        ("project_sfs", 1, &[0][..]),
        ("project_sfs", 1, &[7]),
        ("project_sfs_folded", 1, &[-1]),
        ("project_joint_sfs", 2, &[3, 7]),
        ("project_joint_sfs", 2, &[0, 3]),
        ("tajimas_d", 1, &[1]),
        ("fu_li_f", 1, &[1]),
    ] {
        let result = call(name, arguments, constants).value(&vec![column(); arguments]);
        assert!(result.is_err(), "{name} {constants:?}");
    }
    // Not constant.
    let fields = vec![
        counts_field("ac", Some("6")),
        Field::new("m", DataType::Int64, true),
    ];
    let call = Call::on("project_sfs", fields, &[]).unwrap();
    let error = call.value(&[column(), Arc::new(arrow::array::Int64Array::from(vec![2]))]);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("must be a constant")
    );
}

fn coerced(name: &str, types: &[DataType]) -> Result<Vec<DataType>> {
    udaf(name).coerce_types(types)
}

#[test]
fn both_forms_of_a_call_are_accepted() {
    let counts = counts_field("ac", None).data_type().clone();
    let list = |item: DataType, size| {
        DataType::FixedSizeList(Arc::new(Field::new_list_field(item, false)), size)
    };
    let genotypes = list(list(DataType::Int8, 2), 10);
    let ids = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
    let (text, int) = (DataType::Utf8, DataType::Int32);
    let good: &[(&str, &[&DataType])] = &[
        ("sfs", &[&counts]),
        ("sfs", &[&genotypes]),
        ("sfs", &[&genotypes, &text]),
        ("sfs", &[&genotypes, &ids]),
        ("project_sfs", &[&counts, &int]),
        ("project_sfs", &[&genotypes, &int]),
        ("project_sfs", &[&genotypes, &ids, &int]),
        ("joint_sfs", &[&genotypes, &text, &ids]),
        ("project_joint_sfs", &[&genotypes, &text, &text, &int, &int]),
        ("tajimas_d", &[&genotypes]),
        ("tajimas_d", &[&genotypes, &int]),
        ("tajimas_d", &[&genotypes, &text]),
        ("tajimas_d", &[&genotypes, &text, &int]),
        ("tajimas_d", &[&counts, &int]),
        ("zeng_e", &[&genotypes, &text, &int]),
    ];
    for (name, types) in good {
        let types: Vec<DataType> = types.iter().map(|&other| other.clone()).collect();
        let coerced = coerced(name, &types).unwrap();
        for (before, after) in types.iter().zip(coerced) {
            assert_eq!(
                if *before == int {
                    &DataType::Int64
                } else {
                    before
                },
                &after
            );
        }
    }
    let bad: &[(&str, &[&DataType])] = &[
        ("sfs", &[]),
        ("sfs", &[&text]),
        ("sfs", &[&counts, &int]),
        ("sfs", &[&genotypes, &text, &text]),
        ("project_sfs", &[&counts]),
        ("project_sfs", &[&genotypes, &text]),
        ("project_sfs", &[&counts, &DataType::Float64]),
        ("joint_sfs", &[&counts]),
        ("joint_sfs", &[&genotypes, &text]),
        ("project_joint_sfs", &[&counts, &counts, &int]),
        ("tajimas_d", &[&counts, &int, &int]),
    ];
    for (name, types) in bad {
        let types: Vec<DataType> = types.iter().map(|&other| other.clone()).collect();
        let error = coerced(name, &types).unwrap_err().to_string();
        assert!(error.contains(&format!("write {name}(")), "{error}");
    }
    assert_eq!(coerced("exact_sum", &[int]).unwrap(), [DataType::Float64]);
    assert!(coerced("exact_sum", &[text]).is_err());
}

#[test]
fn genotypes_have_the_type_of_counts_but_do_not_run() {
    let item = |item: DataType| Arc::new(Field::new_list_field(item, false));
    let sample = DataType::FixedSizeList(item(DataType::Int8), 2);
    let field = Field::new(
        "call_genotype",
        DataType::FixedSizeList(item(sample), 1),
        false,
    );
    let call = Call::on("sfs", vec![field], &[]).unwrap();
    let error = call.value(&[]).unwrap_err().to_string();
    assert!(error.contains("allele_counts(call_genotype"), "{error}");
}

#[test]
fn the_register_is_complete() {
    let names: Vec<String> = super::all()
        .iter()
        .map(|udaf| udaf.name().to_string())
        .collect();
    assert_eq!(names.len(), 26);
    for name in &names {
        assert!(
            udaf(name)
                .documentation()
                .is_some_and(|doc| !doc.description.is_empty())
        );
        let arguments = CALLS
            .iter()
            .find(|(other, ..)| other == name)
            .map(|call| call.1);
        assert_eq!(super::sugar_arity(name), arguments, "{name}");
    }
    assert_eq!(super::sugar_arity("sum"), None);
}
