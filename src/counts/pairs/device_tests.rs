//! Counts of which a device has some are the same as those of the host alone.

use std::any::Any;
use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;

use super::tests::{Calls, calls};
use super::*;
use crate::counts::gathered::plane_words;
use crate::counts::{CountError, Level, ResidentPart, ResidentRow, ResidentRows, Workers};

/// A device in software, which counts pair by pair. It refuses some units.
#[derive(Debug)]
struct SoftwareDevice {
    refused: Option<Units>,
}

#[derive(Debug)]
struct SoftwareCounter {
    units: Units,
    copies: usize,
    /// Of each row whether each unit has a bit.
    rows: Mutex<Vec<Vec<bool>>>,
}

/// Rows that are on it, by set: the planes of each row.
#[derive(Debug)]
struct SoftwareRows(Vec<Vec<Vec<u64>>>);

impl ResidentRows for SoftwareRows {}

#[derive(Debug)]
struct Kept;

impl KeepsRows for Kept {
    fn devices(&self) -> u64 {
        1
    }

    fn bytes(&self) -> usize {
        1 << 20
    }
}

/// The words of all rows of parts, of so many copies.
fn words_of(parts: &[ResidentPart], copies: usize) -> Vec<Vec<u64>> {
    let of_part = |part: &ResidentPart| {
        let rows: &dyn Any = &*part.chunk;
        let rows = &rows.downcast_ref::<SoftwareRows>().unwrap().0[part.set as usize];
        let of_row = |row: &ResidentRow| {
            let words = rows[row.row as usize].iter().enumerate();
            let word = |(at, word): (usize, &u64)| match row.is_inverted {
                true => !word & u64::MAX >> (64 - (copies - 64 * at).min(64)),
                false => *word,
            };
            words.map(word).collect()
        };
        part.rows.iter().map(of_row).collect::<Vec<Vec<u64>>>()
    };
    parts.iter().flat_map(of_part).collect()
}

impl PairDevice for SoftwareDevice {
    fn keep_rows(&self) -> Option<Box<dyn KeepsRows>> {
        Some(Box::new(Kept))
    }

    fn counter(
        &self,
        units: Units,
        copies: usize,
    ) -> Result<Option<Box<dyn UnitCounter>>, CountError> {
        let counter = SoftwareCounter {
            units,
            copies,
            rows: Mutex::default(),
        };
        Ok((self.refused != Some(units)).then(|| Box::new(counter) as _))
    }

    fn weighted_counter(
        &self,
        samples: usize,
        classes: Vec<ClassWeights>,
    ) -> Result<Option<Box<dyn WeightedCounter>>, CountError> {
        let sums = || vec![0; samples * (samples + 1) / 2];
        let counter = SoftwareSums {
            samples,
            classes,
            sums: Mutex::new(WeightedSums {
                pairs: [sums(), sums()],
                singles: [vec![0; samples], vec![0; samples]],
            }),
        };
        Ok((self.refused.is_none()).then(|| Box::new(counter) as _))
    }

    fn sample_counter(&self, _: usize) -> Result<Option<Box<dyn SampleCounter>>, CountError> {
        Ok(None)
    }
}

/// Weighted sums in software.
#[derive(Debug)]
struct SoftwareSums {
    samples: usize,
    classes: Vec<ClassWeights>,
    sums: Mutex<WeightedSums>,
}

impl WeightedCounter for SoftwareSums {
    fn add(
        &self,
        classes: &[u32],
        set: &mut SetRows<'_>,
        _workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let row_words = plane_words(2 * self.samples);
        let mut words = vec![u64::MAX; classes.len() * row_words];
        set(0..classes.len(), &mut words)?;
        let mut sums = self.sums.lock();
        for (class, row) in classes.iter().zip(words.chunks(row_words)) {
            let bit = |copy: usize| (row[copy / 64] >> (copy % 64) & 1) as i128;
            assert!((2 * self.samples..row_words * 64).all(|past| bit(past) == 0));
            let dosage = |sample: usize| bit(2 * sample) + bit(2 * sample + 1);
            let weights = self.classes[*class as usize];
            let samples = || 0..self.samples;
            for (set, weight) in weights.singles.iter().enumerate() {
                for sample in samples() {
                    sums.singles[set][sample] += i128::from(*weight) * dosage(sample);
                }
            }
            let pairs = || samples().flat_map(|i| (i..self.samples).map(move |j| (i, j)));
            for (set, weight) in weights.pairs.iter().enumerate() {
                for (at, (i, j)) in pairs().enumerate() {
                    sums.pairs[set][at] += i128::from(*weight) * dosage(i) * dosage(j);
                }
            }
        }
        Ok(())
    }

