//! `vcz_xpnsl('table', population1, population2 [, min_maf])`: XP-nSL, which compares the lengths of identical haplotypes of two populations.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;

use super::haplotype_scan::Kind;
use crate::counts::scans::Measure;
use crate::functions::table::entry::TableFunction;

const KIND: Kind = Kind {
    name: "vcz_xpnsl",
    usage: "vcz_xpnsl('table', population1, population2 [, min_maf])",
    measure: Measure::SharedLength,
    populations: 2,
};

/// The table function: XP-nSL (Szpiech et al. 2021) of every row that is scanned, not standardised. The score is ln(SL_1 / SL_2), where
/// SL_p is the mean over all pairs of copies of population p of the number of consecutive scanned rows, this one included, in which the
/// pair is identical to the left, plus the same to the right; a pair that differs at the row counts 0. It ends at the ends of the contig.
/// NULL where a population has fewer than two copies, or no pair of them that is identical at the row.
///
/// Scanned are rows in which every copy of both populations is called with allele 0 or 1, the rarer of them in the samples of either at a
/// frequency of `min_maf` (0.05 unless given) or more. A sample of both populations is counted once there.
///
/// Columns: `contig` Utf8View, `position` Int64, `row` Int64 (from 0), `allele_count` Int64, `score` Float64.
#[derive(Debug, Default)]
pub struct XpNsl;

impl XpNsl {
    /// The function, with its name and documentation.
    pub fn entry() -> TableFunction {
        let documentation = KIND.document(
            "XP-nSL (Szpiech et al. 2021): ln(SL1 / SL2), where SLp is the mean over all pairs of copies of population p of the number of \
             consecutive rows, this one included, in which the pair is identical to the left, plus the same to the right, which is 0 for a \
             pair that differs at the row. Identity ends at the ends of the contig. NULL where a population has fewer than two copies, or \
             no pair of them is identical at the row.",
            "vcz_xpnsl(table, population1, population2 [, min_maf])",
            "SELECT contig, position, score FROM vcz_xpnsl('t', 'first', 'second')",
        );
        (KIND.name, Arc::new(Self), documentation)
    }
}

impl TableFunctionImpl for XpNsl {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        KIND.call(args)
    }
}
