//! What functions over pairs give, from their definitions, over genotypes in memory.

use std::collections::BTreeMap;

/// The genotypes of a store: its variants, and of each the codes of all samples.
pub struct Genotypes {
    pub samples: usize,
    pub ploidy: usize,
    pub contigs: Vec<String>,
    pub positions: Vec<i64>,
    pub rows: Vec<Vec<i64>>,
}

/// A pair of `sample_pairs`: its nine whole numbers, and the distance.
#[derive(Debug, PartialEq)]
pub struct SamplePair {
    pub counts: [i64; 9],
    pub distance: u64,
}

/// A pair of `grm`: GCTA's and VanRaden's relationship, to the last bit, and the sites.
#[derive(Debug, PartialEq)]
pub struct Related {
    pub gcta: Option<u64>,
    pub vanraden: Option<u64>,
    pub sites: i64,
}

/// A pair of `vcz_ld`: rows, copies called at both, and r² to the last bit.
pub type Linked = (i64, i64, i64, u64);

/// numerator / denominator to the nearest multiple of 2^-bits, halves up.
fn rounded(numerator: i128, denominator: i128, bits: u32) -> i128 {
    ((numerator << (bits + 1)) + denominator) / (2 * denominator)
}

fn alt(alleles: [i64; 2]) -> i64 {
    alleles.iter().filter(|allele| **allele > 0).count() as i64
}

