//! Pushdown into the scan: projections, including calls on genotypes (so that the scan returns counts and not genotypes),
//! filters, and limits. Invariant: a scan after pushdown returns the rows and columns of the operators that it replaces.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::physical_expr::expressions::{Column, DynamicFilterTracking, Literal};
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::filter_pushdown::PushedDown;

use super::source::{ScanInput, VczSource};
use crate::scan::calls::bound::BoundCall;
use crate::scan::calls::call::{DisplayCall, FilteredCall, GenotypeCall};
use crate::scan::calls::call_value::{CallValue, place_of};
use crate::scan::calls::context::PopulationArg;
use crate::scan::calls::filter_calls::FilterCalls;
use crate::scan::calls::filters::{CallFilters, FieldCondition};
use crate::scan::calls::format_field::call_test;
use crate::scan::calls::genotype_udf::GenotypeUdf;
use crate::scan::schema::{ColumnKind, ColumnSpec, element_type};

impl VczSource {
    /// The scan with `projection` pushed into it; `None` if an expression is volatile, because it might be evaluated more or less often.
    ///
    /// # Errors
    /// If a call on genotypes is bound to other samples than this table's.
    pub(super) fn push_projection(&self, projection: &ProjectionExprs) -> Result<Option<Self>> {
        if projection
            .iter()
            .any(|projected| is_volatile(&projected.expr))
        {
            return Ok(None);
        }
        self.merge_projection(projection).map(Some)
    }

    /// The scan with the `filters` that it can evaluate, if there are any, and for each filter whether it is evaluated exactly.
    pub(super) fn push_filters(
        &self,
        filters: &[Arc<dyn PhysicalExpr>],
    ) -> (Option<Self>, Vec<PushedDown>) {
        let mut source = self.clone();
        let mut changed = false;
        let mut push = |filter: &Arc<dyn PhysicalExpr>| {
            // Dropping rows below a LIMIT would change which rows are limited.
            if self.limit.is_some() {
                return PushedDown::No;
            }
            let Some(filter) = self
                .over_sites(filter)
                .filter(|filter| !is_volatile(filter))
            else {
                return PushedDown::No;
            };
            changed = true;
            if DynamicFilterTracking::classify(&filter).contains_dynamic_filter() {
                // Used only for pruning, because it may change while the scan runs.
                source.dynamic.push(filter);
                PushedDown::No
            } else {
                source.filters.push(filter);
                PushedDown::Yes
            }
        };
        let answers = filters.iter().map(&mut push).collect();
        (changed.then_some(source), answers)
    }

    /// The scan of at most `limit` rows.
    pub(super) fn push_limit(&self, limit: Option<usize>) -> Self {
        Self {
            limit,
            ..self.clone()
        }
    }

    /// Whether the output is anything other than the inputs in their order.
    pub(in crate::scan) fn projects(&self) -> bool {
        let plain = |(at, projected): (usize, &ProjectionExpr)| {
            projected
                .expr
                .downcast_ref::<Column>()
                .is_some_and(|column| column.index() == at)
        };
        self.projection.iter().count() != self.inputs.len()
            || !self.projection.iter().enumerate().all(plain)
    }

