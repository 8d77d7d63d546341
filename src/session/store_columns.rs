//! Comparisons and subscripts of VCZ columns whose types would make them fail or surprise. `variant_contig = 1` and
//! `variant_contig IN (1, 2)` are planned as text. In `variant_quality = 80.1` the number is rounded to the single precision of the column, as
//! VCF's value was: in double precision no value would be equal. Others are errors that say what to write instead. Both run before type
//! coercion: [`StoreColumnPlanner`] while SQL is planned, [`ListsAndRanges`] as the first analyzer rule.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ExprSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans operators on VCZ columns.
#[derive(Debug)]
pub struct StoreColumnPlanner;

impl ExprPlanner for StoreColumnPlanner {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if !is_comparison(&expr.op) {
            return Ok(PlannerResult::Original(expr));
        }
        let RawBinaryExpr { op, left, right } = expr;
        refuse(&left, &right, &op, schema)?;
        refuse(&right, &left, &op, schema)?;
        let right = compared(right, &left, schema);
        let left = compared(left, &right, schema);
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }

    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let by_name = match &expr.field_access {
            GetFieldAccess::NamedStructField { name } => name.try_as_str().flatten(),
            _ => None,
        };
        if let (Some(name), Some(column)) = (by_name, column_of(&expr.expr, schema))
            && column.starts_with("call_")
        {
            return match column {
                "call_genotype" => plan_err!(
                    "{column} cannot be indexed by a sample id; the genotypes of samples are \
                     select_samples({column}, ['{name}'])"
                ),
                _ => plan_err!(
                    "{column} cannot be indexed by a sample id: it is a list in the order of the store's samples. The value of one \
                     sample is select_samples({column}, ['{name}'])[1]; vcz_samples gives the order"
                ),
            };
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// Does the same in the lists of IN and the bounds of BETWEEN.
#[derive(Debug)]
pub struct ListsAndRanges;

impl AnalyzerRule for ListsAndRanges {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|expr| match expr {
                    Expr::InList(mut list) => {
                        let values = list.list.into_iter();
                        list.list = values
                            .map(|value| compared(value, &list.expr, &schema))
                            .collect();
                        Ok(Transformed::yes(Expr::InList(list)))
                    }
                    Expr::Between(mut range) => {
                        range.low = Box::new(compared(*range.low, &range.expr, &schema));
                        range.high = Box::new(compared(*range.high, &range.expr, &schema));
                        Ok(Transformed::yes(Expr::Between(range)))
                    }
                    other => Ok(Transformed::no(other)),
                })?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })
        })
        .map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        "vcz_lists_and_ranges"
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Gt | GtEq | Lt | LtEq)
}

/// The name of a column of `schema` that is a list, as VCZ columns of calls and filters are.
fn column_of<'a>(expr: &'a Expr, schema: &DFSchema) -> Option<&'a str> {
    let Expr::Column(column) = expr else {
        return None;
    };
    let field = schema.field_from_column(column).ok()?;
    matches!(
        field.data_type(),
        DataType::List(_) | DataType::FixedSizeList(..)
    )
    .then_some(&column.name)
}

/// Whether `expr` is the column of contig names.
fn is_contig(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::Column(column) = expr else {
        return false;
    };
    column.name == "variant_contig"
        && schema
            .field_from_column(column)
            .is_ok_and(|field| field.data_type().is_string())
}

/// `value` as it is compared with `column`, which may be any expression.
fn compared(value: Expr, column: &Expr, schema: &DFSchema) -> Expr {
    let Expr::Literal(literal, _) = &value else {
        return value;
    };
    if let ScalarValue::Float64(Some(number)) = literal {
        let rounded = *number as f32;
        // A number beyond single precision stays what it is.
        return match is_single(column, schema) && (rounded.is_finite() || !number.is_finite()) {
            true => Expr::Literal(ScalarValue::Float32(Some(rounded)), None),
            false => value,
        };
    }
    match is_contig(column, schema) {
        true => as_text(value),
        false => value,
    }
}

/// Whether `expr` is a column of a store, or a value of its lists, in single precision.
fn is_single(expr: &Expr, schema: &DFSchema) -> bool {
    let is_field = |name: &str| name.starts_with("variant_") || name.starts_with("call_");
    expr.column_refs()
        .iter()
        .any(|column| is_field(&column.name))
        && matches!(expr.get_type(schema), Ok(DataType::Float32))
}

/// An integer literal as text: contigs are names, even if they look like numbers.
fn as_text(expr: Expr) -> Expr {
    match &expr {
        Expr::Literal(value, _) if value.data_type().is_integer() && !value.is_null() => {
            Expr::Literal(ScalarValue::Utf8View(Some(value.to_string())), None)
        }
        _ => expr,
    }
}

