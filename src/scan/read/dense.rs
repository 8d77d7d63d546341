//! One variant chunk of an array as dense rows: its chunks along the other axes are decoded and assembled, without padding.
//! Between the codecs and the columns; independent of Arrow types.

use std::ops::Range;

use arrow::buffer::{Buffer, MutableBuffer};

use crate::codec::{ChunkData, CodecChain, CodecError, Scratch, StringChunk};
use crate::scan::chunks::chunk::{Part, chunk_index, first_index};
use crate::store::ArrayMeta;

/// Rows of an array, row-major: `rows × row_elements` elements, perhaps followed by padding rows.
pub enum Dense {
    /// Fixed-width elements, native-endian.
    Fixed(Buffer),
    /// Strings.
    Strings(StringChunk),
}

impl Dense {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Fixed(buffer) => buffer.len(),
            Self::Strings(strings) => strings.data.len() + strings.offsets.len() * size_of::<u32>(),
        }
    }
}

/// Decodes the parts of one variant chunk of numbers, and assembles some of its rows. Each part is decoded whole, and only one at a time.
/// Errors as those of [`assemble`].
pub fn assemble_rows(
    array: &ArrayMeta,
    chain: &CodecChain,
    variant_chunk: u64,
    parts: &[Part],
    rows: Range<usize>,
    scratch: &mut Scratch,
) -> Result<Dense, (Vec<u64>, CodecError)> {
    let at_fault =
        |trailing: &[u64], reason: CodecError| (chunk_index(variant_chunk, trailing), reason);
    let too_large = || at_fault(&[], "the rows of this chunk do not fit in memory".into());
    let all = array.chunk_extent(&first_index(variant_chunk, array))[0];
    let shape: Vec<usize> = std::iter::once(all)
        .chain(array.shape[1..].iter().copied())
        .map(|n| n as usize)
        .collect();
    let width = array.element.size().unwrap_or(1);
    let per_row = shape[1..]
        .iter()
        .try_fold(1usize, |product, &n| product.checked_mul(n))
        .ok_or_else(too_large)?;
    let elements = per_row.checked_mul(rows.len()).ok_or_else(too_large)?;
    let bytes = elements.checked_mul(width).ok_or_else(too_large)?;
    let mut out = MutableBuffer::from_len_zeroed(bytes);
    let (begin, end) = (rows.start * per_row, rows.start * per_row + elements);
    for Part { trailing, chunk } in parts {
        let data = chunk
            .decode(chain, scratch)
            .map_err(|reason| at_fault(trailing, reason))?;
        let ChunkData::Fixed(buffer) = data else {
            continue;
        };
        let target = out.as_slice_mut();
        for_each_run(array, variant_chunk, trailing, &shape, |from, to, len| {
            // What the run and the rows share.
            let (first, last) = (to.max(begin), (to + len).min(end));
            if first < last {
                let from = from + (first - to);
                target[(first - begin) * width..(last - begin) * width]
                    .copy_from_slice(&buffer[from * width..(from + last - first) * width]);
            }
        });
    }
    Ok(Dense::Fixed(out.into()))
}

/// Decodes the parts of one variant chunk and assembles them. The error has the index of the invalid part and the reason.
pub fn assemble(
    array: &ArrayMeta,
    chain: &CodecChain,
    variant_chunk: u64,
    parts: &[Part],
    scratch: &mut Scratch,
) -> Result<Dense, (Vec<u64>, CodecError)> {
    let at_fault =
        |trailing: &[u64], reason: CodecError| (chunk_index(variant_chunk, trailing), reason);
    if let [Part { trailing, chunk }] = parts
        && array.chunks[1..] == array.shape[1..]
    {
        return match chunk
            .decode(chain, scratch)
            .map_err(|reason| at_fault(trailing, reason))?
        {
            ChunkData::Fixed(buffer) => Ok(Dense::Fixed(buffer)),
            ChunkData::Strings(strings) => Ok(Dense::Strings(strings)),
        };
    }
    let rows = array.chunk_extent(&first_index(variant_chunk, array))[0];
    let too_large = || at_fault(&[], "the rows of this chunk do not fit in memory".into());
    let shape: Vec<usize> = std::iter::once(rows)
        .chain(array.shape[1..].iter().copied())
        .map(|n| n as usize)
        .collect();
    let elements = shape
        .iter()
        .try_fold(1usize, |product, &n| product.checked_mul(n))
        .ok_or_else(too_large)?;
    if array.element.size().is_some() && !array.element.is_text() {
        return assemble_rows(array, chain, variant_chunk, parts, 0..shape[0], scratch);
    }
    let mut decoded = Vec::with_capacity(parts.len());
    for Part { trailing, chunk } in parts {
        let data = chunk
            .decode(chain, scratch)
            .map_err(|reason| at_fault(trailing, reason))?;
        decoded.push(data);
    }
    let mut places = vec![(0u32, 0u32); elements];
    for (part, Part { trailing, .. }) in parts.iter().enumerate() {
        for_each_run(array, variant_chunk, trailing, &shape, |from, to, len| {
            for i in 0..len {
                places[to + i] = (part as u32, (from + i) as u32);
            }
        });
    }
    let mut out = StringChunk {
        offsets: Vec::with_capacity(elements + 1),
        data: Vec::new(),
    };
    out.offsets.push(0);
    for (part, at) in places {
        if let ChunkData::Strings(strings) = &decoded[part as usize] {
            out.data
                .extend_from_slice(strings.get(at as usize).as_bytes());
        }
        let end = u32::try_from(out.data.len()).map_err(|_| too_large())?;
        out.offsets.push(end);
    }
    Ok(Dense::Strings(out))
}

/// Calls `copy(from, to, len)` for every run of elements that a chunk and the dense rows share: `from` in the chunk, `to` in
/// the rows, both in elements. Full trailing axes are merged into long runs.
fn for_each_run(
    array: &ArrayMeta,
    variant_chunk: u64,
    trailing: &[u64],
    shape: &[usize],
    mut copy: impl FnMut(usize, usize, usize),
) {
    let chunks: Vec<usize> = array.chunks.iter().map(|&n| n as usize).collect();
    let extent: Vec<usize> = array
        .chunk_extent(&chunk_index(variant_chunk, trailing))
        .into_iter()
        .map(|n| n as usize)
        .collect();
    let start: Vec<usize> = std::iter::once(0)
        .chain(
            trailing
                .iter()
                .zip(&chunks[1..])
                .map(|(&i, &n)| i as usize * n),
        )
        .collect();
    let rank = shape.len();
    // The innermost axis that this chunk does not cover; all axes after it are contiguous in both.
    let mut axis = rank - 1;
    while axis > 0 && extent[axis] == shape[axis] && chunks[axis] == shape[axis] {
        axis -= 1;
    }
    let run: usize = extent[axis] * shape[axis + 1..].iter().product::<usize>();
    let lines: usize = extent[..axis].iter().product();
    let mut at = vec![0usize; axis];
    for _ in 0..lines {
        let ravel = |dims: &[usize], offset: bool| {
            let mut index = 0;
            for i in 0..rank {
                let here = if i < axis { at[i] } else { 0 } + if offset { start[i] } else { 0 };
                index = index * dims[i] + here;
            }
            index
        };
        copy(ravel(&chunks, false), ravel(shape, true), run);
        for i in (0..axis).rev() {
            at[i] += 1;
            if at[i] < extent[i] {
                break;
            }
            at[i] = 0;
        }
    }
}
