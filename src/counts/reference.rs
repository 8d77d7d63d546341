//! The reference implementation of all counts: one copy at a time, following the definitions.
//!
//! Slow and simple: every faster path (bytes, bit-planes, GPU) is tested against it. No query uses it.

use super::error::CountError;
use super::gathered::FILL_CODE;
use super::request::{
    ChunkCounts, CountRequest, GENOTYPE_CLASSES, HAPLOID, HET, HOM_ALT, HOM_REF, MISSING,
};

/// The class of one call: the copies of a call are its codes other than -2; if all are called, one copy is haploid, equal
/// copies are homozygous and others heterozygous; anything else is missing.
pub fn genotype_class(call: &[i64]) -> usize {
    let copies: Vec<i64> = call
        .iter()
        .copied()
        .filter(|&code| code != FILL_CODE)
        .collect();
    let Some(&first) = copies.first() else {
        return MISSING;
    };
    if copies.iter().any(|&code| code < 0) {
        MISSING
    } else if copies.len() == 1 {
        HAPLOID
    } else if copies.iter().any(|&code| code != first) {
        HET
    } else if first == 0 {
        HOM_REF
    } else {
        HOM_ALT
    }
}

/// The alleles of a complete diploid: exactly two codes other than -2, both called.
pub fn diploid_alleles(call: impl IntoIterator<Item = i64>) -> Option<[usize; 2]> {
    let mut copies = call.into_iter().filter(|&code| code != FILL_CODE);
    match (copies.next(), copies.next(), copies.next()) {
        (Some(first), Some(second), None) => {
            Some([usize::try_from(first).ok()?, usize::try_from(second).ok()?])
        }
        _ => None,
    }
}

/// Counts `rows` rows of genotype codes, row-major `[rows, n_samples, ploidy]`.
///
/// # Errors
/// [`CountError::Code`] if a wanted sample has a code of K or more, [`CountError::Mismatch`] if `codes` is not
/// `rows × n_samples × ploidy` long.
pub fn count(
    request: &CountRequest,
    codes: &[i64],
    rows: usize,
) -> Result<ChunkCounts, CountError> {
    request.check()?;
    let (k, ploidy) = (request.n_alleles, request.ploidy);
    let width = request.n_samples * ploidy;
    if rows.checked_mul(width) != Some(codes.len()) {
        return Err(CountError::Mismatch(format!(
            "expected {rows} rows of {width} codes, found {}",
            codes.len()
        )));
    }
    let mut counts = ChunkCounts::default();
    counts.reset(request, rows)?;
    let call = |row: usize, sample: u32| -> Result<&[i64], CountError> {
        let start = row * width + sample as usize * ploidy;
        let call = codes.get(start..start + ploidy).unwrap_or(&[]);
        match call.iter().find(|&&code| code >= k as i64) {
            Some(code) => Err(bad_code(row, sample as usize, *code, k)),
            None => Ok(call),
        }
    };
    for (set, column) in request.alleles.iter().zip(counts.alleles.iter_mut()) {
        for (row, counts) in column.chunks_exact_mut(k).enumerate() {
            for sample in set.iter() {
                for &code in call(row, sample)? {
                    if let Some(count) = usize::try_from(code).ok().and_then(|i| counts.get_mut(i))
                    {
                        *count += 1;
                    }
                }
            }
        }
    }
    for (set, column) in request.genotypes.iter().zip(counts.genotypes.iter_mut()) {
        for (row, counts) in column.chunks_exact_mut(GENOTYPE_CLASSES).enumerate() {
            for sample in set.iter() {
                if let Some(count) = counts.get_mut(genotype_class(call(row, sample)?)) {
                    *count += 1;
                }
            }
        }
    }
    for (set, column) in request.zygosity.iter().zip(counts.zygosity.iter_mut()) {
        for (row, counts) in column.chunks_exact_mut(2 * k).enumerate() {
            for sample in set.iter() {
                match diploid_alleles(call(row, sample)?.iter().copied()) {
                    Some([first, second]) if first == second => counts[first] += 1,
                    Some(alleles) => alleles.iter().for_each(|allele| counts[k + allele] += 1),
                    None => {}
                }
            }
        }
    }
    for (set, planes) in request.planes.iter().zip(&mut counts.planes) {
        for row in 0..rows {
            let mut copy = 0;
            for sample in set.iter() {
                for &code in call(row, sample)? {
                    planes.set(row, copy, code);
                    copy += 1;
                }
            }
        }
    }
    Ok(counts)
}

