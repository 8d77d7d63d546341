//! The statistic behind `garud_h`, `haplotype_diversity` and `haplotype_count`: how haplotype states are updated, saved and merged,
//! and the accumulator of sliding frames, which keeps a frame's rows because rows cannot be retracted from a partition.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, UInt32Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;

use super::frame_memory::FrameMemory;
use super::haplotype_state::{HaplotypeRow, HaplotypeState};
use super::planes_rows::{Lists, PlanesRows, list_type, lists, planes_row};
use super::statistic::{GroupState, SiteInput, Statistic, column};
use crate::counts::gathered::plane_words;
use crate::functions::interrupt;
use crate::functions::numeric::partition::Partition;

/// The value that a function computes from the haplotypes of each group.
pub(crate) trait HaplotypeValue: std::fmt::Debug + Send + Sync + 'static {
    /// The function's SQL name.
    const NAME: &'static str;

    /// A column of values, one for each group.
    fn column(rows: &[HaplotypeRow]) -> Result<ArrayRef>;
}

/// The statistic of a population.
#[derive(Debug)]
pub(crate) struct HaplotypesOf<V> {
    copies: usize,
    value: PhantomData<fn() -> V>,
}

/// Saved states, viewed.
pub(crate) struct SavedHaplotypes<'a> {
    sites: &'a Int64Array,
    labels: Lists<'a, UInt32Type>,
    left_out: Lists<'a, UInt64Type>,
    /// A single row's bit-planes that are not yet added to a state, or an empty list.
    planes: PlanesRows<'a>,
}

impl GroupState for HaplotypeState {
    fn heap_size(&self) -> usize {
        self.heap_bytes()
    }
}

impl<V: HaplotypeValue> HaplotypesOf<V> {
    /// For a population of `copies` copies.
    pub(crate) fn new(copies: usize) -> Self {
        Self {
            copies,
            value: PhantomData,
        }
    }

    fn add_words(&self, state: &mut HaplotypeState, words: &[u64]) -> Result<()> {
        state.add(planes_row(V::NAME, words, self.copies)?, self.copies);
        Ok(())
    }
}

impl<V: HaplotypeValue> Statistic for HaplotypesOf<V> {
    type State = HaplotypeState;
    type Input<'a> = PlanesRows<'a>;
    type Saved<'a> = SavedHaplotypes<'a>;

    fn state_columns() -> Vec<(String, DataType)> {
        [
            ("sites", DataType::Int64),
            ("labels", list_type(DataType::UInt32)),
            ("left_out", list_type(DataType::UInt64)),
            ("planes", list_type(DataType::UInt64)),
        ]
        .map(|(name, data_type)| (name.to_string(), data_type))
        .to_vec()
    }

