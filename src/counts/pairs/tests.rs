//! Counts over pairs of random calls equal their definitions, on every instruction set, however rows are divided into matrices.

use proptest::collection::vec;
use proptest::prelude::*;

use super::weights::GCTA_BITS;
use super::*;
use crate::counts::gathered::{GatheredPlanes, PlanesRow};
use crate::counts::reference::diploid_alleles;
use crate::counts::{CountError, Level, Workers};

/// K in these tests.
const ALLELES: usize = 6;

/// Rows of calls, each `samples × ploidy` codes.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    pub(super) shape: Shape,
    pub(super) rows: Vec<Vec<i64>>,
}

impl Calls {
    pub(super) fn site_rows(&self) -> SiteRows {
        let copies = self.shape.copies();
        let mut planes = GatheredPlanes::default();
        planes.reset(self.rows.len(), copies, ALLELES).unwrap();
        let mut all = SiteRows::default();
        for (row, codes) in self.rows.iter().enumerate() {
            for (copy, code) in codes.iter().enumerate() {
                planes.set(row, copy, *code);
            }
            let mut words = vec![];
            planes.push_row(row, &mut words);
            all.push(PlanesRow::try_new(&words, copies).unwrap(), Level::detect());
        }
        all
    }

    fn call<'a>(&self, row: &'a [i64], sample: usize) -> &'a [i64] {
        &row[sample * self.shape.ploidy..(sample + 1) * self.shape.ploidy]
    }

    /// The dosage of a complete diploid.
    fn dosage(&self, row: &[i64], sample: usize) -> Option<i64> {
        let alleles = diploid_alleles(self.call(row, sample).iter().copied())?;
        Some(alleles.iter().filter(|allele| **allele > 0).count() as i64)
    }
}

pub(super) fn calls() -> impl Strategy<Value = (Calls, prop::sample::Index)> {
    let shape = (
        prop_oneof![4 => 2usize..9, 1 => 30usize..70],
        prop::sample::select(vec![1usize, 2, 2, 2, 2, 3, 4]),
        prop_oneof![4 => 0usize..40, 1 => 500usize..540],
    );
    shape.prop_flat_map(|(samples, ploidy, rows)| {
        let codes = |codes: &'static [i64]| vec(prop::sample::select(codes), samples * ploidy);
        // Missing calls without half-called ones.
        let missing = vec(
            prop::sample::select(&[0i64, 1, 1, -1][..]),
            samples * ploidy,
        )
        .prop_map(move |mut codes| {
            for call in codes.chunks_mut(ploidy) {
                if call[0] < 0 {
                    call.fill(-1);
                } else {
                    call.iter_mut().for_each(|code| *code = (*code).max(0));
                }
            }
            codes
        });
        let row = prop_oneof![
            1 => codes(&[0]),
            4 => codes(&[0, 0, 0, 1]),
            1 => codes(&[0, 1, 1]),
            1 => codes(&[1]),
            2 => missing,
            1 => codes(&[0, 1, -1]),
            1 => codes(&[0, 0, 2]),
            2 => codes(&[0, 0, 0, 1, 2, 5]),
            1 => codes(&[0, 1, 3, -1, -2, -3]),
        ];
        let shape = Shape { samples, ploidy };
        let calls = vec(row, rows).prop_map(move |rows| Calls { shape, rows });
        (calls, any::<prop::sample::Index>())
    })
}

