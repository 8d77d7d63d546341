//! Components that are found without the matrix of a group are those of the matrix.

use std::sync::Arc;

use super::{Components, Found};
use crate::counts::gathered::PlanesRow;
use crate::counts::pairs::{Forms, PairMatrix, Relationship, Shape, SiteRows};
use crate::counts::{CountRequest, Level, SampleSet, Workers, reference};

/// K in these tests.
const ALLELES: usize = 4;

/// Numbers below `below` that are always the same.
struct Noise(u64);

impl Noise {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

/// Rows of calls, of which each copy has one of `codes`.
fn rows(shape: Shape, number: usize, codes: &[i64], noise: &mut Noise) -> Vec<Vec<u64>> {
    let request = CountRequest {
        alleles: vec![],
        genotypes: vec![],
        zygosity: vec![],
        planes: vec![Arc::new(SampleSet::all(shape.samples as u32))],
        n_alleles: ALLELES,
        n_samples: shape.samples,
        ploidy: shape.ploidy,
    };
    let mut rows = vec![];
    for _ in 0..number {
        // Some rows have few of the rarer codes.
        let rare = [1, 1, 30][noise.next(3)];
        let call = (0..shape.copies()).map(|_| match noise.next(rare) {
            0 => codes[noise.next(codes.len())],
            _ => codes[0],
        });
        let call: Vec<i64> = call.collect();
        let counts = reference::count(&request, &call, 1).unwrap();
        let mut words = vec![];
        counts.planes[0].push_row(0, &mut words);
        rows.push(words);
    }
    rows
}

fn site_rows(rows: &[Vec<u64>], shape: Shape) -> SiteRows {
    let mut all = SiteRows::default();
    for words in rows {
        all.push(
            PlanesRow::try_new(words, shape.copies()).unwrap(),
            Level::detect(),
        );
    }
    all
}

/// The components without and with the matrix.
fn both(
    rows: &[Vec<u64>],
    shape: Shape,
    count: usize,
    forms: Forms,
) -> (Option<Option<Found>>, Option<Found>) {
    let components = Components {
        ids: (0..shape.samples).map(|at| at.to_string()).collect(),
        shape,
        count,
        forms,
    };
    let rows = site_rows(rows, shape);
    let mut matrix = Relationship::try_new(shape, forms).unwrap();
    let mut parts = rows.parts(shape.copies(), 64);
    while let Some(part) = parts.next_part() {
        matrix
            .fold(&part, Level::detect(), &Workers::ALONE)
            .unwrap();
    }
    let found = components.of_rows(&rows, &Workers::ALONE).unwrap();
    (found, components.of(&matrix).unwrap())
}

fn assert_near(found: &Found, expected: &Found) {
    let largest = expected.values[0];
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * largest;
    assert!((found.trace - expected.trace).abs() <= 1e-9 * expected.trace);
    assert_eq!(found.values.len(), expected.values.len());
    for (at, (value, wanted)) in found.values.iter().zip(&expected.values).enumerate() {
        assert!(near(*value, *wanted), "{at}: {value} {wanted}");
        let (vector, other) = (&found.vectors[at], &expected.vectors[at]);
        let product: f64 = vector.iter().zip(other).map(|(a, b)| a * b).sum();
        // Vectors of values that are near to each other may be others of the same space.
        let gap = expected.values.iter().enumerate().filter(|(i, _)| *i != at);
        let gap = gap.fold(f64::MAX, |gap, (_, other)| gap.min((other - wanted).abs()));
        if gap > 1e-3 * largest && at + 1 < expected.values.len() {
            assert!((product - 1.0).abs() < 1e-6, "{at}: {product}");
        }
    }
}

#[test]
fn components_of_rows_are_those_of_the_matrix() {
    let mut noise = Noise(1);
    let all: [&[i64]; 5] = [
        &[0, 1],
        &[1, 0],
        &[0, 0, 1, 2, 3],
        &[0, 1, -1],
        &[0, 1, 1, -1, -2],
    ];
    for (samples, ploidy) in [(128, 2), (150, 2), (161, 2), (140, 3), (150, 1)] {
        let shape = Shape { samples, ploidy };
        for codes in all {
            for number in [1, 2, 7, 40] {
                let mut rows = rows(shape, number, codes, &mut noise);
                for forms in [Forms::Gcta, Forms::Covariance] {
                    let place = format!("{shape:?} {codes:?} {number} {forms:?}");
                    let (found, expected) = both(&rows, shape, 3, forms);
                    let Some(found) = found else {
                        // Calls are missing, or none is of a diploid.
                        let is_incomplete = codes.contains(&-1) || ploidy != 2;
                        assert!(forms == Forms::Covariance && is_incomplete, "{place}");
                        continue;
                    };
                    assert_eq!(found.is_some(), expected.is_some(), "{place}");
                    let (Some(found), Some(expected)) = (found, expected) else {
                        continue;
                    };
                    assert_near(&found, &expected);
                    // The order of rows does not show.
                    rows.reverse();
                    let again = both(&rows, shape, 3, forms).0.unwrap().unwrap();
                    assert_eq!(again.values, found.values, "{place}");
                    assert_eq!(again.trace.to_bits(), found.trace.to_bits(), "{place}");
                    assert_eq!(again.vectors, found.vectors, "{place}");
                }
            }
        }
    }
}

#[test]
fn other_groups_need_the_matrix() {
    let mut noise = Noise(2);
    let shape = Shape {
        samples: 130,
        ploidy: 2,
    };
    let of = rows(shape, 300, &[0, 1], &mut noise);
    // Many rows, many components, few individuals.
    assert!(both(&of, shape, 1, Forms::Gcta).0.is_none());
    assert!(both(&of[..5], shape, 9, Forms::Gcta).0.is_none());
    assert!(both(&of[..5], shape, 8, Forms::Gcta).0.is_some());
    let small = Shape {
        samples: 100,
        ploidy: 2,
    };
    let of = rows(small, 5, &[0, 1], &mut noise);
    assert!(both(&of, small, 1, Forms::Gcta).0.is_none());
}
