//! The DataFusion side of aggregates over genotypes, which they take as bit-planes: signature, planning checks, accumulators.
//!
//! Planning rewrites `sample_counts(call_genotype [, population])` to `sample_counts(genotype_planes(call_genotype [, population]))`, and
//! the scan computes the argument. The number of copies is in its field's metadata. An aggregate that returns sample ids is bound to the
//! samples while planning, as calls on genotypes are.

use std::any::Any;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{
    Result, ScalarValue, exec_datafusion_err, exec_err, internal_err, plan_err,
};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, DocumentationBuilder,
    GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

use super::accumulator::{StatisticAccumulator, StatisticGroupsAccumulator};
use super::arguments::constant_value;
use super::definition::Copies as CopiesOf;
use super::distinct::refused_by_sites;
use super::pair_feed::PairFeed;
use super::statistic::Statistic;
use super::udaf::state_fields;
use crate::counts::pairs::{PairDevice, Shape};
use crate::counts::sites::Copies;
use crate::functions::documentation::document;
use crate::functions::site_argument::SiteArgument;
use crate::scan::{
    GenotypeContext, found_type, is_genotype_type, is_planes_type, is_population_type,
};

/// The population of a call, and the arguments after it.
pub(crate) struct Population {
    /// Its copies.
    pub(crate) copies: usize,
    /// Those of the second population; only where [`PlanesDefinition::POPULATIONS`] is 2 and two are named.
    pub(crate) second: Option<usize>,
    /// Its samples; only where [`PlanesDefinition::NAMES_SAMPLES`].
    pub(crate) samples: Option<Arc<GenotypeContext>>,
    /// The values of the other arguments; `None` where they are not constant.
    pub(crate) others: Vec<Option<ScalarValue>>,
}

impl Population {
    /// The copies of all populations.
    pub(crate) fn of_copies(&self) -> Copies {
        Copies {
            first: self.copies,
            second: self.second,
        }
    }

    /// The individuals, for functions that need the copies of a call.
    ///
    /// # Errors
    /// If the samples are not known, or are not those of the copies.
    pub(crate) fn shape(&self, name: &str) -> Result<Shape> {
        let Some(context) = &self.samples else {
            return internal_err!("{name}: it has no samples");
        };
        let shape = Shape {
            samples: context.n_samples(),
            ploidy: context.ploidy(),
        };
        if shape.copies() != self.copies {
            return internal_err!(
                "{name}: expected {} copies, found {}",
                shape.copies(),
                self.copies
            );
        }
        Ok(shape)
    }

    /// The individuals and their sample ids, for functions that need them.
    ///
    /// # Errors
    /// If the store has no id for each of its samples.
    pub(crate) fn individuals(&self, name: &str) -> Result<(Shape, Vec<String>)> {
        let shape = self.shape(name)?;
        let Some(context) = &self.samples else {
            return internal_err!("{name}: it has no samples");
        };
        let ids = context.sample_ids().to_vec();
        if ids.len() != shape.samples {
            return exec_err!(
                "{name}: store '{}' has {} sample ids for {} samples",
                context.store_name(),
                ids.len(),
                shape.samples
            );
        }
        Ok((shape, ids))
    }
}

/// An aggregate over genotypes. Its value over an empty frame is NULL.
pub(crate) trait PlanesDefinition: Debug + Send + Sync + 'static {
    /// What it computes.
    type Statistic: Statistic;
    /// Its SQL name.
    const NAME: &'static str;
    /// Whether it needs the samples: their ids, or the copies of a call.
    const NAMES_SAMPLES: bool = false;
    /// The most populations that may be named: 1 or 2.
    const POPULATIONS: usize = 1;
    /// Whether it compares variants by their positions, so that planning hands the contig on as the last argument.
    const TAKES_CONTIG: bool = false;
    /// The syntax of the arguments after the population.
    const OTHERS: &'static str = "";

    /// The type of its result.
    fn return_type() -> DataType;

    /// The types that the arguments after the population are cast to; `None` if they do not fit the syntax.
    fn coerce_others(types: &[DataType]) -> Option<Vec<DataType>> {
        types.is_empty().then(Vec::new)
    }

    /// The statistic for one call.
    fn statistic(population: &Population) -> Result<Self::Statistic>;

    /// The accumulator of sliding frames.
    fn sliding(statistic: Self::Statistic) -> Box<dyn Accumulator> {
        Box::new(StatisticAccumulator::new(statistic))
    }

    /// Its documentation.
    fn documentation() -> Documentation;
}

