//! For tests: calls of an aggregate as DataFusion makes them, and the check that all ways of computing it give the same bits.

use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, StructArray,
};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{self, Accumulator, AggregateUDF, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, lit};
use datafusion::physical_plan::PhysicalExpr;

use super::stages::stages;
use crate::functions::counts_arg::{COPIES_DEFERRED, COPIES_KEY};

/// The counts of one population at one site, or NULL.
pub(super) type Counts = Option<Vec<i32>>;

/// The aggregate of that name.
pub(super) fn udaf(name: &str) -> AggregateUDF {
    super::all()
        .into_iter()
        .find(|udaf| udaf.name() == name)
        .unwrap()
}

/// A call of an aggregate, planned; and its stages, where it has any.
pub(super) struct Call(AggregateFunctionExpr, Option<Stages>);

/// A call in one stage, because it has arguments besides the genotypes that are not constant.
const ONE_STAGE: Option<Stages> = None;

/// The two stages of a call, planned.
struct Stages {
    state: AggregateFunctionExpr,
    merge: AggregateFunctionExpr,
}

impl Stages {
    /// The stages of the aggregate on columns of these fields, and then constants; `args` are the same, planned.
    fn new(
        udaf: AggregateUDF,
        fields: &[Field],
        constants: &[i64],
        args: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Option<Self>> {
        let columns = fields.iter().map(|field| {
            logical_expr::Expr::Column(datafusion::common::Column::from_name(field.name()))
        });
        let constants = constants
            .iter()
            .map(|&constant| logical_expr::lit(constant));
        let call = logical_expr::expr::AggregateFunction::new_udf(
            Arc::new(udaf),
            columns.chain(constants).collect(),
            false,
            None,
            vec![],
            None,
        );
        let schema = Schema::new(fields.to_vec());
        let Some(two) = stages(&call, &schema.clone().try_into()?)? else {
            return Ok(None);
        };
        let logical_expr::Expr::AggregateFunction(state) = two.state else {
            panic!("{}", two.state)
        };
        let state = AggregateExprBuilder::new(state.func, args)
            .schema(Arc::new(schema))
            .alias("s")
            .build()?;
        let column = Column::new("s", 0);
        let merge = AggregateExprBuilder::new(two.merge, vec![Arc::new(column)])
            .schema(Arc::new(Schema::new(vec![state.field()])))
            .alias("x")
            .build()?;
        Ok(Some(Self { state, merge }))
    }
}

impl Call {
    /// A call on columns of these fields, and then constants.
    pub(super) fn on(name: &str, fields: Vec<Field>, constants: &[i64]) -> Result<Self> {
        Self::of(udaf(name), fields, constants)
    }

    /// A call of `udaf` on columns of these fields, and then constants.
    pub(super) fn of(udaf: AggregateUDF, fields: Vec<Field>, constants: &[i64]) -> Result<Self> {
        let columns = fields.iter().enumerate();
        let mut args: Vec<Arc<dyn PhysicalExpr>> = columns
            .map(|(at, field)| Arc::new(Column::new(field.name(), at)) as _)
            .collect();
        args.extend(constants.iter().map(|&constant| lit(constant)));
        let call = AggregateExprBuilder::new(Arc::new(udaf.clone()), args.clone())
            .schema(Arc::new(Schema::new(fields.clone())))
            .alias("x")
            .build()?;
        Ok(Self(call, Stages::new(udaf, &fields, constants, args)?))
    }

    /// A call of `udaf` on columns of these fields, and then constants of any type, which is not split into stages.
    pub(super) fn in_one_stage(
        udaf: AggregateUDF,
        fields: Vec<Field>,
        constants: &[ScalarValue],
    ) -> Result<Self> {
        let columns = fields.iter().enumerate();
        let mut args: Vec<Arc<dyn PhysicalExpr>> = columns
            .map(|(at, field)| Arc::new(Column::new(field.name(), at)) as _)
            .collect();
        args.extend(constants.iter().map(|constant| lit(constant.clone())));
        let call = AggregateExprBuilder::new(Arc::new(udaf), args)
            .schema(Arc::new(Schema::new(fields)))
            .alias("x")
            .build()?;
        Ok(Self(call, ONE_STAGE))
    }

