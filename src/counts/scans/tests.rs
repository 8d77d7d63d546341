//! Scans agree with comparing all pairs of copies, row by row.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::bit_rows::BitRows;
use super::part::ScannedRow;
use super::*;
use crate::counts::gathered::{GatheredPlanes, PlanesRow};

/// Rows of codes with their positions.
type Rows = Vec<(i64, Vec<i64>)>;

fn words(row: &[i64]) -> Vec<u64> {
    let mut planes = GatheredPlanes::default();
    planes.reset(1, row.len(), 4).unwrap();
    for (copy, code) in row.iter().enumerate() {
        planes.set(0, copy, *code);
    }
    let mut words = vec![];
    planes.push_row(0, &mut words);
    words
}

/// Does all jobs.
fn score_all(scores: &Scores, step: usize) {
    loop {
        let jobs = scores.jobs(step);
        if jobs.is_empty() {
            return;
        }
        jobs.into_iter().for_each(|job| job());
    }
}

/// The scan's rows, scored in `parts` parts, `step` rows at a time.
fn scanned(
    measure: Measure,
    groups: &Groups,
    rows: &Rows,
    min_maf: f64,
    (parts, step): (usize, usize),
) -> Vec<ScannedRow> {
    let copies = rows.first().map_or(0, |(_, codes)| codes.len());
    let mut contig = ContigScan::new(measure, groups, copies);
    for (at, (position, codes)) in rows.iter().enumerate() {
        let words = words(codes);
        let planes = PlanesRow::try_new(&words, copies).unwrap();
        if let Some((plane, carriers)) = kept(planes, copies, min_maf) {
            contig
                .add(at as u64, *position, plane, carriers as u32)
                .unwrap();
        }
    }
    let mut scores = contig.in_parts(parts);
    score_all(&scores, step);
    let mut found = vec![];
    while !scores.is_empty() {
        found.extend(scores.next_rows(step));
    }
    found
}

/// Over how many rows from row `at` on, in steps of `step`, copies agree.
fn shared(rows: &[&(i64, Vec<i64>)], at: usize, step: isize, one: usize, two: usize) -> usize {
    let mut length = 0;
    let mut row = at as isize;
    while let Some((_, codes)) = usize::try_from(row).ok().and_then(|row| rows.get(row)) {
        if codes[one] != codes[two] {
            break;
        }
        length += 1;
        row += step;
    }
    length
}

/// The integral of a group to one side, of which NaN is none.
fn integral(rows: &[&(i64, Vec<i64>)], at: usize, step: isize, pairs: &[(usize, usize)]) -> f64 {
    let lengths: Vec<usize> = pairs
        .iter()
        .map(|(one, two)| shared(rows, at, step, *one, *two))
        .collect();
    let ehh = |length: usize| {
        let identical = lengths.iter().filter(|found| **found >= length).count();
        identical as f64 / pairs.len() as f64
    };
    if pairs.is_empty() {
        return f64::NAN;
    }
    let (mut integral, mut length, mut row) = (0.0, 1, at as isize);
    while ehh(length) > 0.05 {
        let next = usize::try_from(row + step).ok();
        let Some((position, _)) = next.and_then(|next| rows.get(next)) else {
            return f64::NAN;
        };
        let gap = (position - rows[row as usize].0).abs();
        if gap > 200_000 {
            return f64::NAN;
        }
        integral += gap.min(20_000) as f64 * (ehh(length) + ehh(length + 1)) / 2.0;
        length += 1;
        row += step;
    }
    integral
}