    fn input(values: &[ArrayRef]) -> Result<PlanesRows<'_>> {
        Lists::try_new(values, 0)
    }

    fn add(
        &self,
        state: &mut HaplotypeState,
        input: &PlanesRows<'_>,
        mut rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        rows.try_for_each(|row| self.add_words(state, input.row(row)))
    }

    fn remove(
        &self,
        _state: &mut HaplotypeState,
        _input: &PlanesRows<'_>,
        _rows: impl Iterator<Item = usize>,
    ) -> Result<()> {
        internal_err!(
            "{}: rows cannot be taken out of a partition; sliding frames keep their rows",
            V::NAME
        )
    }

    fn saved(states: &[ArrayRef]) -> Result<SavedHaplotypes<'_>> {
        let Some(sites) = column(states, 0)?.as_primitive_opt() else {
            return internal_err!("{}: a saved state must begin with a count", V::NAME);
        };
        Ok(SavedHaplotypes {
            sites,
            labels: Lists::try_new(states, 1)?,
            left_out: Lists::try_new(states, 2)?,
            planes: Lists::try_new(states, 3)?,
        })
    }

    fn merge(
        &self,
        state: &mut HaplotypeState,
        saved: &SavedHaplotypes<'_>,
        row: usize,
    ) -> Result<()> {
        let (labels, left_out) = (saved.labels.row(row), saved.left_out.row(row));
        let fits = |found: usize, expected: usize| found == 0 || found == expected;
        if !fits(labels.len(), self.copies) || !fits(left_out.len(), plane_words(self.copies)) {
            return internal_err!(
                "{}: a saved state is not of {} copies",
                V::NAME,
                self.copies
            );
        }
        if saved.sites.is_valid(row) {
            let partition = Partition::of_labels(labels);
            state.merge(saved.sites.value(row), &partition, left_out, self.copies);
        }
        match saved.planes.row(row) {
            [] => Ok(()),
            words => self.add_words(state, words),
        }
    }

    fn save(&self, states: &[HaplotypeState]) -> Result<Vec<ArrayRef>> {
        let sites: Int64Array = states.iter().map(|state| Some(state.sites)).collect();
        let labels = states
            .iter()
            .map(|state| state.refined(self.copies).labels().to_vec());
        let left_out = states.iter().map(|state| state.left_out.clone());
        Ok(vec![
            Arc::new(sites),
            lists::<UInt32Type>(DataType::UInt32, labels)?,
            lists::<UInt64Type>(DataType::UInt64, left_out)?,
            lists::<UInt64Type>(DataType::UInt64, states.iter().map(|_| vec![]))?,
        ])
    }

    /// Saves the rows' bit-planes, which are smaller than the states of single rows.
    fn save_rows(
        &self,
        input: &PlanesRows<'_>,
        kept: impl Fn(usize) -> bool,
    ) -> Result<Vec<ArrayRef>> {
        let rows = input.len();
        let planes = (0..rows).map(|row| match kept(row) {
            true => input.row(row).to_vec(),
            false => vec![],
        });
        Ok(vec![
            Arc::new(Int64Array::from(vec![0; rows])),
            lists::<UInt32Type>(DataType::UInt32, (0..rows).map(|_| vec![]))?,
            lists::<UInt64Type>(DataType::UInt64, (0..rows).map(|_| vec![]))?,
            lists::<UInt64Type>(DataType::UInt64, planes)?,
        ])
    }

    fn evaluate(&mut self, states: &[HaplotypeState]) -> Result<ArrayRef> {
        let rows: Vec<HaplotypeRow> = states
            .iter()
            .map(|state| {
                interrupt::check()?;
                Ok(state.value(self.copies))
            })
            .collect::<Result<_>>()?;
        V::column(&rows)
    }
}

/// The accumulator of sliding frames. It keeps the rows of the frame and computes every value from all of them.
#[derive(Debug)]
pub(crate) struct FrameRows<V> {
    statistic: HaplotypesOf<V>,
    rows: VecDeque<Box<[u64]>>,
    /// Σ of the rows' words.
    words: usize,
    memory: FrameMemory,
}

/// Rows that are added to a state before it is asked whether the query still runs.
const CHECKED_ROWS: usize = 256;

/// Bytes that a row of a frame takes.
fn row_bytes(words: &[u64]) -> usize {
    size_of::<Box<[u64]>>() + size_of_val(words)
}

impl<V: HaplotypeValue> FrameRows<V> {
    /// An empty frame.
    pub(crate) fn new(statistic: HaplotypesOf<V>) -> Self {
        Self {
            statistic,
            rows: VecDeque::new(),
            words: 0,
            memory: FrameMemory::new(V::NAME),
        }
    }

    fn state_of_rows(&self) -> Result<HaplotypeState> {
        let mut state = HaplotypeState::default();
        for (at, row) in self.rows.iter().enumerate() {
            if at % CHECKED_ROWS == 0 {
                interrupt::check()?;
            }
            self.statistic.add_words(&mut state, row)?;
        }
        Ok(state)
    }
}

impl<V: HaplotypeValue> Accumulator for FrameRows<V> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let input = HaplotypesOf::<V>::input(values)?;
        for row in (0..input.len()).filter(|row| !input.is_null(*row)) {
            let words = input.row(row);
            self.memory.grow(row_bytes(words), self.rows.len() + 1)?;
            self.words += words.len();
            self.rows.push_back(words.into());
        }
        Ok(())
    }

    /// Rows leave a frame in the order in which they were added.
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let input = HaplotypesOf::<V>::input(values)?;
        for row in (0..input.len()).filter(|row| !input.is_null(*row)) {
            match self.rows.pop_front() {
                Some(first) if *first == *input.row(row) => {
                    self.words -= first.len();
                    self.memory.shrink(row_bytes(&first));
                }
                _ => return internal_err!("{}: a row leaves its frame out of order", V::NAME),
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        internal_err!("{}: a frame takes rows, not states", V::NAME)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = self.state_of_rows()?;
        let columns = self.statistic.save(&[state])?;
        let columns = columns.iter();
        columns
            .map(|column| ScalarValue::try_from_array(column, 0))
            .collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.state_of_rows()?;
        ScalarValue::try_from_array(&self.statistic.evaluate(&[state])?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.rows.capacity() * size_of::<Box<[u64]>>()
            + self.words * size_of::<u64>()
    }
}