    /// A call on counts whose populations have these many copies, and then constants.
    pub(super) fn new(name: &str, copies: &[Option<u64>], constants: &[i64]) -> Result<Self> {
        let fields = copies.iter().enumerate().map(|(at, copies)| {
            let copies = copies.map(|copies| copies.to_string());
            counts_field(&format!("ac{at}"), copies.as_deref())
        });
        Self::on(name, fields.collect(), constants)
    }

    /// The aggregate over all rows.
    pub(super) fn value(&self, columns: &[ArrayRef]) -> Result<ScalarValue> {
        let mut one = self.0.create_accumulator()?;
        one.update_batch(columns)?;
        one.evaluate()
    }

    /// Its accumulators, of one group and of many.
    pub(super) fn accumulators(&self) -> (Box<dyn Accumulator>, Box<dyn GroupsAccumulator>) {
        (
            self.0.create_accumulator().unwrap(),
            self.0.create_groups_accumulator().unwrap(),
        )
    }

    /// The aggregate over `count` groups without rows.
    pub(super) fn groups(&self, count: usize) -> Result<ArrayRef> {
        let nothing = vec![counts(&[]); self.0.expressions().len()];
        let mut groups = self.0.create_groups_accumulator()?;
        groups.update_batch(&nothing, &[], None, count)?;
        groups.evaluate(EmitTo::All)
    }

    /// `count` groups, each with one row of `column`, before the total size of their values is checked.
    pub(super) fn filled(
        &self,
        column: &ArrayRef,
        count: usize,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let mut groups = self.0.create_groups_accumulator()?;
        let indices: Vec<usize> = (0..count).collect();
        groups.update_batch(&[Arc::clone(column)], &indices, None, count)?;
        Ok(groups)
    }

    /// The aggregate over an empty frame.
    pub(super) fn default_value(&self) -> ScalarValue {
        self.0.default_value(self.0.field().data_type()).unwrap()
    }
}

/// A field of counts, with its metadata as text.
pub(super) fn counts_field(name: &str, copies: Option<&str>) -> Field {
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let field = Field::new(name, DataType::List(item), true);
    let metadata = copies.map(|copies| (COPIES_KEY.to_string(), copies.to_string()));
    field.with_metadata(metadata.into_iter().collect())
}

/// The metadata of a field whose population is not known yet.
pub(super) const DEFERRED: &str = COPIES_DEFERRED;

/// A column of counts.
pub(super) fn counts(rows: &[Counts]) -> ArrayRef {
    let rows = rows
        .iter()
        .map(|row| row.as_ref().map(|row| row.iter().copied().map(Some)));
    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
}

/// Complete diploids of a population at one site, copies and heterozygous carriers of each allele, or NULL.
pub(super) type Zygosity = Option<[Vec<i32>; 2]>;

/// A field of zygosity.
pub(super) fn zygosity_field(name: &str) -> Field {
    let list = |name: &str| counts_field(name, None);
    Field::new_struct(name, vec![list("ac"), list("het")], true)
}

/// A column of zygosity.
pub(super) fn zygosity(rows: &[Zygosity]) -> ArrayRef {
    let list = |at: usize| {
        let rows = rows
            .iter()
            .map(|row| row.as_ref().map(|row| row[at].clone()));
        counts(&rows.collect::<Vec<_>>())
    };
    let DataType::Struct(fields) = zygosity_field("zc").data_type().clone() else {
        panic!()
    };
    let nulls = rows.iter().map(Option::is_some).collect::<Vec<_>>().into();
    Arc::new(StructArray::new(
        fields,
        vec![list(0), list(1)],
        Some(nulls),
    ))
}

/// A column of counts, none of them NULL.
pub(super) fn sites<const K: usize>(rows: &[[i32; K]]) -> ArrayRef {
    counts(
        &rows
            .iter()
            .map(|row| Some(row.to_vec()))
            .collect::<Vec<_>>(),
    )
}

/// The integers of a `List(Int64)` or the like, flattened.
pub(super) fn integers(value: &ScalarValue) -> Vec<i64> {
    flatten(value)
        .as_any()
        .downcast_ref::<Int64Array>()
        .unwrap()
        .values()
        .to_vec()
}

/// The numbers of a `List(Float64)` or the like, flattened.
pub(super) fn floats(value: &ScalarValue) -> Vec<f64> {
    flatten(value)
        .as_any()
        .downcast_ref::<Float64Array>()
        .unwrap()
        .values()
        .to_vec()
}

fn flatten(value: &ScalarValue) -> ArrayRef {
    let mut array = value.to_array().unwrap();
    while let Some(list) = array.as_any().downcast_ref::<ListArray>() {
        array = Arc::clone(list.values());
    }
    array
}

/// Asserts that two lists of numbers agree to `tolerance`.
pub(super) fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() <= tolerance,
            "found {found}, expected {expected}"
        );
    }
}