/// Returns an error for the comparison of a list column with one value.
fn refuse(list: &Expr, value: &Expr, op: &BinaryOperator, schema: &DFSchema) -> Result<()> {
    let Some(column) = column_of(list, schema) else {
        return Ok(());
    };
    let Ok(data_type) = value.get_type(schema) else {
        return Ok(());
    };
    if data_type.is_nested() || data_type.is_null() {
        return Ok(());
    }
    match column {
        "variant_filter" if matches!(value, Expr::Literal(ScalarValue::Utf8(Some(name)), _) if name == "PASS") =>
        {
            plan_err!(
                "variant_filter is the list of all filters of a site and cannot be compared with one; sites that passed are \
                 is_pass(variant_filter)"
            )
        }
        "variant_filter" => plan_err!(
            "variant_filter is the list of all filters of a site and cannot be compared with one; write \
             array_has(variant_filter, {value}), or is_pass(variant_filter)"
        ),
        "variant_allele" => plan_err!(
            "variant_allele is the list of all alleles of a site and cannot be compared with one; write \
             array_has(variant_allele, {value}), or variant_allele[1] {op} {value} for the reference allele"
        ),
        "call_genotype" => plan_err!(
            "call_genotype holds the genotypes of all samples and cannot be compared with one value; \
             allele_counts(call_genotype [, population]) and genotype_counts(call_genotype [, population]) count them"
        ),
        _ if column.starts_with("call_") => plan_err!(
            "{column} is a list with the values of all samples and cannot be compared with one value; to leave calls out by it, \
             write filter_calls(call_genotype, {column}, least, most) in place of call_genotype"
        ),
        _ if column.starts_with("variant_") => plan_err!(
            "{column} is a list and cannot be compared with one value; write {column}[1] {op} {value} for its first value, or \
             array_has({column}, {value})"
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, Schema};
    use datafusion::prelude::{ident, lit};

    use super::*;

    fn schema() -> DFSchema {
        let calls = DataType::new_fixed_size_list(DataType::Int16, 3, true);
        let filters = DataType::new_list(DataType::Utf8, true);
        DFSchema::try_from(Schema::new(vec![
            Field::new("variant_contig", DataType::Utf8View, false),
            Field::new("call_DP", calls, true),
            Field::new("variant_filter", filters.clone(), true),
            Field::new("variant_quality", DataType::Float32, true),
            Field::new("variant_score", DataType::Float64, true),
            Field::new("single", DataType::Float32, true),
            Field::new("mine", filters, true),
        ]))
        .unwrap()
    }

    fn compare(left: Expr, right: Expr) -> Result<(Expr, Expr)> {
        let raw = RawBinaryExpr {
            op: BinaryOperator::Eq,
            left,
            right,
        };
        match StoreColumnPlanner.plan_binary_op(raw, &schema())? {
            PlannerResult::Original(raw) => Ok((raw.left, raw.right)),
            PlannerResult::Planned(expr) => panic!("{expr} was planned"),
        }
    }

    #[test]
    fn contigs_are_compared_as_text() {
        let text = Expr::Literal(ScalarValue::Utf8View(Some("22".to_string())), None);
        let contig = || ident("variant_contig");
        assert_eq!(compare(contig(), lit(22)).unwrap().1, text);
        assert_eq!(compare(lit(22i64), contig()).unwrap().0, text);
        assert_eq!(compare(contig(), lit("chr1")).unwrap().1, lit("chr1"));
        assert_eq!(compare(ident("mine"), lit(1)).unwrap().1, lit(1));
    }

    #[test]
    fn numbers_are_rounded_as_the_values_of_the_column_were() {
        let compared_with = |column: &str, number: f64| {
            let (_, right) = compare(ident(column), lit(number)).unwrap();
            assert_eq!(compare(lit(number), ident(column)).unwrap().0, right);
            right
        };
        assert_eq!(compared_with("variant_quality", 80.1), lit(80.1f32));
        assert_eq!(
            compared_with("variant_quality", f64::INFINITY),
            lit(f32::INFINITY)
        );
        assert_eq!(compared_with("variant_quality", 1e300), lit(1e300));
        for other in ["variant_score", "single", "variant_contig"] {
            assert_eq!(compared_with(other, 80.1), lit(80.1));
        }
    }

    #[test]
    fn lists_are_not_compared_with_one_value() {
        for (left, right, hint) in [
            (ident("call_DP"), lit(10), "filter_calls"),
            (lit(10), ident("call_DP"), "filter_calls"),
            (ident("variant_filter"), lit("PASS"), "is_pass"),
            (
                ident("variant_filter"),
                lit("q10"),
                "array_has(variant_filter",
            ),
        ] {
            let error = compare(left, right).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
        compare(ident("call_DP"), lit(ScalarValue::Null)).unwrap();
        compare(ident("call_DP"), ident("call_DP")).unwrap();
    }

    #[test]
    fn samples_are_no_fields() {
        let access = |name: &str| RawFieldAccessExpr {
            field_access: GetFieldAccess::NamedStructField {
                name: ScalarValue::from("s1"),
            },
            expr: ident(name),
        };
        let error = StoreColumnPlanner.plan_field_access(access("call_DP"), &schema());
        assert!(error.unwrap_err().to_string().contains("vcz_samples"));
        let kept = StoreColumnPlanner.plan_field_access(access("mine"), &schema());
        assert!(matches!(kept, Ok(PlannerResult::Original(_))));
    }
}
