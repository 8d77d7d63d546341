//! Calls on genotypes and the filters of their calls.

use std::sync::Arc;

use datafusion::common::Result;

use super::frame::{broken, required};
use super::messages::{Call, Filter, FloatBounds, IntegerBounds, Test};
use super::samples::{of_populations, of_samples, to_populations, to_samples};
use crate::counts::{CallTest, FloatBound, SampleSet};
use crate::scan::{CallFilters, FieldCondition, FilteredCall, GenotypeCall};

/// A call and its filters.
pub fn of_call(call: &GenotypeCall, filters: &CallFilters) -> Call {
    let of_set = |function: u32, samples: &SampleSet| Call {
        function,
        samples: Some(of_samples(samples)),
        ..Call::default()
    };
    let message = match call {
        GenotypeCall::AlleleCounts(samples) => of_set(1, samples),
        GenotypeCall::GenotypeCounts(samples) => of_set(2, samples),
        GenotypeCall::ZygosityCounts(samples) => of_set(3, samples),
        GenotypeCall::SelectSamples(samples) => of_set(4, samples),
        GenotypeCall::GenotypePlanes(samples) => of_set(5, samples),
        GenotypeCall::PopulationCounts(populations) => Call {
            function: 6,
            populations: of_populations(populations),
            ..Call::default()
        },
        GenotypeCall::PopulationPairCounts(populations) => Call {
            function: 7,
            populations: of_populations(populations),
            ..Call::default()
        },
    };
    Call {
        filters: filters.iter().map(of_filter).collect(),
        ..message
    }
}

/// A call and its filters.
///
/// # Errors
/// If the message is broken.
pub fn to_call(call: &Call) -> Result<FilteredCall> {
    let samples = || to_samples(required(call.samples.as_ref(), "samples")?);
    let populations = || to_populations(&call.populations).map(Arc::new);
    let filters = call.filters.iter().map(to_filter);
    Ok(FilteredCall {
        call: match call.function {
            1 => GenotypeCall::AlleleCounts(samples()?),
            2 => GenotypeCall::GenotypeCounts(samples()?),
            3 => GenotypeCall::ZygosityCounts(samples()?),
            4 => GenotypeCall::SelectSamples(samples()?),
            5 => GenotypeCall::GenotypePlanes(samples()?),
            6 => GenotypeCall::PopulationCounts(populations()?),
            7 => GenotypeCall::PopulationPairCounts(populations()?),
            other => return Err(broken(format!("call number {other}"))),
        },
        filters: CallFilters::of(filters.collect::<Result<Vec<_>>>()?),
    })
}

fn of_filter(filter: &FieldCondition) -> Filter {
    let test = match &filter.test {
        CallTest::Present => Test::Present(true),
        CallTest::Integers { min, max } => Test::Integers(IntegerBounds {
            min: min.map(|min| min.to_string()),
            max: max.map(|max| max.to_string()),
        }),
        CallTest::Floats { min, max } => Test::Floats(FloatBounds {
            min: min.map(FloatBound::value),
            max: max.map(FloatBound::value),
        }),
        CallTest::Text(text) => Test::Text(text.clone()),
        CallTest::Flag(flag) => Test::Flag(*flag),
    };
    Filter {
        array: filter.array.clone(),
        value: filter.value.map(|value| value as u64),
        test: Some(test),
    }
}

fn to_filter(filter: &Filter) -> Result<FieldCondition> {
    let integer = |bound: &Option<String>| -> Result<Option<i128>> {
        let bound = bound.as_ref().map(|bound| bound.parse().map_err(broken));
        bound.transpose()
    };
    let float = |bound: Option<f64>| -> Result<Option<FloatBound>> {
        let bound = bound.map(|bound| required(FloatBound::new(bound), "bound that is a number"));
        bound.transpose()
    };
    let test = match required(filter.test.as_ref(), "test")? {
        Test::Present(_) => CallTest::Present,
        Test::Integers(bounds) => CallTest::Integers {
            min: integer(&bounds.min)?,
            max: integer(&bounds.max)?,
        },
        Test::Floats(bounds) => CallTest::Floats {
            min: float(bounds.min)?,
            max: float(bounds.max)?,
        },
        Test::Text(text) => CallTest::Text(text.clone()),
        Test::Flag(flag) => CallTest::Flag(*flag),
    };
    Ok(FieldCondition {
        array: filter.array.clone(),
        value: filter.value.map(|value| value as usize),
        test,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Populations;

    #[test]
    fn calls_return() {
        let some = Arc::new(SampleSet::new(vec![1, 2, 5]));
        let populations = Arc::new(Populations::of_sets(vec![
            ("a".to_string(), Arc::clone(&some)),
            ("b".to_string(), Arc::new(SampleSet::all(3))),
        ]));
        let tests = [
            CallTest::Present,
            CallTest::Integers {
                min: Some(-5),
                max: Some(i128::from(u64::MAX)),
            },
            CallTest::Integers {
                min: None,
                max: Some(3),
            },
            CallTest::Floats {
                min: FloatBound::new(0.1),
                max: FloatBound::new(f64::INFINITY),
            },
            CallTest::Text("PASS".to_string()),
            CallTest::Flag(false),
        ];
        let filters =
            CallFilters::of(
                tests
                    .into_iter()
                    .enumerate()
                    .map(|(at, test)| FieldCondition {
                        array: format!("call_{at}"),
                        value: (at % 2 == 1).then_some(at),
                        test,
                    }),
            );
        for call in [
            GenotypeCall::AlleleCounts(Arc::clone(&some)),
            GenotypeCall::GenotypeCounts(Arc::clone(&some)),
            GenotypeCall::ZygosityCounts(Arc::clone(&some)),
            GenotypeCall::SelectSamples(Arc::clone(&some)),
            GenotypeCall::GenotypePlanes(some),
            GenotypeCall::PopulationCounts(Arc::clone(&populations)),
            GenotypeCall::PopulationPairCounts(populations),
        ] {
            for filters in [CallFilters::default(), filters.clone()] {
                let sent = of_call(&call, &filters);
                let call = call.clone();
                assert_eq!(to_call(&sent).unwrap(), FilteredCall { call, filters });
            }
        }
        assert!(to_call(&Call::default()).is_err());
    }
}
