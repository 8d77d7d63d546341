//! Laws of the aggregates over genotypes, on random calls: they equal their definitions, and every way of computing them gives the same
//! bits.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::AggregateUDF;
use proptest::collection::vec;
use proptest::prelude::*;

use super::harness::{Call, Deal, assert_all_ways_agree, udaf};
use super::sample_state::Individuals;
use crate::counts::reference::{self, diploid_alleles, genotype_class};
use crate::counts::{CountRequest, Populations, SampleSet};
use crate::functions::counts_arg::COPIES_KEY;
use crate::functions::numeric::FixedSum;
use crate::functions::numeric::site::site_diversity;
use crate::scan::{GenotypeContext, genotype_planes_type};

/// K in these tests.
const ALLELES: usize = 5;

/// Rows of calls, some NULL; each `samples × ploidy` codes.
#[derive(Clone, Debug)]
pub(super) struct Genotypes {
    pub(super) individuals: Individuals,
    pub(super) rows: Vec<Option<Vec<i64>>>,
}

impl Genotypes {
    pub(super) fn column(&self) -> ArrayRef {
        let Individuals { samples, ploidy } = self.individuals;
        let request = CountRequest {
            alleles: vec![],
            genotypes: vec![],
            zygosity: vec![],
            planes: vec![Arc::new(SampleSet::all(samples as u32))],
            n_alleles: ALLELES,
            n_samples: samples,
            ploidy,
        };
        let rows = self.rows.iter().map(|row| {
            let counts = reference::count(&request, row.as_ref()?, 1).unwrap();
            let mut words = vec![];
            counts.planes[0].push_row(0, &mut words);
            Some(words.into_iter().map(Some).collect::<Vec<_>>())
        });
        let list = ListArray::from_iter_primitive::<UInt64Type, _, _>(rows);
        let (_, offsets, values, nulls) = list.into_parts();
        let DataType::List(word) = genotype_planes_type() else {
            panic!("a list")
        };
        Arc::new(ListArray::new(word, offsets, values, nulls))
    }

    pub(super) fn field(&self) -> Field {
        let copies = self.individuals.copies().to_string();
        let field = Field::new("planes", genotype_planes_type(), true);
        field.with_metadata(HashMap::from([(COPIES_KEY.to_string(), copies)]))
    }

    pub(super) fn call(&self, name: &str) -> Call {
        // The number of components.
        let constants: &[i64] = if name == "pca" { &[1] } else { &[] };
        Call::of(self.bound(name), vec![self.field()], constants).unwrap()
    }

    /// The aggregate of that name, bound to the samples if it needs them.
    pub(super) fn bound(&self, name: &str) -> AggregateUDF {
        let Individuals { samples, ploidy } = self.individuals;
        let ids = (0..samples).map(|sample| format!("s{sample}")).collect();
        let context = GenotypeContext::new(
            "x.vcz".to_string(),
            ids,
            samples,
            Populations::default(),
            Some(ALLELES),
            ploidy,
        );
        let aggregate = udaf(name);
        super::bind_samples(&aggregate, &context).unwrap_or(aggregate)
    }

    /// The calls of an individual.
    fn calls(&self, sample: usize) -> impl Iterator<Item = &[i64]> {
        let ploidy = self.individuals.ploidy;
        let rows = self.rows.iter().flatten();
        rows.map(move |row| &row[sample * ploidy..(sample + 1) * ploidy])
    }
}

pub(super) fn genotypes() -> impl Strategy<Value = (Genotypes, Deal)> {
    let shape = (
        prop_oneof![4 => 1usize..8, 1 => 30usize..80],
        prop::sample::select(vec![1usize, 2, 2, 2, 3, 4]),
        0usize..30,
    );
    shape.prop_flat_map(|(samples, ploidy, rows)| {
        // Reference, biallelic, with missing calls, of several alleles, with copies that do not exist.
        let codes = |codes: &'static [i64]| vec(prop::sample::select(codes), samples * ploidy);
        let row = prop_oneof![
            1 => codes(&[0]).prop_map(Some),
            4 => codes(&[0, 0, 0, 1]).prop_map(Some),
            1 => codes(&[0, 1, -1]).prop_map(Some),
            2 => codes(&[0, 0, 0, 1, 2, 4]).prop_map(Some),
            1 => codes(&[0, 1, 3, -1, -2, -3]).prop_map(Some),
            1 => Just(None),
        ];
        let filter = prop_oneof![4 => Just(Some(true)), 1 => Just(Some(false)), 1 => Just(None)];
        let deal = (vec(0..4usize, rows), vec(filter, rows), 0..=rows).prop_map(
            |(groups, filter, cut)| Deal {
                groups,
                filter,
                cut,
            },
        );
        let individuals = Individuals { samples, ploidy };
        let genotypes = vec(row, rows).prop_map(move |rows| Genotypes { individuals, rows });
        (genotypes, deal)
    })
}