/// Some rows of columns.
fn rows(columns: &[ArrayRef], rows: &[usize]) -> Vec<ArrayRef> {
    let rows: UInt32Array = rows.iter().map(|&row| Some(row as u32)).collect();
    columns
        .iter()
        .map(|column| take(column, &rows, None).unwrap())
        .collect()
}

fn slice(columns: &[ArrayRef], rows: std::ops::Range<usize>) -> Vec<ArrayRef> {
    columns
        .iter()
        .map(|column| column.slice(rows.start, rows.len()))
        .collect()
}

/// A value with its bits: the shortest decimal that reads back as the same double, and the sign of zero.
fn bits(value: &ScalarValue) -> String {
    format!("{value:?}")
}

/// The division of rows into groups and batches, for [`assert_all_ways_agree`].
#[derive(Clone, Debug)]
pub(super) struct Deal {
    /// The group of each row.
    pub(super) groups: Vec<usize>,
    /// The filter's value for each row.
    pub(super) filter: Vec<Option<bool>>,
    /// The row at which the rows are split into two batches.
    pub(super) cut: usize,
}

/// Asserts that one accumulator, the accumulator of groups, two phases, states made row by row, sliding frames and two
/// stages give the same bits.
pub(super) fn assert_all_ways_agree(call: &Call, columns: &[ArrayRef], deal: &Deal) {
    let count = columns[0].len();
    let cut = deal.cut.min(count);
    sliding(call, columns, cut);
    two_phases(call, columns, cut);
    groups(call, columns, deal, cut);
    one_in_stages(call, columns, cut);
    groups_in_stages(call, columns, deal, cut);
}

/// The same for a call in one stage.
pub(super) fn assert_ways_of_one_stage_agree(call: &Call, columns: &[ArrayRef], deal: &Deal) {
    assert!(call.1.is_none());
    let cut = deal.cut.min(columns[0].len());
    sliding(call, columns, cut);
    two_phases(call, columns, cut);
    groups(call, columns, deal, cut);
}

/// States of parts as values, merged as values.
fn one_in_stages(call: &Call, columns: &[ArrayRef], cut: usize) {
    let Stages { state, merge } = call.1.as_ref().unwrap();
    let mut merged = merge.create_accumulator().unwrap();
    for part in [cut..columns[0].len(), 0..0, 0..cut] {
        // Each state in two phases itself.
        let mut phase = state.create_accumulator().unwrap();
        phase.update_batch(&slice(columns, part)).unwrap();
        let saved: Vec<ArrayRef> = phase
            .state()
            .unwrap()
            .iter()
            .map(|value| value.to_array().unwrap())
            .collect();
        let mut one = state.create_accumulator().unwrap();
        one.merge_batch(&saved).unwrap();
        let value = one.evaluate().unwrap();
        assert_eq!(value.data_type(), *state.field().data_type());
        merged.update_batch(&[value.to_array().unwrap()]).unwrap();
    }
    let all = call.value(columns).unwrap();
    assert_eq!(bits(&merged.evaluate().unwrap()), bits(&all), "two stages");
}