/// A matrix of all rows, after checking that instruction sets, parts, partitions and saving do not show.
fn counted<M: PairMatrix>(
    shape: Shape,
    options: M::Options,
    calls: &Calls,
    cut: &prop::sample::Index,
) -> M {
    let words = |matrix: &M| {
        let mut words = vec![];
        matrix.save(&mut words, &Workers::ALONE).unwrap();
        words
    };
    let of = |rows: &[Vec<i64>], level: Level, most: usize, threads: usize| {
        let workers = Workers::new(threads, &|| false);
        let mut matrix = M::try_new(shape, options).unwrap();
        let part = Calls {
            shape: calls.shape,
            rows: rows.to_vec(),
        };
        let rows = part.site_rows();
        let mut parts = rows.parts(shape.copies(), most);
        while let Some(part) = parts.next_part() {
            matrix.fold(&part, level, &workers).unwrap();
        }
        matrix
    };
    let whole = of(&calls.rows, Level::Portable, usize::MAX, 1);
    for level in Level::available() {
        for (most, threads) in [(5, 1), (usize::MAX, 3)] {
            let found = of(&calls.rows, level, most, threads);
            assert_eq!(words(&found), words(&whole), "{level:?} {threads}");
        }
    }
    let (first, second) = calls.rows.split_at(cut.index(calls.rows.len() + 1));
    let [first, second] = [first, second].map(|rows| of(rows, Level::detect(), 5, 1));
    for (to, from) in [(&first, &second), (&second, &first)] {
        let saved = words(from);
        let workers = Workers::new(2, &|| false);
        let mut left = Words::new(&saved, &workers);
        let from = M::load(shape, options, &mut left).unwrap();
        assert!(left.rest().is_empty());
        let mut short = Words::new(&saved[..saved.len() - 1], &workers);
        assert!(M::load(shape, options, &mut short).is_none());
        let mut sum = to.clone();
        sum.merge(&from).unwrap();
        assert_eq!(words(&sum), words(&whole));
    }
    whole
}

fn pair_by_definition(calls: &Calls, i: usize, j: usize) -> IndividualPair {
    let mut pair = IndividualPair {
        sites: 0,
        ibs: [0; 3],
        het_het: 0,
        opposite: 0,
        het: [0; 2],
        distance_sites: 0,
        distance: 0.0,
    };
    for row in &calls.rows {
        let [one, two] = [i, j].map(|sample| calls.call(row, sample));
        let [a, b] = [one, two].map(|call| diploid_alleles(call.iter().copied()));
        if let (Some(a), Some(mut b)) = (a.map(|a| a.to_vec()), b.map(|b| b.to_vec())) {
            pair.sites += 1;
            let mut shared = 0;
            for allele in &a {
                if let Some(at) = b.iter().position(|other| other == allele) {
                    b.remove(at);
                    shared += 1;
                }
            }
            pair.ibs[shared] += 1;
            let [x, y] = [i, j].map(|sample| calls.dosage(row, sample).unwrap());
            pair.het_het += i64::from((x, y) == (1, 1));
            pair.opposite += i64::from((x - y).abs() == 2);
            pair.het[0] += i64::from(x == 1);
            pair.het[1] += i64::from(y == 1);
        }
        let called = |call: &[i64]| call.iter().copied().filter(|code| *code >= 0).collect();
        let [one, two]: [Vec<i64>; 2] = [one, two].map(called);
        if !one.is_empty() && !two.is_empty() {
            pair.distance_sites += 1;
            let unlike = |a: &i64| two.iter().filter(|b| a != *b).count();
            let unlike: usize = one.iter().map(unlike).sum();
            pair.distance += unlike as f64 / (one.len() * two.len()) as f64;
        }
    }
    pair
}

/// The dosages of a row, and how many there are and their sum.
struct RowDosages {
    of: Vec<Option<i64>>,
    complete: usize,
    sum: i64,
}

impl RowDosages {
    fn of_rows(calls: &Calls) -> Vec<Self> {
        let of_row = |row: &Vec<i64>| {
            let samples = 0..calls.shape.samples;
            let of: Vec<_> = samples.map(|sample| calls.dosage(row, sample)).collect();
            let (complete, sum) = (of.iter().flatten().count(), of.iter().flatten().sum());
            Self { of, complete, sum }
        };
        calls.rows.iter().map(of_row).collect()
    }

    fn mean(&self) -> f64 {
        self.sum as f64 / self.complete as f64
    }
}