/// Documents the arguments, which are the same for all these functions.
pub(crate) fn document_genotypes(
    description: &str,
    syntax: &str,
    example: &str,
) -> DocumentationBuilder {
    document(description, syntax, example)
        .with_argument("call_genotype", "The genotype column of a VCZ table.")
        .with_argument(
            "population",
            "A name from the table's populations file, a list of sample ids, or an uncorrelated scalar subquery that gives \
             one; every sample when left out.",
        )
}

/// The number of copies of a population.
fn known_copies(name: &str, field: &Field) -> Result<usize> {
    let copies = match CopiesOf::of(field)? {
        CopiesOf::Known(copies) => usize::try_from(copies).ok(),
        _ => None,
    };
    copies.ok_or_else(|| {
        exec_datafusion_err!(
            "{name}: the population must be constant (a name, a list of sample ids, or a subquery that is run while \
             planning); this one's number of copies is not known"
        )
    })
}

/// The aggregate that a [`PlanesDefinition`] defines.
#[derive(Debug)]
pub(crate) struct PlanesAggregate<D> {
    signature: Signature,
    documentation: Documentation,
    /// The samples, once planning has bound the call.
    samples: Option<Arc<GenotypeContext>>,
    definition: std::marker::PhantomData<fn() -> D>,
}

impl<D: PlanesDefinition> PlanesAggregate<D> {
    pub(crate) fn new(samples: Option<Arc<GenotypeContext>>) -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            documentation: D::documentation(),
            samples,
            definition: std::marker::PhantomData,
        }
    }

    /// `func` bound to `samples`, if it is this aggregate, needs them, and is not bound.
    pub(crate) fn bind(
        func: &AggregateUDF,
        samples: &Arc<GenotypeContext>,
    ) -> Option<AggregateUDF> {
        let aggregate = func.inner().downcast_ref::<Self>()?;
        (D::NAMES_SAMPLES && aggregate.samples.is_none())
            .then(|| AggregateUDF::from(Self::new(Some(Arc::clone(samples)))))
    }

    /// The samples that `func` is bound to, if it is this aggregate.
    pub(crate) fn samples(func: &AggregateUDF) -> Option<&Arc<GenotypeContext>> {
        func.inner().downcast_ref::<Self>()?.samples.as_ref()
    }

    /// Whether `func` is this aggregate and compares pairs.
    pub(crate) fn compares_pairs(func: &AggregateUDF) -> bool {
        D::Statistic::COMPARES_PAIRS && func.inner().is::<Self>()
    }

    /// Whether `func` is this aggregate and sums over pairs of sites, which devices can.
    pub(crate) fn compares_sites(func: &AggregateUDF) -> bool {
        D::Statistic::COMPARES_SITES && func.inner().is::<Self>()
    }

    /// Whether `func` is this aggregate and keeps a matrix of all pairs.
    pub(crate) fn keeps_matrix(func: &AggregateUDF) -> bool {
        D::Statistic::KEEPS_MATRIX && func.inner().is::<Self>()
    }

    /// Whether `func` is this aggregate and devices count pairs for it.
    pub(crate) fn is_on_device(func: &AggregateUDF) -> bool {
        D::Statistic::ON_DEVICE && func.inner().is::<Self>()
    }

    /// Lets `device` count pairs for an accumulator without rows, if it is one of this aggregate.
    pub(crate) fn use_device(
        accumulator: &mut dyn Accumulator,
        device: &Arc<dyn PairDevice>,
    ) -> Option<Arc<dyn PairFeed>> {
        let accumulator: &mut dyn Any = accumulator;
        let of_this = accumulator.downcast_mut::<StatisticAccumulator<D::Statistic>>()?;
        of_this.use_device(device)
    }

    /// If `func` is this aggregate, whether it is bound or needs no binding; else `None`.
    pub(crate) fn is_bound(func: &AggregateUDF) -> Option<bool> {
        let aggregate = func.inner().downcast_ref::<Self>()?;
        Some(!D::NAMES_SAMPLES || aggregate.samples.is_some())
    }

    /// The statistic of one call.
    fn statistic(&self, args: &AccumulatorArgs) -> Result<D::Statistic> {
        let name = D::NAME;
        if args.is_distinct {
            return Err(refused_by_sites(name, SiteArgument::GenotypePlanes));
        }
        let fields = args.expr_fields.iter().take(D::POPULATIONS);
        let populations: Vec<_> = fields
            .take_while(|field| is_planes_type(field.data_type()))
            .collect();
        let Some((first, others)) = populations.split_first() else {
            return exec_err!(
                "{name}: call_genotype was not converted to bit-planes: this session lacks the planning rules of datafusion-vcz \
                 (datafusion_vcz::session::register)"
            );
        };
        let copies = known_copies(name, first)?;
        let second = others.first().map(|field| known_copies(name, field));
        if D::NAMES_SAMPLES && self.samples.is_none() {
            return exec_err!(
                "{name}: the sample ids of these genotypes are unknown, because no table of the query has these samples; write \
                 {name}(call_genotype [, population]) in the query that reads the VCZ table, in each branch of a UNION of \
                 different samples"
            );
        }
        let others = args.exprs.iter().skip(populations.len());
        let others = others.map(|expr| constant_value(expr.as_ref()));
        D::statistic(&Population {
            copies,
            second: second.transpose()?,
            samples: self.samples.clone(),
            others: others.collect::<Result<_>>()?,
        })
    }
}

