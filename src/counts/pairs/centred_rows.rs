//! [`CentredRows`]: the dosages of a few rows less their means, for products with the matrix of sums over pairs that is never made. Rows with few
//! copies of the rarer allele are lists of these, the others have a byte for each individual.
//!
//! Rows are in the order of their words, so nothing depends on the order in which they came.

use crate::counts::CountError;
use crate::counts::gathered::{ABSENT, PlanesRow, UNCALLED, plane_words};

use super::dosages::{Dosages, FIRSTS};
use super::listed_row::ListedRow;
use super::matrix::Shape;
use super::site_rows::SiteRows;
use super::weights::Forms;

/// Rows z of a population, of which those with an individual's value are weighted by w: w z zᵀ is the matrix of a row.
#[derive(Debug)]
pub(crate) struct CentredRows {
    samples: usize,
    /// The individuals of all lists, one after the other.
    individuals: Vec<u32>,
    /// The dosages of rows that have them, [`dosages_len`] bytes each.
    dosages: Vec<u8>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    /// Where the lists of copies and of individuals that are no complete diploids end.
    ends: [usize; 2],
    has_dosages: bool,
    mean: f64,
    weight: f64,
    squares: f64,
    is_flipped: bool,
}

/// A row: z is the dosage less the mean, and 0 for individuals that are no complete diploids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CentredRow<'a> {
    /// The individual of each copy of the allele that is counted, so homozygotes are there twice; none of a row with dosages.
    pub(crate) copies: &'a [u32],
    /// The dosages of all individuals, 0 for those that are no complete diploids, and zeros up to a multiple of eight.
    pub(crate) dosages: Option<&'a [u8]>,
    /// Those that are no complete diploids.
    pub(crate) incomplete: &'a [u32],
    /// The mean of the dosages, 2p.
    pub(crate) mean: f64,
    /// w.
    pub(crate) weight: f64,
    /// Σ z².
    pub(crate) squares: f64,
    /// Whether dosages are of the reference, which is the rarer allele then: z of the others is −z.
    pub(crate) is_flipped: bool,
}

/// A row is a list if at most one of so many individuals carries the allele that is counted.
const RARE: usize = 6;

