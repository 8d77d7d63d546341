//! Partial aggregation by population.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion_proto::protobuf::PhysicalExprNode;

use super::frame::broken;
use super::messages::{ByPopulation, PopulationCall, PopulationKey, PopulationValue};
use super::scan::{Decoder, Encoder};
use crate::session::populations::{Call, Key, Populations, Value};
use datafusion_proto::protobuf::PhysicalPlanNode;

/// What is aggregated by population; `aggregate` has the calls.
///
/// # Errors
/// If an expression cannot be encoded.
pub fn of_populations(
    aggregate: PhysicalPlanNode,
    populations: &Populations,
    to: Encoder,
) -> Result<ByPopulation> {
    let keys = populations.keys.iter().map(|key| match key {
        Key::Variant(expr) => Ok(PopulationKey {
            variant: Some(to.expr(expr)?),
            populations: vec![],
        }),
        Key::Population(values) => {
            let values = (0..values.len()).map(|at| {
                let value = ScalarValue::try_from_array(values, at)?;
                (&value).try_into().map_err(broken)
            });
            Ok(PopulationKey {
                variant: None,
                populations: values.collect::<Result<_>>()?,
            })
        }
    });
    let calls = populations.calls.iter().map(|call| {
        let arguments = call.arguments.iter().map(|value| of_value(value, to));
        let filter = call.filter.as_ref().map(|filter| of_value(filter, to));
        Ok(PopulationCall {
            arguments: arguments.collect::<Result<_>>()?,
            filter: filter.transpose()?,
        })
    });
    Ok(ByPopulation {
        aggregate,
        len: populations.len as u64,
        schema: populations.schema.as_ref().try_into().map_err(broken)?,
        counts: populations.counts as u64,
        keys: keys.collect::<Result<_>>()?,
        calls: calls.collect::<Result<_>>()?,
    })
}

/// What is aggregated by population.
///
/// # Errors
/// If the message is broken.
pub fn to_populations(message: &ByPopulation, from: Decoder) -> Result<Populations> {
    let schema = Arc::new(Schema::try_from(&message.schema).map_err(broken)?);
    let keys = message.keys.iter().map(|key| match &key.variant {
        Some(expr) => Ok(Key::Variant(from.expr(expr, &schema)?)),
        None => {
            let values = key.populations.iter();
            let values = values.map(|value| ScalarValue::try_from(value).map_err(broken));
            let values: Vec<ScalarValue> = values.collect::<Result<_>>()?;
            Ok(Key::Population(ScalarValue::iter_to_array(values)?))
        }
    });
    let calls = message.calls.iter().map(|call| {
        let arguments = call.arguments.iter();
        let arguments = arguments.map(|value| to_value(value, &schema, from));
        let filter = call.filter.as_ref();
        let filter = filter.map(|filter| to_value(filter, &schema, from));
        Ok(Call {
            arguments: arguments.collect::<Result<_>>()?,
            filter: filter.transpose()?,
        })
    });
    if message.len == 0 || message.counts as usize >= schema.fields().len() {
        return Err(broken("an aggregate of no populations"));
    }
    Ok(Populations {
        len: message.len as usize,
        counts: message.counts as usize,
        keys: keys.collect::<Result<_>>()?,
        calls: calls.collect::<Result<_>>()?,
        schema,
    })
}

fn of_value(value: &Value, to: Encoder) -> Result<PopulationValue> {
    Ok(match value {
        Value::Variant(expr) => PopulationValue {
            variant: Some(to.expr(expr)?),
            populations: vec![],
        },
        Value::Populations(exprs) => PopulationValue {
            variant: None,
            populations: exprs
                .iter()
                .map(|expr| to.expr(expr))
                .collect::<Result<_>>()?,
        },
    })
}

fn to_value(value: &PopulationValue, schema: &Schema, from: Decoder) -> Result<Value> {
    let decode =
        |expr: &PhysicalExprNode| -> Result<Arc<dyn PhysicalExpr>> { from.expr(expr, schema) };
    Ok(match &value.variant {
        Some(expr) => Value::Variant(decode(expr)?),
        None => {
            let exprs = value.populations.iter().map(decode);
            Value::Populations(exprs.collect::<Result<_>>()?)
        }
    })
}
