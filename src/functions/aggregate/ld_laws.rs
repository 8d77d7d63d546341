//! Laws of the aggregates over pairs of sites, on random calls: they equal their definitions, and every way of computing them gives the same
//! bits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, StructArray};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type};
use datafusion::common::ScalarValue;
use proptest::collection::vec;
use proptest::prelude::*;

use super::harness::{Call, Deal, assert_all_ways_agree, assert_ways_of_one_stage_agree, udaf};
use super::plain_sites::PlainSites;
use super::planes_laws::{Genotypes, genotypes};
use super::sample_state::Individuals;
use crate::counts::reference::diploid_alleles;
use crate::functions::interrupt::Interrupt;
use crate::functions::numeric::two_populations::{
    Moment, OF_ONE, OF_TWO, denominators, numerators,
};
use crate::functions::numeric::two_sites::{TwoSites, falling_4};

/// The functions, with the fewest and the most populations.
pub(super) const ARITIES: [(&str, usize); 4] = [
    ("ld_decay", 1),
    ("ld_moments", 1),
    ("ld_moments", 2),
    ("ld_moments_genotypes", 1),
];
const EDGES: [f64; 4] = [0.0, 1.0, 3.0, 9.5];

/// Counts of the copies called at both of two sites.
fn two_sites(one: &[i64], two: &[i64]) -> TwoSites<i128> {
    let called = one.iter().zip(two).filter(|(a, b)| **a >= 0 && **b >= 0);
    let mut sites = TwoSites {
        n: 0,
        a: 0,
        b: 0,
        x: 0,
    };
    for (a, b) in called {
        sites.n += 1;
        sites.a += i128::from(*a > 0);
        sites.b += i128::from(*b > 0);
        sites.x += i128::from(*a > 0 && *b > 0);
    }
    sites
}

/// r² and D' from frequencies.
fn r2_and_d_prime(sites: TwoSites<i128>) -> Option<[f64; 2]> {
    let [n, a, b, x] = [sites.n, sites.a, sites.b, sites.x].map(|count| count as f64);
    let (p, q) = (a / n, b / n);
    if sites.n == 0 || [0, sites.n].contains(&sites.a) || [0, sites.n].contains(&sites.b) {
        return None;
    }
    let d = x / n - p * q;
    let most = match d >= 0.0 {
        true => (p * (1.0 - q)).min(q * (1.0 - p)),
        false => (p * q).min((1.0 - p) * (1.0 - q)),
    };
    Some([d * d / (p * (1.0 - p) * q * (1.0 - q)), d / most])
}

/// The dosages of individuals that are complete diploids at both sites.
fn dosages(one: &[i64], two: &[i64], ploidy: usize) -> Vec<[f64; 2]> {
    let dosage = |call: &[i64]| {
        let alleles = diploid_alleles(call.iter().copied())?;
        Some(alleles.iter().filter(|allele| **allele > 0).count() as f64)
    };
    let calls = one.chunks(ploidy).zip(two.chunks(ploidy));
    calls
        .filter_map(|(one, two)| Some([dosage(one)?, dosage(two)?]))
        .collect()
}

/// Averages over four distinct individuals: DD, Dz and π₂ of unphased genotypes.
fn moments_of_genotypes(both: &[[f64; 2]]) -> [f64; 3] {
    let n = both.len();
    let (mut sums, mut number) = ([0.0; 3], 0.0);
    for at in 0..n.pow(4) {
        let four = [at % n, at / n % n, at / n / n % n, at / n / n / n];
        let differ = (0..4).all(|i| (0..i).all(|j| four[i] != four[j]));
        if differ {
            let [u, v, s, t] = four.map(|of| both[of]);
            let d = u[0] * u[1] - u[0] * v[1];
            sums[0] += d * (s[0] * s[1] - s[0] * t[1]) / 4.0;
            sums[1] += d * (1.0 - s[0]) * (1.0 - t[1]) / 2.0;
            sums[2] += u[0] * (2.0 - v[0]) * s[1] * (2.0 - t[1]) / 16.0;
            number += 1.0;
        }
    }
    sums.map(|sum| sum / number)
}

/// r² of the dosages of individuals that are complete diploids at both sites.
fn r2_of_genotypes(one: &[i64], two: &[i64], ploidy: usize) -> Option<f64> {
    let both = dosages(one, two, ploidy);
    let n = both.len() as f64;
    let mean = |at: usize| both.iter().map(|pair| pair[at]).sum::<f64>() / n;
    let means = [mean(0), mean(1)];
    let moment = |i: usize, j: usize| {
        let terms = both
            .iter()
            .map(|pair| (pair[i] - means[i]) * (pair[j] - means[j]));
        terms.sum::<f64>() / n
    };
    let (xx, yy, xy) = (moment(0, 0), moment(1, 1), moment(0, 1));
    (n > 0.0 && xx > 1e-12 && yy > 1e-12).then(|| xy * xy / (xx * yy))
}

