//! [`HaplotypeScan`]: what nSL, iHS, XP-nSL and XP-EHH have in common: which rows they scan, contig by contig, and their result.
//!
//! The bits of the rows of a contig are kept until it ends, since a row's score depends on all rows on both sides of it. Then the contig is scanned,
//! in as many parts as the partition may use threads.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{TableFunctionArgs, TableProvider};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::Documentation;

use super::arguments::Arguments;
use super::provider::SiteTable;
use super::site_scan::{Panel, Reach, Site, SiteFunction, SitePosition, SiteScan};
use crate::counts::scans::{ContigScan, Groups, Job, Measure, Scores, kept};
use crate::functions::table::entry::document_table;
use crate::functions::table::metadata::columns;
use crate::functions::table::resolve::call_text;

/// The least frequency of the rarer allele, if it is left out.
const MIN_MAF: f64 = 0.05;
/// Copies times rows that one job measures, which takes some milliseconds.
const JOB: usize = 1 << 20;

/// One of the functions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) usage: &'static str,
    pub(super) measure: Measure,
    /// Populations that must be given.
    pub(super) populations: usize,
}

impl Kind {
    /// The table of a call.
    pub(super) fn call(self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let exprs = args.exprs();
        let arguments = Arguments::try_new(self.name, self.usage, exprs, self.populations, 1)?;
        let min_maf = arguments.number(self.name, 0, "min_maf", (0.0, 0.5))?;
        Ok(Arc::new(SiteTable {
            call: call_text(self.name, exprs),
            table: arguments.table,
            populations: arguments.populations,
            function: Arc::new(HaplotypeScan {
                kind: self,
                min_maf: min_maf.unwrap_or(MIN_MAF),
            }),
        }))
    }

    /// The documentation: of what the score is, and the syntax.
    pub(super) fn document(self, score: &str, syntax: &str, example: &str) -> Documentation {
        let (population, rows) = match self.populations {
            2 => ("populations", "of both populations"),
            _ => ("population", "of the population"),
        };
        let description = format!(
            "{score} Rows are scanned in which every copy {rows} is called with allele 0 or 1, the rarer of them at a frequency of min_maf or \
             more; other rows are left out, as if they were not in the table. Copies are haplotypes in their stored order; phase is not \
             checked. Not standardised: subtract the mean and divide by the standard deviation over rows, for single populations over rows of \
             similar allele_count. Columns: contig; position; row (of the table, from 0); allele_count, copies with allele 1 {rows}; score, \
             which may be NULL."
        );
        let mut builder = document_table(&description, syntax, example);
        if population == "populations" {
            let what = "The name of a population, or a list of sample ids.";
            for name in ["population1", "population2"] {
                builder = builder.with_argument(name, what);
            }
        } else {
            let what =
                "The name of a population, or a list of sample ids. If left out, every sample.";
            builder = builder.with_argument(population, what);
        }
        let what =
            "The least frequency of the rarer allele, a constant from 0 to 0.5. If left out, 0.05.";
        builder.with_argument("min_maf", what).build()
    }
}

/// A call.
#[derive(Clone, Copy, Debug)]
struct HaplotypeScan {
    kind: Kind,
    min_maf: f64,
}

impl SiteFunction for HaplotypeScan {
    fn name(&self) -> &'static str {
        self.kind.name
    }

    fn schema(&self) -> SchemaRef {
        columns::schema([
            ("contig", DataType::Utf8View, false),
            ("position", DataType::Int64, false),
            ("row", DataType::Int64, false),
            ("allele_count", DataType::Int64, false),
            ("score", DataType::Float64, true),
        ])
    }

    fn reach(&self) -> Reach {
        Reach::Contigs
    }

    fn start(&self, _own: Range<u64>, panel: &Panel, threads: usize) -> Box<dyn SiteScan> {
        let copies = panel.shape.copies();
        let groups = match panel.populations.as_slice() {
            [first, second] => Groups::Populations([Arc::clone(first), Arc::clone(second)]),
            // There are fewer than 2³² copies: samples are numbered by 32 bits, and arrays of more are refused.
            _ => Groups::Alleles(copies as u32),
        };
        Box::new(Scanning {
            scan: *self,
            copies,
            contig: ContigScan::new(self.kind.measure, &groups, copies),
            groups,
            place: SitePosition::default(),
            name: Arc::from(""),
            closed: None,
            is_scored: false,
            threads,
            found: Found::default(),
            ended: false,
        })
    }
}

