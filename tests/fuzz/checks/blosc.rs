//! Any bytes as a Blosc container, against c-blosc: no panic, what c-blosc writes is read, what we accept c-blosc decodes to the
//! same bytes, and what it accepts we accept, but for what is in [`stricter`].
//!
//! The first byte says what the others are: 0, bytes for c-blosc to compress; 1, flags, sizes and splits from which a container
//! is put together whose offsets and lengths are right; anything else, a container, of which it is the first byte.

use super::c_blosc::{Form, c_compress, c_decompress};
use crate::codec::Scratch;
use crate::codec::blosc::{self, BloscHeader, HEADER_LEN, Shuffle};

/// Larger outputs only make fuzzing slow.
const MAX_LEN: usize = 1 << 20;

/// The target's body.
pub fn check(data: &[u8]) {
    match data.split_first() {
        Some((0, rest)) => written_by_c_blosc(rest),
        Some((1, rest)) => container(&assembled(rest)),
        _ => {
            let mut src = data.to_vec();
            set_sizes(&mut src);
            container(&src);
        }
    }
}

/// Sets versions and encoded size right, or hardly any input would pass the header.
fn set_sizes(src: &mut [u8]) {
    if src.len() >= HEADER_LEN {
        let len = src.len() as u32;
        src[0] = 2;
        src[1] = 1;
        src[12..16].copy_from_slice(&len.to_le_bytes());
    }
}

/// Why we refuse what c-blosc decodes: the LZ4 format forbids a match at distance 0, for which liblz4 leaves whatever the output
/// held.
fn stricter(error: &str) -> bool {
    error.contains("lz4: 0 is not a valid match offset")
}

fn container(src: &[u8]) {
    let Some(len) = src
        .get(4..)
        .and_then(|sizes| sizes.first_chunk::<4>())
        .and_then(|len| usize::try_from(i32::from_le_bytes(*len)).ok())
        .filter(|len| *len <= MAX_LEN)
    else {
        return;
    };
    let mut scratch = Scratch::default();
    let mut ours = vec![0xaa; len];
    let result = blosc::decompress(src, len, &mut ours, &mut scratch);
    if src.get(3) == Some(&0) && len > 0 {
        // Elements of no bytes: c-blosc divides by their size where it would split a block.
        assert!(result.is_err());
        return;
    }
    match (&result, c_decompress(src, len)) {
        (Ok(()), Some(theirs)) => assert!(ours == theirs, "decoded to other bytes"),
        // liblz4 wants a block to end in five literals, lz4_flex does not.
        (Ok(()), None) => assert_eq!(src[2] >> 5, 1, "accepted, but c-blosc refuses"),
        (Err(error), Some(_)) => assert!(stricter(error), "c-blosc accepts: {error}"),
        (Err(_), None) => {}
    }
    let Ok(header) = BloscHeader::parse(src) else {
        return;
    };
    let mut all = true;
    for i in 0..header.n_blocks() {
        all &= block(&header, src, i, &ours, result.is_ok(), &mut scratch);
    }
    assert_eq!(all, result.is_ok());
}

/// The ways to decode one block agree. Whether it can be decoded.
fn block(
    header: &BloscHeader,
    src: &[u8],
    i: usize,
    whole: &[u8],
    valid: bool,
    scratch: &mut Scratch,
) -> bool {
    let len = header.block_len(i);
    let (mut raw, mut planes, mut plain) = (vec![0x55; len], vec![0xaa; len], vec![0x33; len]);
    let raw_result = blosc::decompress_block_raw(header, src, i, &mut raw, scratch);
    let plane_result = blosc::decompress_block_planes(header, src, i, &mut planes, scratch);
    let plain_result = blosc::decompress_block(header, src, i, &mut plain, scratch);
    assert_eq!(plane_result.is_ok(), raw_result.is_ok());
    assert_eq!(plain_result.is_ok(), raw_result.is_ok());
    let Ok(block) = plane_result else {
        return false;
    };
    assert_eq!(block.len, len);
    assert!(planes[..block.decoded] == raw[..block.decoded]);
    assert!(raw[block.decoded..].iter().all(|byte| *byte == 0));
    let bits = header.block_shuffle(i) == Shuffle::Bit;
    assert_eq!(block.bit_planes, bits);
    if bits {
        assert_eq!(block.plane_len, len / header.typesize() / 8);
        assert!(block.decoded == len || block.decoded.is_multiple_of(block.plane_len));
    }
    if header.block_shuffle(i) == Shuffle::None {
        assert!(plain == raw);
    }
    if valid {
        assert!(plain == whole[header.block_range(i)]);
    }
    true
}

