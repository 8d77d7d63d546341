//! Counts of which a device has some are the same as those of the host alone.

use std::sync::Arc;

use proptest::prelude::*;

use super::tests::{Calls, calls};
use super::*;
use crate::counts::gathered::plane_words;
use crate::counts::{CountError, Level, Workers};

/// A device in software, which counts pair by pair. It refuses some units.
#[derive(Debug)]
struct SoftwareDevice {
    refused: Option<Units>,
}

#[derive(Debug)]
struct SoftwareCounter {
    units: Units,
    copies: usize,
    counts: Vec<u32>,
}

impl PairDevice for SoftwareDevice {
    fn counter(
        &self,
        units: Units,
        copies: usize,
    ) -> Result<Option<Box<dyn UnitCounter>>, CountError> {
        let counts = vec![0; units.number(copies).pow(2)];
        let counter = SoftwareCounter {
            units,
            copies,
            counts,
        };
        Ok((self.refused != Some(units)).then(|| Box::new(counter) as _))
    }
}

impl UnitCounter for SoftwareCounter {
    fn add(&mut self, rows: usize, set: &mut SetRows<'_>) -> Result<(), CountError> {
        let width = plane_words(self.copies);
        let row_words = width * self.units.planes();
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
                let n = units.len();
                for (i, _) in units.iter().enumerate().filter(|(_, bit)| **bit) {
                    for (j, _) in units.iter().enumerate().filter(|(j, bit)| **bit && *j >= i) {
                        self.counts[i * n + j] += 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn take(self: Box<Self>) -> Result<UnitCounts, CountError> {
        Ok(UnitCounts::new(self.units.number(self.copies), self.counts))
    }
}

/// The counts of calls of which a device counts those that it can.
fn counted_on<M: PairMatrix>(
    calls: &Calls,
    shape: Shape,
    options: M::Options,
    refused: Option<Units>,
) -> M {
    let mut device = OnDevice::new(Arc::new(SoftwareDevice { refused }));
    let workers = Workers::new(3, &|| false);
    let mut matrix = M::try_new(shape, options).unwrap();
    for part in calls.site_rows().parts(shape.copies(), 100) {
        let others = matrix.add_on(&mut device, &part, &workers).unwrap();
        matrix.fold(&others, Level::detect(), &workers).unwrap();
    }
    matrix.take_counts(&mut device, &workers).unwrap();
    // Nothing is left there.
    matrix.take_counts(&mut device, &workers).unwrap();
    matrix
}

/// The same of the host alone.
fn counted<M: PairMatrix>(calls: &Calls, shape: Shape, options: M::Options) -> M {
    let mut matrix = M::try_new(shape, options).unwrap();
    for part in calls.site_rows().parts(shape.copies(), usize::MAX) {
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