/// GCTA's and VanRaden's relationship, their rows, and GCTA's sum.
fn grm_by_definition(all: &[RowDosages], i: usize, j: usize) -> (f64, f64, i64, f64, u64) {
    let (mut gcta, mut numerator, mut denominator, mut sites, mut rows) = (0.0, 0.0, 0.0, 0, 0);
    for row in all {
        let p = row.mean() / 2.0;
        if !(p > 0.0 && p < 1.0) {
            continue;
        }
        rows += 1;
        if let (Some(x), Some(y)) = (row.of[i], row.of[j]) {
            let product = (x as f64 - 2.0 * p) * (y as f64 - 2.0 * p);
            let variance = 2.0 * p * (1.0 - p);
            gcta += product / variance;
            numerator += product;
            denominator += variance;
            sites += 1;
        }
    }
    (
        gcta / sites as f64,
        numerator / denominator,
        sites,
        gcta,
        rows,
    )
}

fn covariance_by_definition(all: &[RowDosages], i: usize, j: usize) -> Option<f64> {
    let mut both = vec![];
    for row in all {
        let dosage = |sample: usize| row.of[sample].map(|x| x as f64);
        if let (Some(x), Some(y)) = (dosage(i), dosage(j)) {
            both.push((x - row.mean(), y - row.mean()));
        }
    }
    let n = both.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| both.iter().map(of).sum::<f64>() / n;
    let (first, second) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let products = both.iter().map(|(x, y)| (x - first) * (y - second));
    (both.len() > 1).then(|| products.sum::<f64>() / (n - 1.0))
}

fn near(found: f64, wanted: f64) {
    let scale = wanted.abs().max(1.0);
    assert!((found - wanted).abs() <= 1e-9 * scale, "{found} {wanted}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn individuals_are_compared((calls, cut) in calls()) {
        let found: IndividualPairs = counted(calls.shape, (), &calls, &cut);
        for i in 0..calls.shape.samples {
            for j in i + 1..calls.shape.samples {
                let (found, wanted) = (found.pair(i, j), pair_by_definition(&calls, i, j));
                near(found.distance, wanted.distance);
                let exact = |pair: IndividualPair| IndividualPair { distance: 0.0, ..pair };
                prop_assert_eq!(exact(found), exact(wanted), "{} {}", i, j);
                if calls.shape.ploidy < 3 {
                    prop_assert_eq!(found.distance, wanted.distance);
                }
            }
        }
        // The same of some first individuals.
        let firsts = cut.index(calls.shape.samples)..calls.shape.samples;
        let mut some = IndividualPairs::of_firsts(calls.shape, firsts.clone()).unwrap();
        let rows = calls.site_rows();
        let mut parts = rows.parts(calls.shape.copies(), 7);
        while let Some(part) = parts.next_part() {
            some.fold(&part, Level::detect(), &Workers::new(2, &|| false)).unwrap();
        }
        for i in firsts {
            for j in i + 1..calls.shape.samples {
                prop_assert_eq!(some.pair(i, j), found.pair(i, j), "{} {}", i, j);
            }
        }
    }

    #[test]
    fn haplotypes_are_compared((calls, cut) in calls()) {
        let copies = calls.shape.copies();
        let shape = Shape { samples: copies, ploidy: 1 };
        let found: HaplotypePairs = counted(shape, (), &calls, &cut);
        for i in 0..copies {
            for j in i + 1..copies {
                let both = calls.rows.iter().map(|row| (row[i], row[j]));
                let both: Vec<_> = both.filter(|(a, b)| *a >= 0 && *b >= 0).collect();
                let differ = both.iter().filter(|(a, b)| a != b).count();
                prop_assert_eq!(found.pair(i, j), (both.len() as u64, differ as u64));
            }
        }
    }

    #[test]
    fn relationships_are_means((calls, cut) in calls()) {
        let shape = calls.shape;
        let found: Relationship = counted(shape, Forms::Grm, &calls, &cut);
        let alone: Relationship = counted(shape, Forms::Gcta, &calls, &cut);
        let covariance: Relationship = counted(shape, Forms::Covariance, &calls, &cut);
        let dosages = RowDosages::of_rows(&calls);
        let values = GrmRows::new(&found);
        for i in 0..shape.samples {
            for j in i..shape.samples {
                let (gcta, vanraden, sites, sum, rows) = grm_by_definition(&dosages, i, j);
                match values.row(i).pair(j - i) {
                    Some(pair) => {
                        near(pair.gcta, gcta);
                        near(pair.vanraden, vanraden);
                        prop_assert_eq!(pair.sites, sites);
                    }
                    None => prop_assert_eq!(sites, 0),
                }
                prop_assert_eq!(alone.rows(), rows);
                if rows > 0 {
                    near(alone.gcta_over_rows(i, j), sum / rows as f64);
                }
                let wanted = covariance_by_definition(&dosages, i, j);
                let covariance = covariance.covariance(i, j);
                prop_assert_eq!(covariance.is_some(), wanted.is_some());
                near(covariance.unwrap_or(0.0), wanted.unwrap_or(0.0));
            }
        }
    }
}

