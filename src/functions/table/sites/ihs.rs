//! `vcz_ihs('table' [, population [, min_maf]])`: iHS, the integrated haplotype score, of every row.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;

use super::haplotype_scan::Kind;
use crate::counts::scans::Measure;
use crate::functions::table::entry::TableFunction;

const KIND: Kind = Kind {
    name: "vcz_ihs",
    usage: "vcz_ihs('table' [, population [, min_maf]])",
    measure: Measure::Homozygosity,
    populations: 0,
};

/// The table function: iHS (Voight et al. 2006) of every row that is scanned, not standardised. The score is ln(iHH_1 / iHH_0), where
/// iHH_a is the integral of the extended haplotype homozygosity (EHH) of the carriers of allele a: the proportion of their pairs that are
/// identical from this row to another one, integrated by trapezoids over distance in bases to the left and to the right, until it is 0.05
/// or less, that trapezoid included. A gap between rows counts at most 20,000 bases. NULL where an allele has fewer than two copies, where
/// the end of the contig or a gap of more than 200,000 bases comes before the end of an integral, and where an integral is 0. As in
/// scikit-allel, allele 1 is over allele 0; Voight et al. have the ancestral allele over the derived one.
///
/// Scanned are rows in which every copy of the population is called with allele 0 or 1, the rarer at a frequency of `min_maf` (0.05 unless
/// given) or more.
///
/// Columns: `contig` Utf8View, `position` Int64, `row` Int64 (from 0), `allele_count` Int64, `score` Float64.
#[derive(Debug, Default)]
pub struct Ihs;

impl Ihs {
    /// The function, with its name and documentation.
    pub fn entry() -> TableFunction {
        let documentation = KIND.document(
            "iHS (Voight et al. 2006): ln(iHH1 / iHH0), where iHHa is the integral of extended haplotype homozygosity of the carriers of \
             allele a, the proportion of their pairs that are identical from the row on, by trapezoids over distance in bases to the left \
             and to the right, until it is 0.05 or less. A gap between rows counts at most 20,000 bases. NULL where an allele has fewer \
             than two copies, or the end of the contig or a gap of more than 200,000 bases comes first, or an integral is 0. The sign is \
             that of scikit-allel, allele 1 over allele 0; that of Voight et al. is the ancestral over the derived allele.",
            "vcz_ihs(table [, population [, min_maf]])",
            "SELECT contig, position, score FROM vcz_ihs('t', 'first') WHERE score IS NOT NULL",
        );
        (KIND.name, Arc::new(Self), documentation)
    }
}

impl TableFunctionImpl for Ihs {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        KIND.call(args)
    }
}
