//! `vcz_xpehh('table', population1, population2 [, min_maf])`: XP-EHH, which compares the extended haplotype homozygosity of two populations.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;

use super::haplotype_scan::Kind;
use crate::counts::scans::Measure;
use crate::functions::table::entry::TableFunction;

const KIND: Kind = Kind {
    name: "vcz_xpehh",
    usage: "vcz_xpehh('table', population1, population2 [, min_maf])",
    measure: Measure::Homozygosity,
    populations: 2,
};

/// The table function: XP-EHH (Sabeti et al. 2007) of every row that is scanned, not standardised. The score is ln(iHH_1 / iHH_2), where
/// iHH_p is the integral of the extended haplotype homozygosity (EHH) of all copies of population p, as in `vcz_ihs`: the proportion of
/// their pairs that are identical from this row, which is included, to another one. NULL where a population has fewer than two copies,
/// where the end of the contig or a gap of more than 200,000 bases comes before the end of an integral, and where an integral is 0, as it
/// is if EHH is 0.05 or less at the row itself.
///
/// Scanned are rows in which every copy of both populations is called with allele 0 or 1, the rarer of them in the samples of either at a
/// frequency of `min_maf` (0.05 unless given) or more. A sample of both populations is counted once there.
///
/// Columns: `contig` Utf8View, `position` Int64, `row` Int64 (from 0), `allele_count` Int64, `score` Float64.
#[derive(Debug, Default)]
pub struct XpEhh;

impl XpEhh {
    /// The function, with its name and documentation.
    pub fn entry() -> TableFunction {
        let documentation = KIND.document(
            "XP-EHH (Sabeti et al. 2007): ln(iHH1 / iHH2), where iHHp is the integral of extended haplotype homozygosity of all copies of \
             population p, the proportion of their pairs that are identical from the row on, the row included, by trapezoids over distance \
             in bases to the left and to the right, until it is 0.05 or less. A gap between rows counts at most 20,000 bases. NULL where a \
             population has fewer than two copies, or the end of the contig or a gap of more than 200,000 bases comes first, or an \
             integral is 0, as it is where the proportion is 0.05 or less at the row itself.",
            "vcz_xpehh(table, population1, population2 [, min_maf])",
            "SELECT contig, position, score FROM vcz_xpehh('t', 'first', 'second') WHERE score IS NOT NULL",
        );
        (KIND.name, Arc::new(Self), documentation)
    }
}

impl TableFunctionImpl for XpEhh {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        KIND.call(args)
    }
}