impl<D: PlanesDefinition> PartialEq for PlanesAggregate<D> {
    /// Functions of the same type and the same samples are equal.
    fn eq(&self, other: &Self) -> bool {
        self.samples == other.samples
    }
}

impl<D: PlanesDefinition> Eq for PlanesAggregate<D> {}

impl<D: PlanesDefinition> Hash for PlanesAggregate<D> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        D::NAME.hash(state);
        self.samples.hash(state);
    }
}

impl<D: PlanesDefinition> AggregateUDFImpl for PlanesAggregate<D> {
    fn name(&self) -> &str {
        D::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let name = D::NAME;
        let populations = match D::POPULATIONS {
            1 => "population",
            _ => "population1 [, population2]",
        };
        let usage = format!("write {name}(call_genotype [, {populations}]{})", D::OTHERS);
        let Some(first) = arg_types.first() else {
            return plan_err!("{name} needs arguments: {usage}");
        };
        let leading = |most: usize, is: &dyn Fn(&DataType) -> bool| {
            let types = arg_types.iter().take(most);
            types.take_while(|data_type| is(data_type)).count()
        };
        let before = if is_planes_type(first) {
            leading(D::POPULATIONS, &is_planes_type)
        } else if is_genotype_type(first) {
            leading(D::POPULATIONS + 1, &|data_type| {
                is_genotype_type(data_type) || is_population_type(data_type)
            })
        } else {
            return plan_err!(
                "{name}: the first argument must be genotypes such as call_genotype, found {}: {usage}",
                found_type(first)
            );
        };
        let others = &arg_types[before..];
        if let Some(others) = D::coerce_others(others) {
            return Ok(arg_types[..before].iter().cloned().chain(others).collect());
        }
        match others {
            [population] if D::OTHERS.is_empty() && before == 1 => plan_err!(
                "{name}: a population is a name or a list of sample ids (strings), found {population}: {usage}"
            ),
            _ if D::OTHERS.is_empty() => plan_err!(
                "{name} takes one population, found {} arguments after the genotypes: {usage}",
                arg_types.len() - 1
            ),
            others => {
                let types: Vec<String> = others.iter().map(ToString::to_string).collect();
                plan_err!(
                    "{name}: after the genotypes and the population it takes{}, found ({}): {usage}",
                    D::OTHERS.trim_start_matches(','),
                    types.join(", ")
                )
            }
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(D::return_type())
    }

    fn return_field(&self, _arg_fields: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(D::NAME, D::return_type(), true)))
    }

    fn is_nullable(&self) -> bool {
        true
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        ScalarValue::try_from(data_type)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(StatisticAccumulator::new(self.statistic(&args)?)))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(D::sliding(self.statistic(&args)?))
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
