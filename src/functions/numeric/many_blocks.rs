//! Per-site terms of a block of sites in any number of populations: the same bits as the terms of [`populations`](super::populations) and
//! [`zygosity`](super::zygosity), in loops that compilers vectorise, as in [`blocks`](super::blocks).
//!
//! A site without a term there has the term 0 here. A block is `None` where its sites have to be computed one by one: too many copies for
//! the block's arithmetic, or too many populations. Everything is `#[inline(always)]`, so that it is compiled for the instruction set of
//! the caller.

#![expect(
    clippy::needless_range_loop,
    reason = "loops over several arrays of one constant length"
)]

use super::blocks::{Counts, SITES, Terms, moments, widen, within};
use super::populations::{f_d_of, fst_nei_of, jost_d_of};
use super::site::SMALL;

/// Most lists of counts of a block: one for each population, or two for each where they are zygosity.
pub const MOST_LISTS: usize = 8;

/// The largest number of copies of which four can be multiplied in 63 bits.
const SMALL_OF_FOUR: u64 = 1 << 15;

/// [`within_and_between`](super::populations::within_and_between), and which sites have it.
#[inline(always)]
fn within_and_between<const K: usize>(
    rows: &[&Counts<K>],
) -> Option<(Terms, Terms, [bool; SITES])> {
    if rows.len() < 2 {
        return None;
    }
    let r = rows.len() as f64;
    let (mut sum, mut squares) = ([0.0; SITES], [0.0; SITES]);
    let mut frequencies = [[0.0; SITES]; K];
    let mut least = [u64::MAX; SITES];
    for rows in rows {
        let (n, n_squares) = moments(rows)?;
        let diversity = within(&n, &n_squares);
        for i in 0..SITES {
            sum[i] += diversity[i];
            least[i] = least[i].min(n[i]);
        }
        for k in 0..K {
            for i in 0..SITES {
                let frequency = f64::from(rows[i][k]) / n[i] as i64 as f64;
                frequencies[k][i] += frequency;
                squares[i] += frequency * frequency;
            }
        }
    }
    let (mut between, mut there) = ([0.0; SITES], [false; SITES]);
    for i in 0..SITES {
        let mut same = 0.0;
        for k in 0..K {
            same += frequencies[k][i] * frequencies[k][i];
        }
        let same = same - squares[i];
        between[i] = (1.0 - same / (r * (r - 1.0))).clamp(0.0, 1.0);
        sum[i] /= r;
        there[i] = least[i] >= 2;
    }
    Some((sum, between, there))
}

/// `term` of H_S and D_B of each site that has them, else 0.
#[inline(always)]
fn of_within_and_between<const K: usize>(
    rows: &[&Counts<K>],
    term: impl Fn(f64, f64) -> (f64, f64),
) -> Option<[Terms; 2]> {
    let (within, between, there) = within_and_between(rows)?;
    let mut terms = [[0.0; SITES]; 2];
    for i in 0..SITES {
        let (numerator, denominator) = term(within[i], between[i]);
        terms[0][i] = if there[i] { numerator } else { 0.0 };
        terms[1][i] = if there[i] { denominator } else { 0.0 };
    }
    Some(terms)
}

/// [`fst_nei_terms`](super::populations::fst_nei_terms).
#[inline(always)]
pub fn fst_nei<const K: usize>(rows: &[&Counts<K>]) -> Option<[Terms; 2]> {
    let r = rows.len() as f64;
    of_within_and_between(rows, |within, between| fst_nei_of(within, between, r))
}

/// [`jost_d_terms`](super::populations::jost_d_terms).
#[inline(always)]
pub fn jost_d<const K: usize>(rows: &[&Counts<K>]) -> Option<[Terms; 2]> {
    of_within_and_between(rows, jost_d_of)
}

