//! Kernels over pairs of sites agree with counting bit by bit, on every instruction set.

use arrow::buffer::ScalarBuffer;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::counts::Level;
use crate::counts::gathered::{GatheredPlanes, PlanesRow};
use crate::counts::pairs::Shape;

/// Sites of codes.
fn sites() -> impl Strategy<Value = (usize, Vec<Vec<i64>>)> {
    let copies = prop_oneof![1usize..9, 60usize..70, 500usize..530, Just(33_000)];
    (copies, 1usize..9).prop_flat_map(|(copies, rows)| {
        let code = prop_oneof![
            prop::sample::select(vec![0i64, 0, 0, 1]).boxed(),
            prop::sample::select(vec![0i64, 1, 3, -1, -2]).boxed(),
        ];
        let short = vec(code, 1..40);
        let row = short.prop_map(move |codes| {
            let at = |copy: usize| codes[(copy * 7 + copy / 13) % codes.len()];
            (0..copies).map(at).collect()
        });
        (Just(copies), vec(row, rows))
    })
}

fn bits(row: &[i64]) -> SiteBits {
    let mut planes = GatheredPlanes::default();
    planes.reset(1, row.len(), 4).unwrap();
    for (copy, code) in row.iter().enumerate() {
        planes.set(0, copy, *code);
    }
    let mut words = vec![];
    planes.push_row(0, &mut words);
    let mut bits = SiteBits::default();
    bits.of_copies(PlanesRow::try_new(&words, row.len()).unwrap(), row.len());
    bits
}

/// n, a, b and x of two sites.
fn counts(one: &[i64], two: &[i64]) -> [u32; 4] {
    let both = || one.iter().zip(two).filter(|(a, b)| **a >= 0 && **b >= 0);
    let count = |is: fn(&(&i64, &i64)) -> bool| both().filter(is).count() as u32;
    [
        count(|_| true),
        count(|(a, _)| **a > 0),
        count(|(_, b)| **b > 0),
        count(|(a, b)| **a > 0 && **b > 0),
    ]
}

fn r2(one: &[i64], two: &[i64]) -> Option<f64> {
    let [n, a, b, x] = counts(one, two).map(f64::from);
    r2_of(n, a, b, x)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn blocks_are_counted_bit_by_bit((copies, rows) in sites()) {
        let all: Vec<SiteBits> = rows.iter().map(|row| bits(row)).collect();
        let mut block = Block::new(copies);
        let planes = all.iter().map(|bits| {
            let called = (!bits.called.is_empty()).then_some(bits.called.as_slice());
            (Some(bits.alternate.as_slice()), called)
        });
        block.load(planes);
        block.fill_called();
        prop_assert_eq!(block.is_complete(), rows.iter().flatten().all(|code| *code >= 0));
        let mut ranges: Ranges = [const { 0..0 }; BLOCK];
        ranges[..rows.len()].fill(0..rows.len() as u8);
        for level in Level::available() {
            let planes = [
                (&block.called, &block.called),
                (&block.alternate, &block.called),
                (&block.called, &block.alternate),
                (&block.alternate, &block.alternate),
            ];
            for (at, (first, second)) in planes.into_iter().enumerate() {
                let mut found: Box<JointCounts> = Box::new([[9; BLOCK]; BLOCK]);
                joint_counts(level, first, second, &ranges, &mut found);
                for (i, one) in rows.iter().enumerate() {
                    for (j, two) in rows.iter().enumerate() {
                        prop_assert_eq!(found[i][j], counts(one, two)[at], "{:?} {} {} {}", level, at, i, j);
                    }
                }
            }
        }
    }

    #[test]
    fn windows_find_pairs_above_a_threshold((copies, rows) in sites(), threshold in 0.0f64..1.0, removed in 0usize..4) {
        let segregating: Vec<&Vec<i64>> = rows.iter().filter(|row| bits(row).is_segregating()).collect();
        for level in Level::available() {
            let mut window = SiteWindow::new(copies, level);
            for (at, row) in segregating.iter().enumerate() {
                if at == 5 {
                    window.remove_first(removed);
                }
                let first = if at >= 5 { removed } else { 0 };
                for threshold in [threshold, 0.0, 1.0] {
                    let expected = segregating[first..at].iter().any(|other| r2(other, row).is_some_and(|r2| r2 > threshold));
                    prop_assert_eq!(window.exceeds(&bits(row), Threshold(threshold)), expected, "{:?} {}", level, at);
                }
                window.push(&bits(row));
                prop_assert_eq!(window.len(), at + 1 - first);
            }
        }
    }

    #[test]
    fn records_come_back((copies, rows) in sites()) {
        let of = Copies { first: copies, second: Some(copies) };
        let mut records = SiteRecords::default();
        let all: Vec<[SiteBits; 2]> = rows.iter().map(|row| [bits(row), bits(&rows[0])]).collect();
        for (at, bits) in all.iter().enumerate() {
            records.push(at as f64, bits);
        }
        let mut read = SiteRecords::default();
        let words = words_of(&records);
        prop_assert!(read.extend(words.clone().into(), of));
        prop_assert_eq!(read.iter(of).count(), rows.len());
        for (at, (record, bits)) in read.iter(of).zip(&all).enumerate() {
            prop_assert_eq!(record.position, at as f64);
            for (population, bits) in bits.iter().enumerate() {
                prop_assert_eq!(record.n(population, copies), bits.n);
                if record.varies() {
                    prop_assert_eq!(record.alternate[population].is_some(), bits.d > 0);
                }
            }
        }
        prop_assert!(!SiteRecords::default().extend(vec![0, 1 << 9].into(), of));
        prop_assert!(!SiteRecords::default().extend(vec![0].into(), of));
        if words.len() > 2 {
            let cut = words[..words.len() - 1].to_vec();
            prop_assert!(!SiteRecords::default().extend(cut.into(), of) || words[words.len() - 1] == 0);
        }
        for (at, bits) in all.iter().enumerate() {
            prop_assert!(!read.remove_first(-1.0, bits));
            prop_assert!(read.remove_first(at as f64, bits));
        }
        prop_assert_eq!(read.len(), 0);
    }
}

