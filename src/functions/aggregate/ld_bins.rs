//! The bins of `ld_decay`, `ld_moments` and `ld_moments_genotypes`: their arguments, and how many pairs of sites each has.
//!
//! Sites that do not vary are in pairs, too, though they add nothing to sums over them. A pair counts if enough copies are called at both
//! sites. Where enough are called at each that this cannot fail, pairs are counted by their positions alone.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use parking_lot::Mutex;

use super::site_sweep::Bounds;
use crate::counts::sites::{Copies, SiteRecord};
use crate::functions::interrupt;

/// Sites whose pairs a thread counts at a time.
const PART: usize = 1 << 14;
/// The most bounds of bins.
const MOST_EDGES: usize = 1000;
/// The syntax of the arguments after the populations.
pub(super) const ARGUMENTS: &str = ", position, edges";

/// The types that these arguments are cast to, and that of the contig, which planning adds.
pub(super) fn coerce(types: &[DataType]) -> Option<Vec<DataType>> {
    let is_number = |data_type: &DataType| data_type.is_numeric() || data_type.is_null();
    let is_list = |data_type: &DataType| match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_number(item.data_type())
        }
        other => other.is_null(),
    };
    let [position, edges, contig @ ..] = types else {
        return None;
    };
    let fits = is_number(position)
        && is_list(edges)
        && contig.len() <= 1
        && contig.iter().all(DataType::is_string);
    let numbers = [
        DataType::Float64,
        DataType::new_list(DataType::Float64, true),
    ];
    fits.then(|| numbers.into_iter().chain(contig.iter().cloned()).collect())
}

/// The bounds of bins: argument 1 of those after the populations.
pub(super) fn edges(name: &str, others: &[Option<ScalarValue>]) -> Result<Vec<f64>> {
    let Some(Some(ScalarValue::List(list))) = others.get(1) else {
        return exec_err!(
            "{name}: edges, the bounds of bins of distance, must be a constant list of numbers, such as [0, 1000, 10000]"
        );
    };
    let items = list.values();
    let numbers = items.as_primitive_opt::<Float64Type>();
    let Some(numbers) = numbers.filter(|_| list.len() == 1 && !list.is_null(0)) else {
        return exec_err!("{name}: edges must be a list of numbers, found NULL");
    };
    let edges: Vec<f64> = numbers
        .iter()
        .map(|edge| edge.unwrap_or(f64::NAN))
        .collect();
    let ascend = edges.windows(2).all(|pair| pair[0] < pair[1]);
    if edges.len() < 2 || !ascend {
        return exec_err!(
            "{name}: edges must be two numbers or more, each greater than the one before: bin i is from edge i up to edge i + 1, which \
             is not in it; found {:?}",
            edges
        );
    }
    if edges.len() > MOST_EDGES {
        return exec_err!("{name}: at most {MOST_EDGES} edges, found {}", edges.len());
    }
    Ok(edges)
}

/// For each statistic the pairs of each bin at whose sites at least `least` copies of each population are called.
///
/// # Errors
/// If the query was stopped.
pub(super) fn count_pairs(
    sites: &[SiteRecord<'_>],
    copies: Copies,
    edges: &[f64],
    least: &[[usize; 2]],
) -> Result<Vec<Vec<u64>>> {
    let bins = edges.len().saturating_sub(1);
    // At two of these sites, enough copies are called for every statistic.
    let most = [0, 1].map(|at| least.iter().map(|of| of[at]).max().unwrap_or(0));
    let is_good = |site: &SiteRecord<'_>| {
        copies
            .each()
            .zip(most)
            .enumerate()
            .all(|(at, (copies, most))| 2 * site.n(at, copies) >= copies + most)
    };
    let good: Vec<bool> = sites.iter().map(is_good).collect();
    let of_good: Vec<f64> = sites
        .iter()
        .zip(&good)
        .filter_map(|(site, good)| good.then_some(site.position))
        .collect();
    let counts = Mutex::new(vec![0u64; bins]);
    let counted = interrupt::with_workers(|workers| {
        let parts = (0..of_good.len()).step_by(PART);
        workers.each(parts, |begin| {
            let mut of_part = vec![0u64; bins];
            let mut bounds = Bounds::new(&of_good, edges);
            bounds.begin_at(begin);
            for site in begin..of_good.len().min(begin + PART) {
                let bounds = bounds.of(site);
                let starts = bounds.iter().zip(bounds.iter().skip(1));
                for (count, (start, end)) in of_part.iter_mut().zip(starts) {
                    *count += (end - start) as u64;
                }
            }
            for (count, of_part) in counts.lock().iter_mut().zip(of_part) {
                *count += of_part;
            }
            Ok(())
        })
    });
    counted.map_err(|_| interrupt::stopped())?;
    let counts = counts.into_inner();
    let mut all = vec![counts; least.len()];
    for (at, site) in sites.iter().enumerate().filter(|(at, _)| !good[*at]) {
        interrupt::check()?;
        let mut add = |first: &SiteRecord<'_>, second: &SiteRecord<'_>| {
            let distance = second.position - first.position;
            let edge = edges.partition_point(|edge| *edge <= distance);
            let Some(bin) = edge.checked_sub(1).filter(|bin| *bin < bins) else {
                return edge == 0;
            };
            let n = [0, 1].map(|at| joint(first, second, at, copies));
            for (counts, least) in all.iter_mut().zip(least) {
                if n[0] >= least[0] && n[1] >= least[1] {
                    counts[bin] += 1;
                }
            }
            true
        };
        let after = sites[at + 1..].iter();
        let _ = after.take_while(|other| add(site, other)).count();
        // A pair of two such sites is counted at its first one.
        for (before, good) in sites[..at].iter().zip(&good).rev() {
            if *good && !add(before, site) {
                break;
            }
        }
    }
    Ok(all)
}

/// Copies of a population that are called at both sites.
fn joint(first: &SiteRecord<'_>, second: &SiteRecord<'_>, at: usize, copies: Copies) -> usize {
    match (first.called[at], second.called[at]) {
        (Some(one), Some(two)) => {
            let words = one.iter().zip(two);
            words
                .map(|(one, two)| (one & two).count_ones() as usize)
                .sum()
        }
        (Some(_), None) => first.n(at, copies.of(at)),
        _ => second.n(at, copies.of(at)),
    }
}
