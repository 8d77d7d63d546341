//! [`kept`]: whether a row is scanned, and its bits.

use crate::counts::gathered::PlanesRow;

/// The plane of the copies with allele 1, which is empty if there are none, and their number, if `row` is scanned: every one of its `copies`
/// copies is called with allele 0 or 1, and the frequency of the rarer allele is `min_maf` or more.
pub(crate) fn kept(row: PlanesRow<'_>, copies: usize, min_maf: f64) -> Option<(&[u64], usize)> {
    let plane: &[u64] = match row.only_low() {
        _ if !row.is_complete() || copies == 0 => return None,
        Some(plane) => plane,
        None if row.is_all_reference() => &[],
        None => return None,
    };
    let carriers: usize = plane.iter().map(|word| word.count_ones() as usize).sum();
    let minor = carriers.min(copies.saturating_sub(carriers));
    // A quotient, not a product: a frequency of exactly `min_maf` is kept, whatever the rounding of `min_maf`.
    (minor as f64 / copies as f64 >= min_maf).then_some((plane, carriers))
}