fn words_of(records: &SiteRecords) -> Vec<u64> {
    let (shared, words) = records.parts();
    let mut all: Vec<u64> = shared.flat_map(|part| part.to_vec()).collect();
    all.extend_from_slice(words);
    all
}

/// Sites leave in the order in which they came, whatever parts they are in.
#[test]
fn first_sites_leave_many() {
    let copies = 33_000;
    let row = |at: i64| -> Vec<i64> {
        (0..copies as i64)
            .map(|copy| i64::from(copy % 7 == at % 7))
            .collect()
    };
    let all: Vec<[SiteBits; 1]> = (0..7).map(|at| [bits(&row(at))]).collect();
    let of = Copies {
        first: copies,
        second: None,
    };
    let mut records = SiteRecords::default();
    let mut removed = 0;
    for at in 0..2_500usize {
        records.push(at as f64, &all[at % 7]);
        if at >= 1_500 || at % 3 == 2 {
            assert!(!records.remove_first(-1.0, &all[removed % 7]));
            assert!(records.remove_first(removed as f64, &all[removed % 7]));
            removed += 1;
        }
        assert_eq!(records.len(), at + 1 - removed);
    }
    let positions: Vec<f64> = records.iter(of).map(|site| site.position).collect();
    assert_eq!(
        positions,
        (removed..2_500).map(|at| at as f64).collect::<Vec<_>>()
    );
    let (shared, words) = records.parts();
    let rows: usize = shared.map(|part| part.len()).sum::<usize>() + words.len();
    assert!(rows.is_multiple_of(positions.len()));
}

/// Many words are not copied, and are in the place that their first position gives them.
#[test]
fn large_records_are_shared() {
    let copies = 33_000;
    let of = Copies {
        first: copies,
        second: None,
    };
    let row: Vec<i64> = (0..copies as i64).map(|copy| copy % 2).collect();
    let bits = [bits(&row)];
    let some = |positions: std::ops::Range<usize>| {
        let mut records = SiteRecords::default();
        positions.for_each(|at| records.push(at as f64, &bits));
        records
    };
    let merged = ScalarBuffer::from(words_of(&some(300..500)));
    let mut records = some(700..900);
    assert!(records.extend(merged.clone(), of));
    let first = some(0..3);
    assert!(records.extend(words_of(&first).into(), of));
    let is_shared = |part: ScalarBuffer<u64>| part.as_ptr() == merged.as_ptr();
    assert!(records.parts().0.any(is_shared));
    let positions: Vec<f64> = records.iter(of).map(|site| site.position).collect();
    let expected = (300..500).chain(700..900).chain(0..3);
    assert_eq!(positions, expected.map(f64::from).collect::<Vec<_>>());
    assert_eq!(records.len(), positions.len());
    assert!(!records.remove_first(700.0, &bits));
    let words = words_of(&records);
    assert!(records.heap_bytes() >= words.len() * size_of::<u64>());
}

#[test]
fn diploids_of_any_ploidy() {
    let of = |codes: &[i64], ploidy: usize| {
        let mut planes = GatheredPlanes::default();
        planes.reset(1, codes.len(), 4).unwrap();
        for (copy, code) in codes.iter().enumerate() {
            planes.set(0, copy, *code);
        }
        let mut words = vec![];
        planes.push_row(0, &mut words);
        let mut bits = SiteBits::default();
        let shape = Shape {
            samples: codes.len() / ploidy,
            ploidy,
        };
        bits.of_diploids(PlanesRow::try_new(&words, codes.len()).unwrap(), shape);
        (bits.alternate, bits.called, bits.n, bits.d)
    };
    assert_eq!(
        of(&[0, 1, 3, -1, 1, -2, 2, 1], 2),
        (vec![0b1100_0010], vec![0b1100_0011], 4, 3)
    );
    assert_eq!(of(&[0, 1, 1, 1], 2), (vec![0b1110], vec![], 4, 3));
    assert_eq!(
        of(&[0, -2, 1, 0, 1, 1, -2, 1, -1], 3),
        (vec![0b10], vec![0b11], 2, 1)
    );
    assert_eq!(of(&[0, 1, 1], 1), (vec![0], vec![0], 0, 0));
}
