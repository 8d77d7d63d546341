//! Saved states of aggregates over genotypes that were changed, as files and other processes may hold them: merging them is an error, or gives a value;
//! it never panics, and takes no memory that the state does not have.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, ListArray, UInt32Array, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Int64Type, UInt32Type, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::EmitTo;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::planes_laws::{Genotypes, genotypes};
use super::sample_state::Individuals;

/// Aggregates over genotypes whose states are lists of whole numbers.
const NAMES: [&str; 8] = [
    "sample_counts",
    "garud_h",
    "haplotype_diversity",
    "haplotype_count",
    "sample_pairs",
    "haplotype_pairs",
    "grm",
    "pca",
];

/// A change of the words of a state.
#[derive(Clone, Debug)]
enum Change {
    /// This bit of this word is flipped.
    Bit(usize, u32),
    /// This word is another one.
    Word(usize, u64),
    /// So many words are kept.
    Cut(usize),
    /// Words follow.
    More(Vec<u64>),
}

fn change() -> impl Strategy<Value = Change> {
    let word = prop_oneof![
        2 => 0u64..9,
        1 => Just(u64::MAX),
        1 => Just(1 << 63),
        1 => any::<u64>(),
    ];
    // Most faults are in headers, so the first words are changed more often.
    let at = || prop_oneof![0usize..12, any::<usize>()];
    prop_oneof![
        4 => (at(), 0u32..64).prop_map(|(at, bit)| Change::Bit(at, bit)),
        4 => (at(), word.clone()).prop_map(|(at, word)| Change::Word(at, word)),
        1 => at().prop_map(Change::Cut),
        1 => prop::collection::vec(word, 1..4).prop_map(Change::More),
    ]
}

impl Change {
    fn apply(&self, words: &mut Vec<u64>) {
        let len = words.len().max(1);
        match self {
            Self::Bit(at, bit) => {
                if let Some(word) = words.get_mut(at % len) {
                    *word ^= 1 << bit;
                }
            }
            Self::Word(at, new) => {
                if let Some(word) = words.get_mut(at % len) {
                    *word = *new;
                }
            }
            Self::Cut(at) => words.truncate(at % len),
            Self::More(more) => words.extend(more),
        }
    }
}

/// The only row of a column of lists of whole numbers, changed; other columns as they are.
fn changed<'a>(column: &ArrayRef, changes: impl Iterator<Item = &'a Change>) -> ArrayRef {
    let Some(list) = column.as_list_opt::<i32>() else {
        return Arc::clone(column);
    };
    let numbers = list.value(0);
    let mut words: Vec<u64> = if let Some(words) = numbers.as_primitive_opt::<UInt64Type>() {
        words.values().to_vec()
    } else if let Some(numbers) = numbers.as_primitive_opt::<Int64Type>() {
        numbers.values().iter().map(|n| n.cast_unsigned()).collect()
    } else if let Some(numbers) = numbers.as_primitive_opt::<UInt32Type>() {
        numbers.values().iter().copied().map(u64::from).collect()
    } else {
        return Arc::clone(column);
    };
    changes.for_each(|change| change.apply(&mut words));
    let item = match column.data_type() {
        DataType::List(item) => item,
        other => panic!("{other}"),
    };
    let offsets = OffsetBuffer::from_lengths([words.len()]);
    let numbers: ArrayRef = match item.data_type() {
        DataType::UInt64 => Arc::new(UInt64Array::from(words)),
        DataType::Int64 => {
            let numbers = words.into_iter().map(u64::cast_signed);
            Arc::new(Int64Array::from_iter_values(numbers))
        }
        _ => {
            let numbers = words.into_iter().map(|word| word as u32);
            Arc::new(UInt32Array::from_iter_values(numbers))
        }
    };
    Arc::new(ListArray::new(Arc::clone(item), offsets, numbers, None))
}

/// The state of all rows, with changes of some of its columns.
fn state_of(name: &str, genotypes: &Genotypes, changes: &[(usize, Change)]) -> Vec<ArrayRef> {
    let (mut one, _) = genotypes.call(name).accumulators();
    one.update_batch(&[genotypes.column()]).unwrap();
    let state = one.state().unwrap();
    let columns = state.len();
    let change = |(at, value): (usize, &ScalarValue)| {
        let here = changes.iter().filter(|(column, _)| column % columns == at);
        changed(&value.to_array().unwrap(), here.map(|(_, change)| change))
    };
    state.iter().enumerate().map(change).collect()
}

/// Merges a state with these changes into that of all rows, by both kinds of accumulators. Each gives an error, or a value that may be wrong.
fn merge(name: &str, genotypes: &Genotypes, changes: &[(usize, Change)]) -> bool {
    let call = genotypes.call(name);
    let state = state_of(name, genotypes, changes);
    let (mut one, mut groups) = call.accumulators();
    one.update_batch(&[genotypes.column()]).unwrap();
    let value = one.merge_batch(&state).and_then(|()| {
        let bytes = one.size();
        assert!(bytes < 64 << 20, "{name}: {bytes} bytes");
        one.evaluate()
    });
    let merged = groups.merge_batch(&state, &[0], 1);
    let column = merged.and_then(|()| groups.evaluate(EmitTo::All));
    value.is_ok() && column.is_ok()
}

/// Merges random changes of random states.
fn merge_changes(name: &str) {
    let changes = prop::collection::vec((0usize..5, change()), 1..4);
    let config = ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let merged =
        TestRunner::new(config).run(&(genotypes(), changes), |((genotypes, _), changes)| {
            merge(name, &genotypes, &changes);
            Ok(())
        });
    if let Err(error) = merged {
        panic!("{name}: {error}");
    }
}

#[test]
fn changed_sample_counts() {
    merge_changes("sample_counts");
}

#[test]
fn changed_haplotypes() {
    for name in ["garud_h", "haplotype_diversity", "haplotype_count"] {
        merge_changes(name);
    }
}

#[test]
fn changed_sample_pairs() {
    merge_changes("sample_pairs");
}

#[test]
fn changed_haplotype_pairs() {
    merge_changes("haplotype_pairs");
}

#[test]
fn changed_grm() {
    merge_changes("grm");
}

#[test]
fn changed_pca() {
    merge_changes("pca");
}

/// What the tests above change is what is merged.
#[test]
fn states_without_a_change_are_merged() {
    let individuals = Individuals {
        samples: 3,
        ploidy: 2,
    };
    let rows = vec![Some(vec![0, 1, 0, 0, 1, 1]); 5];
    let genotypes = Genotypes { individuals, rows };
    for name in NAMES {
        assert!(merge(name, &genotypes, &[]), "{name}");
    }
    for name in ["sample_pairs", "haplotype_pairs", "grm", "pca"] {
        assert!(!merge(name, &genotypes, &[(0, Change::Cut(1))]), "{name}");
    }
}
