//! Scalar products and sums of vectors, in an order that is always the same.

/// Partial sums of a scalar product.
const PARTS: usize = 8;

/// Σ a b in [`PARTS`] partial sums.
#[inline(always)]
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut parts = [0.0; PARTS];
    let (a, a_rest) = a.as_chunks::<PARTS>();
    let (b, b_rest) = b.as_chunks::<PARTS>();
    for (a, b) in a.iter().zip(b) {
        for at in 0..PARTS {
            parts[at] += a[at] * b[at];
        }
    }
    let mut sum = 0.0;
    for part in parts {
        sum += part;
    }
    for (a, b) in a_rest.iter().zip(b_rest) {
        sum += a * b;
    }
    sum
}

/// to += factor · from
#[inline(always)]
pub(super) fn add_times(to: &mut [f64], factor: f64, from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}