/// The rows that are scanned, and their scores, by the definitions.
fn expected(measure: Measure, groups: &Groups, rows: &Rows, min_maf: f64) -> Vec<ScannedRow> {
    let is_kept = |codes: &[i64]| {
        let ones = codes.iter().filter(|code| **code == 1).count();
        let minor = ones.min(codes.len() - ones) as f64 / codes.len() as f64;
        !codes.is_empty() && codes.iter().all(|code| [0, 1].contains(code)) && minor >= min_maf
    };
    let numbered = rows.iter().enumerate();
    let (numbers, kept): (Vec<usize>, Vec<_>) =
        numbered.filter(|(_, (_, codes))| is_kept(codes)).unzip();
    let score = |at: usize| {
        let codes = &kept[at].1;
        let members = |group: usize| -> Vec<usize> {
            match groups {
                Groups::Alleles(_) => (0..codes.len())
                    .filter(|copy| codes[*copy] == 1 - group as i64)
                    .collect(),
                Groups::Populations(all) => all[group].iter().map(|copy| *copy as usize).collect(),
            }
        };
        let value = |group: usize| {
            let members = members(group);
            let mut pairs = vec![];
            for (at, one) in members.iter().enumerate() {
                pairs.extend(members[at + 1..].iter().map(|two| (*one, *two)));
            }
            match measure {
                Measure::SharedLength => {
                    let both_sides = |(one, two): &(usize, usize)| {
                        shared(&kept, at, -1, *one, *two) + shared(&kept, at, 1, *one, *two)
                    };
                    pairs.iter().map(both_sides).sum::<usize>() as f64 / pairs.len() as f64
                }
                Measure::Homozygosity => {
                    integral(&kept, at, -1, &pairs) + integral(&kept, at, 1, &pairs)
                }
            }
        };
        let score = (value(0) / value(1)).ln();
        score.is_finite().then_some(score)
    };
    let row = |(at, number): (usize, &usize)| ScannedRow {
        row: *number as u64,
        position: kept[at].0,
        carriers: kept[at].1.iter().filter(|code| **code == 1).count() as u32,
        score: score(at),
    };
    numbers.iter().enumerate().map(row).collect()
}

fn assert_equal(found: &[ScannedRow], expected: &[ScannedRow]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let exact = |row: &ScannedRow| (row.row, row.position, row.carriers, row.score.is_some());
        assert_eq!(exact(found), exact(expected), "{found:?} {expected:?}");
        let (found, expected) = (
            found.score.unwrap_or_default(),
            expected.score.unwrap_or_default(),
        );
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }
}

