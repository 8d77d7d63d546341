//! Scans of a contig for extended haplotypes: for how far around each row the copies of a population are identical. They give nSL
//! (Ferrer-Admetlla et al. 2014), iHS (Voight et al. 2006), XP-nSL (Szpiech et al. 2021) and XP-EHH (Sabeti et al. 2007), unstandardised.
//!
//! * [`kept`]: which rows are scanned. `contig_rows`: these rows, `bit_rows` their bits.
//! * `prefix_order`: the order of the copies by their alleles at the rows so far, in which copies that are identical over many rows are near each
//!   other. `shared_lengths`: from it, how many pairs are identical over how many rows.
//! * `homozygosity`: the integral of extended haplotype homozygosity over distance.
//! * `sweep`: the measures of each row to one side of it. `part`: both sides, and the scores, of some rows. [`ContigScan`]: all rows in parts.
//!
//! Invariant: pairs are counted as integers, and trapezoids are added in the order of their distance from the row, so a score does not depend on
//! the parts that a contig is divided into, or how its rows arrive.

mod bit_rows;
mod contig_rows;
mod contig_scan;
mod homozygosity;
mod kept;
mod part;
mod prefix_order;
mod shared_lengths;
mod sweep;
#[cfg(test)]
mod tests;

pub(crate) use contig_scan::{ContigScan, Job, Scores};
pub(crate) use kept::kept;
pub(crate) use sweep::{Groups, Measure};