/// [`patterson_d_terms`](super::populations::patterson_d_terms).
#[inline(always)]
pub fn patterson_d<const K: usize>([a, b, c, d]: [&Counts<K>; 4]) -> Option<[Terms; 2]> {
    let (na, nb) = (moments(a)?.0, moments(b)?.0);
    let (nc, nd) = (moments(c)?.0, moments(d)?.0);
    let most = |n: &[u64; SITES]| n.iter().fold(0, |all, n| all | n);
    if (most(&na) | most(&nb) | most(&nc) | most(&nd)) > SMALL_OF_FOUR {
        return None;
    }
    let mut terms = [[0.0; SITES]; 2];
    for i in 0..SITES {
        let (mut ac, mut bd, mut ad, mut bc, mut all) = (0, 0, 0, 0, 0);
        for k in 0..K {
            let [a, b, c, d] = [a, b, c, d].map(|rows| widen(rows[i][k]));
            ac += a * c;
            bd += b * d;
            ad += a * d;
            bc += b * c;
            all += a * b * (c * d);
        }
        // Whole numbers of at most 60 bits.
        let (baba, abba) = ((ac * bd - all) as i64, (ad * bc - all) as i64);
        let total = na[i] * nb[i] * (nc[i] * nd[i]);
        let copies = total as i64 as f64;
        let (numerator, denominator) =
            ((baba - abba) as f64 / copies, (baba + abba) as f64 / copies);
        terms[0][i] = if total > 0 { numerator } else { 0.0 };
        terms[1][i] = if total > 0 { denominator } else { 0.0 };
    }
    Some(terms)
}

/// [`f_d_terms`](super::populations::f_d_terms).
#[inline(always)]
pub fn f_d<const K: usize>(rows: [&Counts<K>; 4]) -> Option<[Terms; 2]> {
    let mut terms = [[0.0; SITES]; 2];
    for i in 0..SITES {
        let (mut frequencies, mut least) = ([0.0; 4], f64::INFINITY);
        for (frequency, rows) in frequencies.iter_mut().zip(rows) {
            let mut derived = 0.0;
            for k in 1..K {
                derived += f64::from(rows[i][k]);
            }
            let copies = derived + f64::from(rows[i][0]);
            *frequency = derived / copies;
            least = if copies < least { copies } else { least };
        }
        let (numerator, denominator) = f_d_of(frequencies);
        terms[0][i] = if least >= 1.0 { numerator } else { 0.0 };
        terms[1][i] = if least >= 1.0 { denominator } else { 0.0 };
    }
    Some(terms)
}

/// [`shared_polymorphism`](super::populations::shared_polymorphism).
#[inline(always)]
pub fn shared_polymorphism<const K: usize>([first, second]: [&Counts<K>; 2]) -> [[i64; SITES]; 4] {
    let mut classes = [[0; SITES]; 4];
    for i in 0..SITES {
        let (mut seen1, mut seen2, mut common) = (0, 0, 0);
        for k in 0..K {
            let (in1, in2) = (i64::from(first[i][k] > 0), i64::from(second[i][k] > 0));
            seen1 += in1;
            seen2 += in2;
            common += in1 & in2;
        }
        let there = i64::from(seen1 > 0) & i64::from(seen2 > 0);
        let one = there & i64::from(common == 1);
        classes[0][i] = there & i64::from(common == 0);
        classes[1][i] = one & i64::from(seen1 > 1);
        classes[2][i] = one & i64::from(seen2 > 1);
        classes[3][i] = there & i64::from(common >= 2);
    }
    classes
}

/// [`private_alleles`](super::populations::private_alleles).
#[inline(always)]
pub fn private_alleles<const K: usize>([first, second]: [&Counts<K>; 2]) -> [i64; SITES] {
    let mut alleles = [0; SITES];
    for i in 0..SITES {
        // An allele that occurs in the first population shows that it has a call.
        let (mut private, mut seen2) = (0, 0);
        for k in 0..K {
            let (in1, in2) = (i64::from(first[i][k] > 0), i64::from(second[i][k] > 0));
            private += in1 & (1 - in2);
            seen2 |= in2;
        }
        alleles[i] = private * seen2;
    }
    alleles
}