/// Bytes of the dosages of a row.
fn dosages_len(samples: usize) -> usize {
    samples.next_multiple_of(8)
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
        let copies = shape.copies();
        let mut sorted: Vec<&[u64]> = rows.each(copies).collect();
        sorted.sort_unstable();
        let mut centred = Self {
            samples: shape.samples,
            individuals: vec![],
            dosages: vec![],
            rows: vec![],
        };
        let mut genotypes = Genotypes::default();
        let mut planes = vec![];
        for words in sorted {
            let listed = ListedRow::try_new(words, copies);
            if let Some(listed) = listed.filter(|row| row.is_biallelic() && shape.ploidy == 2) {
                centred.push_listed(listed, forms)?;
                continue;
            }
            planes.clear();
            let words = match listed {
                Some(listed) => {
                    listed.push_planes(plane_words(copies), &mut planes);
                    &planes
                }
                None => words,
            };
            // Rows are those of the population.
            let Some(row) = PlanesRow::try_new(words, copies) else {
                continue;
            };
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

    /// Adds a row of complete diploids and two alleles, of which this is a list of the copies of the other allele than the reference. They are
    /// few, and at least one.
    fn push_listed(&mut self, row: ListedRow<'_>, forms: Forms) -> Result<(), CountError> {
        let total = row.ones();
        self.reserve(total)?;
        let (mut homozygotes, mut last) = (0, usize::MAX);
        row.for_each(|_, copy| {
            let individual = copy / 2;
            // Both copies of an individual follow each other.
            homozygotes += usize::from(individual == last);
            last = individual;
            self.individuals.push(individual as u32);
        });
        let end = self.individuals.len();
        let numbers = Numbers {
            complete: self.samples,
            total,
            homozygotes,
        };
        self.push_row([end; 2], false, numbers, false, forms);
        Ok(())
    }

    fn push(&mut self, genotypes: &Genotypes, forms: Forms) -> Result<(), CountError> {
        let Genotypes {
            complete, total, ..
        } = *genotypes;
        let is_flipped = total > complete;
        let homozygotes = match is_flipped {
            true => &genotypes.references,
            false => &genotypes.homozygotes,
        };
        let numbers = Numbers {
            complete: complete as usize,
            total: match is_flipped {
                true => 2 * complete - total,
                false => total,
            } as usize,
            homozygotes: ones(homozygotes) as usize,
        };
        let has_dosages = (numbers.total - numbers.homozygotes) * RARE > self.samples;
        if has_dosages {
            let (begin, len) = (self.dosages.len(), dosages_len(self.samples));
            let reserved = self.dosages.try_reserve(len);
            reserved.map_err(|_| CountError::TooLarge(format!("{len} genotypes of a variant")))?;
            self.dosages.resize(begin + len, 0);
            let dosages = self.dosages.get_mut(begin..).unwrap_or_default();
            for (words, dosage) in [(&genotypes.heterozygotes, 1), (homozygotes, 2)] {
                for_each(words, |individual| {
                    if let Some(to) = dosages.get_mut(individual) {
                        *to = dosage;
                    }
                });
            }
        } else {
            self.reserve(numbers.total)?;
            let carriers = genotypes.heterozygotes.iter().zip(homozygotes).enumerate();
            for (at, (heterozygotes, homozygotes)) in carriers {
                // Both copies of homozygotes.
                for_each(&[heterozygotes | homozygotes | homozygotes << 1], |bit| {
                    self.individuals.push((at * 32 + bit) as u32);
                });
            }
        }
        let copies_end = self.individuals.len();
        self.reserve(self.samples - numbers.complete)?;
        for_each(&genotypes.incomplete, |individual| {
            self.individuals.push(individual as u32);
        });
        let ends = [copies_end, self.individuals.len()];
        self.push_row(ends, has_dosages, numbers, is_flipped, forms);
        Ok(())
    }

    /// The most bytes for these rows, and the most of them that have dosages.
    pub(crate) fn most(rows: &SiteRows, shape: Shape) -> (usize, usize) {
        let of_copy = size_of::<u32>();
        // Two copies of the carriers of a row without dosages.
        let of_complete = dosages_len(shape.samples).max(2 * shape.samples / RARE * of_copy);
        let of_row = size_of::<Row>() + size_of::<&[u64]>();
        let (mut bytes, mut with_dosages) = (0, 0);
        for words in rows.each(shape.copies()) {
            let header = words.first().copied().unwrap_or(0);
            let listed = ListedRow::try_new(words, shape.copies());
            let listed = listed.filter(|row| row.is_biallelic() && shape.ploidy == 2);
            bytes += of_row
                + match (listed, header) {
                    (Some(listed), _) => listed.ones() * of_copy,
                    (None, 1) if shape.ploidy == 2 => of_complete,
                    _ => of_complete + shape.samples * of_copy,
                };
            with_dosages += usize::from(listed.is_none());
        }
        // Memory is doubled as it grows, and then both are there.
        (3 * bytes, with_dosages)
    }

    fn reserve(&mut self, individuals: usize) -> Result<(), CountError> {
        let reserved = self.individuals.try_reserve(individuals);
        reserved.map_err(|_| CountError::TooLarge(format!("{individuals} genotypes of a variant")))
    }

    fn push_row(
        &mut self,
        ends: [usize; 2],
        has_dosages: bool,
        numbers: Numbers,
        is_flipped: bool,
        forms: Forms,
    ) {
        let (n, t) = (numbers.complete as f64, numbers.total as f64);
        let weight = match forms {
            Forms::Covariance => 1.0,
            _ => 2.0 * n * n / (t * (2.0 * n - t)),
        };
        // Σ x² = t + 2 homozygotes.
        let squares = (numbers.total + 2 * numbers.homozygotes) as f64 - t * t / n;
        self.rows.push(Row {
            ends,
            has_dosages,
            mean: t / n,
            weight,
            squares,
            is_flipped,
        });
    }

    /// Individuals of the population.
    pub(crate) fn samples(&self) -> usize {
        self.samples
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The dosages of all rows that have them, one after the other.
    pub(crate) fn dosages(&self) -> &[u8] {
        &self.dosages
    }

    /// The rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = CentredRow<'_>> {
        let mut begin = 0;
        let mut dosages = self.dosages.chunks_exact(dosages_len(self.samples).max(1));
        self.rows.iter().map(move |row| {
            let mut list = |end: usize| {
                let list = self.individuals.get(begin..end).unwrap_or_default();
                begin = end;
                list
            };
            let [copies, incomplete] = row.ends.map(&mut list);
            CentredRow {
                copies,
                dosages: row.has_dosages.then(|| dosages.next()).flatten(),
                incomplete,
                mean: row.mean,
                weight: row.weight,
                squares: row.squares,
                is_flipped: row.is_flipped,
            }
        })
    }
}

/// Of a row.
#[derive(Clone, Copy)]
struct Numbers {
    /// Individuals that are complete diploids.
    complete: usize,
    /// Their copies of the allele that is counted.
    total: usize,
    /// Those that have two.
    homozygotes: usize,
}

/// Each individual with a bit, which is the first of its two.
fn for_each(words: &[u64], mut each: impl FnMut(usize)) {
    for (at, word) in words.iter().enumerate() {
        let mut rest = *word;
        while rest != 0 {
            each((at * 64 + rest.trailing_zeros() as usize) / 2);
            rest &= rest - 1;
        }
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
    use crate::counts::Level;

    /// Rows of one plane of bits, or of uncalled copies and that.
    fn rows(of: &[(u64, u64)]) -> SiteRows {
        let mut rows = SiteRows::default();
        for (bits, uncalled) in of {
            let words = match uncalled {
                0 => vec![1, *bits],
                _ => vec![1 | 1 << UNCALLED, *bits, *uncalled],
            };
            rows.push(PlanesRow::try_new(&words, 6).unwrap(), Level::Portable);
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
            row.copies.iter().for_each(|at| z[*at as usize] += 1.0);
            let dosages = row.dosages.unwrap_or_default();
            let of_all = z.iter_mut().zip(dosages);
            of_all.for_each(|(z, dosage)| *z += f64::from(*dosage));
            row.incomplete.iter().for_each(|at| z[*at as usize] = 0.0);
            let squares: f64 = z.iter().map(|z| z * z).sum();
            assert!((row.squares - squares).abs() < 1e-14);
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
