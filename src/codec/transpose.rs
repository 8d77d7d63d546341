//! The `transpose` codec (v3), also used for order "F" (v2).
//!
//! Several in a chain are combined into one permutation, so decoding is one gather.

use serde_json::{Map, Value};

use super::CodecError;

/// Edge of the square tiles in which two axes are exchanged, so that both sides stay in the cache.
const TILE: usize = 64;

/// How the axes of an encoded array relate to those of the decoded one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transpose {
    /// Axis `i` of the encoded array is axis `axes[i]` of the decoded one.
    axes: Vec<usize>,
}

impl Transpose {
    /// The transpose that does nothing.
    pub(super) fn identity(rank: usize) -> Transpose {
        Transpose {
            axes: (0..rank).collect(),
        }
    }

    /// Adds another transpose codec, which comes after these when encoding.
    pub(super) fn then(&mut self, configuration: &Map<String, Value>) -> Result<(), CodecError> {
        let rank = self.axes.len();
        let wrong = |value: &Value| {
            format!(
                "transpose: 'order' is {value}, expected a permutation of 0 to {rank} (exclusive)"
            )
        };
        let order = configuration.get("order").unwrap_or(&Value::Null);
        let order: Vec<usize> = match order {
            // Of early drafts of Zarr v3.
            Value::String(name) if name == "C" => (0..rank).collect(),
            Value::String(name) if name == "F" => (0..rank).rev().collect(),
            Value::Array(axes) => axes
                .iter()
                .map(|axis| axis.as_u64().and_then(|axis| usize::try_from(axis).ok()))
                .collect::<Option<_>>()
                .ok_or_else(|| wrong(order))?,
            _ => return Err(wrong(order).into()),
        };
        let mut seen = vec![false; rank];
        let mut axes = Vec::with_capacity(rank);
        for axis in &order {
            match (seen.get_mut(*axis), self.axes.get(*axis)) {
                (Some(seen), Some(original)) if !*seen => {
                    *seen = true;
                    axes.push(*original);
                }
                _ => return Err(wrong(&Value::from(order.clone())).into()),
            }
        }
        if axes.len() != rank {
            return Err(wrong(&Value::from(order)).into());
        }
        self.axes = axes;
        Ok(())
    }

    /// Axis `i` of the encoded array is axis `axes()[i]` of the decoded one.
    pub fn axes(&self) -> &[usize] {
        &self.axes
    }

    /// Whether encoded and decoded elements come in the same order.
    pub fn is_identity(&self) -> bool {
        self.axes.iter().enumerate().all(|(i, axis)| i == *axis)
    }

    /// The shape of the encoded array.
    pub(super) fn encoded_shape(&self, shape: &[usize]) -> Vec<usize> {
        self.axes
            .iter()
            .filter_map(|axis| shape.get(*axis))
            .copied()
            .collect()
    }

    /// Reorders encoded elements of `size` bytes into row-major order of `shape`. Both slices hold the whole array.
    pub(super) fn decode(
        &self,
        shape: &[usize],
        size: usize,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), CodecError> {
        let total = shape.iter().try_fold(size, |n, len| n.checked_mul(*len));
        if total != Some(src.len()) || total != Some(dst.len()) || shape.len() != self.axes.len() {
            return Err(format!(
                "transpose: {} bytes into {} for shape {shape:?} of {size}-byte elements",
                src.len(),
                dst.len()
            )
            .into());
        }
        if total == Some(0) {
            return Ok(());
        }
        if self.is_identity() {
            dst.copy_from_slice(src);
            return Ok(());
        }
        let gather = Gather::new(self, shape);
        match size {
            1 => gather.run::<1>(src, dst),
            2 => gather.run::<2>(src, dst),
            4 => gather.run::<4>(src, dst),
            8 => gather.run::<8>(src, dst),
            _ => gather.run_wide(size, src, dst),
        }
        Ok(())
    }
}

/// Strides of both sides, in elements, by axis of the decoded array.
struct Gather {
    shape: Vec<usize>,
    from: Vec<usize>,
    to: Vec<usize>,
    /// The axis along which encoded elements are neighbours.
    inner: usize,
}

impl Gather {
    // Indices below are axes of a checked permutation, and products of lengths whose total was checked.
    fn new(transpose: &Transpose, shape: &[usize]) -> Gather {
        let rank = shape.len();
        let (mut from, mut to) = (vec![0; rank], vec![0; rank]);
        let (mut encoded, mut decoded) = (1, 1);
        for axis in (0..rank).rev() {
            to[axis] = decoded;
            decoded *= shape[axis];
            let original = transpose.axes[axis];
            from[original] = encoded;
            encoded *= shape[original];
        }
        Gather {
            shape: shape.to_vec(),
            from,
            to,
            inner: transpose.axes[rank - 1],
        }
    }

