//! Any bytes as variable-length strings: what is accepted is valid UTF-8, and encodes to the same bytes again.
#![no_main]

use datafusion_vcz::codec::{ChunkData, CodecChain, Scratch};
use datafusion_vcz::store::ArrayMeta;
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|data: &[u8]| {
    // As many strings as the bytes say, within reason, so that the count is not what stops most inputs.
    let count = match data {
        [n, 0, 0, 0, ..] => usize::from(*n).max(1),
        _ => 3,
    };
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [count], "fill_value": "", "data_type": "string",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [count]}},
        "chunk_key_encoding": {"name": "default"}, "attributes": {}, "codecs": [{"name": "vlen-utf8"}],
    });
    let array = ArrayMeta::from_v3("a", &document).unwrap();
    let chain = CodecChain::try_new(&array).unwrap();
    let Ok(ChunkData::Strings(strings)) = chain.decode(data, &mut Scratch::default()) else {
        return;
    };
    assert_eq!(strings.len(), count);
    let mut again = (count as u32).to_le_bytes().to_vec();
    for ends in strings.offsets.windows(2) {
        let text = &strings.data[ends[0] as usize..ends[1] as usize];
        assert!(std::str::from_utf8(text).is_ok());
        again.extend((text.len() as u32).to_le_bytes());
        again.extend_from_slice(text);
    }
    assert_eq!(again, data);
});