/// Observed and expected heterozygosity of [`Diploids`](super::zygosity::Diploids), where a site has both.
#[inline(always)]
pub fn heterozygosity<const K: usize>(ac: &Counts<K>, het: &Counts<K>) -> Option<[Terms; 2]> {
    let (n, squares) = moments(ac)?;
    let mut terms = [[0.0; SITES], within(&n, &squares)];
    for i in 0..SITES {
        let mut carriers = 0.0;
        for k in 0..K {
            carriers += f64::from(het[i][k]);
        }
        let observed = carriers / 2.0 / (n[i] / 2) as i64 as f64;
        terms[0][i] = if n[i] >= 2 { observed } else { 0.0 };
    }
    Some(terms)
}

/// [`weir_cockerham`](super::zygosity::weir_cockerham) of lists `ac` and `het` of each population.
#[inline(always)]
pub fn weir_cockerham<const K: usize>(lists: &[&Counts<K>]) -> Option<[Terms; 3]> {
    let (populations, _) = lists.as_chunks::<2>();
    let samples = Samples::new(populations.iter().map(|[ac, _]| *ac), 2)?;
    let Samples { r, mean, n_c, .. } = &samples;
    let mut terms = [[0.0; SITES]; 3];
    for k in 0..K {
        let mut heterozygotes = [0.0; SITES];
        for [_, het] in populations {
            for i in 0..SITES {
                heterozygotes[i] += f64::from(het[i][k]);
            }
        }
        let (q, s2) = samples.within(populations.iter().map(|[ac, _]| *ac), k);
        for i in 0..SITES {
            let (mean, n_c) = (mean[i], n_c[i]);
            let h = heterozygotes[i] / (r * mean);
            let a = mean / n_c * (s2[i] - (q[i] - h / 4.0) / (mean - 1.0));
            let b = mean / (mean - 1.0) * (q[i] - (2.0 * mean - 1.0) * h / (4.0 * mean));
            terms[0][i] += a;
            terms[1][i] += b;
            terms[2][i] += h / 2.0;
        }
    }
    for term in &mut terms {
        samples.keep_used(term);
    }
    Some(terms)
}

/// [`weir_cockerham_haploid`](super::zygosity::weir_cockerham_haploid).
#[inline(always)]
pub fn weir_cockerham_haploid<const K: usize>(populations: &[&Counts<K>]) -> Option<[Terms; 2]> {
    let samples = Samples::new(populations.iter().copied(), 1)?;
    let Samples { mean, n_c, .. } = &samples;
    let mut terms = [[0.0; SITES]; 2];
    for k in 0..K {
        let (q, s2) = samples.within(populations.iter().copied(), k);
        for i in 0..SITES {
            let (mean, n_c) = (mean[i], n_c[i]);
            terms[0][i] += mean / n_c * (s2[i] - q[i] / (mean - 1.0));
            terms[1][i] += mean / (mean - 1.0) * q[i];
        }
    }
    for term in &mut terms {
        samples.keep_used(term);
    }
    Some(terms)
}

/// The sample sizes of the populations of a block, as [`zygosity`](super::zygosity) computes variance components from them.
struct Samples {
    /// Number of populations.
    r: f64,
    /// Copies of a sample: 2 of a diploid, 1 of a haploid.
    ploidy: f64,
    /// Samples of each population.
    sizes: [Terms; MOST_LISTS],
    /// n̄, the mean size.
    mean: Terms,
    /// n_C.
    n_c: Terms,
    /// Whether the site has variance components that are not 0.
    used: [bool; SITES],
}