    /// Calls `f(from, to)` with the position of the first element of every plane of the last two axes that matter:
    /// `inner` and the last one of the decoded array.
    fn planes(&self, mut f: impl FnMut(usize, usize)) {
        let last = self.shape.len() - 1;
        let outer: Vec<usize> = (0..last).filter(|axis| *axis != self.inner).collect();
        let mut index = vec![0; outer.len()];
        let (mut from, mut to) = (0, 0);
        'next: loop {
            f(from, to);
            for (i, axis) in index.iter_mut().zip(&outer).rev() {
                *i += 1;
                from += self.from[*axis];
                to += self.to[*axis];
                if *i < self.shape[*axis] {
                    continue 'next;
                }
                from -= self.from[*axis] * *i;
                to -= self.to[*axis] * *i;
                *i = 0;
            }
            return;
        }
    }

    /// Calls `f(from, to)` for every element.
    fn elements(&self, mut f: impl FnMut(usize, usize)) {
        let last = self.shape.len() - 1;
        let (n, stride) = (self.shape[last], self.from[last]);
        if self.inner == last {
            self.planes(|from, to| (0..n).for_each(|i| f(from + i, to + i)));
            return;
        }
        let (m, step) = (self.shape[self.inner], self.to[self.inner]);
        self.planes(|from, to| {
            for i0 in (0..m).step_by(TILE) {
                for j0 in (0..n).step_by(TILE) {
                    for i in i0..m.min(i0 + TILE) {
                        for j in j0..n.min(j0 + TILE) {
                            f(from + i + j * stride, to + i * step + j);
                        }
                    }
                }
            }
        });
    }

    fn run<const SIZE: usize>(&self, src: &[u8], dst: &mut [u8]) {
        let (src, dst) = (src.as_chunks::<SIZE>().0, dst.as_chunks_mut::<SIZE>().0);
        self.elements(|from, to| dst[to] = src[from]);
    }

    fn run_wide(&self, size: usize, src: &[u8], dst: &mut [u8]) {
        self.elements(|from, to| {
            dst[to * size..(to + 1) * size].copy_from_slice(&src[from * size..(from + 1) * size]);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::transposed;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn transpose(orders: &[Value], rank: usize) -> Result<Transpose, CodecError> {
        let mut transpose = Transpose::identity(rank);
        for order in orders {
            transpose.then(json!({"order": order}).as_object().unwrap())?;
        }
        Ok(transpose)
    }

    fn permutation(rank: usize) -> impl Strategy<Value = Vec<usize>> {
        Just((0..rank).collect::<Vec<_>>()).prop_shuffle()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn one_and_two(
            (shape, first, second) in (1usize..5).prop_flat_map(|rank| {
                (prop::collection::vec(1usize..12, rank), permutation(rank), permutation(rank))
            }),
            size in prop::sample::select(vec![1usize, 2, 4, 8, 12]),
        ) {
            let n: usize = shape.iter().product();
            let data: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
            let (middle, once) = transposed(&shape, &first, &data);
            let (encoded, twice) = transposed(&middle, &second, &once);
            let bytes = |data: &[u32]| -> Vec<u8> {
                data.iter().flat_map(|x| x.to_le_bytes().into_iter().cycle().take(size)).collect()
            };
            let t = transpose(&[json!(first), json!(second)], shape.len()).unwrap();
            prop_assert_eq!(t.encoded_shape(&shape), encoded);
            let mut out = vec![0; n * size];
            t.decode(&shape, size, &bytes(&twice), &mut out).unwrap();
            prop_assert_eq!(out, bytes(&data));
        }
    }

    #[test]
    fn larger_than_a_tile() {
        let shape = [130, 3, 70];
        let data: Vec<u32> = (0..130 * 3 * 70).collect();
        let (_, encoded) = transposed(&shape, &[2, 1, 0], &data);
        let src: Vec<u8> = encoded.iter().flat_map(|x| x.to_le_bytes()).collect();
        let mut out = vec![0; src.len()];
        transpose(&[json!("F")], 3)
            .unwrap()
            .decode(&shape, 4, &src, &mut out)
            .unwrap();
        assert_eq!(
            out,
            data.iter()
                .flat_map(|x| x.to_le_bytes())
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn hostile_orders() {
        for order in [
            json!([0, 0]),
            json!([0]),
            json!([0, 2]),
            json!([-1, 0]),
            json!("K"),
            json!(null),
            json!([0, 1, 1]),
        ] {
            assert!(
                transpose(std::slice::from_ref(&order), 2).is_err(),
                "{order}"
            );
        }
        assert!(
            transpose(&[json!([1, 0]), json!([1, 0])], 2)
                .unwrap()
                .is_identity()
        );
        assert!(transpose(&[json!("C")], 0).unwrap().is_identity());
        let t = transpose(&[json!([1, 0])], 2).unwrap();
        assert!(t.decode(&[2, 2], 1, &[0; 4], &mut [0; 3]).is_err());
    }
}
