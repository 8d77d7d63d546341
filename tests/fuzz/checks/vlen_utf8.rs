//! Any bytes as variable-length strings: exactly what is well formed is accepted, and encodes to the same bytes again.

use serde_json::json;

use crate::codec::{ChunkData, CodecChain, Scratch};
use crate::store::ArrayMeta;

/// The target's body.
pub fn check(data: &[u8]) {
    // As many strings as the bytes say, within reason, so that the count is not what stops most inputs.
    let count = match data {
        [a, b, 0, 0, ..] => (usize::from(*a) | usize::from(*b) << 8).max(1),
        _ => 3,
    };
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [count], "fill_value": "", "data_type": "string",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [count]}},
        "chunk_key_encoding": {"name": "default"}, "attributes": {}, "codecs": [{"name": "vlen-utf8"}],
    });
    let array = ArrayMeta::from_v3("a", &document).unwrap();
    let chain = CodecChain::try_new(&array).unwrap();
    let decoded = chain.decode(data, &mut Scratch::default());
    let expected = strings(data, count);
    assert_eq!(decoded.is_ok(), expected.is_some());
    let (Ok(ChunkData::Strings(strings)), Some(expected)) = (decoded, expected) else {
        return;
    };
    assert_eq!(strings.len(), count);
    assert!(strings.iter().eq(expected));
    let mut again = (count as u32).to_le_bytes().to_vec();
    for ends in strings.offsets.windows(2) {
        let text = &strings.data[ends[0] as usize..ends[1] as usize];
        again.extend((text.len() as u32).to_le_bytes());
        again.extend_from_slice(text);
    }
    assert_eq!(again, data);
}

/// The format in its plainest reading.
fn strings(data: &[u8], count: usize) -> Option<Vec<&str>> {
    let number = |at: usize| {
        let bytes = data.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes) as usize)
    };
    if number(0)? != count {
        return None;
    }
    let (mut at, mut out) = (4, Vec::new());
    for _ in 0..count {
        let start = at + 4;
        at = start + number(at)?;
        out.push(std::str::from_utf8(data.get(start..at)?).ok()?);
    }
    (at == data.len()).then_some(out)
}
