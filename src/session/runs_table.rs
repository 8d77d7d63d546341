//! The table of groups of [`runs`](super::runs): looked up once for each run of rows with equal keys, and emitted when it is full.
//!
//! Invariant: an emitted group is removed, and a later row with its keys starts a new one.

use std::ops::{BitOr, BitXor, Range};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, MAX_INLINE_VIEW_LEN, RecordBatch, UInt32Array,
};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::take;
use arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

/// A table of several groups is emitted at this size, so that the operator above can finish complete groups and free them.
const EMIT_BYTES: usize = 1 << 17;
/// Rows that are compared with their predecessors at a time.
const COMPARED_ROWS: usize = 32;

/// The groups since the table was last emitted.
pub struct GroupTable {
    aggregate: Arc<AggregateExec>,
    schema: SchemaRef,
    keys_schema: SchemaRef,
    keys: Box<dyn GroupValues>,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    memory: MemoryReservation,
    /// Groups that the table may hold.
    capacity: usize,
}

impl GroupTable {
    /// An empty table of this aggregate's groups, for one partition.
    pub fn new(
        aggregate: Arc<AggregateExec>,
        partition: usize,
        context: &TaskContext,
    ) -> Result<Self> {
        let keys_schema = aggregate
            .group_expr()
            .group_schema(&aggregate.input().schema())?;
        Ok(Self {
            schema: aggregate.schema(),
            keys: new_group_values(Arc::clone(&keys_schema), &GroupOrdering::None)?,
            accumulators: aggregate
                .aggr_expr()
                .iter()
                .map(|call| call.create_groups_accumulator())
                .collect::<Result<_>>()?,
            memory: MemoryConsumer::new(format!("AggregateRuns[{partition}]"))
                .register(context.memory_pool()),
            capacity: context.session_config().batch_size(),
            keys_schema,
            aggregate,
        })
    }

    /// Adds rows; returns the groups if the table is full.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let keys = self
            .aggregate
            .group_expr()
            .expr()
            .iter()
            .map(|(key, _)| key.evaluate(batch)?.into_array(batch.num_rows()))
            .collect::<Result<Vec<_>>>()?;
        let groups = self.groups(&keys, batch.num_rows())?;
        let aggregate = Arc::clone(&self.aggregate);
        let calls = aggregate.aggr_expr().iter().zip(aggregate.filter_expr());
        for (at, (call, filter)) in calls.enumerate() {
            let filter = filter.as_ref().map(|filter| passing_rows(filter, batch));
            let arguments = values(&call.expressions(), batch)?;
            self.update(at, &arguments, &groups, filter.transpose()?.as_ref())?;
        }
        self.emit_if_full()
    }

    /// Adds rows of the groups `groups` to call `call`, with its arguments and the rows that pass its FILTER.
    pub fn update(
        &mut self,
        call: usize,
        arguments: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let total = self.keys.len();
        match self.accumulators.get_mut(call) {
            Some(accumulator) => accumulator.update_batch(arguments, groups, filter, total),
            None => internal_err!("call {call} of {}", self.accumulators.len()),
        }
    }

    /// The groups of rows with these keys, one each; new ones are added to the table.
    pub fn intern(&mut self, keys: &[ArrayRef]) -> Result<Vec<usize>> {
        let mut groups = Vec::new();
        self.keys.intern(keys, &mut groups)?;
        Ok(groups)
    }

    /// Groups that the table may hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Removes all groups and returns their states if the table is full.
    pub fn emit_if_full(&mut self) -> Result<Option<RecordBatch>> {
        let bytes = self.keys.size()
            + self
                .accumulators
                .iter()
                .map(|accumulator| accumulator.size())
                .sum::<usize>();
        let full = self.keys.len() >= self.capacity
            || bytes >= EMIT_BYTES && self.keys.len() > 1
            || self.memory.try_resize(bytes).is_err();
        if full { self.emit() } else { Ok(None) }
    }

    /// The group of each row.
    fn groups(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Vec<usize>> {
        let runs = runs(keys, rows)?;
        if runs.len() == rows {
            return self.intern(keys);
        }
        let first: UInt32Array = runs.iter().map(|run| run.start as u32).collect();
        let firsts = keys
            .iter()
            .map(|key| take(key, &first, None))
            .collect::<Result<Vec<_>, _>>()?;
        let of_runs = self.intern(&firsts)?;
        let mut groups = Vec::with_capacity(rows);
        for (run, group) in runs.into_iter().zip(of_runs) {
            groups.resize(run.end, group);
        }
        Ok(groups)
    }

    /// Removes all groups and returns their states.
    pub fn emit(&mut self) -> Result<Option<RecordBatch>> {
        if self.keys.is_empty() {
            return Ok(None);
        }
        let mut columns = self.keys.emit(EmitTo::All)?;
        for accumulator in &mut self.accumulators {
            columns.extend(accumulator.state(EmitTo::All)?);
        }
        self.keys = new_group_values(Arc::clone(&self.keys_schema), &GroupOrdering::None)?;
        self.memory.free();
        Ok(Some(RecordBatch::try_new(
            Arc::clone(&self.schema),
            columns,
        )?))
    }
}

