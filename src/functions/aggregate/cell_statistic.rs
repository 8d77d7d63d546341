//! Aggregates of other crates that are no functions of sums: spectra, quantiles, whatever depends on the number of sites in each cell of a
//! histogram. [`CellStatistic`] is the trait, [`aggregate_of_cells`] makes the function of it.

use std::fmt;
use std::marker::PhantomData;

use arrow::array::{ArrayRef, new_empty_array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err, resources_err};
use datafusion::logical_expr::{AggregateUDF, Documentation};

use super::added::added;
use super::cells::{CellsOf, SiteCells};
use super::definition::{Call, Definition};
use super::grid::{MAX_SPECTRUM_CELLS, cells_within};
use super::histogram::Histogram;

/// A statistic of the allele counts of `POPULATIONS` populations that is a function of the number of sites in each cell: `cell` maps the
/// counts of a site to a number, `value` the histogram of a group to its value.
///
/// Here it is the median of the minor allele's copies, over sites.
///
/// ```
/// use datafusion::arrow::datatypes::DataType;
/// use datafusion::common::{Result, ScalarValue};
/// use datafusion::logical_expr::{DocSection, Documentation};
/// use datafusion_vcz::functions::{CellStatistic, aggregate_of_cells};
///
/// struct MedianMinorCount;
///
/// impl CellStatistic<1> for MedianMinorCount {
///     const NAME: &'static str = "median_minor_count";
///
///     fn new(_copies: [Option<u64>; 1], _numbers: &[i64]) -> Result<Self> {
///         Ok(Self)
///     }
///
///     fn cell(&self, [ac]: [&[i32]; 1]) -> Result<Option<u64>> {
///         let n: u64 = ac.iter().map(|copies| u64::from(copies.unsigned_abs())).sum();
///         let reference = ac.first().map_or(0, |copies| u64::from(copies.unsigned_abs()));
///         Ok((n > 0).then(|| reference.min(n - reference)))
///     }
///
///     fn return_type() -> DataType {
///         DataType::Float64
///     }
///
///     fn value(&self, cells: &[(u64, u64)]) -> Result<ScalarValue> {
///         let sites: u64 = cells.iter().map(|(_, sites)| sites).sum();
///         let at = |rank: u64| {
///             let mut below = 0;
///             let found = cells.iter().find(|(_, sites)| {
///                 below += sites;
///                 below > rank
///             });
///             found.map_or(f64::NAN, |(minor, _)| *minor as f64)
///         };
///         Ok(ScalarValue::from((at((sites - 1) / 2) + at(sites / 2)) / 2.0))
///     }
///
///     fn documentation() -> Documentation {
///         let section = DocSection::default();
///         Documentation::builder(section, "Median of the minor allele's copies.", "median_minor_count(ac)").build()
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<()> {
/// let ctx = datafusion_vcz::session::context(Default::default(), Default::default())?;
/// ctx.register_udaf(aggregate_of_cells::<MedianMinorCount, 1>());
/// ctx.sql(
///     "CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip' \
///      OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv')",
/// )
/// .await?;
/// let query = "SELECT median_minor_count(call_genotype, 'first') AS ours, \
///                     median(CAST(minor_count(allele_counts(call_genotype, 'first')) AS DOUBLE)) AS same \
///              FROM sim WHERE is_biallelic(variant_allele) GROUP BY variant_contig";
/// let rows = ctx.sql(query).await?.collect().await?;
/// # use datafusion::arrow::array::AsArray;
/// # use datafusion::arrow::datatypes::Float64Type;
/// # let mut groups = 0;
/// # for batch in &rows {
/// #     let column = |at: usize| batch.column(at).as_primitive::<Float64Type>().values().to_vec();
/// #     assert_eq!(column(0), column(1));
/// #     groups += batch.num_rows();
/// # }
/// assert_eq!(groups, 2);
/// # Ok(())
/// # }
/// ```
///
/// Like the aggregates of this crate it takes `call_genotype` and populations in place of counts, works with GROUP BY, FILTER and OVER, and has
/// the same bits in any order of the rows.
pub trait CellStatistic<const POPULATIONS: usize>: Sized + Send + Sync + 'static {
    /// The function's name in SQL. Sessions of [`session::context`](crate::session::context) take identifiers as they are written;
    /// others make them lower case.
    const NAME: &'static str;

    /// The names of constant whole numbers that follow the counts in a call, such as `["m"]`.
    const NUMBERS: &'static [&'static str] = &[];

    /// The statistic of one call, with the number of copies N of each population, if the counts carry it (those of `allele_counts` do), and
    /// a value for each of [`NUMBERS`](Self::NUMBERS).
    ///
    /// # Errors
    /// If these are not valid.
    fn new(copies: [Option<u64>; POPULATIONS], numbers: &[i64]) -> Result<Self>;

    /// The cell of a site, or `None` for one that is left out. `counts` has a list for each population: the called copies of allele 0 (the
    /// reference, or the ancestral one after `polarize`), 1, …; none is negative, and lists may be shorter than the site has alleles.
    ///
    /// # Errors
    /// If the query is to fail, because the counts are not valid for the statistic.
    fn cell(&self, counts: [&[i32]; POPULATIONS]) -> Result<Option<u64>>;

    /// The type of the value.
    fn return_type() -> DataType;

    /// The value of a group: cells and their numbers of sites, of which none is 0, in ascending order of the cells. A group without sites
    /// is NULL, and this is not called for it.
    ///
    /// # Errors
    /// If there is no value.
    fn value(&self, cells: &[(u64, u64)]) -> Result<ScalarValue>;

    /// The length of the value, if it is a list, for which memory is then reserved.
    fn value_cells(&self) -> usize {
        0
    }

    /// What `information_schema.routines` and `\h` show.
    fn documentation() -> Documentation;
}

