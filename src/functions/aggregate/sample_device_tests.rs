//! `sample_counts` of rows of which a device, in software, counts some, is that of the host.

use std::any::Any;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::counts::pairs::{
    ClassWeights, KeepsRows, SAMPLE_COUNTS, SampleCounter, UnitCounter, Units, WeightedCounter,
};
use crate::counts::{
    CountError, CountRequest, ResidentChunk, ResidentPart, ResidentPlanes, ResidentReader,
    ResidentRows, RowMark, SampleSet, Workers, reference,
};
use crate::functions::aggregate::accumulator::StatisticAccumulator;

/// K in these tests.
const ALLELES: usize = 3;

#[derive(Debug)]
struct Device;

/// Rows that are on it, as words.
#[derive(Debug)]
struct Rows(Vec<Vec<u64>>);

impl ResidentRows for Rows {}

/// Counts individual by individual.
#[derive(Debug)]
struct Counter {
    samples: usize,
    counts: Mutex<Vec<u32>>,
}

impl PairDevice for Device {
    fn keep_rows(&self) -> Option<Box<dyn KeepsRows>> {
        None
    }

    fn counter(&self, _: Units, _: usize) -> Result<Option<Box<dyn UnitCounter>>, CountError> {
        Ok(None)
    }

    fn weighted_counter(
        &self,
        _: usize,
        _: Vec<ClassWeights>,
    ) -> Result<Option<Box<dyn WeightedCounter>>, CountError> {
        Ok(None)
    }

    fn sample_counter(&self, samples: usize) -> Result<Option<Box<dyn SampleCounter>>, CountError> {
        let counts = Mutex::new(vec![0; SAMPLE_COUNTS * samples]);
        Ok(Some(Box::new(Counter { samples, counts })))
    }
}

impl SampleCounter for Counter {
    fn add_resident(&self, parts: &[ResidentPart], _: &Workers<'_>) -> Result<(), CountError> {
        let mut counts = self.counts.lock();
        for part in parts {
            let rows: &dyn Any = &*part.chunk;
            let rows = &rows.downcast_ref::<Rows>().unwrap().0;
            for row in &part.rows {
                let words = &rows[row.row as usize];
                let bit = |copy: usize| (words[copy / 64] >> (copy % 64) & 1) as u32;
                let dosage = |sample: usize| bit(2 * sample) + bit(2 * sample + 1);
                let ones: u32 = (0..self.samples).map(dosage).sum();
                assert_eq!(ones, row.ones);
                for sample in 0..self.samples {
                    let has = dosage(sample);
                    let of_sample = [has == 1, has == 2, has == 1 && ones == 1, has == ones];
                    for (set, is_so) in of_sample.into_iter().enumerate() {
                        counts[set * self.samples + sample] += u32::from(is_so && has > 0);
                    }
                }
            }
        }
        Ok(())
    }

    fn take(self: Box<Self>) -> Result<Vec<u32>, CountError> {
        Ok(self.counts.into_inner())
    }
}

fn statistic(samples: usize) -> CountedSamples {
    CountedSamples {
        individuals: Individuals { samples, ploidy: 2 },
        ids: (0..samples).map(|sample| format!("s{sample}")).collect(),
        level: Level::detect(),
        feed: None,
    }
}

/// The value of the merged states.
fn merged(samples: usize, states: Vec<Vec<ScalarValue>>) -> ScalarValue {
    let mut merged = StatisticAccumulator::new(statistic(samples));
    for state in states {
        let columns = state.iter().map(|value| value.to_array().unwrap());
        merged.merge_batch(&columns.collect::<Vec<_>>()).unwrap();
    }
    merged.evaluate().unwrap()
}

/// The samples; the codes of each row; whether it stays on the device, if it can.
fn calls() -> impl Strategy<Value = (usize, Vec<(Vec<i64>, bool)>)> {
    let row = |samples: usize| {
        let codes = |most: i64| prop::collection::vec(0..=most, 2 * samples);
        let few = prop::collection::vec(any::<prop::sample::Index>(), 0..4).prop_map(
            move |copies: Vec<prop::sample::Index>| {
                let mut codes = vec![0; 2 * samples];
                for copy in copies {
                    codes[copy.index(2 * samples)] = 1;
                }
                codes
            },
        );
        let any_code = prop::collection::vec(-1i64..3, 2 * samples);
        (
            prop_oneof![3 => codes(1), 3 => few, 1 => any_code],
            any::<bool>(),
        )
    };
    (1usize..70)
        .prop_flat_map(move |samples| (Just(samples), prop::collection::vec(row(samples), 1..40)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_device_counts_some_rows((samples, rows) in calls()) {
        let request = CountRequest {
            alleles: vec![],
            genotypes: vec![],
            zygosity: vec![],
            planes: vec![Arc::new(SampleSet::all(samples as u32))],
            n_alleles: ALLELES,
            n_samples: samples,
            ploidy: 2,
        };
        let words = |row: usize| {
            let counts = reference::count(&request, &rows[row].0, 1).unwrap();
            let mut words = vec![];
            counts.planes[0].push_row(0, &mut words);
            words
        };
        // Rows of reference calls have no plane, and any other code a second one.
        let stays = |row: usize| rows[row].1 && words(row)[0] == 1;
        let on_device = Rows((0..rows.len()).map(|row| words(row).split_off(1)).collect());
        let planes = Arc::new(ResidentPlanes::new(1, 0));
        let reader = ResidentReader::new(&planes);
        let chunk = reader.register(&ResidentChunk(Arc::new(on_device)));
        let marked = (0..rows.len()).map(|row| match stays(row) {
            true => {
                let ones = words(row)[1..].iter().map(|word| word.count_ones()).sum();
                RowMark { chunk, set: 0, row: row as u32, ones }.words().to_vec()
            }
            false => words(row),
        });
        let column = lists::<UInt64Type>(DataType::UInt64, marked).unwrap();
        let all = lists::<UInt64Type>(DataType::UInt64, (0..rows.len()).map(words)).unwrap();

        let mut host = StatisticAccumulator::new(statistic(samples));
        host.update_batch(&[all]).unwrap();
        let expected = merged(samples, vec![host.state().unwrap()]);

        let device: Arc<dyn PairDevice> = Arc::new(Device);
        let mut common = StatisticAccumulator::new(statistic(samples));
        let feed = common.use_device(&device).unwrap();
        prop_assert!(feed.counts_resident().unwrap());
        let left = feed.send(vec![column], Some(&planes)).unwrap();
        let others = (0..rows.len()).filter(|row| !stays(*row)).count();
        prop_assert_eq!(left[0].len(), others);
        let mut own = StatisticAccumulator::new(statistic(samples));
        own.update_batch(&left).unwrap();
        let found = merged(samples, vec![own.state().unwrap(), common.state().unwrap()]);
        prop_assert_eq!(found, expected);
    }
}
