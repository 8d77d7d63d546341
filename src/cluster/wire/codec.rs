//! [`VczCodec`]: DataFusion's hooks for operators, expressions and functions of this crate.

use std::sync::Arc;

use datafusion::common::{Result, not_impl_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::proto_decode::PhysicalExprDecodeCtx;
use datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use super::field_expr::FieldExpr;
use super::frame::{framed, unframed};
use super::functions::{decode_aggregate, decode_scalar, encode_aggregate, encode_scalar};
use super::operators::{of_operator, to_operator};
use super::scan::{Decoder, Encoder};
use crate::scan::notices::{NoticeSink, Notices};

/// The codec.
#[derive(Debug, Default)]
pub struct VczCodec {
    /// Receives the notices of functions that are decoded.
    notices: NoticeSink,
}

impl VczCodec {
    /// A codec whose functions report to `notices`.
    fn reporting_to(notices: NoticeSink) -> Self {
        Self { notices }
    }
}

impl PhysicalExtensionCodec for VczCodec {
    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let to = Encoder {
            codec: self,
            converter,
        };
        framed(&of_operator(&node, to)?, bytes);
        Ok(())
    }

    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        task: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // Each operator has notices of its own, which it sends to the coordinator.
        let notices = Arc::new(Notices::default());
        let codec = Self::reporting_to(NoticeSink(Some(Arc::clone(&notices))));
        let within = Decoder {
            codec: &codec,
            converter,
            task,
        };
        to_operator(unframed(bytes)?, inputs, within, notices)
    }

    fn try_encode_expr(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        bytes: &mut Vec<u8>,
        _context: &PhysicalExprEncodeCtx<'_>,
    ) -> Result<()> {
        match expr.downcast_ref::<FieldExpr>() {
            Some(of_field) => of_field.encode(bytes),
            None => not_impl_err!("the expression {expr} cannot be sent to another process"),
        }
    }

    fn try_decode_expr(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn PhysicalExpr>],
        _context: &PhysicalExprDecodeCtx<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match inputs {
            [inner] => Ok(Arc::new(FieldExpr::decode(inner, bytes)?)),
            _ => not_impl_err!("an expression of {} inputs", inputs.len()),
        }
    }

    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        encode_scalar(function, bytes)
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        decode_scalar(name, bytes)
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, bytes: &mut Vec<u8>) -> Result<()> {
        encode_aggregate(function, bytes)
    }

    fn try_decode_udaf(&self, name: &str, bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
        decode_aggregate(name, bytes, &self.notices)
    }
}
