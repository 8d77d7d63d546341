//! Aggregates that other crates define with the traits of `extend` and `cell_statistic`, as planning recognises them: their types are not
//! known here, so each is wrapped in the one type [`Added`].

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    Signature,
};

use super::definition::Definition;
use super::udaf::CountsAggregate;
use crate::functions::site_argument::SiteArguments;

/// An aggregate of another crate, and its site arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Added {
    of: AggregateUDF,
    arguments: SiteArguments,
}

/// The aggregate function of a definition that is not in this crate's list.
pub(super) fn added<D: Definition>() -> AggregateUDF {
    AggregateUDF::from(Added {
        of: AggregateUDF::from(CountsAggregate::<D>::new()),
        arguments: SiteArguments {
            of: D::ARGUMENT,
            populations: D::arity(),
        },
    })
}

/// The site arguments of `func`, if another crate added it by [`added`].
pub(super) fn site_arguments(func: &AggregateUDF) -> Option<SiteArguments> {
    let added = func.inner().downcast_ref::<Added>()?;
    Some(added.arguments.clone())
}

impl AggregateUDFImpl for Added {
    fn name(&self) -> &str {
        self.of.inner().name()
    }

    fn signature(&self) -> &Signature {
        self.of.inner().signature()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.of.inner().coerce_types(arg_types)
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.of.inner().return_type(arg_types)
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        self.of.inner().return_field(arg_fields)
    }

    fn is_nullable(&self) -> bool {
        self.of.inner().is_nullable()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.of.inner().default_value(data_type)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.of.inner().accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.of.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.of.inner().create_groups_accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.of.inner().state_fields(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.of.inner().order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.of.inner().reverse_expr()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.of.inner().documentation()
    }
}
