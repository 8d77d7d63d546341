//! [`FieldExpr`]: an expression with the field that it had when it was planned. DataFusion's encoding keeps the type of a function's
//! result, not the metadata of its field, in which counts have their number of copies.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::frame::{broken, framed, required, unframed};
use super::messages::FieldOf;

/// An expression with its field.
#[derive(Debug, Clone)]
pub struct FieldExpr {
    inner: Arc<dyn PhysicalExpr>,
    field: FieldRef,
}

impl FieldExpr {
    /// Adds the field to `bytes`.
    ///
    /// # Errors
    /// If the field's type has no message.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let schema = Schema::new(vec![Arc::clone(&self.field)]);
        let field = (&schema).try_into().map_err(broken)?;
        framed(&FieldOf { field }, bytes);
        Ok(())
    }

    /// The expression `inner` with the field of `bytes`.
    ///
    /// # Errors
    /// If the bytes are broken.
    pub fn decode(inner: &Arc<dyn PhysicalExpr>, bytes: &[u8]) -> Result<Self> {
        let message: FieldOf = unframed(bytes)?;
        let schema = Schema::try_from(&message.field).map_err(broken)?;
        let field = required(schema.fields().first().cloned(), "field")?;
        let inner = Arc::clone(inner);
        Ok(Self { inner, field })
    }
}

/// `expr` over rows of `schema`, with the fields of the functions in it that have metadata.
///
/// # Errors
/// If an expression has no field.
pub fn with_fields(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let kept = expr.transform_up(|expr| {
        if !expr.is::<ScalarFunctionExpr>() {
            return Ok(Transformed::no(expr));
        }
        let field = expr.return_field(schema)?;
        Ok(match field.metadata().is_empty() {
            true => Transformed::no(expr),
            false => Transformed::yes(Arc::new(FieldExpr { inner: expr, field }) as _),
        })
    });
    kept.map(|kept| kept.data)
}

impl PartialEq for FieldExpr {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner) && self.field == other.field
    }
}

impl Eq for FieldExpr {}

impl Hash for FieldExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
        self.field.name().hash(state);
    }
}

impl fmt::Display for FieldExpr {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for FieldExpr {
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.inner.evaluate(batch)
    }

    fn return_field(&self, _schema: &Schema) -> Result<FieldRef> {
        Ok(Arc::clone(&self.field))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match (children.pop(), children.is_empty()) {
            (Some(inner), true) => Ok(Arc::new(Self {
                inner,
                field: Arc::clone(&self.field),
            })),
            _ => internal_err!("an expression with a field has one input"),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