fn is_segregating(row: &[i64]) -> bool {
    let alleles = |is: fn(&i64) -> bool| row.iter().any(is);
    alleles(|code| *code == 0) && alleles(|code| *code > 0)
}

/// The rows with their positions, in the order of positions.
fn placed<'a>(genotypes: &'a Genotypes, positions: &[f64]) -> Vec<(f64, &'a [i64])> {
    let rows = genotypes.rows.iter().zip(positions);
    rows.filter_map(|(row, position)| Some((*position, row.as_deref()?)))
        .collect()
}

/// All pairs with the bin of their distance.
fn pairs<T: Copy>(rows: &[(f64, T)]) -> impl Iterator<Item = (usize, T, T)> {
    (0..rows.len()).flat_map(move |i| {
        (i + 1..rows.len()).filter_map(move |j| {
            let distance = rows[j].0 - rows[i].0;
            let bin = EDGES
                .windows(2)
                .position(|edges| edges[0] <= distance && distance < edges[1]);
            bin.map(|bin| (bin, rows[i].1, rows[j].1))
        })
    })
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn near(found: Option<f64>, expected: Option<f64>) -> bool {
    match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() < 1e-10,
        (found, expected) => found == expected,
    }
}

fn structs(value: &ScalarValue) -> StructArray {
    let ScalarValue::List(list) = value else {
        panic!("{value:?}")
    };
    list.value(0).as_struct().clone()
}

fn float(rows: &StructArray, name: &str, row: usize) -> Option<f64> {
    let column = rows.column_by_name(name).unwrap();
    let column = column.as_primitive::<Float64Type>();
    column.is_valid(row).then(|| column.value(row))
}

fn whole(rows: &StructArray, name: &str, row: usize) -> i64 {
    let column = rows.column_by_name(name).unwrap();
    column.as_primitive::<Int64Type>().value(row)
}

fn edges() -> ScalarValue {
    let edges = EDGES.map(|edge| ScalarValue::Float64(Some(edge)));
    ScalarValue::List(ScalarValue::new_list(&edges, &DataType::Float64, true))
}

fn by_distance(name: &str, planes: Vec<Field>) -> Call {
    let mut fields = planes;
    fields.push(Field::new("position", DataType::Float64, true));
    Call::in_one_stage(udaf(name), fields, &[edges()]).unwrap()
}

/// Positions that ascend, with ties.
fn positions(steps: &[u8]) -> Vec<f64> {
    let steps = steps.iter().scan(0.0, |at, step| {
        *at += f64::from(*step);
        Some(*at)
    });
    steps.collect()
}

/// Another population: the calls of other rows.
fn other_population(genotypes: &Genotypes) -> Genotypes {
    let mut other = genotypes.clone();
    if !other.rows.is_empty() {
        other.rows.rotate_left(1);
    }
    other
}

/// A device computes what the host does, in every way that `agree` checks.
fn assert_devices_agree(
    call: &Call,
    columns: &[ArrayRef],
    deal: &Deal,
    agree: fn(&Call, &[ArrayRef], &Deal),
) {
    let value = call.value(columns).unwrap();
    let device = Arc::new(PlainSites::default());
    let interrupt = Interrupt::default().with_site_device(Some(Arc::clone(&device) as _));
    interrupt.within(|| {
        assert_eq!(call.value(columns).unwrap(), value);
        agree(call, columns, deal);
    });
    assert!(device.calls.load(Ordering::Relaxed) > 0);
}