/// sample_counts by its definition: seven integers, expected_het and inbreeding of each individual.
fn counted(genotypes: &Genotypes) -> Vec<([i64; 7], f64, Option<f64>)> {
    let Individuals { samples, ploidy } = genotypes.individuals;
    let individual = |sample: usize| {
        let mut counts = [0; 7];
        let mut heterozygous = 0;
        for call in genotypes.calls(sample) {
            counts[genotype_class(call)] += 1;
            let alleles = diploid_alleles(call.iter().copied());
            heterozygous += i64::from(alleles.is_some_and(|[a, b]| a != b));
        }
        let mut expected = FixedSum::ZERO;
        for row in genotypes.rows.iter().flatten() {
            let mine = &row[sample * ploidy..(sample + 1) * ploidy];
            for allele in 1..ALLELES as i64 {
                let count = |codes: &[i64]| codes.iter().filter(|code| **code == allele).count();
                counts[5] += i64::from(count(row) == 1 && count(mine) == 1);
            }
            let alt = |codes: &[i64]| codes.iter().filter(|code| **code > 0).count();
            counts[6] += i64::from(alt(mine) > 0 && alt(mine) == alt(row));
            if diploid_alleles(mine.iter().copied()).is_none() {
                continue;
            }
            let mut ac = vec![0; ALLELES];
            for call in row.chunks(ploidy) {
                for allele in diploid_alleles(call.iter().copied()).iter().flatten() {
                    ac[*allele] += 1;
                }
            }
            expected.add(site_diversity(&ac).unwrap_or(0.0));
        }
        let expected = expected.to_f64();
        let inbreeding = (expected > 0.0).then(|| 1.0 - heterozygous as f64 / expected);
        (counts, expected, inbreeding)
    };
    (0..samples).map(individual).collect()
}

/// h1, h12, h123 and h2_h1; diversity; count.
type Statistics = ([f64; 4], Option<f64>, i64);

/// garud_h by its definition; n; sites.
fn haplotypes(genotypes: &Genotypes) -> (Option<Statistics>, i64, i64) {
    let copies = genotypes.individuals.copies();
    let rows = || genotypes.rows.iter().flatten();
    let used: Vec<&Vec<i64>> = rows()
        .filter(|row| row.iter().all(|code| *code >= 0 || *code == -2))
        .collect();
    let kept = (0..copies).filter(|copy| rows().all(|row| row[*copy] != -2));
    let mut counts: HashMap<Vec<i64>, i64> = HashMap::new();
    for copy in kept {
        let haplotype = used.iter().map(|row| row[copy]).collect();
        *counts.entry(haplotype).or_default() += 1;
    }
    let n: i64 = counts.values().sum();
    if n == 0 || used.is_empty() {
        return (None, n, used.len() as i64);
    }
    let mut f: Vec<f64> = counts.values().map(|c| *c as f64 / n as f64).collect();
    f.sort_by(|a, b| b.total_cmp(a));
    let pooled = |k: usize| {
        let k = k.min(f.len());
        f[..k].iter().sum::<f64>().powi(2) + f[k..].iter().map(|f| f * f).sum::<f64>()
    };
    let h1 = pooled(0);
    let diversity = (n > 1).then(|| (1.0 - h1) * n as f64 / (n - 1) as f64);
    let h = [h1, pooled(2), pooled(3), (h1 - f[0] * f[0]) / h1];
    (Some((h, diversity, f.len() as i64)), n, used.len() as i64)
}

fn near(found: Option<f64>, expected: Option<f64>) -> bool {
    match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() < 1e-12,
        (found, expected) => found == expected,
    }
}

fn assert_counted(value: &ScalarValue, expected: &[([i64; 7], f64, Option<f64>)]) {
    let ScalarValue::List(list) = value else {
        panic!("{value:?}")
    };
    let rows = list.value(0);
    let rows = rows.as_struct();
    assert_eq!(rows.len(), expected.len());
    for (sample, (counts, expected, inbreeding)) in expected.iter().enumerate() {
        let names = rows.column(0).as_string::<i32>();
        assert_eq!(names.value(sample), format!("s{sample}"));
        let found: Vec<i64> = (1..8)
            .map(|at| rows.column(at).as_primitive::<Int64Type>().value(sample))
            .collect();
        assert_eq!(found, counts, "sample {sample}");
        let float = |at: usize| {
            let column = rows.column(at).as_primitive::<Float64Type>();
            column.is_valid(sample).then(|| column.value(sample))
        };
        assert_eq!(float(8), Some(*expected), "sample {sample}");
        assert_eq!(float(9), *inbreeding, "sample {sample}");
    }
}

