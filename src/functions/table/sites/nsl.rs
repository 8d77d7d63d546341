//! `vcz_nsl('table' [, population [, min_maf]])`: nSL, the number of segregating sites by length, of every row.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;

use super::haplotype_scan::Kind;
use crate::counts::scans::Measure;
use crate::functions::table::entry::TableFunction;

const KIND: Kind = Kind {
    name: "vcz_nsl",
    usage: "vcz_nsl('table' [, population [, min_maf]])",
    measure: Measure::SharedLength,
    populations: 0,
};

/// The table function: nSL (Ferrer-Admetlla et al. 2014) of every row that is scanned, not standardised. The score is ln(SL_1 / SL_0),
/// where SL_a is the mean over pairs of carriers of allele a of the number of consecutive scanned rows, this one included, in which the
/// pair is identical to the left, plus the same to the right. It ends at the ends of the contig. NULL where an allele has fewer than two
/// copies. As in scikit-allel, allele 1 is over allele 0.
///
/// Scanned are rows in which every copy of the population is called with allele 0 or 1, the rarer at a frequency of `min_maf` (0.05 unless
/// given) or more.
///
/// Columns: `contig` Utf8View, `position` Int64, `row` Int64 (from 0), `allele_count` Int64, `score` Float64.
#[derive(Debug, Default)]
pub struct Nsl;

impl Nsl {
    /// The function, with its name and documentation.
    pub fn entry() -> TableFunction {
        let documentation = KIND.document(
            "nSL (Ferrer-Admetlla et al. 2014): ln(SL1 / SL0), where SLa is the mean over pairs of carriers of allele a of the number of \
             consecutive rows, this one included, in which the pair is identical to the left, plus the same to the right. Identity ends at \
             the ends of the contig. NULL where an allele has fewer than two copies. The sign is that of scikit-allel, allele 1 over \
             allele 0.",
            "vcz_nsl(table [, population [, min_maf]])",
            "SELECT contig, position, score FROM vcz_nsl('t', 'first') WHERE abs(score) > 2",
        );
        (KIND.name, Arc::new(Self), documentation)
    }
}

impl TableFunctionImpl for Nsl {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        KIND.call(args)
    }
}