    fn add_resident(
        &self,
        classes: &[u32],
        parts: &[ResidentPart],
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let rows = words_of(parts, 2 * self.samples);
        let mut set = |range: std::ops::Range<usize>, to: &mut [u64]| {
            to.copy_from_slice(&rows[range].concat());
            Ok(())
        };
        self.add(classes, &mut set, workers)
    }

    fn take(self: Box<Self>, _workers: &Workers<'_>) -> Result<WeightedSums, CountError> {
        let mut sums = self.sums.into_inner();
        // Without a weight there are no sums.
        for set in 0..2 {
            if self.classes.iter().all(|class| class.pairs[set] == 0) {
                sums.pairs[set] = vec![];
            }
        }
        Ok(sums)
    }
}

impl UnitCounter for SoftwareCounter {
    fn add(
        &self,
        rows: usize,
        set: &mut SetRows<'_>,
        _workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let width = plane_words(self.copies);
        let row_words = width * self.units.planes();
        let mut all = self.rows.lock();
        for begin in (0..rows).step_by(3) {
            let some = begin..rows.min(begin + 3);
            let mut words = vec![u64::MAX; some.len() * row_words];
            set(some, &mut words)?;
            for row in words.chunks(row_words) {
                let bit = |plane: usize, copy: usize| {
                    row.get(plane * width + copy / 64)
                        .is_some_and(|word| word >> (copy % 64) & 1 == 1)
                };
                let (has, called) = (|copy| bit(0, copy), |copy| !bit(1, copy));
                let has_called = self.units.planes() == 2;
                let mut units: Vec<bool> = vec![];
                match self.units {
                    Units::Copies | Units::CopiesCalled => {
                        units.extend((0..self.copies).map(has));
                        units.extend((0..self.copies).filter(|_| has_called).map(called));
                    }
                    Units::Diploids | Units::DiploidsCalled => {
                        let of = || (0..self.copies / 2).map(|sample| [2 * sample, 2 * sample + 1]);
                        let both = |copies: [usize; 2]| {
                            !has_called || copies.iter().all(|copy| called(*copy))
                        };
                        units.extend(of().map(|of| both(of) && has(of[0]) != has(of[1])));
                        units.extend(of().map(|of| both(of) && has(of[0]) && has(of[1])));
                        units.extend(of().filter(|_| has_called).map(both));
                    }
                }
                assert_eq!(units.len(), self.units.number(self.copies));
                all.push(units);
            }
        }
        Ok(())
    }

    fn add_resident(
        &self,
        parts: &[ResidentPart],
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        let rows = words_of(parts, self.copies);
        let mut set = |range: std::ops::Range<usize>, to: &mut [u64]| {
            to.copy_from_slice(&rows[range].concat());
            Ok(())
        };
        self.add(rows.len(), &mut set, workers)
    }