fn check_moments(
    value: &ScalarValue,
    moments: &[Moment],
    expected: impl Fn(usize, usize) -> (i64, f64),
) {
    let rows = structs(value);
    assert_eq!(rows.len(), (EDGES.len() - 1) * moments.len());
    for row in 0..rows.len() {
        let (bin, at) = (row / moments.len(), row % moments.len());
        let name = rows.column_by_name("statistic").unwrap();
        assert_eq!(name.as_string::<i32>().value(row), moments[at].name);
        assert_eq!(float(&rows, "bin_start", row), Some(EDGES[bin]));
        assert_eq!(float(&rows, "bin_stop", row), Some(EDGES[bin + 1]));
        let (pairs, sum) = expected(bin, at);
        let place = format!("{}, bin {bin}", moments[at].name);
        assert_eq!(whole(&rows, "pairs", row), pairs, "{place}");
        let found = float(&rows, "sum", row);
        assert!(near(found, Some(sum)), "{place}: {found:?} {sum}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn means_are_their_definition((genotypes, deal) in genotypes()) {
        let columns = [genotypes.column()];
        let kept = genotypes.rows.iter().flatten().filter(|row| is_segregating(row));
        let rows: Vec<(f64, &[i64])> = kept.map(|row| (0.0, row.as_slice())).collect();
        let Individuals { ploidy, .. } = genotypes.individuals;
        let haplotypes: Vec<f64> = pairs(&rows)
            .filter_map(|(_, one, two)| Some(r2_and_d_prime(two_sites(one, two))?[0]))
            .collect();
        let of_genotypes: Vec<f64> = pairs(&rows)
            .filter_map(|(_, one, two)| r2_of_genotypes(one, two, ploidy))
            .collect();
        for (name, expected) in [("mean_r2", haplotypes), ("mean_r2_genotypes", of_genotypes)] {
            let call = genotypes.call(name);
            let ScalarValue::Float64(found) = call.value(&columns).unwrap() else {
                panic!("a number")
            };
            prop_assert!(near(found, mean(&expected)), "{name}: {found:?} {:?}", mean(&expected));
            assert_all_ways_agree(&call, &columns, &deal);
            if name == "mean_r2" {
                assert_devices_agree(&call, &columns, &deal, assert_all_ways_agree);
            }
        }
    }

    #[test]
    fn decay_is_its_definition((genotypes, deal) in genotypes(), steps in vec(0u8..4, 30)) {
        let positions = positions(&steps[..genotypes.rows.len()]);
        let columns: [ArrayRef; 2] = [genotypes.column(), Arc::new(Float64Array::from(positions.clone()))];
        let call = by_distance("ld_decay", vec![genotypes.field()]);
        let rows = structs(&call.value(&columns).unwrap());
        let placed = placed(&genotypes, &positions);
        for bin in 0..EDGES.len() - 1 {
            let of_bin = || pairs(&placed).filter(|pair| pair.0 == bin).map(|(_, one, two)| two_sites(one, two));
            let defined: Vec<[f64; 2]> = of_bin().filter_map(r2_and_d_prime).collect();
            let each = |at: usize| defined.iter().map(|of| of[at]).collect::<Vec<_>>();
            let estimated: Vec<_> = of_bin().filter(|sites| sites.n >= 4).collect();
            let sum = |of: fn(TwoSites<i128>) -> i128| {
                let terms = estimated.iter().map(|sites| of(*sites) as f64 / falling_4(sites.n as f64));
                terms.sum::<f64>()
            };
            prop_assert_eq!(whole(&rows, "pairs", bin), estimated.len() as i64);
            prop_assert_eq!(whole(&rows, "defined", bin), defined.len() as i64);
            prop_assert!(near(float(&rows, "mean_r2", bin), mean(&each(0))));
            prop_assert!(near(float(&rows, "mean_d_prime", bin), mean(&each(1))));
            prop_assert!(near(float(&rows, "sum_dd", bin), Some(sum(TwoSites::dd))));
            prop_assert!(near(float(&rows, "sum_pi2", bin), Some(sum(TwoSites::pi2))));
        }
        assert_ways_of_one_stage_agree(&call, &columns, &deal);
        assert_devices_agree(&call, &columns, &deal, assert_ways_of_one_stage_agree);
    }

    #[test]
    fn moments_are_their_definition((genotypes, deal) in genotypes(), steps in vec(0u8..4, 30)) {
        let positions = positions(&steps[..genotypes.rows.len()]);
        let at: ArrayRef = Arc::new(Float64Array::from(positions.clone()));
        let call = by_distance("ld_moments", vec![genotypes.field()]);
        let columns = [genotypes.column(), Arc::clone(&at)];
        let one = placed(&genotypes, &positions);
        let of_one: [fn(TwoSites<i128>) -> i128; 3] = [TwoSites::dd, TwoSites::dz, TwoSites::pi2];
        check_moments(&call.value(&columns).unwrap(), &OF_ONE, |bin, at| {
            let of_bin = pairs(&one).filter(|pair| pair.0 == bin).map(|(_, one, two)| two_sites(one, two));
            let enough: Vec<_> = of_bin.filter(|sites| sites.n >= 4).collect();
            let terms = enough.iter().map(|sites| of_one[at](*sites) as f64 / falling_4(sites.n as f64));
            (enough.len() as i64, terms.sum())
        });
        assert_ways_of_one_stage_agree(&call, &columns, &deal);
        assert_devices_agree(&call, &columns, &deal, assert_ways_of_one_stage_agree);
        // Of two populations; at one position the order of rows is not known, so such pairs are not compared with a reference.
        let other = other_population(&genotypes);
        let distinct: Vec<f64> = (0..positions.len()).map(|row| positions[row] + row as f64).collect();
        let at: ArrayRef = Arc::new(Float64Array::from(distinct.clone()));
        let second = other.field().with_name("other");
        let call = by_distance("ld_moments", vec![genotypes.field(), second]);
        let columns = [genotypes.column(), other.column(), at];
        let both: Vec<_> = (0..distinct.len())
            .filter_map(|row| {
                Some((distinct[row], (genotypes.rows[row].as_deref()?, other.rows[row].as_deref()?)))
            })
            .collect();
        check_moments(&call.value(&columns).unwrap(), &OF_TWO, |bin, at| {
            let of_bin = pairs(&both).filter(|pair| pair.0 == bin);
            let tables = of_bin.map(|(_, one, two)| [two_sites(one.0, two.0), two_sites(one.1, two.1)]);
            let enough: Vec<_> = tables
                .filter(|tables| (0..2).all(|of| tables[of].n as usize >= OF_TWO[at].least[of]))
                .collect();
            let terms = enough.iter().map(|[one, two]| {
                numerators(*one, *two)[at] as f64 / denominators(one.n as f64, two.n as f64)[at]
            });
            (enough.len() as i64, terms.sum())
        });
        assert_ways_of_one_stage_agree(&call, &columns, &deal);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn moments_of_genotypes_are_their_definition((genotypes, deal) in genotypes(), steps in vec(0u8..4, 30)) {
        let positions = positions(&steps[..genotypes.rows.len()]);
        let at: ArrayRef = Arc::new(Float64Array::from(positions.clone()));
        let fields = vec![genotypes.field(), Field::new("position", DataType::Float64, true)];
        let call = Call::in_one_stage(genotypes.bound("ld_moments_genotypes"), fields, &[edges()]).unwrap();
        let columns = [genotypes.column(), Arc::clone(&at)];
        let placed = placed(&genotypes, &positions);
        let Individuals { ploidy, .. } = genotypes.individuals;
        let most = 9;
        let tables: Vec<(usize, Vec<[f64; 2]>)> = pairs(&placed).map(|(bin, one, two)| (bin, dosages(one, two, ploidy))).collect();
        if tables.iter().all(|(_, both)| both.len() <= most) {
            check_moments(&call.value(&columns).unwrap(), &OF_ONE, |bin, at| {
                let of_bin = tables.iter().filter(|(other, _)| *other == bin);
                let enough: Vec<_> = of_bin.filter(|(_, both)| both.len() >= 4).collect();
                let terms = enough.iter().map(|(_, both)| moments_of_genotypes(both)[at]);
                (enough.len() as i64, terms.sum())
            });
        }
        assert_ways_of_one_stage_agree(&call, &columns, &deal);
    }
}

#[test]
fn edges_and_positions_are_checked() {
    let genotypes = Genotypes {
        individuals: Individuals {
            samples: 3,
            ploidy: 2,
        },
        rows: vec![Some(vec![0, 1, 0, 1, 1, 0])],
    };
    let fields = || {
        vec![
            genotypes.field(),
            Field::new("position", DataType::Float64, true),
        ]
    };
    let list = |edges: &[f64]| {
        let edges: Vec<_> = edges
            .iter()
            .map(|edge| ScalarValue::Float64(Some(*edge)))
            .collect();
        ScalarValue::List(ScalarValue::new_list(&edges, &DataType::Float64, true))
    };
    let columns = |position: f64| -> [ArrayRef; 2] {
        [
            genotypes.column(),
            Arc::new(Float64Array::from(vec![position])),
        ]
    };
    for (edges, wanted) in [
        (list(&[0.0]), "two numbers or more"),
        (list(&[0.0, 0.0]), "greater than the one before"),
        (list(&[0.0, f64::NAN]), "greater than the one before"),
        (
            list(&(0..1001).map(f64::from).collect::<Vec<_>>()),
            "at most 1000 edges",
        ),
    ] {
        for name in ["ld_decay", "ld_moments"] {
            let call =
                Call::in_one_stage(udaf(name), fields(), std::slice::from_ref(&edges)).unwrap();
            let error = call.value(&columns(1.0)).unwrap_err().to_string();
            assert!(error.contains(wanted) && error.contains(name), "{error}");
        }
    }
    let call = by_distance("ld_decay", vec![genotypes.field()]);
    let error = call.value(&columns(f64::NAN)).unwrap_err().to_string();
    assert!(error.contains("a position is not a number"), "{error}");
}
