//! Scalar functions on counts, sites, positions and spectra, one file each. A new one needs a file here and a line in [`all`].

mod accessible_bases;
mod add_counts;
mod allele_frequencies;
mod allele_number;
mod alleles;
mod bar;
mod bin_lists;
mod derived_count;
mod diploids;
mod expected_heterozygosity;
mod genome_bin;
mod genome_bins;
mod hwe_exact;
mod interval_bins;
mod is_accessible;
mod is_biallelic;
mod is_complete;
mod is_pass;
mod is_segregating;
mod is_snp;
mod kinship_king;
mod masked;
mod minor_count;
mod observed_heterozygosity;
mod polarize;
mod populations;
mod site_bin;
mod site_comparisons;
mod site_differences;
mod site_divergence;
mod site_diversity;
mod site_f2;
mod site_f3;
mod site_f3_normalized;
mod site_f4;
mod site_fst_hudson;
mod site_fst_weir_cockerham;
mod site_patterson_d;
mod spectrum_rows;
mod spectrum_test;
mod spectrum_theta;
mod spectrum_weights;
mod strings;
mod support;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use datafusion::logical_expr::ScalarUDF;

use super::site_argument::{SiteArgument, SiteArguments};

pub use accessible_bases::{AccessibleBases, bound as bound_accessible_bases};
pub use add_counts::AddCounts;
pub use allele_frequencies::AlleleFrequencies;
pub use allele_number::AlleleNumber;
pub use bar::Bar;
pub use derived_count::DerivedCount;
pub use expected_heterozygosity::ExpectedHeterozygosity;
pub use genome_bin::GenomeBin;
pub use genome_bins::GenomeBins;
pub use hwe_exact::{HweExact, HweExactMidp};
pub use interval_bins::IntervalBins;
pub use is_accessible::{IsAccessible, bound as bound_is_accessible};
pub use is_biallelic::IsBiallelic;
pub use is_complete::IsComplete;
pub use is_pass::IsPass;
pub use is_segregating::IsSegregating;
pub use is_snp::IsSnp;
pub use kinship_king::KinshipKing;
pub use minor_count::MinorCount;
pub use observed_heterozygosity::ObservedHeterozygosity;
pub use polarize::Polarize;
pub use site_bin::SiteBin;
pub use site_comparisons::SiteComparisons;
pub use site_differences::SiteDifferences;
pub use site_divergence::SiteDivergence;
pub use site_diversity::SiteDiversity;
pub use site_f2::SiteF2;
pub use site_f3::SiteF3;
pub use site_f3_normalized::SiteF3Normalized;
pub use site_f4::SiteF4;
pub use site_fst_hudson::SiteFstHudson;
pub use site_fst_weir_cockerham::SiteFstWeirCockerham;
pub use site_patterson_d::SitePattersonD;
pub use spectrum_rows::SpectrumRows;
pub use spectrum_test::SpectrumTest;
pub use spectrum_theta::SpectrumTheta;

/// Whether the scalar function of that name may take long for a row. It then asks [`interrupt::check`](super::interrupt::check).
pub fn is_slow(name: &str) -> bool {
    matches!(name, "hwe_exact" | "hwe_exact_midp")
}

/// All scalar functions, to be registered with a session. `is_accessible` and `accessible_bases` have no mask here: planning
/// replaces them with [`bound_is_accessible`] and [`bound_accessible_bases`].
pub fn all() -> Vec<ScalarUDF> {
    vec![
        ScalarUDF::new_from_impl(AccessibleBases::new()),
        ScalarUDF::new_from_impl(AddCounts::new()),
        ScalarUDF::new_from_impl(AlleleFrequencies::new()),
        ScalarUDF::new_from_impl(AlleleNumber::new()),
        ScalarUDF::new_from_impl(Bar::new()),
        ScalarUDF::new_from_impl(DerivedCount::new()),
        ScalarUDF::new_from_impl(ExpectedHeterozygosity::new()),
        ScalarUDF::new_from_impl(GenomeBin::new()),
        ScalarUDF::new_from_impl(GenomeBins::new()),
        ScalarUDF::new_from_impl(HweExact::new()),
        ScalarUDF::new_from_impl(HweExactMidp::new()),
        ScalarUDF::new_from_impl(IntervalBins::new()),
        ScalarUDF::new_from_impl(IsAccessible::new()),
        ScalarUDF::new_from_impl(IsBiallelic::new()),
        ScalarUDF::new_from_impl(IsComplete::new()),
        ScalarUDF::new_from_impl(IsPass::new()),
        ScalarUDF::new_from_impl(IsSegregating::new()),
        ScalarUDF::new_from_impl(IsSnp::new()),
        ScalarUDF::new_from_impl(KinshipKing::new()),
        ScalarUDF::new_from_impl(MinorCount::new()),
        ScalarUDF::new_from_impl(ObservedHeterozygosity::new()),
        ScalarUDF::new_from_impl(Polarize::new()),
        ScalarUDF::new_from_impl(SiteBin::new()),
        ScalarUDF::new_from_impl(SiteComparisons::new()),
        ScalarUDF::new_from_impl(SiteDifferences::new()),
        ScalarUDF::new_from_impl(SiteDivergence::new()),
        ScalarUDF::new_from_impl(SiteDiversity::new()),
        ScalarUDF::new_from_impl(SiteF2::new()),
        ScalarUDF::new_from_impl(SiteF3::new()),
        ScalarUDF::new_from_impl(SiteF3Normalized::new()),
        ScalarUDF::new_from_impl(SiteF4::new()),
        ScalarUDF::new_from_impl(SiteFstHudson::new()),
        ScalarUDF::new_from_impl(SiteFstWeirCockerham::new()),
        ScalarUDF::new_from_impl(SitePattersonD::new()),
        ScalarUDF::new_from_impl(SpectrumRows::new()),
        ScalarUDF::new_from_impl(SpectrumTest::new()),
        ScalarUDF::new_from_impl(SpectrumTheta::new()),
    ]
}

/// The site arguments of the scalar function of that name, if it may be called with `call_genotype` in their place, else `None`.
/// Functions of allele counts may not.
pub fn site_arguments(name: &str) -> Option<SiteArguments> {
    let populations = match name {
        "expected_heterozygosity" | "hwe_exact" | "hwe_exact_midp" | "observed_heterozygosity" => {
            1..=1
        }
        "site_fst_weir_cockerham" => 2..=usize::MAX,
        _ => return None,
    };
    Some(SiteArguments {
        of: SiteArgument::Zygosity,
        populations,
    })
}
