//! [`CentredRows`]: the dosages of a few rows less their means, as lists of the individuals that differ from the most frequent homozygote, for
//! products with the matrix of sums over pairs that is never made.
//!
//! Rows are in the order of their words, so nothing depends on the order in which they came.

use crate::counts::CountError;
use crate::counts::gathered::{ABSENT, PlanesRow, UNCALLED, plane_words};

use super::dosages::{Dosages, FIRSTS};
use super::matrix::Shape;
use super::site_rows::SiteRows;
use super::weights::Forms;

/// Rows z of a population, of which those with an individual's value are weighted by w: w z zᵀ is the matrix of a row.
#[derive(Debug)]
pub(crate) struct CentredRows {
    samples: usize,
    /// The individuals of all lists, one after the other.
    individuals: Vec<u32>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    /// Where the lists of heterozygotes, of homozygotes and of individuals that are no complete diploids end.
    ends: [usize; 3],
    mean: f64,
    weight: f64,
    is_flipped: bool,
}

/// A row: z is the dosage less the mean, and 0 for individuals that are no complete diploids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CentredRow<'a> {
    /// Individuals of dosage 1.
    pub(crate) heterozygotes: &'a [u32],
    /// Those of dosage 2.
    pub(crate) homozygotes: &'a [u32],
    /// Those that are no complete diploids; others have dosage 0.
    pub(crate) incomplete: &'a [u32],
    /// The mean of the dosages, 2p.
    pub(crate) mean: f64,
    /// w.
    pub(crate) weight: f64,
    /// Whether dosages are of the reference, which is the rarer allele then: z of the others is −z.
    pub(crate) is_flipped: bool,
}

impl CentredRows {
    /// The rows of a group that has no matrix. For [`Forms::Covariance`] all of them with w = 1, else those with both alleles and
    /// w = 1 / (2p(1 − p)). `None` if a row of the covariance has individuals that are no complete diploids: its sums are not of one matrix.
    ///
    /// # Errors
    /// [`CountError::TooLarge`] if there is too little memory.
    pub(crate) fn try_new(
        rows: &SiteRows,
        shape: Shape,
        forms: Forms,
    ) -> Result<Option<Self>, CountError> {
        let mut sorted: Vec<PlanesRow<'_>> = vec![];
        rows.parts(shape.copies(), usize::MAX)
            .for_each(|part| sorted.extend(part));
        sorted.sort_unstable_by_key(|row| (row.header(), row.all_planes()));
        let mut centred = Self {
            samples: shape.samples,
            individuals: vec![],
            rows: vec![],
        };
        let mut genotypes = Genotypes::default();
        for row in sorted {
            genotypes.read(row, shape);
            let Genotypes {
                complete, total, ..
            } = genotypes;
            if forms == Forms::Covariance && complete != shape.samples as u64 {
                return Ok(None);
            }
            if forms == Forms::Covariance || (total > 0 && total < 2 * complete) {
                centred.push(&genotypes, forms)?;
            }
        }
        Ok(Some(centred))
    }

    fn push(&mut self, genotypes: &Genotypes, forms: Forms) -> Result<(), CountError> {
        let Genotypes {
            complete, total, ..
        } = *genotypes;
        let is_flipped = total > complete;
        let total = if is_flipped {
            2 * complete - total
        } else {
            total
        };
        let (n, t) = (complete as f64, total as f64);
        let weight = match forms {
            Forms::Covariance => 1.0,
            _ => 2.0 * n * n / (t * (2.0 * n - t)),
        };
        let homozygotes = match is_flipped {
            true => &genotypes.references,
            false => &genotypes.homozygotes,
        };
        let lists = [&genotypes.heterozygotes, homozygotes, &genotypes.incomplete];
        let mut ends = [0; 3];
        for (words, end) in lists.into_iter().zip(&mut ends) {
            let len = ones(words) as usize;
            let too_large = |_| CountError::TooLarge(format!("{len} genotypes of a variant"));
            self.individuals.try_reserve(len).map_err(too_large)?;
            for (at, word) in words.iter().enumerate() {
                let mut rest = *word;
                while rest != 0 {
                    let bit = at * 64 + rest.trailing_zeros() as usize;
                    self.individuals.push((bit / 2) as u32);
                    rest &= rest - 1;
                }
            }
            *end = self.individuals.len();
        }
        self.rows.push(Row {
            ends,
            mean: t / n,
            weight,
            is_flipped,
        });
        Ok(())
    }

    /// Individuals of the population.
    pub(crate) fn samples(&self) -> usize {
        self.samples
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = CentredRow<'_>> {
        let mut begin = 0;
        self.rows.iter().map(move |row| {
            let mut list = |end: usize| {
                let list = self.individuals.get(begin..end).unwrap_or_default();
                begin = end;
                list
            };
            let [heterozygotes, homozygotes, incomplete] = row.ends.map(&mut list);
            CentredRow {
                heterozygotes,
                homozygotes,
                incomplete,
                mean: row.mean,
                weight: row.weight,
                is_flipped: row.is_flipped,
            }
        })
    }
}

/// The genotypes of one row: in each plane, the first bit of two is that of an individual.
#[derive(Debug, Default)]
struct Genotypes {
    heterozygotes: Vec<u64>,
    /// Of other alleles than the reference.
    homozygotes: Vec<u64>,
    /// Homozygotes of the reference.
    references: Vec<u64>,
    /// Individuals that are no complete diploids.
    incomplete: Vec<u64>,
    /// The number of the others.
    complete: u64,
    /// Σ of their dosages.
    total: u64,
}

