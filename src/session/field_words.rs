//! Words of the field, and of other tools, that are no functions or tables of this crate: what to use in their place. Messages and `\h`
//! say it.

/// Function names of other tools, and what to use here.
const FUNCTIONS: [(&[&str], &str); 25] = [
    (
        &["fst", "fst_wc", "weir_cockerham_fst", "hudson_fst"],
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
    (
        &["theta", "watterson", "watterson_theta", "thetaw"],
        "theta_w, theta_h or theta_l",
    ),
    (&["tajima_d", "tajimasd", "tajimad"], "tajimas_d"),
    (
        &["maf", "minor_allele_frequency"],
        "1.0 * minor_count(ac) / allele_number(ac)",
    ),
    (
        &["af", "freq", "allele_frequency", "frequencies"],
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
        &["het", "heterozygosity"],
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
        &["population", "populations", "pops"],
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
    let (_, ours) = FUNCTIONS
        .iter()
        .find(|(names, _)| names.contains(&wanted.as_str()))?;
    Some(format!("Here '{wanted}' is {ours}."))
}

/// What a name that is no table stands for here.
pub fn hint_on_table(name: &str) -> Option<String> {
    let wanted = name.to_ascii_lowercase();
    let (_, ours) = TABLES
        .iter()
        .find(|(names, _)| names.contains(&wanted.as_str()))?;
    Some(format!(
        "Here '{wanted}' is {ours}, where t is a table of a store."
    ))
}