/// The aggregate function of a statistic, to be registered in a session.
pub fn aggregate_of_cells<S: CellStatistic<POPULATIONS>, const POPULATIONS: usize>() -> AggregateUDF
{
    added::<Of<S, POPULATIONS>>()
}

/// A [`CellStatistic`] as the aggregates of this crate are defined.
struct Of<S, const P: usize>(PhantomData<fn() -> S>);

impl<S: CellStatistic<P>, const P: usize> fmt::Debug for Of<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(S::NAME)
    }
}

impl<S: CellStatistic<P>, const P: usize> Definition for Of<S, P> {
    type Statistic = CellsOf<Cells<S, P>, P>;
    const NAME: &'static str = S::NAME;
    const COUNTS: usize = P;
    const NUMBERS: &'static [&'static str] = S::NUMBERS;

    fn return_type() -> DataType {
        S::return_type()
    }

    fn statistic(call: &Call) -> Result<Self::Statistic> {
        let copies = std::array::from_fn(|at| call.copies(at).known());
        Ok(CellsOf(Cells(S::new(copies, &call.numbers)?)))
    }

    fn documentation() -> Documentation {
        S::documentation()
    }
}

/// The statistic of one call.
struct Cells<S, const P: usize>(S);

impl<S: CellStatistic<P>, const P: usize> fmt::Debug for Cells<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(S::NAME)
    }
}

impl<S: CellStatistic<P>, const P: usize> SiteCells<P> for Cells<S, P> {
    type Key = u64;

    #[inline]
    fn cell(&self, counts: [&[i32]; P]) -> Result<Option<u64>> {
        self.0.cell(counts)
    }

    fn is_valid(&self, _cell: u64) -> bool {
        true
    }

    fn evaluate(&mut self, groups: &[Histogram<u64>]) -> Result<ArrayRef> {
        let return_type = S::return_type();
        let nothing = ScalarValue::try_from(&return_type)?;
        let mut sorted = vec![];
        let mut cells = vec![];
        let mut values = Vec::with_capacity(groups.len());
        for group in groups {
            group.sorted(&mut sorted);
            cells.clear();
            cells.extend(
                sorted
                    .iter()
                    .map(|&(cell, sites)| (cell, sites.unsigned_abs())),
            );
            if cells.is_empty() {
                values.push(nothing.clone());
                continue;
            }
            let value = self.0.value(&cells)?;
            if value.data_type() != return_type {
                return exec_err!(
                    "{}: its value has the type {}, but return_type() is {return_type}",
                    S::NAME,
                    value.data_type()
                );
            }
            values.push(value);
        }
        if values.is_empty() {
            return Ok(new_empty_array(&return_type));
        }
        ScalarValue::iter_to_array(values)
    }

    fn check_groups(&self, groups: usize) -> Result<()> {
        let cells = self.0.value_cells() as u64;
        match cells_within(MAX_SPECTRUM_CELLS, cells, 1, groups) {
            Some(_) => Ok(()),
            None => resources_err!(
                "{}: the values of {groups} groups, lists of {cells} each, would hold more than {MAX_SPECTRUM_CELLS} numbers; \
                 group by fewer values",
                S::NAME
            ),
        }
    }

    fn value_cells(&self) -> usize {
        self.0.value_cells()
    }
}