/// The values of these expressions, one for each row.
pub fn values(exprs: &[Arc<dyn PhysicalExpr>], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    exprs
        .iter()
        .map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows()))
        .collect()
}

/// Which rows pass `filter`.
pub fn passing_rows(filter: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanArray> {
    let passes = filter.evaluate(batch)?.into_array(batch.num_rows())?;
    match passes.as_boolean_opt() {
        Some(passes) => Ok(passes.clone()),
        None => internal_err!("a filter gives {}", passes.data_type()),
    }
}

/// The runs of rows with equal keys. Keys of nested and floating point types are not compared: each row is then a run.
pub fn runs(keys: &[ArrayRef], rows: usize) -> Result<Vec<Range<usize>>> {
    if rows == 0 {
        return Ok(vec![]);
    }
    if keys.is_empty() {
        return internal_err!("groups without keys");
    }
    // Rows with a key that differs from the row before.
    let mut starts = Vec::new();
    for key in keys {
        if key.data_type().is_nested() || key.data_type().is_floating() {
            return Ok((0..rows).map(|row| row..row + 1).collect());
        }
        let nulls = key.null_count() > 0;
        match (
            key.as_primitive_opt::<Int64Type>(),
            key.as_string_view_opt(),
        ) {
            (Some(numbers), _) if !nulls => changes(numbers.values(), &mut starts, |_| true),
            // Equal views are equal strings. Different views of long strings may be equal, too, if length and first bytes are.
            (_, Some(strings)) if !nulls => changes(strings.views(), &mut starts, |row| {
                let (before, view) = (strings.views()[row - 1], strings.views()[row]);
                before as u64 != view as u64
                    || view as u32 <= MAX_INLINE_VIEW_LEN
                    || strings.value(row - 1) != strings.value(row)
            }),
            _ => {
                let others = distinct(&key.slice(0, rows - 1), &key.slice(1, rows - 1))?;
                starts.extend(others.values().set_indices().map(|row| row + 1));
            }
        }
    }
    if keys.len() > 1 {
        starts.sort_unstable();
        starts.dedup();
    }
    let mut start = 0;
    let ends = starts.into_iter().chain([rows]);
    Ok(ends
        .map(|end| std::mem::replace(&mut start, end)..end)
        .collect())
}

/// Adds to `starts` the rows whose value differs from the row before, in its bits and according to `differs`.
fn changes<T: Copy + Default + PartialEq + BitXor<Output = T> + BitOr<Output = T>>(
    values: &[T],
    starts: &mut Vec<usize>,
    differs: impl Fn(usize) -> bool,
) {
    let mut row = 1;
    let these = values.get(1..).unwrap_or_default().chunks(COMPARED_ROWS);
    for (before, these) in values.chunks(COMPARED_ROWS).zip(these) {
        // Runs are long, so most rows are skipped in blocks.
        let any = before
            .iter()
            .zip(these)
            .fold(T::default(), |any, (&a, &b)| any | (a ^ b));
        if any != T::default() {
            let pairs = before.iter().zip(these).enumerate();
            let changed = pairs.filter(|(at, (a, b))| a != b && differs(row + at));
            starts.extend(changed.map(|(at, _)| row + at));
        }
        row += these.len();
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn runs_agree_in_all_keys() {
        let contigs: ArrayRef = Arc::new(StringViewArray::from(vec![
            "1", "1", "1", "2", "2", "2", "2",
        ]));
        let bins: ArrayRef = Arc::new(Int64Array::from(vec![
            Some(1),
            Some(1),
            Some(5),
            Some(5),
            None,
            None,
            Some(1),
        ]));
        let found = |keys: &[ArrayRef]| runs(keys, keys[0].len()).unwrap();
        assert_eq!(
            found(&[Arc::clone(&contigs), Arc::clone(&bins)]),
            [0..2, 2..3, 3..4, 4..6, 6..7]
        );
        assert_eq!(found(&[Arc::clone(&bins)]), [0..2, 2..4, 4..6, 6..7]);
        assert_eq!(found(&[bins.slice(0, 1)]), vec![0..1; 1]);
        assert!(found(&[bins.slice(0, 0)]).is_empty());
        // Without NULLs, and more rows than are compared at a time.
        let bins: ArrayRef = Arc::new(Int64Array::from_iter_values(
            (0..100).map(|row| row / 33 * 10),
        ));
        assert_eq!(
            found(&[Arc::clone(&bins)]),
            [0..33, 33..66, 66..99, 99..100]
        );
        let names = ["a name that is not inlined", "another that is not", "short"];
        let contigs = (0..100).map(|row| names[row / 40]);
        let contigs: ArrayRef = Arc::new(StringViewArray::from_iter_values(contigs));
        assert_eq!(
            found(&[bins, contigs]),
            [0..33, 33..40, 40..66, 66..80, 80..99, 99..100]
        );
        // 0 equals -0 and NaN does not equal itself: floating point keys are left to the table of groups.
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN]));
        assert_eq!(found(&[floats]), [0..1, 1..2, 2..3]);
    }
}
