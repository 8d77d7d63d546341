//! Functions that planning has bound to something: samples, a mask, another function. Others are sent by their names, if the worker has the
//! same ones.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::Schema as ArrowSchema;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion_proto::protobuf::ScalarValue as ScalarMessage;

use super::calls::{of_call, to_call};
use super::frame::{broken, framed, required, unframed};
use super::messages::{
    AggregateFunction, AggregateKind, BoundCall as BoundMessage, Constant, Mask as MaskMessage,
    MaskContig, Merge, Reports as ReportsMessage, ScalarFunction, ScalarKind, SelectedCalls,
};
use super::samples::{of_context, of_samples, to_context, to_samples};
use crate::functions::mask::{Mask, MaskBuilder};
use crate::functions::{self, Reports, bind_mask, bound_mask, bound_samples};
use crate::scan::notices::NoticeSink;
use crate::scan::{BoundCall, CallFilters, GenotypeUdf, SelectCalls};

/// The scalar functions that every worker has.
static SCALARS: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| {
    let ours = functions::scalar_functions().into_iter().map(Arc::new);
    let helpers = functions::helper_functions();
    let ours: Vec<_> = ours.chain(helpers).collect();
    let stock = SessionStateDefaults::default_scalar_functions().into_iter();
    // Of two functions of a name, the last one is registered.
    let other = |stock: &Arc<ScalarUDF>| ours.iter().all(|known| known.name() != stock.name());
    let stock: Vec<_> = stock.filter(other).collect();
    ours.into_iter().chain(stock).collect()
});

/// The aggregate functions that every worker has.
static AGGREGATES: LazyLock<Vec<Arc<AggregateUDF>>> = LazyLock::new(|| {
    let ours = functions::aggregate_functions().into_iter().map(Arc::new);
    let ours: Vec<_> = ours.collect();
    let stock = SessionStateDefaults::default_aggregate_functions().into_iter();
    let other = |stock: &Arc<AggregateUDF>| ours.iter().all(|known| known.name() != stock.name());
    let stock: Vec<_> = stock.filter(other).collect();
    ours.into_iter().chain(stock).collect()
});

/// This crate's functions for a worker's session, in which DataFusion looks functions up by their names.
pub fn registered() -> (Vec<Arc<ScalarUDF>>, Vec<Arc<AggregateUDF>>) {
    (SCALARS.clone(), AGGREGATES.clone())
}

/// Whether every worker has this function under its name.
pub fn is_known_everywhere(function: &ScalarUDF) -> bool {
    scalar(function.name()).is_some_and(|known| **known == *function)
}

/// Adds to `bytes` what a scalar function is bound to; nothing for a function that every worker has.
///
/// # Errors
/// If a worker could not make the function.
pub fn encode_scalar(function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
    if is_known_everywhere(function) {
        return Ok(());
    }
    let inner = function.inner();
    let bound = inner
        .downcast_ref::<GenotypeUdf>()
        .and_then(GenotypeUdf::bound);
    let kind = if let Some(bound) = bound {
        ScalarKind::Genotypes(Box::new(BoundMessage {
            call: of_call(bound.call(), &CallFilters::default()),
            genotypes: of_context(bound.genotypes()),
            selected: bound.selected().map(|selected| of_context(selected)),
        }))
    } else if let Some(calls) = inner.downcast_ref::<SelectCalls>() {
        ScalarKind::Calls(SelectedCalls {
            samples: of_samples(calls.samples()),
            selected: of_context(calls.selected()),
            n_samples: calls.n_samples() as u64,
        })
    } else if let Some(mask) = bound_mask(function) {
        ScalarKind::Mask(of_mask(mask))
    } else {
        return plan_err!(
            "the function {} is known to this process only",
            function.name()
        );
    };
    framed(&ScalarFunction { kind: Some(kind) }, bytes);
    Ok(())
}

/// The scalar function `name`, bound to what `bytes` say.
///
/// # Errors
/// If there is no such function, or the bytes are broken.
pub fn decode_scalar(name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
    let known = || match scalar(name) {
        Some(known) => Ok(Arc::clone(known)),
        None => plan_err!("the worker has no function {name}"),
    };
    if bytes.is_empty() {
        return known();
    }
    let message: ScalarFunction = unframed(bytes)?;
    Ok(Arc::new(match required(message.kind, "function")? {
        ScalarKind::Genotypes(bound) => {
            let known = known()?;
            let Some(udf) = known.inner().downcast_ref::<GenotypeUdf>() else {
                return plan_err!("{name} is no function of genotypes");
            };
            let selected = bound.selected.map(to_context).transpose()?;
            let (call, genotypes) = (to_call(&bound.call)?.call, to_context(bound.genotypes)?);
            if call.samples_end() > genotypes.n_samples() {
                return Err(broken("a call on samples that its column does not have"));
            }
            udf.bind(Arc::new(BoundCall::of_parts(call, genotypes, selected)))
        }
        ScalarKind::Calls(calls) => SelectCalls::of_parts(
            to_samples(&calls.samples)?,
            to_context(calls.selected)?,
            calls.n_samples as usize,
        ),
        ScalarKind::Mask(mask) => bind_mask(known()?.as_ref(), Arc::new(to_mask(&mask)?)),
    }))
}

/// Adds to `bytes` what an aggregate function is; nothing for a function that every worker has.
///
/// # Errors
/// If a worker could not make the function.
pub fn encode_aggregate(function: &AggregateUDF, bytes: &mut Vec<u8>) -> Result<()> {
    let message = of_aggregate(function)?;
    if message.kind.is_some() {
        framed(&message, bytes);
    }
    Ok(())
}

