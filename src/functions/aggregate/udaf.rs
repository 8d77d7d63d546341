//! The DataFusion side of every aggregate over counts: signature, planning checks, accumulators.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    Signature, Volatility,
};
use datafusion::physical_expr::utils::collect_columns;

use super::accumulator::{StatisticAccumulator, StatisticGroupsAccumulator};
use super::arguments::{Form, coerce, constant, form};
use super::definition::{Call, Copies, Definition};
use super::distinct::refused_by_sites;
use super::statistic::Statistic;
use crate::scan::notices::{NoticeSink, SiteTotals};

/// The aggregate that a [`Definition`] defines.
pub(crate) struct CountsAggregate<D> {
    signature: Signature,
    documentation: Documentation,
    /// Receives the reports of sites that are left out; ignored when functions are compared.
    notices: NoticeSink,
    /// The sites that this call leaves out, if EXPLAIN ANALYZE shows them; ignored like `notices`.
    totals: Option<Arc<SiteTotals>>,
    definition: std::marker::PhantomData<fn() -> D>,
}

/// Its name: DataFusion's errors show functions by `Debug`.
impl<D: Definition> fmt::Debug for CountsAggregate<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(D::NAME)
    }
}

/// To what an aggregate reports the sites that it leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reports {
    /// To the session's notices.
    pub to_notices: bool,
    /// To totals that EXPLAIN ANALYZE shows.
    pub for_analyze: bool,
}

impl<D: Definition> CountsAggregate<D> {
    pub(crate) fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            documentation: D::documentation(),
            notices: NoticeSink::default(),
            totals: None,
            definition: std::marker::PhantomData,
        }
    }

    /// `func` reporting the sites that it leaves out to `notices` and, if `analyzed`, to totals of its own; `None` if it is not this
    /// function or leaves none out.
    pub(crate) fn reporting(
        func: &AggregateUDF,
        notices: &NoticeSink,
        analyzed: bool,
    ) -> Option<AggregateUDF> {
        if !D::REPORTS_LEFT_OUT || !func.inner().is::<Self>() {
            return None;
        }
        let mut reporting = Self::new();
        reporting.notices = notices.clone();
        reporting.totals = analyzed.then(Arc::default);
        Some(AggregateUDF::from(reporting))
    }

    /// Whether `func`, if it is this function, reports the sites that it leaves out, and to what.
    pub(crate) fn reports(func: &AggregateUDF) -> Option<Reports> {
        let aggregate = func.inner().downcast_ref::<Self>()?;
        let reports = Reports {
            to_notices: aggregate.notices.0.is_some(),
            for_analyze: aggregate.totals.is_some(),
        };
        (reports != Reports::default()).then_some(reports)
    }

    /// The sites that `func` leaves out, if it is this function and EXPLAIN ANALYZE shows them.
    pub(crate) fn totals(func: &AggregateUDF) -> Option<&Arc<SiteTotals>> {
        func.inner().downcast_ref::<Self>()?.totals.as_ref()
    }

    /// The statistic of one call, with its constant arguments.
    fn statistic(&self, args: &AccumulatorArgs) -> Result<D::Statistic> {
        let name = D::NAME;
        if args.is_distinct {
            return Err(refused_by_sites(name, D::ARGUMENT));
        }
        let types: Vec<_> = args
            .expr_fields
            .iter()
            .map(|field| field.data_type())
            .collect();
        let Form::Counts { populations } = form::<D>(&types)? else {
            return exec_err!(
                "{name}: call_genotype was not counted: this session lacks the planning rules of \
                 datafusion-vcz (datafusion_vcz::session::register). Register them, or write {name}({}(call_genotype, …), …)",
                D::ARGUMENT.function()
            );
        };
        let copies = args
            .expr_fields
            .iter()
            .take(populations)
            .map(|field| Copies::of(field))
            .collect::<Result<_>>()?;
        let mut numbers = vec![];
        let mut number_varies = false;
        for (expr, argument) in args.exprs.iter().skip(populations).zip(D::NUMBERS) {
            number_varies = D::NUMBERS_VARY && !collect_columns(expr).is_empty();
            if number_varies {
                break;
            }
            numbers.push(constant(name, argument, expr.as_ref())?);
        }
        D::statistic(&Call {
            copies,
            numbers,
            number_varies,
            notices: self.notices.clone(),
            totals: self.totals.clone(),
        })
    }
}

impl<D: Definition> PartialEq for CountsAggregate<D> {
    /// Functions of the same type are equal.
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl<D: Definition> Eq for CountsAggregate<D> {}

impl<D: Definition> Hash for CountsAggregate<D> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        D::NAME.hash(state);
    }
}

impl<D: Definition> AggregateUDFImpl for CountsAggregate<D> {
    fn name(&self) -> &str {
        D::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        coerce::<D>(arg_types)
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(D::return_type())
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<_> = arg_fields.iter().map(|field| field.data_type()).collect();
        if let Form::Counts { populations } = form::<D>(&types)? {
            let copies: Vec<_> = arg_fields
                .iter()
                .take(populations)
                .map(|field| Copies::of(field))
                .collect::<Result<_>>()?;
            D::plan(&copies, arg_fields.len().saturating_sub(populations))?;
        }
        Ok(Arc::new(Field::new(
            D::NAME,
            D::return_type(),
            self.is_nullable(),
        )))
    }

    fn is_nullable(&self) -> bool {
        D::default_value().map_or(true, |value| value.is_null())
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        let value = D::default_value()?;
        if value.data_type() != *data_type {
            return plan_err!("{} gives {}, not {data_type}", D::NAME, value.data_type());
        }
        Ok(value)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(StatisticAccumulator::new(self.statistic(&args)?)))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(StatisticGroupsAccumulator::new(
            self.statistic(&args)?,
        )))
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

/// The fields of a statistic's state.
pub(crate) fn state_fields<S: Statistic>(name: &str) -> Vec<FieldRef> {
    let columns = S::state_columns().into_iter();
    columns
        .map(|(column, data_type)| {
            Arc::new(Field::new(
                format_state_name(name, &column),
                data_type,
                true,
            ))
        })
        .collect()
}
