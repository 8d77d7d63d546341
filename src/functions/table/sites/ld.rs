//! `vcz_ld('t' [, population [, max_bases [, min_r2]]])`: linkage disequilibrium of pairs of variants.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;

use super::arguments::Arguments;
use super::ld_pairs::{PairWindow, r2_of_genotypes};
use super::provider::SiteTable;
use super::site_scan::{Panel, Reach, Site, SiteFunction, SitePosition, SiteScan};
use crate::counts::pairs::Shape;
use crate::counts::sites::SiteBits;
use crate::functions::numeric::two_sites::{TwoSites, d_prime};
use crate::functions::table::entry::{TableFunction, document_table};
use crate::functions::table::metadata::columns;
use crate::functions::table::resolve::call_text;

const NAME: &str = "vcz_ld";
const USAGE: &str = "vcz_ld('table' [, population [, max_bases [, min_r2]]])";
/// The greatest distance, if it is left out.
const MAX_BASES: i64 = 1_000_000;

/// The table function: pairs of segregating variants of one contig that are at most `max_bases` (1,000,000 unless given) apart and have an
/// r², of `min_r2` or more. The first variant of a pair is the one of the lower row. There is no order of pairs.
///
/// Columns: `contig` Utf8View, `position1`, `row1`, `position2`, `row2` Int64 (rows of the table, from 0), `n` Int64 (copies called at both), `r2`, `d`,
/// `d_prime` (signed) of haplotypes, and `r2_genotypes`, the squared correlation of genotypes of complete diploids, which may be NULL.
#[derive(Debug, Default)]
pub struct Ld;

impl Ld {
    /// The function, with its name and documentation.
    pub fn entry() -> TableFunction {
        let documentation = document_table(
            "Linkage disequilibrium of pairs of segregating variants of one contig, reference and other alleles pooled: pairs of which the first \
             has the lower row, the second is at most max_bases further on, and both vary among the copies that are called at both. No order. \
             Columns: contig; position1, row1, position2, row2 (rows of the table, from 0); n, copies called at both; r2, d and d_prime \
             (signed) of haplotypes; r2_genotypes, the squared correlation of the genotypes of complete diploids, which may be NULL.",
            "vcz_ld(table [, population [, max_bases [, min_r2]]])",
            "SELECT position1, position2, r2 FROM vcz_ld('t', 'first', 10000, 0.2)",
        )
        .with_argument(
            "population",
            "The name of a population, or a list of sample ids. If left out, every sample.",
        )
        .with_argument("max_bases", "The greatest distance in bases, a constant. If left out, 1,000,000.")
        .with_argument("min_r2", "The least r2, a constant. If left out, pairs of any r2.")
        .build();
        (NAME, Arc::new(Self), documentation)
    }
}

/// The function's arguments.
#[derive(Clone, Copy, Debug)]
struct Pairs {
    max_bases: i64,
    min_r2: Option<f64>,
}

impl TableFunctionImpl for Ld {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let exprs = args.exprs();
        let arguments = Arguments::try_new(NAME, USAGE, exprs, 0, 2)?;
        let max_bases = arguments.bases(NAME, 0, "max_bases")?.unwrap_or(MAX_BASES);
        let min_r2 = arguments.number(NAME, 1, "min_r2", (0.0, 1.0))?;
        Ok(Arc::new(SiteTable {
            call: call_text(NAME, exprs),
            table: arguments.table,
            populations: arguments.populations,
            function: Arc::new(Pairs { max_bases, min_r2 }),
        }))
    }
}

impl SiteFunction for Pairs {
    fn name(&self) -> &'static str {
        NAME
    }

    fn schema(&self) -> SchemaRef {
        columns::schema([
            ("contig", DataType::Utf8View, false),
            ("position1", DataType::Int64, false),
            ("row1", DataType::Int64, false),
            ("position2", DataType::Int64, false),
            ("row2", DataType::Int64, false),
            ("n", DataType::Int64, false),
            ("r2", DataType::Float64, false),
            ("d", DataType::Float64, false),
            ("d_prime", DataType::Float64, false),
            ("r2_genotypes", DataType::Float64, true),
        ])
    }

    fn reach(&self) -> Reach {
        Reach::Bases(self.max_bases)
    }

    fn start(&self, own: Range<u64>, panel: &Panel, _threads: usize) -> Box<dyn SiteScan> {
        let shape = panel.shape;
        Box::new(Disequilibrium {
            pairs: *self,
            shape,
            place: SitePosition::default(),
            row: own.start,
            window: PairWindow::new(own, shape, self.max_bases, self.min_r2),
            bits: SiteBits::default(),
            diploids: SiteBits::default(),
            found: Found::default(),
            ended: false,
        })
    }
}