fn ones(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

impl Genotypes {
    fn read(&mut self, row: PlanesRow<'_>, shape: Shape) {
        for plane in [
            &mut self.heterozygotes,
            &mut self.homozygotes,
            &mut self.references,
            &mut self.incomplete,
        ] {
            plane.clear();
            plane.resize(plane_words(2 * shape.samples), 0);
        }
        match shape.ploidy {
            2 => self.read_diploids(row),
            _ => self.read_calls(row, shape),
        }
        let of_all = [&self.heterozygotes, &self.homozygotes, &self.incomplete];
        let planes = self.references.iter_mut().enumerate();
        for (at, references) in planes {
            let others = of_all.iter().fold(0, |any, plane| any | plane[at]);
            let left = 2 * shape.samples - at * 64;
            let exist = if left < 64 { (1 << left) - 1 } else { u64::MAX };
            *references = !others & FIRSTS & exist;
        }
        self.complete = shape.samples as u64 - ones(&self.incomplete);
        self.total = ones(&self.heterozygotes) + 2 * ones(&self.homozygotes);
    }

    fn read_diploids(&mut self, row: PlanesRow<'_>) {
        for (_, plane) in row.codes() {
            for (homozygotes, word) in self.homozygotes.iter_mut().zip(plane) {
                *homozygotes |= word;
            }
        }
        for plane in [row.plane(UNCALLED), row.plane(ABSENT)]
            .into_iter()
            .flatten()
        {
            for (incomplete, word) in self.incomplete.iter_mut().zip(plane) {
                *incomplete |= (word | word >> 1) & FIRSTS;
            }
        }
        let homozygotes = self.homozygotes.iter_mut().zip(&self.incomplete);
        for (heterozygotes, (others, none)) in self.heterozygotes.iter_mut().zip(homozygotes) {
            let (first, second) = (*others & FIRSTS & !none, *others >> 1 & FIRSTS & !none);
            *heterozygotes = first ^ second;
            *others = first & second;
        }
    }

    fn read_calls(&mut self, row: PlanesRow<'_>, shape: Shape) {
        let mut dosages = Dosages::default();
        dosages.read(row, shape);
        for sample in dosages.marked {
            let plane = match dosages.values.get(sample as usize) {
                Some(1) => &mut self.heterozygotes,
                Some(2) => &mut self.homozygotes,
                _ => &mut self.incomplete,
            };
            let bit = 2 * sample as usize;
            if let Some(word) = plane.get_mut(bit / 64) {
                *word |= 1 << (bit % 64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of one plane of bits, or of uncalled copies and that.
    fn rows(of: &[(u64, u64)]) -> SiteRows {
        let mut rows = SiteRows::default();
        for (bits, uncalled) in of {
            let words = match uncalled {
                0 => vec![1, *bits],
                _ => vec![1 | 1 << UNCALLED, *bits, *uncalled],
            };
            rows.push(PlanesRow::try_new(&words, 6).unwrap());
        }
        rows
    }

    fn read(of: &[(u64, u64)], forms: Forms) -> Option<Vec<(Vec<f64>, f64)>> {
        let shape = Shape {
            samples: 3,
            ploidy: 2,
        };
        let centred = CentredRows::try_new(&rows(of), shape, forms).unwrap()?;
        assert_eq!(centred.samples(), 3);
        assert_eq!(centred.len(), centred.rows().count());
        let values = centred.rows().map(|row| {
            let mut z = vec![-row.mean; 3];
            row.heterozygotes
                .iter()
                .for_each(|at| z[*at as usize] += 1.0);
            row.homozygotes.iter().for_each(|at| z[*at as usize] += 2.0);
            row.incomplete.iter().for_each(|at| z[*at as usize] = 0.0);
            if row.is_flipped {
                z.iter_mut().for_each(|z| *z = -*z);
            }
            (z, row.weight)
        });
        Some(values.collect())
    }

    #[test]
    fn dosages_less_their_means() {
        // Dosages 1, 0, 2 and 0, 2, 2, the latter flipped.
        let of = [(0b11_00_01, 0), (0b11_11_00, 0)];
        let expected = [
            (vec![0.0, -1.0, 1.0], 2.0),
            (vec![-4.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0], 18.0 / 8.0),
        ];
        let near = |found: &[(Vec<f64>, f64)], expected: &[(Vec<f64>, f64)]| {
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                let pairs = found.0.iter().zip(&expected.0);
                assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-15));
                assert!((found.1 - expected.1).abs() < 1e-15);
            }
        };
        near(&read(&of, Forms::Gcta).unwrap(), &expected);
        // The order of rows does not matter.
        near(&read(&[of[1], of[0]], Forms::Gcta).unwrap(), &expected);
        let of_covariance = expected.map(|(z, _)| (z, 1.0));
        near(&read(&of, Forms::Covariance).unwrap(), &of_covariance);
        // One individual has a call that is missing: dosages 1 and 0 of the others.
        let missing = [(0b00_00_01, 0b10_00_00)];
        let expected = [(vec![0.5, -0.5, 0.0], 8.0 / 3.0)];
        near(&read(&missing, Forms::Gcta).unwrap(), &expected);
        assert_eq!(read(&missing, Forms::Covariance), None);
        // Of one allele alone.
        assert_eq!(read(&[(0, 0)], Forms::Gcta).unwrap(), []);
        assert_eq!(read(&[(0, 0)], Forms::Covariance).unwrap().len(), 1);
    }
}