/// States of groups, merged into overlapping windows of two groups each.
fn groups_in_stages(call: &Call, columns: &[ArrayRef], deal: &Deal, cut: usize) {
    let Stages { state, merge } = call.1.as_ref().unwrap();
    let count = columns[0].len();
    let total = deal.groups.iter().max().map_or(1, |most| most + 1);
    let expected: Vec<String> = (0..=total)
        .map(|window| {
            let chosen: Vec<usize> = (0..count)
                .filter(|&row| (deal.groups[row]..=deal.groups[row] + 1).contains(&window))
                .filter(|&row| deal.filter[row] == Some(true))
                .collect();
            bits(&call.value(&rows(columns, &chosen)).unwrap())
        })
        .collect();
    let filter = BooleanArray::from(deal.filter.clone());
    let part = |part: std::ops::Range<usize>, states: &mut Box<dyn GroupsAccumulator>| {
        let (filter, indices) = (
            filter.slice(part.start, part.len()),
            &deal.groups[part.clone()],
        );
        states
            .update_batch(&slice(columns, part), indices, Some(&filter), total)
            .unwrap();
    };
    // The first part in one phase, the second in two.
    let mut states = state.create_groups_accumulator().unwrap();
    part(0..cut, &mut states);
    let mut phase = state.create_groups_accumulator().unwrap();
    part(cut..count, &mut phase);
    let all: Vec<usize> = (0..total).collect();
    states
        .merge_batch(&phase.state(EmitTo::All).unwrap(), &all, total)
        .unwrap();
    let states = states.evaluate(EmitTo::All).unwrap();
    assert_eq!(states.data_type(), state.field().data_type());

    let (bins, windows): (Vec<usize>, Vec<usize>) = all
        .iter()
        .flat_map(|&bin| [(bin, bin), (bin, bin + 1)])
        .unzip();
    let unnested = rows(&[states], &bins);
    let check = |values: &ArrayRef, expected: &[String], way: &str| {
        let found: Vec<String> = (0..values.len())
            .map(|row| bits(&ScalarValue::try_from_array(values, row).unwrap()))
            .collect();
        assert_eq!(found, expected, "{way}");
        assert_eq!(values.data_type(), call.0.field().data_type());
    };
    let mut merged = merge.create_groups_accumulator().unwrap();
    merged
        .update_batch(&unnested, &windows, None, total + 1)
        .unwrap();
    assert!(merged.size() > 0);
    check(
        &merged.evaluate(EmitTo::All).unwrap(),
        &expected,
        "two stages of groups",
    );

    // The merge in two phases, the first of them a state for each row.
    let by_row = merged.convert_to_state(&unnested, None).unwrap();
    let mut last = merge.create_groups_accumulator().unwrap();
    last.merge_batch(&by_row, &windows, total + 1).unwrap();
    check(
        &last.evaluate(EmitTo::All).unwrap(),
        &expected,
        "a state for each row",
    );

    // Only the states of each window's own bin.
    let own: BooleanArray = (0..windows.len()).map(|row| Some(row % 2 == 0)).collect();
    let mut filtered = merge.create_groups_accumulator().unwrap();
    filtered
        .update_batch(&unnested, &windows, Some(&own), total + 1)
        .unwrap();
    let mut plain = merge.create_groups_accumulator().unwrap();
    plain
        .update_batch(
            &rows(
                &unnested,
                &all.iter().map(|bin| 2 * bin).collect::<Vec<_>>(),
            ),
            &all,
            None,
            total + 1,
        )
        .unwrap();
    assert_eq!(
        &filtered.evaluate(EmitTo::All).unwrap(),
        &plain.evaluate(EmitTo::All).unwrap()
    );
}

fn sliding(call: &Call, columns: &[ArrayRef], cut: usize) {
    let count = columns[0].len();
    let mut frame = call.0.create_sliding_accumulator().unwrap();
    frame.update_batch(&slice(columns, 0..cut)).unwrap();
    for row in cut..count {
        frame.update_batch(&slice(columns, row..row + 1)).unwrap();
    }
    let all = bits(&call.value(columns).unwrap());
    assert_eq!(bits(&frame.evaluate().unwrap()), all, "growing frame");
    assert_eq!(bits(&frame.evaluate().unwrap()), all, "evaluated twice");
    frame.retract_batch(&slice(columns, 0..cut)).unwrap();
    let rest = call.value(&slice(columns, cut..count)).unwrap();
    assert_eq!(
        bits(&frame.evaluate().unwrap()),
        bits(&rest),
        "sliding frame"
    );
    for row in cut..count {
        frame.retract_batch(&slice(columns, row..row + 1)).unwrap();
    }
    let none = call.value(&slice(columns, 0..0)).unwrap();
    assert_eq!(
        bits(&frame.evaluate().unwrap()),
        bits(&none),
        "emptied frame"
    );
    assert!(frame.size() > 0);
}

