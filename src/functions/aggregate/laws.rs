//! Laws that the aggregates obey, on random sites; above all that every way of computing them gives the same bits.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{Result, ScalarValue};
use proptest::collection::vec;
use proptest::prelude::*;

use super::harness::{
    Call, Counts, DEFERRED, Deal, Zygosity, assert_all_ways_agree, assert_close, counts,
    counts_field, floats, integers, sites, udaf, zygosity, zygosity_field,
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
    // Groups in runs, as windows have them, and mixed.
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

/// The most populations of [`CALLS`].
const POPULATIONS: usize = 4;

/// The counts of [`POPULATIONS`] populations.
fn populations() -> impl Strategy<Value = (Vec<Vec<Counts>>, Deal)> {
    (0..40usize).prop_flat_map(|rows| (vec(population(rows), POPULATIONS), deal(rows)))
}

fn case() -> impl Strategy<Value = Case> {
    (0..40usize).prop_flat_map(|rows| (population(rows), population(rows), deal(rows)))
}

/// Name, counts arguments and constants of every aggregate over counts.
const CALLS: [(&str, usize, &[i64]); 44] = [
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
    ("net_divergence", 2, &[]),
    ("f2", 2, &[]),
    ("f3", 3, &[]),
    ("f3_normalized", 3, &[]),
    ("f4", 4, &[]),
    ("patterson_d", 4, &[]),
    ("f_d", 4, &[]),
    ("fst_nei", 2, &[]),
    ("fst_nei", 4, &[]),
    ("jost_d", 2, &[]),
    ("jost_d", 3, &[]),
    ("pbs", 3, &[]),
    ("pbs_n1", 3, &[]),
    ("shared_polymorphism", 2, &[]),
    ("private_alleles", 2, &[]),
    ("fst_weir_cockerham_haploid", 2, &[]),
    ("fst_weir_cockerham_haploid", 4, &[]),
];

/// Name and number of arguments of every aggregate over zygosity.
const ZYGOSITY_CALLS: [(&str, usize); 3] = [
    ("inbreeding", 1),
    ("fst_weir_cockerham", 2),
    ("fst_weir_cockerham", 4),
];

/// Up to four individuals, as the codes of their two copies; now and then NULL.
fn diploids() -> impl Strategy<Value = Zygosity> {
    let individuals = vec([0..3usize, 0..3usize], 0..5).prop_map(|individuals| {
        let [mut ac, mut het] = [[0; 3]; 2].map(|row| row.to_vec());
        for [first, second] in individuals {
            ac[first] += 1;
            ac[second] += 1;
            het[first] += i32::from(first != second);
            het[second] += i32::from(first != second);
        }
        [ac, het]
    });
    prop_oneof![9 => individuals.prop_map(Some), 1 => Just(None)]
}

/// A call of an aggregate over the zygosity of that many populations.
fn zygosity_call(name: &str, arguments: usize) -> Call {
    let fields = (0..arguments).map(|at| zygosity_field(&format!("zc{at}")));
    Call::on(name, fields.collect(), &[]).unwrap()
}

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
    fn all_ways_agree((populations, deal) in populations()) {
        for (name, arguments, constants) in CALLS {
            let columns: Vec<ArrayRef> = populations.iter().map(|rows| counts(rows)).collect();
            let call = call(name, arguments, constants);
            assert_all_ways_agree(&call, &columns[..arguments], &deal);
        }
    }

    #[test]
    fn all_ways_agree_on_zygosity(
        (populations, deal) in (0..40usize).prop_flat_map(|rows| (vec(vec(diploids(), rows), POPULATIONS), deal(rows)))
    ) {
        for (name, arguments) in ZYGOSITY_CALLS {
            let columns: Vec<ArrayRef> = populations.iter().map(|rows| zygosity(rows)).collect();
            assert_all_ways_agree(&zygosity_call(name, arguments), &columns[..arguments], &deal);
        }
    }

    #[test]
    fn weir_cockerham_of_one_population_twice_is_near_0(rows in vec(diploids(), 1..20usize), copies in 2..5usize) {
        // Without differences between populations of n individuals each, F = -Σ(Q - h/4)/(n - 1) over ΣQ with 0 ≤ h/4 ≤ Q.
        let columns = vec![zygosity(&rows); copies];
        let found = zygosity_call("fst_weir_cockerham", copies).value(&columns).unwrap();
        let ScalarValue::Float64(found) = found else { panic!("{found:?}") };
        let individuals = |row: &Zygosity| row.as_ref().map_or(0, |row| row[0].iter().sum::<i32>() / 2);
        let least = rows.iter().map(individuals).filter(|&n| n > 1).min().unwrap_or(2);
        let lower = -1.0 / f64::from(least - 1) - 1e-12;
        prop_assert!(found.is_none_or(|found| (lower..=1e-12).contains(&found)), "{:?}", found);
    }

    /// What is linear in the spectrum has over two sets of rows the sum of its values over each.
    #[test]
    fn values_of_concatenated_rows_are_sums((first, second, _) in case()) {
        let both: Vec<Counts> = first.iter().chain(&second).cloned().collect();
        let number = |name: &str, rows: &[Counts]| match value(name, &[counts(rows)], &[]) {
            ScalarValue::Float64(Some(value)) => value,
            ScalarValue::Int64(Some(value)) => value as f64,
            other => panic!("{name}: {other:?}"),
        };
        for name in [
            "theta_w", "theta_h", "theta_l", "fay_wu_h", "diversity", "singletons", "singletons_folded", "segregating_sites",
        ] {
            let sum = number(name, &first) + number(name, &second);
            assert_close(&[number(name, &both)], &[sum], 1e-12);
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
    fn jackknives_agree(
        (blocks, deal) in (0..40usize).prop_flat_map(|rows| {
            let number = || prop_oneof![6 => (-8..9i32).prop_map(|x| Some(f64::from(x) / 7.0)), 1 => Just(None)];
            let m = prop_oneof![6 => (0..5i64).prop_map(Some), 1 => Just(None)];
            (vec((number(), number(), m), rows), deal(rows))
        })
    ) {
        let number = |name: &str| Field::new(name, DataType::Float64, true);
        let fields = vec![number("num"), number("den"), Field::new("m", DataType::Int64, true)];
        let columns: [ArrayRef; 3] = [
            Arc::new(blocks.iter().map(|block| block.0).collect::<Float64Array>()),
            Arc::new(blocks.iter().map(|block| block.1).collect::<Float64Array>()),
            Arc::new(blocks.iter().map(|block| block.2).collect::<Int64Array>()),
        ];
        assert_all_ways_agree(&Call::on("jackknife", fields, &[]).unwrap(), &columns, &deal);
    }

    #[test]
    fn populations_are_made_of_pairs((populations, _) in populations()) {
        let columns: Vec<ArrayRef> = populations.iter().map(|rows| counts(rows)).collect();
        let of = |name: &str, chosen: &[usize]| {
            let columns: Vec<ArrayRef> = chosen.iter().map(|&at| Arc::clone(&columns[at])).collect();
            match value(name, &columns, &[]) {
                ScalarValue::Float64(value) => value,
                other => panic!("{name}: {other:?}"),
            }
        };
        // The same bits after exchanging two populations, or two pairs of them.
        prop_assert_eq!(of("f4", &[0, 1, 2, 3]), of("f4", &[1, 0, 2, 3]).map(|x| 0.0 - x));
        prop_assert_eq!(of("f4", &[0, 1, 2, 3]), of("f4", &[2, 3, 0, 1]));
        prop_assert_eq!(of("f3", &[0, 1, 2]), of("f3", &[0, 2, 1]));
        prop_assert_eq!(of("f2", &[0, 1]), of("f2", &[1, 0]));
        prop_assert_eq!(of("pbs", &[0, 1, 2]), of("pbs", &[0, 2, 1]));
        let d = of("patterson_d", &[0, 1, 2, 3]);
        prop_assert_eq!(d, of("patterson_d", &[1, 0, 2, 3]).map(|x| 0.0 - x));
        prop_assert!(d.is_none_or(|d| (-1.0..=1.0).contains(&d)));
        // Over the sites with two copies in every population, f4 and f3 are combinations of f2.
        let enough: Vec<usize> = (0..populations[0].len())
            .filter(|&row| populations.iter().all(|rows| called(&rows[row]).is_some_and(|n| n >= 2)))
            .collect();
        let columns: Vec<ArrayRef> = populations
            .iter()
            .map(|rows| counts(&enough.iter().map(|&row| rows[row].clone()).collect::<Vec<_>>()))
            .collect();
        let of = |name: &str, chosen: &[usize]| {
            let columns: Vec<ArrayRef> = chosen.iter().map(|&at| Arc::clone(&columns[at])).collect();
            match value(name, &columns, &[]) {
                ScalarValue::Float64(value) => value.unwrap_or(0.0),
                other => panic!("{name}: {other:?}"),
            }
        };
        let f2 = |first: usize, second: usize| of("f2", &[first, second]);
        let f4 = (f2(0, 3) + f2(1, 2) - f2(0, 2) - f2(1, 3)) / 2.0;
        assert_close(&[of("f4", &[0, 1, 2, 3])], &[f4], 1e-12);
        let f3 = (f2(0, 1) + f2(0, 2) - f2(1, 2)) / 2.0;
        assert_close(&[of("f3", &[0, 1, 2])], &[f3], 1e-12);
        assert_close(&[of("net_divergence", &[0, 1])], &[f2(0, 1) * enough.len() as f64], 1e-12);
        // F_ST of two populations: H_T = (H_S + D_B)/2, of sums.
        let pi = (of("diversity", &[0]) + of("diversity", &[1])) / 2.0;
        let between = of("divergence", &[0, 1]);
        if pi + between > 0.0 {
            let nei = (between - pi) / (between + pi);
            assert_close(&[of("fst_nei", &[0, 1])], &[nei], 1e-12);
        }
        if between > 0.0 {
            assert_close(&[of("fst_hudson", &[0, 1])], &[(between - pi) / between], 1e-12);
        }
    }

    #[test]
    fn alleles_are_private_or_shared((first, second, _) in case()) {
        let columns = [counts(&first), counts(&second)];
        let private = |columns: &[ArrayRef]| match value("private_alleles", columns, &[]) {
            ScalarValue::Int64(Some(count)) => count,
            other => panic!("{other:?}"),
        };
        let reversed = [Arc::clone(&columns[1]), Arc::clone(&columns[0])];
        let ScalarValue::Struct(classes) = value("shared_polymorphism", &columns, &[]) else {
            panic!()
        };
        let class = |at: usize| classes.column(at).as_primitive::<Int64Type>().value(0);
        let ScalarValue::Struct(other) = value("shared_polymorphism", &reversed, &[]) else {
            panic!()
        };
        let swapped = |at: usize| other.column(at).as_primitive::<Int64Type>().value(0);
        prop_assert_eq!([0, 1, 2, 3].map(class), [0, 2, 1, 3].map(swapped));
        prop_assert!(private(&columns) >= class(0) + class(1));
        prop_assert!(private(&reversed) >= class(0) + class(2));
        // With the same counts twice no allele is private.
        let twice = [Arc::clone(&columns[0]), Arc::clone(&columns[0])];
        prop_assert_eq!(private(&twice), 0);
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
        // So do the statistics that are symmetric in the alleles.
        let alike = [
            ("diversity", 1),
            ("theta_w", 1),
            ("divergence", 2),
            ("fst_hudson", 2),
            ("f2", 2),
            ("net_divergence", 2),
            ("shared_polymorphism", 2),
            ("private_alleles", 2),
            ("singletons_folded", 1),
            ("fu_li_d_star", 1),
            ("fu_li_f_star", 1),
        ];
        for (name, arguments) in alike {
            let (plain, other) = (&plain[..arguments], &other[..arguments]);
            prop_assert_eq!(value(name, plain, &[]), value(name, other, &[]));
        }
    }
}

#[test]
fn no_rows() {
    for (name, arguments) in ZYGOSITY_CALLS {
        let call = zygosity_call(name, arguments);
        for rows in [&[][..], &[None, None]] {
            let columns = vec![zygosity(rows); arguments];
            assert!(call.value(&columns).unwrap().is_null(), "{name}");
        }
        assert!(call.default_value().is_null(), "{name}");
    }
    for (name, arguments, constants) in CALLS {
        let call = call(name, arguments, constants);
        let nothing = vec![counts(&[]); arguments];
        let nulls = vec![counts(&[None, None]); arguments];
        let (empty, default) = (call.value(&nothing).unwrap(), call.default_value());
        assert_eq!(call.value(&nulls).unwrap(), empty);
        match name {
            "tajimas_d"
            | "fst_hudson"
            | "f2"
            | "f3"
            | "f3_normalized"
            | "f4"
            | "patterson_d"
            | "f_d"
            | "fst_nei"
            | "jost_d"
            | "pbs"
            | "pbs_n1"
            | "fay_wu_h_norm"
            | "zeng_e"
            | "fu_li_d"
            | "fu_li_f"
            | "fu_li_d_star"
            | "fu_li_f_star"
            | "fst_weir_cockerham_haploid" => {
                assert!(empty.is_null() && default.is_null());
            }
            "shared_polymorphism" => {
                assert_eq!(empty, default);
                assert!(empty.to_string().contains("fixed:0,"), "{empty}");
            }
            "segregating_sites" | "private_alleles" | "singletons" | "singletons_folded" => {
                assert_eq!((&empty, &default), (&0i64.into(), &0i64.into()));
            }
            "diversity" | "divergence" | "theta_w" | "net_divergence" | "theta_h" | "theta_l"
            | "fay_wu_h" => {
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
    // A population that is not known yet is accepted while planning, and an error during execution.
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
        ("sfs", &[&counts, &int]),
        ("sfs_folded", &[&genotypes, &text, &int]),
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
        ("f3", &[&counts, &counts, &counts]),
        ("f3", &[&genotypes, &text, &ids, &text]),
        ("f4", &[&genotypes, &text, &text, &text, &text]),
        ("fst_nei", &[&counts, &counts]),
        ("fst_nei", &[&counts; 9]),
        ("jost_d", &[&genotypes, &text, &text]),
        ("jost_d", &[&genotypes, &text, &text, &ids, &text, &text]),
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
        ("sfs", &[&counts, &int, &int]),
        ("sfs", &[&genotypes, &text, &text]),
        ("project_sfs", &[&counts]),
        ("project_sfs", &[&genotypes, &text]),
        ("project_sfs", &[&counts, &DataType::Float64]),
        ("joint_sfs", &[&counts]),
        ("joint_sfs", &[&genotypes, &text]),
        ("project_joint_sfs", &[&counts, &counts, &int]),
        ("tajimas_d", &[&counts, &int, &int]),
        ("f3", &[&counts, &counts]),
        ("f3", &[&genotypes, &text, &text]),
        ("f3", &[&genotypes, &text, &text, &text, &text]),
        ("f4", &[&counts, &counts, &text, &counts]),
        ("fst_nei", &[&counts]),
        ("fst_nei", &[&genotypes, &text]),
        ("fst_nei", &[&counts, &counts, &int]),
    ];
    for (name, types) in bad {
        let types: Vec<DataType> = types.iter().map(|&other| other.clone()).collect();
        let error = coerced(name, &types).unwrap_err().to_string();
        assert!(error.contains(&format!("write {name}(")), "{error}");
    }
    for (name, types, usage) in [
        (
            "f3",
            vec![&genotypes, &text, &text],
            "write f3(ac1, ac2, ac3) or f3(call_genotype, population1, population2, population3)",
        ),
        (
            "jost_d",
            vec![&genotypes, &text],
            "compares 2 or more populations",
        ),
        (
            "jost_d",
            vec![&counts],
            "write jost_d(ac1, ac2, …) or jost_d(call_genotype, population1, population2, …)",
        ),
        (
            "f4",
            vec![&genotypes, &text],
            "compares 4 populations, so call_genotype must be followed by that many (each a name or a list of sample ids), found 1",
        ),
    ] {
        let types: Vec<DataType> = types.into_iter().cloned().collect();
        let error = coerced(name, &types).unwrap_err().to_string();
        assert!(error.contains(usage), "{error}");
    }
    assert_eq!(
        coerced("exact_sum", std::slice::from_ref(&int)).unwrap(),
        [DataType::Float64]
    );
    assert!(coerced("exact_sum", std::slice::from_ref(&text)).is_err());
    let numbers = [DataType::Float64, DataType::Float64, DataType::Int64];
    let narrow = [int.clone(), DataType::Float32, int.clone()];
    assert_eq!(coerced("jackknife", &narrow).unwrap(), numbers);
    for wrong in [
        vec![int.clone(); 2],
        vec![DataType::Float64; 3],
        vec![text; 3],
    ] {
        let error = coerced("jackknife", &wrong).unwrap_err().to_string();
        assert!(error.contains("jackknife: "), "{error}");
    }
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
    assert_eq!(names.len(), 56);
    for name in &names {
        assert!(
            udaf(name)
                .documentation()
                .is_some_and(|doc| !doc.description.is_empty())
        );
        // The least and the most arguments that are tested; more than the most of a function of any number of populations.
        let tested = CALLS.iter().map(|call| (call.0, call.1));
        let tested = tested.chain(ZYGOSITY_CALLS);
        let tested = tested.chain(super::planes_laws::NAMES.map(|name| (name, 1)));
        let tested = tested.chain(super::ld_laws::ARITIES);
        let tested = tested.filter(|(other, _)| other == name);
        let tested: Vec<usize> = tested.map(|call| call.1).collect();
        let arity = super::site_arguments(name).map(|arguments| arguments.populations.into_inner());
        let expected = match (tested.iter().min(), tested.iter().max()) {
            (Some(&least), Some(&most)) if name == "ld_moments" => Some((least, most)),
            (Some(&least), Some(&most)) if least < most => Some((least, usize::MAX)),
            (Some(&least), Some(&most)) => Some((least, most)),
            _ => None,
        };
        assert_eq!(arity, expected, "{name}");
    }
    assert_eq!(super::site_arguments("sum"), None);
}
