//! Any bytes as a Blosc container: no panic, and what we accept c-blosc decodes to the same.
#![no_main]

use datafusion_vcz::codec::Scratch;
use datafusion_vcz::codec::blosc::{self, BloscHeader, Compressor};
use libfuzzer_sys::fuzz_target;

/// Larger outputs only make fuzzing slow.
const MAX_LEN: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    // The version and the encoded size are set right, or hardly any input would pass the header.
    let mut src = data.to_vec();
    if src.len() >= blosc::HEADER_LEN {
        src[0] = 2;
        src[1] = 1;
        let len = src.len() as u32;
        src[12..16].copy_from_slice(&len.to_le_bytes());
    }
    let Ok(header) = BloscHeader::parse(&src) else {
        return;
    };
    let len = header.nbytes();
    if len > MAX_LEN {
        return;
    }
    let mut scratch = Scratch::default();
    let mut ours = vec![0xaa; len];
    let result = blosc::decompress(&src, len, &mut ours, &mut scratch);
    for i in 0..header.n_blocks() {
        let mut planes = vec![0; header.block_len(i)];
        let mut raw = planes.clone();
        let block = blosc::decompress_block_planes(&header, &src, i, &mut planes, &mut scratch);
        if blosc::decompress_block_raw(&header, &src, i, &mut raw, &mut scratch).is_ok() {
            let block = block.unwrap();
            assert_eq!(planes[..block.decoded], raw[..block.decoded]);
            assert!(raw[block.decoded..].iter().all(|byte| *byte == 0));
        } else {
            assert!(block.is_err());
        }
    }
    if result.is_ok() && len > 0 {
        let mut theirs = vec![0x55u8; len];
        // SAFETY: `src` is as long as its header says, `theirs` is valid for `len` bytes.
        let written = unsafe {
            blosc_src::blosc_decompress_ctx(src.as_ptr().cast(), theirs.as_mut_ptr().cast(), len, 1)
        };
        if written == len as i32 {
            assert_eq!(ours, theirs);
        } else {
            // liblz4 wants a block to end in five literals, lz4_flex does not.
            assert_eq!(header.compressor(), Compressor::Lz4);
        }
    }
});