/// Rows of codes that are mostly 0 and 1, in which copies are alike over stretches of rows.
fn rows() -> impl Strategy<Value = Rows> {
    let copies = prop_oneof![1usize..9, 30usize..34, 62usize..67];
    (copies, 0usize..30).prop_flat_map(|(copies, rows)| {
        let founders = 1usize..6;
        let gap = prop_oneof![
            0i64..4,
            100i64..3000,
            100i64..3000,
            15_000i64..25_000,
            Just(20_000i64),
            Just(200_000i64),
            Just(200_001i64),
        ];
        let code = prop_oneof![
            50 => 0i64..2,
            1 => prop::sample::select(vec![-1i64, -2, 2, 3]),
        ];
        let row = (gap, vec(code, 6), vec(0usize..copies, 0..3), 0usize..40);
        (founders, vec(row, rows)).prop_map(move |(founders, rows)| {
            let mut of: Vec<usize> = (0..copies).map(|copy| copy % founders).collect();
            let mut position = 1;
            let mut all = vec![];
            for (gap, alleles, changed, flipped) in rows {
                position += gap;
                for copy in changed {
                    of[copy] = (of[copy] + 1) % 6;
                }
                let mut codes: Vec<i64> = of.iter().map(|founder| alleles[*founder]).collect();
                if let Some(code) = codes.get_mut(flipped)
                    && *code >= 0
                {
                    *code = 1 - (*code).min(1);
                }
                all.push((position, codes));
            }
            all
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn alleles_are_compared_by_all_pairs(rows in rows(), min_maf in prop::sample::select(vec![0.0, 0.05, 0.3, 0.5]), parts in 1usize..6, step in 1usize..50) {
        let copies = rows.first().map_or(0, |(_, codes)| codes.len());
        for measure in [Measure::SharedLength, Measure::Homozygosity] {
            let groups = Groups::Alleles(copies as u32);
            let found = scanned(measure, &groups, &rows, min_maf, (parts, step));
            assert_equal(&found, &expected(measure, &groups, &rows, min_maf));
            // The number of parts, or of rows at a time, changes no bit.
            prop_assert_eq!(found, scanned(measure, &groups, &rows, min_maf, (1, usize::MAX)));
        }
    }

    #[test]
    fn populations_are_compared_by_all_pairs(rows in rows(), cut in 0usize..67, overlap in 0usize..5, parts in 1usize..4, min_maf in prop::sample::select(vec![0.0, 0.1])) {
        let copies = rows.first().map_or(0, |(_, codes)| codes.len());
        let cut = cut.min(copies);
        let first: Arc<[u32]> = (0..cut as u32).collect();
        let second: Arc<[u32]> = (cut.saturating_sub(overlap) as u32..copies as u32).collect();
        for measure in [Measure::SharedLength, Measure::Homozygosity] {
            let groups = Groups::Populations([Arc::clone(&first), Arc::clone(&second)]);
            let found = scanned(measure, &groups, &rows, min_maf, (parts, 7));
            assert_equal(&found, &expected(measure, &groups, &rows, min_maf));
        }
    }
}

/// Four copies at three rows, by hand.
#[test]
fn scores_by_hand() {
    let rows: Rows = vec![
        (100, vec![1, 1, 0, 0]),
        (200, vec![1, 1, 0, 0]),
        (30_200, vec![1, 0, 0, 0]),
        (230_201, vec![1, 1, 0, 0]),
    ];
    let nsl = scanned(
        Measure::SharedLength,
        &Groups::Alleles(4),
        &rows,
        0.05,
        (1, 1),
    );
    let ratios = [(3, 5), (3, 5)].map(|(one, zero)| Some((f64::from(one) / f64::from(zero)).ln()));
    assert_eq!([nsl[0].score, nsl[1].score], ratios);
    // One carrier of allele 1.
    assert_eq!(nsl[2].score, None);
    // Every integral meets an end of the contig, or the wide gap.
    let ihs = scanned(
        Measure::Homozygosity,
        &Groups::Alleles(4),
        &rows,
        0.05,
        (1, 1),
    );
    assert!(ihs.iter().all(|row| row.score.is_none()));
    // Both alleles end on both sides; the gap of 30,000 bases counts 20,000.
    let rows: Rows = vec![
        (100, vec![1, 0, 1, 0]),
        (200, vec![1, 1, 0, 0]),
        (30_200, vec![1, 0, 1, 0]),
    ];
    let ihs = scanned(
        Measure::Homozygosity,
        &Groups::Alleles(4),
        &rows,
        0.05,
        (1, 1),
    );
    assert_eq!(ihs[1].score, Some(0.0));
    let [all, minor] = [0.0, 0.26].map(|min_maf| {
        let rows: Rows = vec![
            (1, vec![0, 0, 0, 0]),
            (2, vec![1, 0, 0, 0]),
            (3, vec![1, 1, 0, 0]),
        ];
        scanned(
            Measure::SharedLength,
            &Groups::Alleles(4),
            &rows,
            min_maf,
            (1, 1),
        )
    });
    assert_eq!((all.len(), minor.len()), (3, 1));
    assert_eq!(minor[0].score, Some(0.0));
}

#[test]
fn frequencies_of_exactly_the_least_are_kept() {
    let keeps = |carriers: usize, copies: usize, min_maf: f64| {
        let row: Vec<i64> = (0..copies).map(|copy| i64::from(copy < carriers)).collect();
        let words = words(&row);
        kept(PlanesRow::try_new(&words, copies).unwrap(), copies, min_maf).is_some()
    };
    assert!(keeps(5, 100, 0.05) && !keeps(4, 100, 0.05));
    assert!(keeps(95, 100, 0.05) && !keeps(96, 100, 0.05));
    assert!(keeps(3, 30, 0.1) && keeps(1, 2, 0.5) && !keeps(1, 3, 0.5));
    assert!(keeps(0, 3, 0.0) && keeps(3, 3, 0.0) && !keeps(0, 3, 0.01));
}

#[test]
fn bits_are_kept_in_blocks() {
    for width in [0, 1, 1000, 40_000] {
        let mut rows = BitRows::new(width);
        let row = |at: usize| vec![at as u64; width];
        for at in 0..100 {
            rows.push(&row(at));
        }
        assert!(rows.heap_bytes() >= 100 * width * 8);
        for at in 0..100 {
            assert_eq!(rows.row(at)[..width], row(at));
        }
        assert!(width == 0 || rows.row(100_000).is_empty());
    }
    let mut rows = BitRows::new(2);
    rows.push(&[]);
    assert_eq!(rows.row(0), [0, 0]);
}

#[test]
fn memory_is_counted_and_given_back() {
    for measure in [Measure::SharedLength, Measure::Homozygosity] {
        let mut contig = ContigScan::new(measure, &Groups::Alleles(1000), 1000);
        let plane = vec![u64::MAX >> 24; 16];
        for at in 0..10_000 {
            contig.add(at, at as i64, &plane, 640).unwrap();
        }
        let gathered = contig.heap_bytes();
        assert!(gathered >= 10_000 * 16 * 8);
        let mut scores = contig.close(3);
        let jobs = scores.jobs(10);
        assert_eq!(jobs.len(), 3);
        jobs.into_iter().for_each(|job| job());
        assert!(scores.heap_bytes() >= gathered + 10_000 * 16 + 3 * 1000 * 24);
        score_all(&scores, 5000);
        assert!(scores.heap_bytes() <= gathered + 10_000 * 16 + 1000);
        assert_eq!(scores.next_rows(usize::MAX).len(), 10_000);
        assert!(scores.is_empty());
    }
}
