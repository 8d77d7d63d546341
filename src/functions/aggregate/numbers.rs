//! The DataFusion side of aggregates over columns of numbers, which take no counts: signature, planning checks, accumulators.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, Signature,
    Volatility,
};

use super::accumulator::{StatisticAccumulator, StatisticGroupsAccumulator};
use super::distinct::refused_by_numbers;
use super::statistic::Statistic;
use super::udaf::state_fields;

/// An aggregate over columns of numbers. Its states are exact, as those of [`Statistic`] are.
pub(crate) trait NumbersDefinition: Debug + Send + Sync + 'static {
    /// What it computes.
    type Statistic: Statistic;
    /// Its SQL name.
    const NAME: &'static str;
    /// Its arguments: the name of each, and the type that it is cast to, Float64 or Int64.
    const ARGUMENTS: &'static [(&'static str, DataType)];

    /// Its value over no rows. If that is not NULL, the function is declared to never return NULL.
    fn default_value() -> Result<ScalarValue>;

    /// The statistic.
    fn statistic() -> Self::Statistic;

    /// Its documentation.
    fn documentation() -> Documentation;
}

/// The aggregate that a [`NumbersDefinition`] defines.
#[derive(Debug)]
pub(crate) struct NumbersAggregate<D> {
    signature: Signature,
    documentation: Documentation,
    definition: std::marker::PhantomData<fn() -> D>,
}

impl<D: NumbersDefinition> NumbersAggregate<D> {
    pub(crate) fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            documentation: D::documentation(),
            definition: std::marker::PhantomData,
        }
    }

    fn statistic(args: &AccumulatorArgs) -> Result<D::Statistic> {
        if args.is_distinct {
            return Err(refused_by_numbers(D::NAME));
        }
        Ok(D::statistic())
    }
}

impl<D: NumbersDefinition> PartialEq for NumbersAggregate<D> {
    /// Functions of the same type are equal.
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl<D: NumbersDefinition> Eq for NumbersAggregate<D> {}

impl<D: NumbersDefinition> Hash for NumbersAggregate<D> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        D::NAME.hash(state);
    }
}

impl<D: NumbersDefinition> AggregateUDFImpl for NumbersAggregate<D> {
    fn name(&self) -> &str {
        D::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let name = D::NAME;
        if arg_types.len() != D::ARGUMENTS.len() {
            let names: Vec<_> = D::ARGUMENTS.iter().map(|(argument, _)| *argument).collect();
            return plan_err!(
                "{name}: expected {name}({}), found {} arguments",
                names.join(", "),
                arg_types.len()
            );
        }
        for ((argument, to), found) in D::ARGUMENTS.iter().zip(arg_types) {
            let (fits, what) = match to {
                DataType::Int64 => (found.is_integer(), "a whole number"),
                _ => (found.is_numeric(), "a number"),
            };
            if !fits && !found.is_null() {
                return plan_err!("{name}: {argument} must be {what}, found {found}");
            }
        }
        Ok(D::ARGUMENTS.iter().map(|(_, to)| to.clone()).collect())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(D::default_value()?.data_type())
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<_> = arg_fields
            .iter()
            .map(|field| field.data_type().clone())
            .collect();
        Ok(Arc::new(Field::new(
            D::NAME,
            self.return_type(&types)?,
            self.is_nullable(),
        )))
    }

    fn is_nullable(&self) -> bool {
        D::default_value().map_or(true, |value| value.is_null())
    }

    fn default_value(&self, _data_type: &DataType) -> Result<ScalarValue> {
        D::default_value()
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(StatisticAccumulator::new(Self::statistic(&args)?)))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(StatisticGroupsAccumulator::new(Self::statistic(
            &args,
        )?)))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(state_fields::<D::Statistic>(args.name))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}