#[test]
fn rows_are_removed_from_the_front() {
    let calls = Calls {
        shape: Shape {
            samples: 3,
            ploidy: 2,
        },
        rows: vec![vec![0, 1, 0, 0, 0, 0], vec![0; 6], vec![1, 2, -1, 0, 0, 0]],
    };
    let mut rows = calls.site_rows();
    let words = rows.words().to_vec();
    assert!(!rows.remove_first(&words[1..], 6, Level::Portable));
    assert!(rows.remove_first(&words[..2], 6, Level::Portable));
    assert_eq!((rows.len(), rows.words()), (2, &words[2..]));
    let mut others = SiteRows::default();
    assert!(others.extend(rows.words(), 6, Level::Portable));
    assert_eq!(others.len(), 2);
    for (most, wanted) in [(1, vec![1, 1]), (2, vec![2]), (9, vec![2])] {
        let mut parts = others.parts(6, most);
        let rows = std::iter::from_fn(|| parts.next_part().map(|part| part.len()));
        assert_eq!(rows.collect::<Vec<_>>(), wanted);
    }
    // Planes that there are none of, bits of copies that there are none of, and a list that is not shorter than its plane.
    for wrong in [&[1 << 40, 1][..], &[1, 1 << 6], &[1 << 60 | 1, 1, 5]] {
        assert!(!others.extend(wrong, 6, Level::Portable), "{wrong:?}");
    }
    assert!(!others.extend(&words[..1], 6, Level::Portable));
    assert!(
        rows.remove_first(&words[2..3], 6, Level::Portable)
            && rows.remove_first(&words[3..], 6, Level::Portable)
    );
    assert!(!rows.remove_first(&[], 6, Level::Portable));
}

#[test]
fn weights_are_rounded_once() {
    // p = 1/4 among 8: 2N²/(t(2N − t)) = 128/48, 2N t/… = 64/48, 2 t²/… = 32/48.
    let [terms, ..] = Forms::Gcta.terms(8, 4);
    let scale = f64::from(1u32 << (GCTA_BITS / 2)).powi(2);
    let wanted = [128.0, 64.0, 64.0, 32.0].map(|of: f64| (of / 48.0 * scale).round() as i64);
    assert_eq!(terms.pair, wanted);
}

#[test]
fn folding_stops() {
    let shape = Shape {
        samples: 40,
        ploidy: 2,
    };
    let rows = (0..600).map(|row| (0..80).map(move |copy| i64::from(copy % 7 > row % 5)));
    let rows = rows.map(Iterator::collect).collect();
    let rows = Calls { shape, rows }.site_rows();
    fn stops<M: PairMatrix>(shape: Shape, options: M::Options, rows: &SiteRows) {
        let mut parts = rows.parts(shape.copies(), usize::MAX);
        let part = parts.next_part().unwrap();
        for threads in [1, 2] {
            let mut matrix = M::try_new(shape, options).unwrap();
            let stopped = matrix.fold(&part, Level::detect(), &Workers::new(threads, &|| true));
            assert_eq!(stopped, Err(CountError::Stopped));
        }
    }
    stops::<IndividualPairs>(shape, (), &rows);
    stops::<HaplotypePairs>(
        Shape {
            samples: 80,
            ploidy: 1,
        },
        (),
        &rows,
    );
    stops::<Relationship>(shape, Forms::Grm, &rows);
}