    fn take(self: Box<Self>, add: &mut AddSums<'_>) -> Result<(), CountError> {
        let (units, rows) = (self.units, self.rows.into_inner());
        let n = units.paired(self.copies);
        // The sums of a pair at a row, from their definition.
        let of_pair = |row: &[bool], i: usize, j: usize| {
            let called = |from: usize| row[from + i] && row[from + j];
            let het = |of: usize| row[of];
            let hom = |of: usize| !het(of) && row[n + of];
            let opposite = || !het(i) && !het(j) && hom(i) != hom(j);
            match units {
                Units::Copies => vec![row[i] != row[j]],
                Units::CopiesCalled => vec![called(n) && row[i] != row[j], called(n)],
                Units::Diploids => vec![het(i) && het(j), opposite()],
                Units::DiploidsCalled => {
                    let both = called(2 * n);
                    let of_both = [het(i) && het(j), opposite(), true, het(i), het(j)];
                    of_both.map(|is| both && is).to_vec()
                }
            }
        };
        let [sums, of_each] = units.sums();
        for (at, piece) in units.pieces(self.copies, 20).enumerate() {
            let firsts = piece.firsts.clone();
            let pairs: Vec<_> = firsts
                .flat_map(|i| (i + 1..n).map(move |j| (i, j)))
                .collect();
            assert_eq!(pairs.len(), piece.pairs.len());
            let mut numbers = vec![];
            for sum in 0..sums {
                numbers.extend(pairs.iter().map(|(i, j)| {
                    let has = |row: &&Vec<bool>| of_pair(row, *i, *j)[sum];
                    rows.iter().filter(has).count() as u32
                }));
            }
            for _ in 0..of_each {
                let firsts = piece.firsts.clone();
                numbers.extend(firsts.map(|i| rows.iter().filter(|row| row[i]).count() as u32));
            }
            assert_eq!(numbers.len(), units.numbers(&piece));
            let slices: Vec<_> = numbers.chunks(1 + at % 7).collect();
            add(&PairSums {
                piece,
                numbers: &slices,
            })?;
        }
        Ok(())
    }
}

#[test]
fn pieces_have_each_pair_once() {
    for units in [
        Units::Copies,
        Units::CopiesCalled,
        Units::Diploids,
        Units::DiploidsCalled,
    ] {
        for (copies, most) in [(0, 5), (1, 5), (2, 5), (9, 1), (20, 30), (21, 1000)] {
            let n = units.paired(copies);
            let (mut first, mut pair) = (0, 0);
            for piece in units.pieces(copies, most) {
                assert_eq!((piece.firsts.start, piece.pairs.start), (first, pair));
                let pairs: usize = piece.firsts.clone().map(|i| n - 1 - i).sum();
                assert_eq!(piece.pairs.len(), pairs);
                assert!(piece.firsts.len() == 1 || units.numbers(&piece) <= most);
                (first, pair) = (piece.firsts.end, piece.pairs.end);
            }
            assert_eq!((first, pair), (n, pairs_of(n)));
        }
    }
}

#[test]
fn sums_of_other_pairs_are_refused() {
    let add = |numbers: &[&[u32]], pairs: usize| {
        let piece = PairPiece {
            firsts: 1..3,
            pairs: 3..6,
        };
        let (mut of_pairs, mut of_each) = (vec![1; pairs], vec![u32::MAX; 4]);
        let added = PairSums { piece, numbers }.add(
            vec![&mut of_pairs],
            vec![&mut of_each],
            &Workers::ALONE,
        );
        added.map(|()| (of_pairs, of_each))
    };
    let sums = (vec![1, 1, 1, 11, 21, 31], vec![u32::MAX, 3, 4, u32::MAX]);
    assert_eq!(add(&[&[10, 20], &[], &[30, 4, 5]], 6), Ok(sums));
    for (numbers, pairs) in [(&[10, 20, 30, 4][..], 6), (&[0; 6], 6), (&[0; 5], 5)] {
        assert!(matches!(add(&[numbers], pairs), Err(CountError::Device(_))));
    }
}