    /// The input for `expr`, if it is a call that can be pushed: a bound genotype function of an input column.
    ///
    /// # Errors
    /// If the call is bound to other samples than this table's.
    fn pushed_call(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<ScanInput>> {
        let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() else {
            return Ok(None);
        };
        if function.fun().inner().is::<FilterCalls>() {
            return self.pushed_filter(function);
        }
        let udf = function.fun().inner().downcast_ref::<GenotypeUdf>();
        let (Some(bound), Some(genotypes)) =
            (udf.and_then(|udf| udf.bound()), function.args().first())
        else {
            return Ok(None);
        };
        if self.is_genotypes(genotypes) {
            self.check_samples(function.name(), bound)?;
            return Ok(Some(ScanInput::Call(FilteredCall {
                call: bound.call().clone(),
                filters: CallFilters::default(),
            })));
        }
        // Counts on selected samples are counts of those samples, so `select_samples` itself need not be computed. Filtered genotypes of
        // all samples are a selection, too.
        let Some(ScanInput::Call(FilteredCall {
            call: GenotypeCall::SelectSamples(selected),
            filters,
        })) = self.pushed_call(genotypes)?
        else {
            return Ok(None);
        };
        Ok(Some(ScanInput::Call(FilteredCall {
            call: bound.call().of_selected(&selected),
            filters,
        })))
    }

    /// Whether `expr` is the column of genotypes.
    fn is_genotypes(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        self.column_of(expr)
            .is_some_and(|column| column.kind == ColumnKind::Genotype)
    }

    /// The column of the table that `expr` is.
    fn column_of(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<&ColumnSpec> {
        let column = expr.downcast_ref::<Column>()?;
        match self.inputs.get(column.index())? {
            ScanInput::Array(at) => self.table.stores.columns().get(*at),
            ScanInput::Call(_) => None,
        }
    }

    /// The input for `filter_calls` on the genotypes of all samples, which may be filtered already, by a field of the table.
    ///
    /// # Errors
    /// If the bounds do not fit the field's values.
    fn pushed_filter(&self, function: &ScalarFunctionExpr) -> Result<Option<ScanInput>> {
        let [genotypes, field, bounds @ ..] = function.args() else {
            return Ok(None);
        };
        let constants: Option<Vec<&ScalarValue>> = bounds.iter().map(constant).collect();
        let (Some(constants), Some((spec, value))) = (constants, self.format_field(field)?) else {
            return Ok(None);
        };
        let element = element_type(&spec.array.element);
        let filter = FieldCondition {
            array: spec.array.name.clone(),
            value,
            test: call_test(&spec.array.name, &element, &constants)?,
        };
        let everyone = self.table.context.resolve(&PopulationArg::Everyone)?;
        let filters = if self.is_genotypes(genotypes) {
            CallFilters::default()
        } else {
            match self.pushed_call(genotypes)? {
                Some(ScanInput::Call(FilteredCall {
                    call: GenotypeCall::SelectSamples(samples),
                    filters,
                })) if samples == everyone => filters,
                _ => return Ok(None),
            }
        };
        Ok(Some(ScanInput::Call(FilteredCall {
            call: GenotypeCall::SelectSamples(everyone),
            filters: filters.and(filter),
        })))
    }

    /// The FORMAT field of `expr`, and the index of the call's value, if `expr` chooses one.
    fn format_field(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
    ) -> Result<Option<(&ColumnSpec, Option<usize>)>> {
        let n_samples = self.table.context.n_samples();
        let is_format = |spec: &&ColumnSpec| spec.samples() == Some(n_samples);
        if let Some(spec) = self.column_of(expr).filter(is_format) {
            let is_one = spec.array.rank() == 2;
            return Ok(is_one.then_some((spec, None)));
        }
        let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() else {
            return Ok(None);
        };
        let (true, [field, number]) = (function.fun().inner().is::<CallValue>(), function.args())
        else {
            return Ok(None);
        };
        let spec = self.column_of(field).filter(is_format);
        let values = spec.and_then(ColumnSpec::values_per_call);
        let (Some(spec), Some(values), Some(number)) = (spec, values, constant(number)) else {
            return Ok(None);
        };
        let place = place_of(&spec.array.name, values, number)?;
        Ok(Some((spec, Some(place))))
    }

    /// Returns an error for a call that was bound to the samples of another store.
    fn check_samples(&self, function: &str, bound: &BoundCall) -> Result<()> {
        let context = &self.table.context;
        if bound.genotypes().has_samples_like(context) {
            return Ok(());
        }
        plan_err!(
            "{function} was planned for {} samples of store '{}', but would be computed on {} samples of store '{}'",
            bound.genotypes().n_samples(),
            bound.genotypes().store_name(),
            context.n_samples(),
            context.store_name()
        )
    }

    /// The scan with `projection` merged into its own. The inputs have each array and call once, without unused ones.
    fn merge_projection(&self, projection: &ProjectionExprs) -> Result<Self> {
        let merged = self.projection.try_merge(projection)?;
        let mut inputs: Vec<ScanInput> = Vec::new();
        let mut fields: Vec<Field> = Vec::new();
        let mut exprs: Vec<ProjectionExpr> = Vec::new();
        for ProjectionExpr { expr, alias } in merged.iter() {
            let rewritten = Arc::clone(expr).transform_down(|expr| {
                let call = self.pushed_call(&expr)?;
                let input = match (&call, expr.downcast_ref::<Column>()) {
                    (Some(call), _) => call,
                    (None, Some(column)) => &self.inputs[column.index()],
                    (None, None) => return Ok(Transformed::no(expr)),
                };
                let at = match inputs.iter().position(|known| known == input) {
                    Some(at) => at,
                    None => {
                        fields.push(match input {
                            ScanInput::Array(column) => self.table.schema.field(*column).clone(),
                            ScanInput::Call(call) => self.call_field(call)?,
                        });
                        inputs.push(input.clone());
                        inputs.len() - 1
                    }
                };
                let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(fields[at].name(), at));
                Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
            })?;
            exprs.push(ProjectionExpr::new(rewritten.data, alias.clone()));
        }
        let schema = Arc::new(projection.project_schema(&self.schema)?);
        Ok(Self {
            inputs,
            input_schema: Arc::new(Schema::new(fields)),
            projection: ProjectionExprs::new(exprs),
            schema,
            ..self.clone()
        })
    }

    /// The field of a call's values.
    pub(super) fn call_field(&self, call: &FilteredCall) -> Result<Field> {
        let context = &self.table.context;
        let name = DisplayCall(call, context).to_string();
        let genotypes = self.table.schema.field_with_name("call_genotype")?;
        call.call.field(&name, genotypes, context)
    }

    /// An expression over the output, rewritten over the table's per-variant columns, if possible.
    fn over_sites(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        let over_inputs = self.projection.unproject_expr(expr).ok()?;
        let mut site_level = true;
        let rewritten = over_inputs.transform_down(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else {
                return Ok(Transformed::no(expr));
            };
            match self.inputs.get(column.index()) {
                Some(ScanInput::Array(at)) if self.table.stores.columns()[*at].is_site_level() => {
                    let column = Column::new(self.table.schema.field(*at).name(), *at);
                    Ok(Transformed::new(
                        Arc::new(column) as _,
                        true,
                        TreeNodeRecursion::Jump,
                    ))
                }
                _ => {
                    site_level = false;
                    Ok(Transformed::no(expr))
                }
            }
        });
        rewritten
            .ok()
            .filter(|_| site_level)
            .map(|rewritten| rewritten.data)
    }
}

