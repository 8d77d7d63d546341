//! The first of the two [`stages`](super::stages): an aggregate whose value is the state of another one, as a struct.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature, Volatility,
};

/// `NAME_state(…)`: the state of `NAME(…)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct StateOf {
    name: String,
    signature: Signature,
    inner: Arc<AggregateUDF>,
}

/// The fields of the struct that holds a state of `inner` over arguments of these fields.
pub(super) fn state_struct(inner: &AggregateUDF, arguments: &[FieldRef]) -> Result<Fields> {
    let fields = inner.state_fields(StateFieldsArgs {
        name: inner.name(),
        input_fields: arguments,
        return_field: inner.return_field(arguments)?,
        ordering_fields: &[],
        is_distinct: false,
    })?;
    Ok(fields
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect())
}

/// The aggregate whose states `func` computes, if it computes states.
pub(super) fn inner(func: &AggregateUDF) -> Option<&AggregateUDF> {
    let state = func.inner().downcast_ref::<StateOf>()?;
    Some(&state.inner)
}

impl StateOf {
    pub(super) fn new(inner: Arc<AggregateUDF>) -> Self {
        Self {
            name: format!("{}_state", inner.name()),
            signature: Signature::user_defined(Volatility::Immutable),
            inner,
        }
    }

    /// The aggregate whose states it computes.
    pub(super) fn source(&self) -> &Arc<AggregateUDF> {
        &self.inner
    }

    /// The arguments for `inner`.
    fn inner_args<'a>(&self, args: AccumulatorArgs<'a>) -> Result<AccumulatorArgs<'a>> {
        Ok(AccumulatorArgs {
            return_field: self.inner.return_field(args.expr_fields)?,
            ..args
        })
    }
}

impl AggregateUDFImpl for StateOf {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        // A call is split after its arguments were coerced.
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("{}: its type depends on its arguments' fields", self.name)
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let fields = state_struct(&self.inner, arg_fields)?;
        Ok(Arc::new(Field::new_struct(&self.name, fields, true)))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let fields = state_struct(&self.inner, args.expr_fields)?;
        let inner = self.inner.accumulator(self.inner_args(args)?)?;
        Ok(Box::new(OneState { inner, fields }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner_args(args)
            .is_ok_and(|args| self.inner.groups_accumulator_supported(args))
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let fields = state_struct(&self.inner, args.expr_fields)?;
        let inner = self
            .inner
            .create_groups_accumulator(self.inner_args(args)?)?;
        Ok(Box::new(GroupStates { inner, fields }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(StateFieldsArgs {
            return_field: self.inner.return_field(args.input_fields)?,
            ..args
        })
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// States as one column.
fn pack(fields: &Fields, columns: Vec<ArrayRef>) -> Result<ArrayRef> {
    Ok(Arc::new(StructArray::try_new(
        fields.clone(),
        columns,
        None,
    )?))
}

/// The state of one group.
#[derive(Debug)]
struct OneState {
    inner: Box<dyn Accumulator>,
    fields: Fields,
}

impl Accumulator for OneState {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let columns = self
            .inner
            .state()?
            .iter()
            .map(ScalarValue::to_array)
            .collect::<Result<_>>()?;
        ScalarValue::try_from_array(&pack(&self.fields, columns)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}

/// The states of many groups.
struct GroupStates {
    inner: Box<dyn GroupsAccumulator>,
    fields: Fields,
}

impl GroupsAccumulator for GroupStates {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.inner
            .update_batch(values, group_indices, opt_filter, total_num_groups)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.inner
            .merge_batch(values, group_indices, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        pack(&self.fields, self.inner.state(emit_to)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, opt_filter)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}