/// Rows of the result.
#[derive(Debug, Default)]
struct Found {
    contigs: Vec<Arc<str>>,
    positions: Vec<i64>,
    rows: Vec<i64>,
    allele_counts: Vec<i64>,
    scores: Vec<Option<f64>>,
}

struct Scanning {
    scan: HaplotypeScan,
    copies: usize,
    groups: Groups,
    place: SitePosition,
    /// The contig whose rows are added.
    name: Arc<str>,
    contig: ContigScan,
    /// The contig before it, until its rows are in the result.
    closed: Option<(Arc<str>, Scores)>,
    /// Whether the rows of the closed contig have their scores.
    is_scored: bool,
    threads: usize,
    found: Found,
    ended: bool,
}

impl Scanning {
    /// Ends the contig. The one before it is in the result.
    fn close(&mut self) {
        let next = ContigScan::new(self.scan.kind.measure, &self.groups, self.copies);
        let contig = std::mem::replace(&mut self.contig, next);
        if !contig.is_empty() {
            self.closed = Some((Arc::clone(&self.name), contig.close(self.threads)));
        }
    }

    /// Moves rows of the closed contig to the result until it has `rows`.
    fn take(&mut self, rows: usize) {
        let Some((name, contig)) = &mut self.closed else {
            return;
        };
        let found = &mut self.found;
        for row in contig.next_rows(rows.saturating_sub(found.rows.len())) {
            found.contigs.push(Arc::clone(name));
            found.positions.push(row.position);
            // Rows are below 2^63.
            found.rows.push(row.row as i64);
            found.allele_counts.push(i64::from(row.carriers));
            found.scores.push(row.score);
        }
        if contig.is_empty() {
            (self.closed, self.is_scored) = (None, false);
        }
    }
}

impl SiteScan for Scanning {
    fn add(&mut self, site: Site<'_>) -> Result<()> {
        let name = self.scan.kind.name;
        if self.place.next(name, &site)? {
            self.close();
            self.name = site.contig.into();
        }
        let Some((plane, carriers)) = kept(site.planes, self.copies, self.scan.min_maf) else {
            return Ok(());
        };
        let added = self
            .contig
            .add(site.row, site.position, plane, carriers as u32);
        added.map_err(|error| exec_datafusion_err!("{name}: {error}"))
    }

    fn end(&mut self) -> Result<()> {
        self.close();
        self.ended = true;
        Ok(())
    }

    fn is_pending(&self) -> bool {
        self.closed.is_some()
    }

    fn jobs(&mut self) -> Vec<Job> {
        let Some((_, contig)) = self.closed.as_ref().filter(|_| !self.is_scored) else {
            return vec![];
        };
        let jobs = contig.jobs((JOB / self.copies.max(1)).max(1));
        self.is_scored = jobs.is_empty();
        jobs
    }

    fn next_batch(&mut self, rows: usize) -> Result<Option<RecordBatch>> {
        if self.is_scored {
            self.take(rows);
        }
        let ready = self.found.rows.len().min(rows);
        let is_last = self.ended && self.closed.is_none();
        if ready == 0 || (ready < rows && !is_last) {
            return Ok(None);
        }
        let wholes = |column: &mut Vec<i64>| -> ArrayRef {
            let column: Int64Array = column.drain(..ready).map(Some).collect();
            Arc::new(column)
        };
        let found = &mut self.found;
        let contigs = StringViewArray::from_iter_values(found.contigs.drain(..ready));
        let scores: Float64Array = found.scores.drain(..ready).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(contigs),
            wholes(&mut found.positions),
            wholes(&mut found.rows),
            wholes(&mut found.allele_counts),
            Arc::new(scores),
        ];
        Ok(Some(RecordBatch::try_new(self.scan.schema(), columns)?))
    }

    fn bytes(&self) -> usize {
        const ROW: usize = size_of::<Arc<str>>() + 3 * size_of::<i64>() + size_of::<Option<f64>>();
        let closed = self
            .closed
            .as_ref()
            .map_or(0, |(_, contig)| contig.heap_bytes());
        self.contig.heap_bytes() + closed + self.found.rows.capacity() * ROW
    }
}
