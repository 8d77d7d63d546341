//! `vcz_ld_prune('t', [population,] window, r2)`: variants of which no two within a window are in strong linkage disequilibrium.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};

use super::arguments::Arguments;
use super::provider::SiteTable;
use super::site_scan::{Panel, Reach, Site, SiteFunction, SitePosition, SiteScan};
use crate::counts::Level;
use crate::counts::sites::{SiteBits, SiteWindow, Threshold};
use crate::functions::table::entry::{TableFunction, document_table};
use crate::functions::table::metadata::columns;
use crate::functions::table::resolve::call_text;

const NAME: &str = "vcz_ld_prune";
const USAGE: &str = "vcz_ld_prune('table' [, population], window, r2)";

/// The table function: of the segregating variants of a population, those that are kept, with their row in the table. A variant is
/// dropped if its r² of haplotypes, as in `vcz_ld`, with a kept variant at most `window` bases before it is above `r2`. So the
/// earlier variant of a pair is kept, as in scikit-allel's `locate_unlinked`; plink keeps the one whose minor allele is more frequent.
///
/// Columns: `contig` Utf8View, `position` Int64, `row` Int64 (from 0).
#[derive(Debug, Default)]
pub struct LdPrune;

/// The function's arguments.
#[derive(Clone, Copy, Debug)]
struct Prune {
    window: i64,
    threshold: Threshold,
}

impl LdPrune {
    /// The function, with its name and documentation.
    pub fn entry() -> TableFunction {
        let documentation = document_table(
            "The segregating variants of a population without those in linkage disequilibrium with an earlier one: a variant is dropped if its r2 \
             of haplotypes with a kept variant at most window bases before it is above r2. The earlier variant of a pair is kept, as in \
             scikit-allel; plink keeps the one whose minor allele is more frequent. Columns: contig, position, row (of the table, from 0).",
            "vcz_ld_prune(table [, population], window, r2)",
            "SELECT count(*) FROM vcz_ld_prune('t', 'first', 50000, 0.2)",
        )
        .with_argument(
            "population",
            "The name of a population, or a list of sample ids. If left out, every sample.",
        )
        .with_argument("window", "The greatest distance in bases, a constant.")
        .with_argument("r2", "The highest r2 of variants that are kept, a constant.")
        .build();
        (NAME, Arc::new(Self), documentation)
    }
}

impl TableFunctionImpl for LdPrune {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let exprs = args.exprs();
        let arguments = Arguments::try_new(NAME, USAGE, exprs, 0, 2)?;
        let window = arguments.bases(NAME, 0, "the window")?;
        let r2 = arguments.number(NAME, 1, "r2", (0.0, 1.0))?;
        let (Some(window), Some(r2)) = (window, r2) else {
            return plan_err!(
                "{NAME}: the window, in bases, and the highest r2 are needed: write {USAGE}"
            );
        };
        Ok(Arc::new(SiteTable {
            call: call_text(NAME, exprs),
            table: arguments.table,
            populations: arguments.populations,
            function: Arc::new(Prune {
                window,
                threshold: Threshold(r2),
            }),
        }))
    }
}

impl SiteFunction for Prune {
    fn name(&self) -> &'static str {
        NAME
    }

    fn schema(&self) -> SchemaRef {
        columns::schema([
            ("contig", DataType::Utf8View, false),
            ("position", DataType::Int64, false),
            ("row", DataType::Int64, false),
        ])
    }

    fn reach(&self) -> Reach {
        Reach::Contigs
    }

    fn start(&self, _own: Range<u64>, panel: &Panel, _threads: usize) -> Box<dyn SiteScan> {
        let copies = panel.shape.copies();
        Box::new(Pruning {
            prune: *self,
            copies,
            place: SitePosition::default(),
            window: SiteWindow::new(copies, Level::detect()),
            positions: VecDeque::new(),
            bits: SiteBits::default(),
            kept: Kept::default(),
            ended: false,
        })
    }
}

/// Rows of the result.
#[derive(Debug, Default)]
struct Kept {
    contigs: Vec<Arc<str>>,
    positions: Vec<i64>,
    rows: Vec<i64>,
}

struct Pruning {
    prune: Prune,
    copies: usize,
    place: SitePosition,
    /// The kept variants of the window.
    window: SiteWindow,
    /// Their positions.
    positions: VecDeque<i64>,
    bits: SiteBits,
    kept: Kept,
    ended: bool,
}

/// Rows that are passed on together, so that a scan of many variants is not interrupted at each.
const ENOUGH: usize = 1024;

impl SiteScan for Pruning {
    fn add(&mut self, site: Site<'_>) -> Result<()> {
        if self.place.next(NAME, &site)? {
            self.window.remove_first(self.window.len());
            self.positions.clear();
        }
        self.bits.of_copies(site.planes, self.copies);
        if !self.bits.is_segregating() {
            return Ok(());
        }
        let far = |first: &&i64| site.position.saturating_sub(**first) > self.prune.window;
        let passed = self.positions.iter().take_while(far).count();
        self.positions.drain(..passed);
        self.window.remove_first(passed);
        if self.window.exceeds(&self.bits, self.prune.threshold) {
            return Ok(());
        }
        self.window.push(&self.bits);
        self.positions.push_back(site.position);
        let contig = match self.kept.contigs.last() {
            Some(last) if **last == *site.contig => Arc::clone(last),
            _ => site.contig.into(),
        };
        self.kept.contigs.push(contig);
        self.kept.positions.push(site.position);
        // Rows are below 2^63.
        self.kept.rows.push(site.row as i64);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.ended = true;
        Ok(())
    }

    fn is_pending(&self) -> bool {
        self.kept.rows.len() >= ENOUGH
    }

    fn next_batch(&mut self, rows: usize) -> Result<Option<RecordBatch>> {
        let ready = self.kept.rows.len().min(rows);
        if ready == 0 || !(self.ended || self.is_pending()) {
            return Ok(None);
        }
        let contigs = self.kept.contigs.drain(..ready);
        let contigs = StringViewArray::from_iter_values(contigs);
        let positions: Int64Array = self.kept.positions.drain(..ready).map(Some).collect();
        let rows: Int64Array = self.kept.rows.drain(..ready).map(Some).collect();
        let columns: Vec<ArrayRef> = vec![Arc::new(contigs), Arc::new(positions), Arc::new(rows)];
        Ok(Some(RecordBatch::try_new(self.prune.schema(), columns)?))
    }

    fn bytes(&self) -> usize {
        let kept = self.kept.rows.capacity() * (size_of::<Arc<str>>() + 2 * size_of::<i64>());
        self.window.heap_bytes() + self.positions.capacity() * size_of::<i64>() + kept
    }
}
