//! The shape of a tile, a part that is encoded on its own: a chunk, or an inner chunk of a shard.

use crate::codec::Sharding;
use crate::gpu::error::GpuError;
use crate::store::{ArrayMeta, ElementType};

/// The shape of a tile, and its sizes.
#[derive(Debug, Clone)]
pub(super) struct TileShape {
    pub(super) rows: u32,
    pub(super) samples: u32,
    pub(super) copies: u32,
    pub(super) elements: u32,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub(super) width: usize,
    /// Bytes of the tile.
    pub(super) len: usize,
}

impl TileShape {
    /// The shape of tiles of `[rows]`, `[rows, samples]` or `[rows, samples, copies]`.
    pub(super) fn try_new(element: ElementType, shape: &[usize]) -> Result<TileShape, GpuError> {
        let too_large = || {
            GpuError::from(format!(
                "chunks of shape {shape:?} are too large for the GPU"
            ))
        };
        let width = match element.size() {
            Some(width @ (1 | 2 | 4 | 8)) => width,
            _ => {
                return Err(format!("elements of type {element} are decoded on the host").into());
            }
        };
        let [rows, samples, copies] = match *shape {
            [rows] => [rows, 1, 1],
            [rows, samples] => [rows, samples, 1],
            [rows, samples, copies] => [rows, samples, copies],
            _ => {
                return Err(format!(
                    "an array of {} dimensions is decoded on the host",
                    shape.len()
                )
                .into());
            }
        };
        let elements = rows
            .checked_mul(samples)
            .and_then(|n| n.checked_mul(copies))
            .ok_or_else(too_large)?;
        let len = elements.checked_mul(width).ok_or_else(too_large)?;
        let fits = |n: usize| u32::try_from(n).map_err(|_| too_large());
        if elements == 0 {
            return Err(format!("chunks of shape {shape:?} hold nothing").into());
        }
        fits(len)?;
        Ok(TileShape {
            rows: fits(rows)?,
            samples: fits(samples)?,
            copies: fits(copies)?,
            elements: fits(elements)?,
            width,
            len,
        })
    }
}

/// Rejects arrays whose third axis is split into several chunks, or into several inner chunks of a shard.
pub(super) fn check_copies(
    array: &ArrayMeta,
    tile: &[usize],
    sharding: Option<&Sharding>,
) -> Result<(), GpuError> {
    let in_shards = sharding.is_none_or(|sharding| sharding.grid().get(2).is_none_or(|n| *n == 1));
    match (array.shape.get(2), tile.get(2)) {
        (Some(copies), Some(len)) if *copies > *len as u64 || !in_shards => Err(format!(
            "chunks of {len} of the {copies} values of a call are decoded on the host"
        )
        .into()),
        _ => Ok(()),
    }
}