/// The counts of calls of which a device counts those that it can.
fn counted_on<M: PairMatrix>(
    calls: &Calls,
    shape: Shape,
    options: M::Options,
    refused: Option<Units>,
) -> M {
    let device = OnDevice::new(Arc::new(SoftwareDevice { refused }));
    let workers = Workers::new(3, &|| false);
    let mut matrix = M::try_new(shape, options).unwrap();
    let stay = M::counts_resident(shape, options, &device).unwrap();
    assert!(stay || refused.is_some() || shape.ploidy != 2);
    let rows = calls.site_rows();
    let mut parts = rows.parts(shape.copies(), 100);
    while let Some(part) = parts.next_part() {
        // Every other row of two alleles without missing calls is on the device.
        let stays = |at: &usize| stay && at.is_multiple_of(2) && part[*at].header() == 1;
        let (on_device, here): (Vec<usize>, Vec<usize>) = (0..part.len()).partition(stays);
        let planes = on_device.iter().map(|at| part[*at].all_planes().to_vec());
        let rows: Arc<dyn ResidentRows> = Arc::new(SoftwareRows(vec![vec![], planes.collect()]));
        let of = on_device.iter().enumerate().map(|(row, at)| ResidentRow {
            row: row as u32,
            ones: part[*at]
                .all_planes()
                .iter()
                .map(|word| word.count_ones())
                .sum(),
            is_inverted: false,
        });
        let parts = vec![ResidentPart {
            chunk: rows,
            set: 1,
            rows: of.collect(),
        }];
        if stay {
            M::send_resident(shape, options, &device, parts, &workers).unwrap();
        }
        let part: Vec<_> = here.into_iter().map(|at| part[at]).collect();
        let others = M::send(shape, options, &device, &part, &workers).unwrap();
        let others: Vec<_> = others.into_iter().map(|row| part[row]).collect();
        matrix.fold(&others, Level::detect(), &workers).unwrap();
    }
    matrix.add_counted(&device, &workers).unwrap();
    // Nothing is left there.
    matrix.add_counted(&device, &workers).unwrap();
    matrix
}

/// The same of the host alone.
fn counted<M: PairMatrix>(calls: &Calls, shape: Shape, options: M::Options) -> M {
    let mut matrix = M::try_new(shape, options).unwrap();
    let rows = calls.site_rows();
    let mut parts = rows.parts(shape.copies(), usize::MAX);
    while let Some(part) = parts.next_part() {
        matrix
            .fold(&part, Level::detect(), &Workers::ALONE)
            .unwrap();
    }
    matrix
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn individuals_are_the_same((calls, _) in calls()) {
        let shape = calls.shape;
        let alone: IndividualPairs = counted(&calls, shape, ());
        for refused in [None, Some(Units::Diploids), Some(Units::DiploidsCalled)] {
            let found: IndividualPairs = counted_on(&calls, shape, (), refused);
            for i in 0..shape.samples {
                for j in i + 1..shape.samples {
                    prop_assert_eq!(found.pair(i, j), alone.pair(i, j), "{} {} {:?}", i, j, refused);
                }
            }
        }
    }

    #[test]
    fn relationships_are_the_same((calls, _) in calls()) {
        let shape = calls.shape;
        for forms in [Forms::Grm, Forms::Gcta, Forms::Covariance] {
            let alone: Relationship = counted(&calls, shape, forms);
            for refused in [None, Some(Units::Copies)] {
                let found: Relationship = counted_on(&calls, shape, forms, refused);
                let of_pair = |of: &Relationship, i, j| match forms {
                    Forms::Grm => GrmRows::new(of).row(i).pair(j - i).map(|pair| [pair.gcta, pair.vanraden, pair.sites as f64]),
                    Forms::Gcta => (of.rows() > 0).then(|| [of.gcta_over_rows(i, j); 3]),
                    Forms::Covariance => of.covariance(i, j).map(|covariance| [covariance; 3]),
                };
                for i in 0..shape.samples {
                    for j in i..shape.samples {
                        let (one, other) = (of_pair(&found, i, j), of_pair(&alone, i, j));
                        let bits = |of: Option<[f64; 3]>| of.map(|of| of.map(f64::to_bits));
                        prop_assert_eq!(bits(one), bits(other), "{} {} {:?}: {:?} {:?}", i, j, forms, one, other);
                    }
                }
                prop_assert_eq!(found.rows(), alone.rows());
            }
        }
    }

    #[test]
    fn haplotypes_are_the_same((calls, _) in calls()) {
        let copies = calls.shape.copies();
        let shape = Shape { samples: copies, ploidy: 1 };
        let alone: HaplotypePairs = counted(&calls, shape, ());
        for refused in [None, Some(Units::Copies), Some(Units::CopiesCalled)] {
            let found: HaplotypePairs = counted_on(&calls, shape, (), refused);
            for i in 0..copies {
                for j in i + 1..copies {
                    prop_assert_eq!(found.pair(i, j), alone.pair(i, j), "{} {} {:?}", i, j, refused);
                }
            }
        }
    }
}