const HAPLOTYPES: [&str; 3] = ["garud_h", "haplotype_diversity", "haplotype_count"];
/// The functions that these laws are of.
pub(super) const NAMES: [&str; 10] = [
    "sample_counts",
    "garud_h",
    "haplotype_diversity",
    "haplotype_count",
    "sample_pairs",
    "haplotype_pairs",
    "grm",
    "pca",
    "mean_r2",
    "mean_r2_genotypes",
];
/// Those of pairs; `counts::pairs` compares what they count with the definitions.
const PAIRS: [&str; 4] = ["sample_pairs", "haplotype_pairs", "grm", "pca"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn sample_counts_are_their_definition((genotypes, deal) in genotypes()) {
        let call = genotypes.call("sample_counts");
        let columns = [genotypes.column()];
        assert_counted(&call.value(&columns).unwrap(), &counted(&genotypes));
        assert_all_ways_agree(&call, &columns, &deal);
    }

    #[test]
    fn haplotypes_are_their_definition((genotypes, deal) in genotypes()) {
        let columns = [genotypes.column()];
        for name in HAPLOTYPES {
            assert_all_ways_agree(&genotypes.call(name), &columns, &deal);
        }
        let (statistics, n, sites) = haplotypes(&genotypes);
        let ScalarValue::Struct(garud) = genotypes.call("garud_h").value(&columns).unwrap() else {
            panic!("a struct")
        };
        let float = |at: usize| {
            let column = garud.column(at).as_primitive::<Float64Type>();
            column.is_valid(0).then(|| column.value(0))
        };
        let whole = |at: usize| {
            let column = garud.column(at).as_primitive::<Int64Type>();
            column.is_valid(0).then(|| column.value(0))
        };
        for at in 0..4 {
            prop_assert!(near(float(at), statistics.map(|of| of.0[at])), "{at}: {:?} {statistics:?}", float(at));
        }
        prop_assert!(near(float(4), statistics.and_then(|of| of.1)));
        prop_assert_eq!(whole(5), statistics.map(|of| of.2));
        prop_assert_eq!((whole(6), whole(7)), (Some(n), Some(sites)));
        let diversity = genotypes.call("haplotype_diversity").value(&columns).unwrap();
        prop_assert_eq!(diversity, ScalarValue::Float64(float(4)));
        let count = genotypes.call("haplotype_count").value(&columns).unwrap();
        prop_assert_eq!(count, ScalarValue::Int64(whole(5)));
    }

    #[test]
    fn pairs_are_counted_alike_in_all_ways((genotypes, deal) in genotypes()) {
        let columns = [genotypes.column()];
        for name in PAIRS {
            assert_all_ways_agree(&genotypes.call(name), &columns, &deal);
        }
    }

    /// Statistics of haplotypes depend neither on the order of rows, nor on that of individuals, nor on how rows are divided into panes
    /// and in which order these are merged.
    #[test]
    fn haplotypes_have_no_order(
        (genotypes, samples, rows, panes) in genotypes().prop_flat_map(|(genotypes, _)| {
            let (samples, rows) = (genotypes.individuals.samples, genotypes.rows.len());
            let order = |len: usize| Just((0..len).collect::<Vec<_>>()).prop_shuffle();
            (Just(genotypes), order(samples), order(rows), vec(0..5usize, rows))
        })
    ) {
        let ploidy = genotypes.individuals.ploidy;
        let shuffled = |row: &Vec<i64>| -> Vec<i64> {
            let calls = samples.iter().map(|&sample| &row[sample * ploidy..(sample + 1) * ploidy]);
            calls.flatten().copied().collect()
        };
        let of_rows = |chosen: &mut dyn Iterator<Item = usize>| Genotypes {
            individuals: genotypes.individuals,
            rows: chosen.map(|row| genotypes.rows[row].as_ref().map(&shuffled)).collect(),
        };
        let other = of_rows(&mut rows.iter().copied());
        for name in HAPLOTYPES {
            let call = genotypes.call(name);
            let value = |of: &Genotypes| format!("{:?}", call.value(&[of.column()]).unwrap());
            let wanted = value(&genotypes);
            prop_assert_eq!(&value(&other), &wanted);
            // Panes of any rows, the last of them first.
            let (mut merged, _) = call.accumulators();
            for pane in (0..5).rev() {
                let mut chosen = rows.iter().copied().filter(|&row| panes[row] == pane);
                let (mut one, _) = call.accumulators();
                one.update_batch(&[of_rows(&mut chosen).column()]).unwrap();
                let state = one.state().unwrap();
                let state: Vec<ArrayRef> = state.iter().map(|value| value.to_array().unwrap()).collect();
                merged.merge_batch(&state).unwrap();
            }
            prop_assert_eq!(&format!("{:?}", merged.evaluate().unwrap()), &wanted);
        }
    }
}

#[test]
fn words_that_are_no_planes_are_refused() {
    let genotypes = Genotypes {
        individuals: Individuals {
            samples: 3,
            ploidy: 2,
        },
        rows: vec![],
    };
    for words in [vec![], vec![1], vec![0, 0], vec![3, 1]] {
        let list = ListArray::from_iter_primitive::<UInt64Type, _, _>([Some(
            words.into_iter().map(Some).collect::<Vec<_>>(),
        )]);
        for name in NAMES {
            let found = genotypes.call(name).value(&[Arc::new(list.clone())]);
            let error = found.unwrap_err().to_string();
            assert!(error.contains("expected bit-planes of 6 copies"), "{error}");
        }
    }
}
