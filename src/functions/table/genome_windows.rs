//! `genome_windows('t', size [, step [, mask]])`: the grid of windows over the contigs of a VCZ table, including empty windows.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};

use super::entry::{TableFunction, document_table};
use super::resolve::{call_text, vcz_table};
use crate::functions::load_mask;
use crate::functions::mask::Mask;

const USAGE: &str = "genome_windows('table', size [, step [, mask]])";

/// The table function: windows `[start, start + size)` at 1, 1 + step, … over every contig that has variants, up to
/// `contig_length` (the last window is clipped to it) or, where that is unknown, to the window of the last variant (not clipped).
///
/// Columns: `contig`, `window_start`, `window_stop` (both 1-based, inclusive) and `accessible_bases` (all bases without a mask).
#[derive(Debug)]
pub struct GenomeWindows {
    schema: SchemaRef,
}

impl Default for GenomeWindows {
    fn default() -> Self {
        let number = |name: &str| Field::new(name, DataType::Int64, false);
        let fields = vec![
            Field::new("contig", DataType::Utf8View, false),
            number("window_start"),
            number("window_stop"),
            number("accessible_bases"),
        ];
        Self {
            schema: Arc::new(Schema::new(fields)),
        }
    }
}

impl GenomeWindows {
    /// The columns.
    #[cfg(test)]
    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The function, as [`all`](super::all) lists it.
    pub fn entry() -> TableFunction {
        let documentation = document_table(
            "The grid of windows over the contigs of a VCZ table that have variants, also of windows without; join it with statistics grouped by \
             genome_bin or genome_bins. Windows start at 1, 1 + step, … up to the contig's length; if that is unknown, up to its last variant. \
             Columns: contig; window_start and window_stop, 1-based and inclusive; accessible_bases, those of the mask, or all.",
            "genome_windows(table, size [, step [, mask]])",
            "SELECT contig, window_start, accessible_bases FROM genome_windows('t', 50000, 25000, 'accessible.bed')",
        )
        .with_argument("size", "Number of bases of a window, a constant.")
        .with_argument("step", "Number of bases from the start of a window to that of the next, a constant. If left out, size.")
        .with_argument(
            "mask",
            "A BED file, or the name of a table with the columns of one, of the accessible bases. If left out, all are.",
        )
        .build();
        ("genome_windows", Arc::new(Self::default()), documentation)
    }
}

impl TableFunctionImpl for GenomeWindows {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let exprs = args.exprs();
        if !(2..=4).contains(&exprs.len()) {
            return plan_err!("{USAGE} takes 2 to 4 arguments, found {}", exprs.len());
        }
        let table = text(&exprs[0], "table")?;
        let size = bases(&exprs[1], "size")?;
        let step = exprs.get(2).map_or(Ok(size), |step| bases(step, "step"))?;
        let mask = exprs.get(3).map(|mask| text(mask, "mask")).transpose()?;
        Ok(Arc::new(Windows {
            call: call_text("genome_windows", exprs),
            schema: Arc::clone(&self.schema),
            table,
            size,
            step,
            mask,
        }))
    }
}

fn text(expr: &Expr, what: &str) -> Result<String> {
    match expr {
        Expr::Literal(value, _) => match value.try_as_str() {
            Some(Some(text)) => Ok(text.to_string()),
            _ => plan_err!("{USAGE}: {what} must be a string, found {value}"),
        },
        other => plan_err!("{USAGE}: {what} must be a constant string, found {other}"),
    }
}

fn bases(expr: &Expr, what: &str) -> Result<i64> {
    let value = match expr {
        Expr::Literal(value, _) if value.data_type().is_integer() => {
            value.cast_to(&DataType::Int64)?
        }
        other => {
            return plan_err!("{USAGE}: {what} must be a constant number of bases, found {other}");
        }
    };
    match value {
        ScalarValue::Int64(Some(bases)) if bases > 0 => Ok(bases),
        other => plan_err!("{USAGE}: {what} must be at least 1, found {other}"),
    }
}

#[derive(Debug)]
pub(super) struct Windows {
    /// The call as text.
    pub(super) call: String,
    schema: SchemaRef,
    table: String,
    size: i64,
    step: i64,
    mask: Option<String>,
}

#[async_trait]
impl TableProvider for Windows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = vcz_table(state, &self.table).await?;
        let contigs: Vec<Contig> = table
            .stores()
            .contig_extents()
            .await?
            .into_iter()
            .map(|extent| Contig {
                name: extent.name,
                last: extent.last_position,
                length: extent.length,
            })
            .collect();
        let mask = match &self.mask {
            Some(name) => {
                let mask = load_mask(state, name).await?;
                if !contigs.is_empty() {
                    let names: Vec<&str> =
                        contigs.iter().map(|contig| contig.name.as_str()).collect();
                    mask.check_shares(&names)?;
                }
                Some(mask)
            }
            None => None,
        };
        let grid = Grid {
            schema: Arc::clone(&self.schema),
            contigs,
            mask,
            size: self.size,
            step: self.step,
        };
        Ok(Arc::new(StreamingTableExec::try_new(
            Arc::clone(&self.schema),
            vec![Arc::new(GridStream(Arc::new(grid)))],
            projection,
            None,
            false,
            limit,
        )?))
    }
}

#[derive(Debug)]
struct Contig {
    name: String,
    last: i64,
    length: Option<i64>,
}

impl Contig {
    /// The last base that a window may start at.
    fn end(&self) -> i64 {
        self.length.unwrap_or(self.last)
    }
}

#[derive(Debug)]
struct Grid {
    schema: SchemaRef,
    contigs: Vec<Contig>,
    mask: Option<Mask>,
    size: i64,
    step: i64,
}

#[derive(Debug)]
struct GridStream(Arc<Grid>);

impl PartitionStream for GridStream {
    fn schema(&self) -> &SchemaRef {
        &self.0.schema
    }

    fn execute(&self, ctx: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batch_size = ctx.session_config().batch_size();
        let batches = Batches {
            grid: Arc::clone(&self.0),
            contig: 0,
            start: 1,
            batch_size,
        };
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.0.schema),
            futures::stream::iter(batches),
        ))
    }
}

/// The batches of the grid, which may be far larger than memory.
struct Batches {
    grid: Arc<Grid>,
    contig: usize,
    start: i64,
    batch_size: usize,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let grid = Arc::clone(&self.grid);
        let (mut names, mut starts, mut stops, mut accessible) = (vec![], vec![], vec![], vec![]);
        while let Some(contig) = grid
            .contigs
            .get(self.contig)
            .filter(|_| starts.len() < self.batch_size)
        {
            if self.start > contig.end() {
                self.contig += 1;
                self.start = 1;
                continue;
            }
            let stop = self
                .start
                .saturating_add(grid.size - 1)
                .min(contig.length.unwrap_or(i64::MAX));
            names.push(contig.name.as_str());
            starts.push(self.start);
            stops.push(stop);
            accessible.push(match &grid.mask {
                Some(mask) => mask.accessible_bases(&contig.name, self.start, stop),
                None => stop - self.start + 1,
            });
            self.start = self.start.saturating_add(grid.step);
        }
        if starts.is_empty() {
            return None;
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringViewArray::from_iter_values(names)),
            Arc::new(Int64Array::from(starts)),
            Arc::new(Int64Array::from(stops)),
            Arc::new(Int64Array::from(accessible)),
        ];
        Some(RecordBatch::try_new(Arc::clone(&grid.schema), columns).map_err(Into::into))
    }
}
