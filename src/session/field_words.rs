//! Words of the field, and of other tools, that are no functions or tables of this crate: what to use in their place. Messages and `\h`
//! say it.

/// Function names of other tools, and what to use here.
const FUNCTIONS: [(&[&str], &str); 28] = [
    (
        &[
            "fst",
            "f_st",
            "fixation_index",
            "fst_wc",
            "weir_cockerham_fst",
            "hudson_fst",
        ],
        "fst_hudson, fst_weir_cockerham or fst_nei",
    ),
    (
        &["dxy", "d_xy", "mean_pairwise_difference_between"],
        "divergence(…), a sum over sites: divide it by the accessible bases",
    ),
    (
        &["da", "d_a"],
        "net_divergence(…), a sum over sites: divide it by the accessible bases",
    ),
    (
        &["pi", "nucleotide_diversity", "theta_pi"],
        "diversity(…), a sum over sites: divide it by the accessible bases",
    ),
    (&["theta"], "theta_w, theta_h or theta_l"),
    (
        &[
            "watterson",
            "wattersons_theta",
            "watterson_theta",
            "theta_watterson",
            "thetaw",
            "theta_s",
        ],
        "theta_w(…), a sum over sites: divide it by the accessible bases",
    ),
    (&["tajima_d", "tajimasd", "tajimad"], "tajimas_d"),
    (
        &["maf", "minor_allele_frequency"],
        "1.0 * minor_count(ac) / allele_number(ac)",
    ),
    (
        &[
            "af",
            "freq",
            "freqs",
            "allele_freq",
            "allele_freqs",
            "allele_frequency",
            "frequencies",
        ],
        "allele_frequencies(ac)",
    ),
    (
        &["ac", "allele_count", "count_alleles"],
        "allele_counts(call_genotype [, population])",
    ),
    (&["an"], "allele_number(ac)"),
    (
        &["dac", "derived_allele_count", "alt_count"],
        "derived_count(ac)",
    ),
    (
        &[
            "het",
            "hets",
            "ho",
            "he",
            "obs_het",
            "exp_het",
            "heterozygosity",
        ],
        "observed_heterozygosity or expected_heterozygosity, and of individuals sample_counts",
    ),
    (
        &["hwe", "hardy", "hardy_weinberg"],
        "hwe_exact or hwe_exact_midp",
    ),
    (&["segsites", "seg_sites", "s"], "segregating_sites"),
    (
        &["jsfs", "sfs2d", "sfs_joint", "two_d_sfs"],
        "joint_sfs or project_joint_sfs",
    ),
    (
        &["d_stat", "dstat", "abba_baba", "d_statistic"],
        "patterson_d",
    ),
    (
        &["h1", "h2", "h12", "h123", "garud", "garuds_h"],
        "garud_h, whose fields are h1, h12, h123 and h2_h1",
    ),
    (
        &["windows", "windowed", "window_bins"],
        "genome_bin, genome_bins, or the table function genome_windows",
    ),
    (
        &["missing", "missingness", "f_missing"],
        "1 - 1.0 * allele_number(ac) / N, with N the copies of all samples, and of individuals sample_counts",
    ),
    (
        &["ld", "r2", "ld_r2", "r_squared", "linkage"],
        "the table function vcz_ld, or mean_r2, mean_r2_genotypes and ld_decay of the sites of a group",
    ),
    (
        &["rogers_huff_r", "zns", "kelly_zns"],
        "mean_r2_genotypes, or mean_r2 of phased haplotypes",
    ),
    (
        &["prune", "ld_prune", "indep_pairwise", "locate_unlinked"],
        "the table function vcz_ld_prune",
    ),
    (
        &["king", "kinship", "relatedness", "ibs", "ibd"],
        "kinship_king or sample_pairs",
    ),
    (&["rel", "make_rel", "gcta", "grm_gcta"], "grm"),
    (&["pcs", "eigenvectors", "principal_components"], "pca"),
    (
        &["depth", "dp", "coverage", "read_depth"],
        "a column, if the store has it: call_DP, of each call, or variant_DP, of the variant",
    ),
    (
        &["gq", "genotype_quality"],
        "a column, if the store has it: call_GQ, of each call",
    ),
];

/// Names of what other tools compute and this crate does not, and what does it.
const ABSENT: [(&[&str], &str); 2] = [
    (
        &["roh", "froh", "f_roh", "runs_of_homozygosity"],
        "runs of homozygosity are found by bcftools roh and plink --homozyg, in the VCF",
    ),
    (
        &["admixture", "structure", "ancestry"],
        "admixture components are estimated by ADMIXTURE and STRUCTURE; pca has principal components",
    ),
];

/// Names of tables that people look for, and the table functions that give their rows.
const TABLES: [(&[&str], &str); 4] = [
    (
        &["sample", "samples", "individuals"],
        "the table function vcz_samples('t')",
    ),
    (
        &["contig", "contigs", "chromosomes", "chroms"],
        "the table function vcz_contigs('t')",
    ),
    (
        &["population", "populations", "pop", "pops"],
        "the table function vcz_populations('t')",
    ),
    (
        &["windows", "genome"],
        "the table function genome_windows('t', size [, step])",
    ),
];

/// What a word of the field that is no function of this crate stands for here.
pub fn hint_on(name: &str) -> Option<String> {
    let wanted = name.to_ascii_lowercase();
    if let Some(ours) = text_of(&FUNCTIONS, &wanted) {
        return Some(format!("Here '{wanted}' is {ours}."));
    }
    let others = text_of(&ABSENT, &wanted)?;
    Some(format!("There is no '{wanted}' here: {others}."))
}

/// What a name that is no table stands for here.
pub fn hint_on_table(name: &str) -> Option<String> {
    let wanted = name.to_ascii_lowercase();
    let ours = text_of(&TABLES, &wanted)?;
    Some(format!(
        "Here '{wanted}' is {ours}, where t is a table of a store."
    ))
}

/// The text that stands beside the word `wanted`.
fn text_of(words: &[(&[&str], &'static str)], wanted: &str) -> Option<&'static str> {
    let mut words = words.iter();
    let found = words.find(|(names, _)| names.contains(&wanted));
    found.map(|(_, text)| *text)
}