impl Samples {
    /// The sizes of populations with these allele counts, samples of `ploidy` copies; `None` if there are too many populations, or copies.
    #[inline(always)]
    fn new<'a, const K: usize>(
        populations: impl Iterator<Item = &'a Counts<K>>,
        ploidy: u32,
    ) -> Option<Self> {
        let mut samples = Self {
            r: 0.0,
            ploidy: f64::from(ploidy),
            sizes: [[0.0; SITES]; MOST_LISTS],
            mean: [0.0; SITES],
            n_c: [0.0; SITES],
            used: [false; SITES],
        };
        let (mut sum, mut squares) = ([0.0; SITES], [0.0; SITES]);
        let (mut least, mut most) = ([f64::INFINITY; SITES], 0.0);
        let mut seen = [[false; SITES]; K];
        for (at, rows) in populations.enumerate() {
            let sizes = samples.sizes.get_mut(at)?;
            for i in 0..SITES {
                let mut copies = 0.0;
                for k in 0..K {
                    copies += f64::from(rows[i][k]);
                    seen[k][i] |= rows[i][k] > 0;
                }
                // Exact: copies are far below 2⁵³.
                let size = (copies / samples.ploidy).floor();
                sizes[i] = size;
                sum[i] += size;
                squares[i] += size * size;
                least[i] = if size < least[i] { size } else { least[i] };
                most = if copies > most { copies } else { most };
            }
            samples.r += 1.0;
        }
        if most > SMALL as f64 {
            return None;
        }
        let r = samples.r;
        for i in 0..SITES {
            let mean = sum[i] / r;
            samples.mean[i] = mean;
            samples.n_c[i] = (sum[i] - squares[i] / sum[i]) / (r - 1.0);
            let mut alleles = 0;
            for k in 0..K {
                alleles += u64::from(seen[k][i]);
            }
            samples.used[i] = least[i] >= 1.0 && mean > 1.0 && r > 1.0 && alleles >= 2;
        }
        Some(samples)
    }

    /// Q and s² of allele `k` in these populations, see `Sizes::within` in [`zygosity`](super::zygosity).
    #[inline(always)]
    fn within<'a, const K: usize>(
        &self,
        populations: impl Iterator<Item = &'a Counts<K>>,
        k: usize,
    ) -> (Terms, Terms) {
        let mut frequencies = [[0.0; SITES]; MOST_LISTS];
        let (mut weighted, mut squares) = ([0.0; SITES], [0.0; SITES]);
        let mut n = 0;
        for ((rows, sizes), frequencies) in populations.zip(&self.sizes).zip(&mut frequencies) {
            for i in 0..SITES {
                frequencies[i] = f64::from(rows[i][k]) / (self.ploidy * sizes[i]);
                weighted[i] += sizes[i] * frequencies[i];
            }
            n += 1;
        }
        let mut mean = [0.0; SITES];
        for i in 0..SITES {
            mean[i] = weighted[i] / (self.r * self.mean[i]);
        }
        for (sizes, frequencies) in self.sizes.iter().zip(&frequencies).take(n) {
            for i in 0..SITES {
                let difference = frequencies[i] - mean[i];
                squares[i] += sizes[i] * (difference * difference);
            }
        }
        let mut s2 = squares;
        for i in 0..SITES {
            s2[i] /= (self.r - 1.0) * self.mean[i];
            let p = mean[i];
            mean[i] = p * (1.0 - p) - (self.r - 1.0) * s2[i] / self.r;
        }
        (mean, s2)
    }

    /// Sets the term of each site that is not used to 0.
    #[inline(always)]
    fn keep_used(&self, terms: &mut Terms) {
        for i in 0..SITES {
            terms[i] = if self.used[i] { terms[i] } else { 0.0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::zygosity::{self, Diploids};
    use super::super::{populations, site};
    use super::*;

    type Lists<const K: usize> = Vec<Counts<K>>;

    /// Counts of up to four populations, two lists each: no copies, one allele, few copies, and at most `most` of an allele.
    fn lists<const K: usize>(most: i32) -> impl Strategy<Value = Lists<K>> {
        let count = prop_oneof![3 => Just(0), 2 => 0..3i32, 3 => 0..=most];
        let list = prop::collection::vec(count, K * SITES).prop_map(|counts| {
            let mut list = [[0; K]; SITES];
            for (i, row) in list.iter_mut().enumerate() {
                row.copy_from_slice(&counts[i * K..][..K]);
            }
            list
        });
        prop::collection::vec(list, MOST_LISTS)
    }

    /// `site` of each site, by its lists; 0 where it is `None`.
    fn each<const K: usize, const F: usize, T: Copy + Default>(
        lists: &[&Counts<K>],
        site: impl Fn(&[&[i32]]) -> Option<[T; F]>,
    ) -> [[T; SITES]; F] {
        let mut terms = [[T::default(); SITES]; F];
        for i in 0..SITES {
            let rows: Vec<&[i32]> = lists.iter().map(|list| &list[i][..]).collect();
            if let Some(site) = site(&rows) {
                for (terms, term) in terms.iter_mut().zip(site) {
                    terms[i] = term;
                }
            }
        }
        terms
    }

    /// The blocks of these lists are the terms of their sites, to the bit.
    fn agree<const K: usize>(lists: &Lists<K>) -> Result<(), TestCaseError> {
        let all: Vec<&Counts<K>> = lists.iter().collect();
        let pair = |terms: Option<(f64, f64)>| {
            terms.map(|(numerator, denominator)| [numerator, denominator])
        };
        for r in 2..=MOST_LISTS {
            let some = &all[..r];
            let nei = each(some, |rows| {
                pair(populations::fst_nei_terms(rows, &mut vec![]))
            });
            prop_assert_eq!(fst_nei(some), Some(nei));
            let jost = each(some, |rows| {
                pair(populations::jost_d_terms(rows, &mut vec![]))
            });
            prop_assert_eq!(jost_d(some), Some(jost));
            let haploid = each(some, zygosity::weir_cockerham_haploid);
            prop_assert_eq!(weir_cockerham_haploid(some), Some(haploid));
        }
        for r in 2..=MOST_LISTS / 2 {
            let some = &all[..2 * r];
            let diploid = each(some, |rows| {
                let (populations, _) = rows.as_chunks::<2>();
                zygosity::weir_cockerham(populations.iter().map(|&[ac, het]| Diploids { ac, het }))
            });
            prop_assert_eq!(weir_cockerham(some), Some(diploid));
        }
        let two = [all[0], all[1]];
        let observed = each(&two, |rows| {
            let site = Diploids {
                ac: rows[0],
                het: rows[1],
            };
            Some([
                site.observed_heterozygosity()?,
                site.expected_heterozygosity()?,
            ])
        });
        prop_assert_eq!(heterozygosity(two[0], two[1]), Some(observed));
        let classes = each(&two, |rows| {
            populations::shared_polymorphism(rows[0], rows[1])
        });
        prop_assert_eq!(shared_polymorphism(two), classes);
        let private = each(&two, |rows| {
            Some([populations::private_alleles(rows[0], rows[1])?])
        });
        prop_assert_eq!([private_alleles(two)], private);
        let four = [all[0], all[1], all[2], all[3]];
        let rows_of =
            |rows: &[&[i32]]| -> [Vec<i32>; 4] { std::array::from_fn(|at| rows[at].to_vec()) };
        let introgression = each(&four, |rows| {
            let rows = rows_of(rows);
            pair(populations::f_d_terms(rows.each_ref().map(|row| &row[..])))
        });
        prop_assert_eq!(f_d(four), Some(introgression));
        if let Some(found) = patterson_d(four) {
            let expected = each(&four, |rows| {
                let rows = rows_of(rows);
                pair(populations::patterson_d_terms(
                    rows.each_ref().map(|row| &row[..]),
                ))
            });
            prop_assert_eq!(found, expected);
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn blocks_agree_with_single_sites(
            two in lists::<2>(2940), three in lists::<3>(7), four in lists::<4>(1 << 20), large in lists::<2>(i32::MAX / 2),
        ) {
            agree(&two)?;
            agree(&three)?;
            agree(&four)?;
            agree(&large)?;
        }
    }

    #[test]
    fn a_block_with_too_many_copies_is_none() {
        let small = [[1, 1]; SITES];
        let mut large = small;
        large[7] = [i32::MAX, 1];
        assert_eq!(fst_nei(&[&small, &large]), None);
        assert_eq!(weir_cockerham_haploid(&[&small, &large]), None);
        assert_eq!(weir_cockerham(&[&small, &small, &large, &small]), None);
        assert_eq!(heterozygosity(&large, &small), None);
        let mut many = small;
        many[3] = [SMALL_OF_FOUR as i32, 1];
        assert_eq!(patterson_d([&small, &small, &small, &many]), None);
        assert!(patterson_d([&small; 4]).is_some());
        assert!(site::allele_number(&large[7]) > SMALL as i64);
    }

    #[test]
    fn a_block_with_too_many_populations_is_none() {
        let lists = [&[[3, 1]; SITES]; MOST_LISTS + 1];
        assert_eq!(weir_cockerham_haploid(&lists), None);
    }
}