/// Rows of the result.
#[derive(Debug, Default)]
struct Found {
    contigs: Vec<Arc<str>>,
    wholes: [Vec<i64>; 5],
    numbers: [Vec<f64>; 3],
    r2_genotypes: Vec<Option<f64>>,
}

struct Disequilibrium {
    pairs: Pairs,
    shape: Shape,
    place: SitePosition,
    /// The row after the last that was added.
    row: u64,
    window: PairWindow,
    bits: SiteBits,
    diploids: SiteBits,
    found: Found,
    ended: bool,
}

impl Disequilibrium {
    fn compare_tile(&mut self) {
        let Some(((one, two), pairs)) = self.window.next_tile() else {
            return;
        };
        for pair in pairs {
            let (first, second) = (&one.all[pair.first], &two.all[pair.second]);
            let TwoSites { n, a, b, x } = pair.sites;
            let sites = TwoSites {
                n: f64::from(n),
                a: f64::from(a),
                b: f64::from(b),
                x: f64::from(x),
            };
            self.found.contigs.push(Arc::clone(&one.contig));
            // Rows are below 2^63.
            let wholes = [
                first.position,
                first.row as i64,
                second.position,
                second.row as i64,
                i64::from(n),
            ];
            for (column, whole) in self.found.wholes.iter_mut().zip(wholes) {
                column.push(whole);
            }
            let d = sites.delta() / (sites.n * sites.n);
            let numbers = [pair.r2, d, d_prime(sites)];
            for (column, number) in self.found.numbers.iter_mut().zip(numbers) {
                column.push(number);
            }
            let of_genotypes = r2_of_genotypes(first, second, self.shape.samples);
            self.found.r2_genotypes.push(of_genotypes);
        }
    }
}

impl SiteScan for Disequilibrium {
    fn add(&mut self, site: Site<'_>) -> Result<()> {
        if self.place.next(NAME, &site)? {
            self.window.begin(self.place.contig());
        }
        self.row = site.row + 1;
        self.bits.of_copies(site.planes, self.shape.copies());
        if self.bits.is_segregating() {
            self.diploids.of_diploids(site.planes, self.shape);
            self.window
                .add(site.row, site.position, &self.bits, &self.diploids);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.window.close();
        self.ended = true;
        Ok(())
    }

    fn is_pending(&self) -> bool {
        self.window.has_tiles()
    }

    fn next_batch(&mut self, rows: usize) -> Result<Option<RecordBatch>> {
        while self.found.r2_genotypes.len() < rows && self.window.has_tiles() {
            self.compare_tile();
        }
        let ready = self.found.r2_genotypes.len().min(rows);
        if ready == 0 || (ready < rows && !self.ended) {
            return Ok(None);
        }
        let contigs = self.found.contigs.drain(..ready);
        let mut columns: Vec<ArrayRef> = vec![Arc::new(StringViewArray::from_iter_values(contigs))];
        for whole in &mut self.found.wholes {
            let whole: Int64Array = whole.drain(..ready).map(Some).collect();
            columns.push(Arc::new(whole));
        }
        for number in &mut self.found.numbers {
            let number: Float64Array = number.drain(..ready).map(Some).collect();
            columns.push(Arc::new(number));
        }
        let r2: Float64Array = self.found.r2_genotypes.drain(..ready).collect();
        columns.push(Arc::new(r2));
        Ok(Some(RecordBatch::try_new(self.pairs.schema(), columns)?))
    }

    fn is_done(&self) -> bool {
        self.window.is_past(self.row)
    }

    fn bytes(&self) -> usize {
        const PAIR: usize = size_of::<Arc<str>>() + 10 * size_of::<f64>();
        self.window.bytes() + self.found.r2_genotypes.capacity() * PAIR
    }
}
