//! Classifies the strings of `variant_allele`, for `is_snp` and `is_biallelic`.

/// Whether an allele is a plain sequence: not `*` (overlapping deletion), not symbolic (`<DEL>`, breakends such as `G]17:198]`
/// or `.G`), not missing. Letters only, so that IUPAC codes pass.
pub(super) fn is_sequence(allele: &str) -> bool {
    !allele.is_empty() && allele.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Whether an allele is one base: A, C, G, T or N in either case.
pub(super) fn is_base(allele: &str) -> bool {
    matches!(allele.as_bytes(), [base] if matches!(base.to_ascii_uppercase(), b'A' | b'C' | b'G' | b'T' | b'N'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        for allele in ["A", "c", "N"] {
            assert!(is_base(allele) && is_sequence(allele), "{allele}");
        }
        for allele in ["AC", "R", "ACGTN"] {
            assert!(!is_base(allele) && is_sequence(allele), "{allele}");
        }
        for allele in [
            "",
            "*",
            ".",
            "<DEL>",
            "<*>",
            "G]17:198982]",
            "]13:123456]T",
            "G.",
            ".A",
            "-",
            "é",
        ] {
            assert!(!is_base(allele) && !is_sequence(allele), "{allele}");
        }
    }
}