/// Reads numbers off the front of `rest`; zeros when it is used up.
struct Recipe<'a> {
    rest: &'a [u8],
}

impl Recipe<'_> {
    fn byte(&mut self) -> usize {
        match self.rest.split_first() {
            Some((byte, rest)) => {
                self.rest = rest;
                usize::from(*byte)
            }
            None => 0,
        }
    }

    fn short(&mut self) -> usize {
        self.byte() | self.byte() << 8
    }
}

/// Lets c-blosc compress what follows the settings, repeated a few times.
fn written_by_c_blosc(recipe: &[u8]) {
    let mut recipe = Recipe { rest: recipe };
    let form = Form {
        compressor: ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"][recipe.byte() % 6],
        shuffle: (recipe.byte() % 3) as _,
        // Higher ones make libzstd choose a parser in which the address sanitizer of gcc 12 sees an error that is none: it takes
        // constants that gcc itself made global for local ones.
        level: (recipe.byte() % 6) as _,
        typesize: recipe.byte().max(1),
        blocksize: recipe.short(),
    };
    let data = recipe.rest.repeat(recipe.rest.len() % 7 + 1);
    let src = c_compress(&data, &form);
    let mut ours = vec![0xaa; data.len()];
    blosc::decompress(&src, data.len(), &mut ours, &mut Scratch::default()).unwrap();
    assert!(ours == data);
    container(&src);
}

/// A container of up to four blocks whose header, offsets and lengths are right; what its splits hold is anything.
fn assembled(recipe: &[u8]) -> Vec<u8> {
    let mut recipe = Recipe { rest: recipe };
    let flags = recipe.byte();
    let typesize = recipe.byte() % 20 + 1;
    let blocksize = (recipe.byte() + 8) * typesize + recipe.byte() % 3;
    let n_blocks = recipe.byte() % 4 + 1;
    let last = recipe.short() % blocksize + 1;
    let mut src = vec![0; HEADER_LEN + 4 * n_blocks];
    src[2] = (flags & 0x15 | flags >> 5 << 5) as u8;
    src[3] = typesize as u8;
    let nbytes = (n_blocks - 1) * blocksize + last;
    src[4..8].copy_from_slice(&(nbytes as u32).to_le_bytes());
    let block_field = blocksize.min(nbytes);
    src[8..12].copy_from_slice(&(block_field as u32).to_le_bytes());
    set_sizes(&mut src);
    for i in 0..n_blocks {
        let at = src.len() as u32;
        src[HEADER_LEN + 4 * i..][..4].copy_from_slice(&at.to_le_bytes());
        // As the header says it, which is what decides how the block is read.
        let (n, len) = match BloscHeader::parse(&src) {
            Ok(header) => (header.n_splits(i), header.block_len(i)),
            Err(_) => (1, 0),
        };
        for _ in 0..n {
            let tag = recipe.byte();
            let stored = len / n;
            let payload = if tag < 64 {
                (0..stored).map(|k| ((k * tag) >> 3) as u8).collect()
            } else {
                let take = (recipe.short() % 600).min(recipe.rest.len());
                let (payload, rest) = recipe.rest.split_at(take);
                recipe.rest = rest;
                payload.to_vec()
            };
            src.extend((payload.len() as u32).to_le_bytes());
            src.extend(payload);
            set_sizes(&mut src);
        }
    }
    src
}