/// The value of a literal.
fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    expr.downcast_ref::<Literal>().map(Literal::value)
}

#[cfg(test)]
mod tests {
    use datafusion::catalog::TableProvider;
    use datafusion::common::config::ConfigOptions;
    use datafusion::datasource::source::DataSourceExec;
    use datafusion::functions::math::random;
    use datafusion::logical_expr::{Documentation, Operator};
    use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, binary, col, lit};
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::scan::calls::function::GenotypeFunction;
    use crate::scan::{TableOptions, open_table};

    /// A scan of position, alleles and genotypes, in this order.
    async fn scan() -> VczSource {
        let state = SessionContext::new().state();
        let options = TableOptions {
            populations: Some("tests/fixtures/sim.populations.tsv".to_string()),
            ..TableOptions::default()
        };
        let table = open_table(&state, "tests/fixtures/sim.vcz.zip", &options)
            .await
            .unwrap();
        let columns = ["variant_position", "variant_allele", "call_genotype"]
            .map(|name| table.schema().index_of(name).unwrap());
        let plan = table
            .scan(&state, Some(&columns.to_vec()), &[], None)
            .await
            .unwrap();
        let exec = plan.downcast_ref::<DataSourceExec>().unwrap();
        exec.data_source()
            .downcast_ref::<VczSource>()
            .unwrap()
            .clone()
    }

    fn column(source: &VczSource, name: &str) -> Arc<dyn PhysicalExpr> {
        col(name, &source.schema).unwrap()
    }

    /// A call of `function` for `population` on `genotypes`, bound to the samples of `source`.
    fn call(
        source: &VczSource,
        function: GenotypeFunction,
        population: &str,
        genotypes: Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        let documentation = Documentation::builder(Default::default(), "", "").build();
        let unbound = GenotypeUdf::udf(function, documentation);
        let named = PopulationArg::Named(population.to_string());
        let context = Arc::clone(&source.table.context);
        let bound = BoundCall::try_new(function, &named, context).unwrap();
        let udf = unbound
            .inner()
            .downcast_ref::<GenotypeUdf>()
            .unwrap()
            .bind(Arc::new(bound));
        Arc::new(
            ScalarFunctionExpr::try_new(
                Arc::new(udf),
                vec![genotypes, lit(population)],
                &source.schema,
                Arc::new(ConfigOptions::new()),
            )
            .unwrap(),
        )
    }

    fn project<const N: usize>(
        source: &VczSource,
        exprs: [(Arc<dyn PhysicalExpr>, &str); N],
    ) -> VczSource {
        let exprs = exprs.map(|(expr, alias)| ProjectionExpr::new(expr, alias));
        let pushed = source.push_projection(&ProjectionExprs::new(exprs));
        pushed.unwrap().unwrap()
    }

    fn is_counts(input: &ScanInput) -> bool {
        matches!(input, ScanInput::Call(call) if matches!(call.call, GenotypeCall::AlleleCounts(_)))
    }

    #[tokio::test]
    async fn calls_become_inputs_once_and_unused_columns_are_dropped() {
        let source = scan().await;
        let counts = |population| {
            let genotypes = column(&source, "call_genotype");
            call(
                &source,
                GenotypeFunction::AlleleCounts,
                population,
                genotypes,
            )
        };
        let position = column(&source, "variant_position");
        let pushed = project(
            &source,
            [
                (counts("first"), "a"),
                (position, "p"),
                (counts("second"), "b"),
                (counts("first"), "c"),
            ],
        );
        assert_eq!(pushed.inputs.len(), 3);
        assert!(is_counts(&pushed.inputs[0]) && is_counts(&pushed.inputs[2]));
        assert!(matches!(pushed.inputs[1], ScanInput::Array(_)));
        let names: Vec<&str> = pushed
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        assert_eq!(names, ["a", "p", "b", "c"]);
        assert!(pushed.projects());
        // A second projection drops unused inputs.
        let again = project(&pushed, [(column(&pushed, "b"), "b")]);
        assert_eq!(again.inputs, pushed.inputs[2..]);
        assert!(!again.projects());
    }

    #[tokio::test]
    async fn genotypes_that_are_selected_and_counted_are_not_read_as_a_column() {
        let source = scan().await;
        let genotypes = column(&source, "call_genotype");
        let selected = call(&source, GenotypeFunction::SelectSamples, "first", genotypes);
        let kept = project(&source, [(Arc::clone(&selected), "g")]);
        let [
            ScanInput::Call(FilteredCall {
                call: GenotypeCall::SelectSamples(samples),
                ..
            }),
        ] = &kept.inputs[..]
        else {
            panic!("{:?}", kept.inputs);
        };
        // Genotypes themselves remain a column.
        let all = project(&source, [(column(&source, "call_genotype"), "g")]);
        assert!(matches!(all.inputs[..], [ScanInput::Array(_)]));
        assert_eq!(
            *samples,
            source
                .table
                .context
                .resolve(&PopulationArg::Named("first".to_string()))
                .unwrap()
        );
    }

    #[tokio::test]
    async fn volatile_projections_stay_above() {
        let source = scan().await;
        let random = ScalarFunctionExpr::try_new(
            random(),
            vec![],
            &source.schema,
            Arc::new(ConfigOptions::new()),
        );
        let projection =
            ProjectionExprs::new([ProjectionExpr::new(Arc::new(random.unwrap()), "r")]);
        assert!(source.push_projection(&projection).unwrap().is_none());
    }

    #[tokio::test]
    async fn filters_on_sites_are_taken_and_others_are_not() {
        let source = scan().await;
        let over = |source: &VczSource, name: &str| {
            let position = column(source, name);
            binary(position, Operator::Gt, lit(1000), &source.schema).unwrap()
        };
        let of_calls: Arc<dyn PhysicalExpr> =
            datafusion::physical_expr::expressions::is_null(column(&source, "call_genotype"))
                .unwrap();
        let position = over(&source, "variant_position");
        let dynamic: Arc<dyn PhysicalExpr> = Arc::new(DynamicFilterPhysicalExpr::new(
            vec![column(&source, "variant_position")],
            Arc::clone(&position),
        ));
        let (pushed, answers) =
            source.push_filters(&[Arc::clone(&position), of_calls.clone(), dynamic]);
        assert!(matches!(
            answers[..],
            [PushedDown::Yes, PushedDown::No, PushedDown::No]
        ));
        let pushed = pushed.unwrap();
        assert_eq!((pushed.filters.len(), pushed.dynamic.len()), (1, 1));
        let (unchanged, answers) = source.push_filters(&[of_calls]);
        assert!(unchanged.is_none() && matches!(answers[..], [PushedDown::No]));

        // A filter above a projection is one over the table's columns.
        let renamed = project(&source, [(column(&source, "variant_position"), "p")]);
        let (pushed, _) = renamed.push_filters(&[over(&renamed, "p")]);
        let filter = Arc::clone(&pushed.unwrap().filters[0]);
        assert!(
            filter.to_string().starts_with("variant_position@"),
            "{filter}"
        );

        // A LIMIT chooses rows before a filter above it.
        let limited = source.push_limit(Some(5));
        let (unchanged, answers) = limited.push_filters(&[position]);
        assert!(unchanged.is_none() && matches!(answers[..], [PushedDown::No]));
        assert_eq!(limited.limit, Some(5));
    }
}