impl Genotypes {
    fn call<'a>(&self, row: &'a [i64], sample: usize) -> &'a [i64] {
        &row[sample * self.ploidy..(sample + 1) * self.ploidy]
    }

    /// The alleles of a complete diploid: exactly two copies that exist, both called.
    fn diploid(&self, row: &[i64], sample: usize) -> Option<[i64; 2]> {
        let exist = self.call(row, sample).iter().filter(|code| **code != -2);
        let copies: Vec<i64> = exist.copied().collect();
        let alleles: [i64; 2] = copies.try_into().ok()?;
        alleles.iter().all(|code| *code >= 0).then_some(alleles)
    }

    /// The dosages of complete diploids.
    fn dosages(&self, row: &[i64]) -> Vec<Option<i64>> {
        let dosage = |sample| self.diploid(row, sample).map(alt);
        (0..self.samples).map(dosage).collect()
    }

    pub fn sample_pair(&self, i: usize, j: usize) -> SamplePair {
        let mut counts = [0; 9];
        // In multiples of 2^-90, each rounded down.
        let mut distance = 0i128;
        for row in &self.rows {
            if let (Some(one), Some([c, d])) = (self.diploid(row, i), self.diploid(row, j)) {
                let [a, b] = one;
                let equal = |pair: [bool; 2]| pair.iter().filter(|equal| **equal).count();
                let shared = equal([a == c, b == d]).max(equal([a == d, b == c]));
                let (x, y) = (alt(one), alt([c, d]));
                counts[0] += 1;
                counts[1 + shared] += 1;
                counts[4] += i64::from((x, y) == (1, 1));
                counts[5] += i64::from((x - y).abs() == 2);
                counts[6] += i64::from(x == 1);
                counts[7] += i64::from(y == 1);
            }
            let called = |sample| {
                let codes = self.call(row, sample).iter().copied();
                codes.filter(|code| *code >= 0).collect::<Vec<i64>>()
            };
            let (one, two) = (called(i), called(j));
            let pairs = (one.len() * two.len()) as i128;
            if pairs > 0 {
                let unlike = |a: &i64| two.iter().filter(|b| a != *b).count();
                let unlike: usize = one.iter().map(unlike).sum();
                counts[8] += 1;
                distance += ((unlike as i128) << 90) / pairs;
            }
        }
        SamplePair {
            counts,
            distance: (distance as f64 / 2f64.powi(90)).to_bits(),
        }
    }

    /// The KING-robust kinship of a pair's counts.
    pub fn kinship(pair: &SamplePair) -> Option<u64> {
        let [_, _, _, _, both, opposite, het1, het2, _] = pair.counts.map(|count| count as f64);
        let least = het1.min(het2);
        let distance = 4.0 * opposite + het1 + het2 - 2.0 * both;
        (least > 0.0).then(|| (0.5 - distance / (4.0 * least)).to_bits())
    }

    /// Rows at which both copies are called, and those of them at which they differ.
    pub fn haplotype_pair(&self, i: usize, j: usize) -> (i64, i64) {
        let both = self.rows.iter().map(|row| (row[i], row[j]));
        let both: Vec<_> = both.filter(|(a, b)| *a >= 0 && *b >= 0).collect();
        let differ = both.iter().filter(|(a, b)| a != b).count();
        (both.len() as i64, differ as i64)
    }

    pub fn related(&self, i: usize, j: usize) -> Related {
        let [mut gcta, mut centred, mut variance] = [0i128; 3];
        let mut sites = 0;
        for row in &self.rows {
            let mut dosages = self.dosages(row);
            let n = dosages.iter().flatten().count() as i128;
            let t: i128 = dosages.iter().flatten().map(|x| i128::from(*x)).sum();
            if t == 0 || t == 2 * n {
                continue;
            }
            let (Some(_), Some(_)) = (dosages[i], dosages[j]) else {
                continue;
            };
            // Weights are rounded as those of the rarer allele.
            let t = if t > n {
                dosages = dosages.iter().map(|x| x.map(|x| 2 - x)).collect();
                2 * n - t
            } else {
                t
            };
            let [x, y] = [i, j].map(|sample| i128::from(dosages[sample].unwrap()));
            let spread = t * (2 * n - t);
            gcta += x * y * rounded(2 * n * n, spread, 32);
            gcta -= (x + y) * rounded(2 * n * t, spread, 32);
            gcta += rounded(2 * t * t, spread, 32);
            centred += (x * y) << 44;
            centred -= (x + y) * rounded(t, n, 44);
            centred += rounded(t * t, n * n, 44);
            variance += rounded(spread, 2 * n * n, 44);
            sites += 1;
        }
        let defined = sites > 0 && variance > 0;
        let gcta = gcta as f64 / 2f64.powi(32) / sites as f64;
        Related {
            gcta: defined.then_some(gcta.to_bits()),
            vanraden: defined.then(|| (centred as f64 / variance as f64).to_bits()),
            sites,
        }
    }

    /// N, a, b and x of two rows.
    fn joint(&self, one: usize, two: usize) -> [f64; 4] {
        let mut counts = [0.0; 4];
        for (a, b) in self.rows[one].iter().zip(&self.rows[two]) {
            if *a >= 0 && *b >= 0 {
                counts[0] += 1.0;
                counts[1] += f64::from(u8::from(*a > 0));
                counts[2] += f64::from(u8::from(*b > 0));
                counts[3] += f64::from(u8::from(*a > 0 && *b > 0));
            }
        }
        counts
    }

    fn r2(&self, one: usize, two: usize) -> Option<(i64, f64)> {
        let [n, a, b, x] = self.joint(one, two);
        let (delta, spread) = (n * x - a * b, a * (n - a) * (b * (n - b)));
        (spread > 0.0).then(|| (n as i64, (delta * delta / spread).min(1.0)))
    }

    fn is_near(&self, one: usize, two: usize, bases: i64) -> bool {
        self.contigs[one] == self.contigs[two] && self.positions[two] - self.positions[one] <= bases
    }

    /// Pairs of rows at most `bases` apart, with an r² of `least` or more.
    pub fn linked(&self, bases: i64, least: f64) -> Vec<Linked> {
        let mut found = vec![];
        for one in 0..self.rows.len() {
            for two in one + 1..self.rows.len() {
                if !self.is_near(one, two, bases) {
                    break;
                }
                if let Some((n, r2)) = self.r2(one, two).filter(|(_, r2)| *r2 >= least) {
                    found.push((one as i64, two as i64, n, r2.to_bits()));
                }
            }
        }
        found
    }

    /// The rows that vary and are in no r² above `most` with one of them before.
    pub fn pruned(&self, bases: i64, most: f64) -> Vec<i64> {
        let mut kept: Vec<usize> = vec![];
        for row in 0..self.rows.len() {
            let called = self.rows[row].iter().filter(|code| **code >= 0);
            let (n, d) = called.fold((0, 0), |(n, d), code| (n + 1, d + i32::from(*code > 0)));
            let above = |before: &usize| {
                self.is_near(*before, row, bases)
                    && self.r2(*before, row).is_some_and(|(_, r2)| r2 > most)
            };
            if d > 0 && d < n && !kept.iter().any(above) {
                kept.push(row);
            }
        }
        kept.into_iter().map(|row| row as i64).collect()
    }

    /// The mean r² of all pairs of rows that have one.
    pub fn mean_r2(&self) -> Option<f64> {
        let rows = self.rows.len();
        let pairs = (0..rows).flat_map(|one| (one + 1..rows).map(move |two| (one, two)));
        let all: Vec<f64> = pairs
            .filter_map(|(one, two)| Some(self.r2(one, two)?.1))
            .collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    /// By contig and bin of distance: pairs with four copies or more, and Σ DD, Σ Dz and Σ π₂ (Ragsdale and Gravel 2019): the averages over four
    /// distinct copies.
    pub fn moments(&self, edges: &[f64]) -> BTreeMap<(String, usize), (i64, [f64; 3])> {
        let terms = moment_terms();
        let mut bins = BTreeMap::new();
        for one in 0..self.rows.len() {
            for two in one + 1..self.rows.len() {
                let Some(key) = self.bin(one, two, edges) else {
                    continue;
                };
                let sums = bins.entry(key).or_insert((0, [0.0; 3]));
                let [n, a, b, x] = self.joint(one, two);
                if n < 4.0 {
                    continue;
                }
                sums.0 += 1;
                let copies = [n - a - b + x, b - x, a - x, x];
                let all = n * (n - 1.0) * (n - 2.0) * (n - 3.0);
                for (chosen, products) in &terms {
                    let mut left = copies;
                    let mut ways = 1.0;
                    for haplotype in chosen {
                        ways *= left[*haplotype];
                        left[*haplotype] -= 1.0;
                    }
                    for (sum, product) in sums.1.iter_mut().zip(products) {
                        *sum += ways * product / all;
                    }
                }
            }
        }
        bins
    }

    /// The contig and the bin of distance of two rows.
    fn bin(&self, one: usize, two: usize, edges: &[f64]) -> Option<(String, usize)> {
        let distance = (self.positions[two] - self.positions[one]) as f64;
        let bin = edges
            .windows(2)
            .position(|of| (of[0]..of[1]).contains(&distance))?;
        (self.contigs[one] == self.contigs[two]).then(|| (self.contigs[one].clone(), bin))
    }

    /// The matrix of which `pca` takes the eigenvectors, scaled as Patterson et al. (2006) do; `None` without a row that varies.
    pub fn scaled_covariance(&self) -> Option<Vec<Vec<f64>>> {
        let mut sums = vec![vec![0.0; self.samples]; self.samples];
        let mut rows = 0.0;
        for row in &self.rows {
            let Some((centred, p)) = self.centred(row).filter(|(_, p)| *p > 0.0 && *p < 1.0) else {
                continue;
            };
            rows += 1.0;
            let z: Vec<f64> = centred
                .iter()
                .map(|y| y.map_or(0.0, |y| y / (2.0 * p * (1.0 - p)).sqrt()))
                .collect();
            for (sums, first) in sums.iter_mut().zip(&z) {
                for (sum, second) in sums.iter_mut().zip(&z) {
                    *sum += first * second;
                }
            }
        }
        for sum in sums.iter_mut().flatten() {
            *sum /= rows;
        }
        (rows > 0.0).then_some(sums)
    }

    /// The covariance of x − 2p over the rows at which both of two individuals are complete diploids (Li and Ralph 2019); `None` if some
    /// have fewer than two.
    pub fn covariance(&self) -> Option<Vec<Vec<f64>>> {
        let rows: Vec<_> = self
            .rows
            .iter()
            .filter_map(|row| Some(self.centred(row)?.0))
            .collect();
        let of_pair = |i: usize, j: usize| {
            let both = rows.iter().filter_map(|row| row[i].zip(row[j]));
            let both: Vec<(f64, f64)> = both.collect();
            let n = both.len() as f64;
            let (first, second): (f64, f64) = both
                .iter()
                .fold((0.0, 0.0), |sums, of| (sums.0 + of.0, sums.1 + of.1));
            let (first, second) = (first / n, second / n);
            let products = both.iter().map(|of| (of.0 - first) * (of.1 - second));
            (both.len() > 1).then(|| products.sum::<f64>() / (n - 1.0))
        };
        (0..self.samples)
            .map(|i| (0..self.samples).map(|j| of_pair(i, j)).collect())
            .collect()
    }

    /// x − 2p of complete diploids, and p; `None` without any.
    fn centred(&self, row: &[i64]) -> Option<(Vec<Option<f64>>, f64)> {
        let dosages = self.dosages(row);
        let complete: Vec<i64> = dosages.iter().flatten().copied().collect();
        let p = complete.iter().sum::<i64>() as f64 / (2 * complete.len()) as f64;
        let centred = dosages.iter().map(|x| x.map(|x| x as f64 - 2.0 * p));
        (!complete.is_empty()).then(|| (centred.collect(), p))
    }

    /// By contig and bin of distance: pairs with four copies or more, those with an r², its mean, and Σ DD.
    pub fn decay(&self, edges: &[f64]) -> BTreeMap<(String, usize), (i64, i64, f64, f64)> {
        let mut bins = BTreeMap::new();
        for one in 0..self.rows.len() {
            for two in one + 1..self.rows.len() {
                let Some(key) = self.bin(one, two, edges) else {
                    continue;
                };
                let sums = bins.entry(key).or_insert((0, 0, 0.0, 0.0));
                let [n, a, b, x] = self.joint(one, two);
                if n < 4.0 {
                    continue;
                }
                sums.0 += 1;
                if let Some((_, r2)) = self.r2(one, two) {
                    sums.1 += 1;
                    sums.2 += r2;
                }
                // Haplotypes with both, one and none of the two (Ragsdale and Gravel 2019).
                let [both, left, right, none] = [x, a - x, b - x, n - a - b + x];
                let dd = both * (both - 1.0) * none * (none - 1.0)
                    + left * (left - 1.0) * right * (right - 1.0)
                    - 2.0 * both * left * right * none;
                sums.3 += dd / (n * (n - 1.0) * (n - 2.0) * (n - 3.0));
            }
        }
        for sums in bins.values_mut() {
            sums.2 /= sums.1 as f64;
        }
        bins
    }
}