fn two_phases(call: &Call, columns: &[ArrayRef], cut: usize) {
    let count = columns[0].len();
    let mut merged = call.0.create_accumulator().unwrap();
    for part in [cut..count, 0..0, 0..cut] {
        let mut one = call.0.create_accumulator().unwrap();
        one.update_batch(&slice(columns, part)).unwrap();
        let state = one.state().unwrap();
        let fields = call.0.state_fields().unwrap();
        assert_eq!(state.len(), fields.len());
        for (value, field) in state.iter().zip(&fields) {
            assert_eq!(value.data_type(), *field.data_type(), "{}", field.name());
        }
        let state: Vec<_> = state
            .iter()
            .map(|value| value.to_array().unwrap())
            .collect();
        merged.merge_batch(&state).unwrap();
    }
    let all = call.value(columns).unwrap();
    assert_eq!(bits(&merged.evaluate().unwrap()), bits(&all), "two phases");
}

fn groups(call: &Call, columns: &[ArrayRef], deal: &Deal, cut: usize) {
    let count = columns[0].len();
    let total = deal.groups.iter().max().map_or(1, |most| most + 2);
    let expected: Vec<String> = (0..total)
        .map(|group| {
            let chosen: Vec<usize> = (0..count)
                .filter(|&row| deal.groups[row] == group && deal.filter[row] == Some(true))
                .collect();
            bits(&call.value(&rows(columns, &chosen)).unwrap())
        })
        .collect();
    let filter = BooleanArray::from(deal.filter.clone());
    let check = |values: &ArrayRef, expected: &[String], way: &str| {
        let found: Vec<String> = (0..values.len())
            .map(|row| bits(&ScalarValue::try_from_array(values, row).unwrap()))
            .collect();
        assert_eq!(found, expected, "{way}");
        assert_eq!(values.data_type(), call.0.field().data_type());
    };
    let filled = || {
        let mut groups = call.0.create_groups_accumulator().unwrap();
        for part in [0..cut, cut..count] {
            let filter = filter.slice(part.start, part.len());
            let indices = &deal.groups[part.clone()];
            groups
                .update_batch(&slice(columns, part), indices, Some(&filter), total)
                .unwrap();
        }
        groups
    };
    check(
        &filled().evaluate(EmitTo::All).unwrap(),
        &expected,
        "groups",
    );

    let mut emitted = filled();
    let size = emitted.size();
    assert!(size > 0);
    check(
        &emitted.evaluate(EmitTo::First(1)).unwrap(),
        &expected[..1],
        "the first group",
    );
    check(
        &emitted.evaluate(EmitTo::All).unwrap(),
        &expected[1..],
        "the other groups",
    );

    // A partial phase that emits early, and one that skips aggregation; merged in reverse order.
    let mut partial = call.0.create_groups_accumulator().unwrap();
    let first = filter.slice(0, cut);
    partial
        .update_batch(
            &slice(columns, 0..cut),
            &deal.groups[..cut],
            Some(&first),
            total,
        )
        .unwrap();
    let early = partial.state(EmitTo::First(1)).unwrap();
    let late = partial.state(EmitTo::All).unwrap();
    let both: Vec<ArrayRef> = early
        .iter()
        .zip(&late)
        .map(|(a, b)| concat(&[a, b]).unwrap())
        .collect();
    let second = filter.slice(cut, count - cut);
    let by_row = partial
        .convert_to_state(&slice(columns, cut..count), Some(&second))
        .unwrap();
    let mut last = call.0.create_groups_accumulator().unwrap();
    last.merge_batch(&by_row, &deal.groups[cut..], total)
        .unwrap();
    last.merge_batch(&both, &(0..total).collect::<Vec<_>>(), total)
        .unwrap();
    check(
        &last.evaluate(EmitTo::All).unwrap(),
        &expected,
        "two phases of groups",
    );
}