/// The aggregate function `name`, as `bytes` say. Sites that it leaves out are reported to `notices`.
///
/// # Errors
/// If there is no such function, or the bytes are broken.
pub fn decode_aggregate(
    name: &str,
    bytes: &[u8],
    notices: &NoticeSink,
) -> Result<Arc<AggregateUDF>> {
    if bytes.is_empty() {
        return aggregate(name);
    }
    to_aggregate(&unframed(bytes)?, notices)
}

fn of_aggregate(function: &AggregateUDF) -> Result<AggregateFunction> {
    let name = function.name().to_string();
    let kind = if let Some(source) = functions::state_source(function) {
        Some(AggregateKind::States(Box::new(of_aggregate(source)?)))
    } else if let Some((source, arguments)) = functions::merged(function) {
        let fields: Vec<_> = arguments.iter().map(|(field, _)| field.clone()).collect();
        let constants = arguments.iter().zip(0..);
        let constants = constants.filter_map(|((_, value), place)| {
            let value = value.as_ref()?;
            let value = ScalarMessage::try_from(value).map_err(broken);
            Some(value.map(|value| Constant { place, value }))
        });
        Some(AggregateKind::Merge(Box::new(Merge {
            of: Box::new(of_aggregate(source)?),
            fields: (&ArrowSchema::new(fields)).try_into().map_err(broken)?,
            constants: constants.collect::<Result<_>>()?,
        })))
    } else if let Some(samples) = bound_samples(function) {
        Some(AggregateKind::OfSamples(of_context(samples)))
    } else if let Some(reports) = functions::reports(function) {
        Some(AggregateKind::Reporting(ReportsMessage {
            to_notices: reports.to_notices,
            for_analyze: reports.for_analyze,
        }))
    } else {
        match aggregate(&name) {
            Ok(known) if *known == *function => None,
            _ => return plan_err!("the aggregate {name} is known to this process only"),
        }
    };
    Ok(AggregateFunction { name, kind })
}

fn to_aggregate(message: &AggregateFunction, notices: &NoticeSink) -> Result<Arc<AggregateUDF>> {
    let name = &message.name;
    let made = match &message.kind {
        None => return aggregate(name),
        Some(AggregateKind::States(source)) => functions::state_of(to_aggregate(source, notices)?),
        Some(AggregateKind::Merge(merge)) => {
            let fields = ArrowSchema::try_from(&merge.fields).map_err(broken)?;
            let fields = fields.fields().iter().cloned().zip(0u64..);
            let arguments = fields.map(|(field, place)| {
                let mut constants = merge.constants.iter();
                let constant = constants.find(|constant| constant.place == place);
                let constant = constant.map(|of| ScalarValue::try_from(&of.value).map_err(broken));
                Ok((field, constant.transpose()?))
            });
            let source = to_aggregate(&merge.of, notices)?;
            functions::merge_of(source, arguments.collect::<Result<_>>()?)?
        }
        Some(AggregateKind::OfSamples(samples)) => {
            let samples = to_context(samples.clone())?;
            let function = aggregate(name)?;
            required(
                functions::bind_samples(&function, &samples),
                "aggregate that takes samples",
            )?
        }
        Some(AggregateKind::Reporting(reports)) => {
            let function = aggregate(name)?;
            let reports = Reports {
                to_notices: reports.to_notices,
                for_analyze: reports.for_analyze,
            };
            let silent = NoticeSink::default();
            let sink = if reports.to_notices { notices } else { &silent };
            required(
                functions::reporting(&function, sink, reports.for_analyze),
                "aggregate that reports",
            )?
        }
    };
    Ok(Arc::new(made))
}

/// A mask.
pub fn of_mask(mask: &Mask) -> MaskMessage {
    let contigs = mask.rows().map(|(name, rows)| {
        let mut runs = vec![];
        let mut last = 0;
        for (start, end) in rows {
            runs.extend([start - last, end - start]);
            last = end;
        }
        MaskContig {
            name: name.to_string(),
            runs,
        }
    });
    MaskMessage {
        name: mask.name().to_string(),
        contigs: contigs.collect(),
    }
}

/// A mask.
///
/// # Errors
/// If its intervals are none.
pub fn to_mask(mask: &MaskMessage) -> Result<Mask> {
    let mut builder = MaskBuilder::new(&mask.name);
    let mut number = 0;
    for contig in &mask.contigs {
        let mut end = 0i64;
        // A contig without intervals is known, too.
        if contig.runs.is_empty() {
            builder.push(&contig.name, 0, 0, 1)?;
        }
        for run in contig.runs.chunks(2) {
            let &[gap, length] = run else {
                return Err(broken("an interval of a mask without an end"));
            };
            let overflow = || broken("an interval of a mask beyond all contigs");
            let start = end.checked_add(gap).ok_or_else(overflow)?;
            end = start.checked_add(length).ok_or_else(overflow)?;
            number += 1;
            builder.push(&contig.name, start, end, number)?;
        }
    }
    Ok(builder.finish())
}

fn scalar(name: &str) -> Option<&'static Arc<ScalarUDF>> {
    let of_name = |known: &&Arc<ScalarUDF>| {
        known.name() == name || known.aliases().iter().any(|alias| alias == name)
    };
    SCALARS.iter().find(of_name)
}

fn aggregate(name: &str) -> Result<Arc<AggregateUDF>> {
    let of_name = |known: &&Arc<AggregateUDF>| {
        known.name() == name || known.aliases().iter().any(|alias| alias == name)
    };
    match AGGREGATES.iter().find(of_name) {
        Some(known) => Ok(Arc::clone(known)),
        None => plan_err!("the worker has no aggregate {name}"),
    }
}