/// The error of a code without an allele in `variant_allele`.
pub(super) fn bad_code(row: usize, sample: usize, code: i64, alleles: usize) -> CountError {
    CountError::Code {
        row,
        sample,
        code,
        alleles,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::columns::CountColumns;
    use super::super::sample_set::SampleSet;
    use super::*;

    #[test]
    fn classes_follow_the_definition() {
        let class = |call: &[i64]| genotype_class(call);
        assert_eq!(class(&[0, 0]), HOM_REF);
        assert_eq!(class(&[0, 1]), HET);
        assert_eq!(class(&[1, 2]), HET);
        assert_eq!(class(&[2, 2]), HOM_ALT);
        assert_eq!(class(&[1, -2]), HAPLOID);
        assert_eq!(class(&[-2, 0]), HAPLOID);
        assert_eq!(class(&[0]), HAPLOID);
        assert_eq!(class(&[-1, 0]), MISSING);
        assert_eq!(class(&[-1, -2]), MISSING);
        assert_eq!(class(&[-2, -2]), MISSING);
        assert_eq!(class(&[-3, 0]), MISSING);
        assert_eq!(class(&[1, 1, -2]), HOM_ALT);
        assert_eq!(class(&[0, 0, 1, 0]), HET);
        assert_eq!(class(&[-2, 0, -2]), HAPLOID);
    }

    #[test]
    fn complete_diploids() {
        let alleles = |call: &[i64]| diploid_alleles(call.iter().copied());
        assert_eq!(alleles(&[0, 2]), Some([0, 2]));
        assert_eq!(alleles(&[1, -2, 1, -2]), Some([1, 1]));
        for call in [
            &[0, -1][..],
            &[0, -2],
            &[0],
            &[],
            &[0, 0, 0],
            &[-3, 1],
            &[-2, -2],
        ] {
            assert_eq!(alleles(call), None, "{call:?}");
        }
    }

    #[test]
    fn a_small_chunk_by_hand() {
        let request = CountRequest {
            alleles: vec![
                Arc::new(SampleSet::all(3)),
                Arc::new(SampleSet::new(vec![2])),
            ],
            genotypes: vec![Arc::new(SampleSet::all(3))],
            zygosity: vec![Arc::new(SampleSet::all(3))],
            planes: vec![],
            n_alleles: 3,
            n_samples: 3,
            ploidy: 2,
        };
        let codes = [0, 1, -1, 0, 2, 2, /* row 1 */ 0, 0, 1, -2, 0, 0];
        let counts = count(&request, &codes, 2).unwrap();
        let columns =
            |counts: &CountColumns| counts.iter().map(<[i32]>::to_vec).collect::<Vec<_>>();
        assert_eq!(
            columns(&counts.alleles),
            [vec![2, 1, 2, 4, 1, 0], vec![0, 0, 2, 2, 0, 0]]
        );
        assert_eq!(
            columns(&counts.genotypes),
            [vec![0, 1, 1, 0, 1, 2, 0, 0, 1, 0]]
        );
        assert_eq!(
            columns(&counts.zygosity),
            [vec![0, 0, 1, 1, 1, 0, 2, 0, 0, 0, 0, 0]]
        );
        let mut bad = codes;
        bad[11] = 3;
        assert!(
            count(&request, &bad, 2)
                .unwrap_err()
                .to_string()
                .contains("row 1 of the chunk, sample 2")
        );
        assert!(count(&request, &codes, 1).is_err());
    }
}
