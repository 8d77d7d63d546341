//! The second of the two [`stages`](super::stages): an aggregate that merges states of another aggregate, from
//! [`StateOf`](super::state_of::StateOf), into the value of that aggregate.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StructArray};
use arrow::compute::filter;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature, Volatility,
};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::PhysicalExpr;

use super::state_of::state_struct;
use super::statistic::column;

/// `NAME_merge(state)`: the value of `NAME(…)` over all rows of the states.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct MergeOf {
    name: String,
    signature: Signature,
    inner: Arc<AggregateUDF>,
    arguments: Vec<Argument>,
    /// What `inner` gives.
    return_field: FieldRef,
}

/// An argument of the call that the states come from, which its accumulators need, above all constants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Argument {
    pub(super) field: FieldRef,
    pub(super) constant: Option<ScalarValue>,
}

/// The aggregate whose states `func` merges, if it merges states.
pub(super) fn inner(func: &AggregateUDF) -> Option<&AggregateUDF> {
    let merge = func.inner().downcast_ref::<MergeOf>()?;
    Some(&merge.inner)
}

impl MergeOf {
    pub(super) fn try_new(inner: Arc<AggregateUDF>, arguments: Vec<Argument>) -> Result<Self> {
        let fields: Vec<_> = arguments.iter().map(|a| Arc::clone(&a.field)).collect();
        Ok(Self {
            name: format!("{}_merge", inner.name()),
            signature: Signature::user_defined(Volatility::Immutable),
            return_field: inner.return_field(&fields)?,
            inner,
            arguments,
        })
    }

    /// The aggregate whose states it merges.
    pub(super) fn source(&self) -> &Arc<AggregateUDF> {
        &self.inner
    }

    /// The arguments of the call that the states come from.
    pub(super) fn arguments(&self) -> &[Argument] {
        &self.arguments
    }

    fn fields(&self) -> Vec<FieldRef> {
        let fields = self.arguments.iter();
        fields.map(|a| Arc::clone(&a.field)).collect()
    }

    /// Calls `f` with the arguments of the call that the states come from.
    fn with_inner_args<T>(&self, name: &str, f: impl FnOnce(AccumulatorArgs) -> T) -> T {
        let fields = self.fields();
        let exprs: Vec<Arc<dyn PhysicalExpr>> = self
            .arguments
            .iter()
            .enumerate()
            .map(|(at, argument)| match &argument.constant {
                Some(value) => Arc::new(Literal::new(value.clone())) as _,
                None => Arc::new(Column::new(argument.field.name(), at)) as _,
            })
            .collect();
        f(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &Schema::new(fields.clone()),
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name,
            is_distinct: false,
            exprs: &exprs,
            expr_fields: &fields,
        })
    }
}

impl AggregateUDFImpl for MergeOf {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let state = DataType::Struct(state_struct(&self.inner, &self.fields())?);
        match arg_types {
            [found] if *found == state => Ok(vec![state]),
            found => internal_err!("{} takes one argument of {state}, not {found:?}", self.name),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.return_field.data_type().clone())
    }

    fn return_field(&self, _arg_fields: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::clone(&self.return_field))
    }

    fn is_nullable(&self) -> bool {
        self.return_field.is_nullable()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let inner = self.with_inner_args(args.name, |args| self.inner.accumulator(args))?;
        Ok(Box::new(OneMerged(inner)))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.with_inner_args(args.name, |args| {
            self.inner.groups_accumulator_supported(args)
        })
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let inner =
            self.with_inner_args(args.name, |args| self.inner.create_groups_accumulator(args))?;
        Ok(Box::new(GroupsMerged(inner)))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(StateFieldsArgs {
            name: args.name,
            input_fields: &self.fields(),
            return_field: Arc::clone(&self.return_field),
            ordering_fields: &[],
            is_distinct: false,
        })
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The states that an argument holds.
fn states(values: &[ArrayRef]) -> Result<&StructArray> {
    match column(values, 0)?.as_struct_opt() {
        Some(states) => Ok(states),
        None => internal_err!("the states of an aggregate must be a struct"),
    }
}

/// The states that are not NULL and pass the filter; `None` if all of them.
fn kept(states: &StructArray, filter: Option<&BooleanArray>) -> Option<BooleanArray> {
    if filter.is_none() && states.null_count() == 0 {
        return None;
    }
    let passes =
        |row| filter.is_none_or(|filter: &BooleanArray| filter.is_valid(row) && filter.value(row));
    let rows = (0..states.len()).map(|row| Some(states.is_valid(row) && passes(row)));
    Some(rows.collect())
}

/// The columns of the states that are `kept`.
fn columns_of(states: &StructArray, kept: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
    let Some(kept) = kept else {
        return Ok(states.columns().to_vec());
    };
    let columns = states.columns().iter();
    Ok(columns
        .map(|column| filter(column, kept))
        .collect::<Result<_, _>>()?)
}

/// One group.
#[derive(Debug)]
struct OneMerged(Box<dyn Accumulator>);

impl Accumulator for OneMerged {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let states = states(values)?;
        let kept = kept(states, None);
        self.0.merge_batch(&columns_of(states, kept.as_ref())?)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.size()
    }
}

/// Many groups.
struct GroupsMerged(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for GroupsMerged {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let states = states(values)?;
        let Some(kept) = kept(states, opt_filter) else {
            return self
                .0
                .merge_batch(states.columns(), group_indices, total_num_groups);
        };
        let columns = columns_of(states, Some(&kept))?;
        let rows = group_indices.iter().zip(kept.values());
        let indices: Vec<usize> = rows
            .filter(|(_, kept)| *kept)
            .map(|(&group, _)| group)
            .collect();
        self.0.merge_batch(&columns, &indices, total_num_groups)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.0.merge_batch(values, group_indices, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.0.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let states = states(values)?;
        if kept(states, opt_filter).is_some() {
            // The first stage returns no NULL and applies the FILTER.
            return internal_err!("states of an aggregate are NULL or filtered");
        }
        Ok(states.columns().to_vec())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.size()
    }
}