/// Haplotypes of four distinct copies, as bits (2: the first site's other allele, 1: the second's), and what they contribute to DD, Dz and
/// π₂; without those that contribute nothing.
fn moment_terms() -> Vec<([usize; 4], [f64; 3])> {
    let chosen = (0..256usize).map(|at| [at & 3, at >> 2 & 3, at >> 4 & 3, at >> 6]);
    let terms = chosen.map(|copies| {
        let p = copies.map(|copy| f64::from(copy as u8 >> 1));
        let q = copies.map(|copy| f64::from(copy as u8 & 1));
        let d = |one: usize, two: usize| p[one] * q[one] - p[one] * q[two];
        let products = [
            d(0, 1) * d(2, 3),
            d(0, 1) * (1.0 - 2.0 * p[2]) * (1.0 - 2.0 * q[3]),
            p[0] * (1.0 - p[1]) * q[2] * (1.0 - q[3]),
        ];
        (copies, products)
    });
    terms
        .filter(|(_, products)| products.iter().any(|product| *product != 0.0))
        .collect()
}

/// The eigenvalues of a symmetric matrix, descending, by rotations (Jacobi 1846).
pub fn eigenvalues(mut matrix: Vec<Vec<f64>>) -> Vec<f64> {
    let n = matrix.len();
    for _ in 0..100 {
        for i in 0..n {
            for j in i + 1..n {
                if matrix[i][j] == 0.0 {
                    continue;
                }
                let theta = (matrix[j][j] - matrix[i][i]) / (2.0 * matrix[i][j]);
                let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let (cos, sin) = (1.0 / t.hypot(1.0), t / t.hypot(1.0));
                for row in &mut matrix {
                    (row[i], row[j]) = (cos * row[i] - sin * row[j], sin * row[i] + cos * row[j]);
                }
                let (first, second) = (matrix[i].clone(), matrix[j].clone());
                let both = first.iter().zip(&second);
                matrix[i] = both.clone().map(|(a, b)| cos * a - sin * b).collect();
                matrix[j] = both.map(|(a, b)| sin * a + cos * b).collect();
            }
        }
    }
    let mut values: Vec<f64> = (0..n).map(|at| matrix[at][at]).collect();
    values.sort_by(|a, b| b.total_cmp(a));
    values
}
