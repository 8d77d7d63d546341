//! The header of a Blosc-1 container, its blocks and their splits, all checked against the container's length.
//!
//! Accepts the same containers as `blosc.c` of c-blosc 1.21, including offsets into the header, stored bytes with an unknown
//! compressor, and any fields in an empty container. One exception: elements of 0 bytes, by which c-blosc would divide, are an
//! error. Fuzzing compares the two, see `tests/fuzz/checks/blosc.rs`.

use std::fmt;
use std::ops::Range;

use super::super::CodecError;
use super::super::unshuffle;

/// Bytes of a container's header.
pub const HEADER_LEN: usize = 16;
/// The only container version that Blosc 1 has written since 2010.
const FORMAT_VERSION: u8 = 2;
/// c-blosc's limit, `BLOSC_MAX_BLOCKSIZE`.
const MAX_BLOCKSIZE: usize = 715_827_542;
/// Elements wider than this are never split.
const MAX_SPLITS: usize = 16;
/// Blocks whose splits would be shorter than this are not split.
const MIN_SPLIT: usize = 128;

/// The compressor of containers without compressed bytes whose flags have none.
const STORED: Compressor = Compressor::Zstd;

const FLAG_BYTE_SHUFFLE: u8 = 0x01;
const FLAG_MEMCPYED: u8 = 0x02;
const FLAG_BIT_SHUFFLE: u8 = 0x04;
const FLAG_RESERVED: u8 = 0x08;
const FLAG_DONT_SPLIT: u8 = 0x10;

/// The compressor of the splits. LZ4HC writes the same format as LZ4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compressor {
    /// BloscLZ, c-blosc's own.
    Blosclz,
    /// LZ4 blocks without a frame.
    Lz4,
    /// Raw Snappy.
    Snappy,
    /// Zlib streams.
    Zlib,
    /// Zstandard frames.
    Zstd,
}

/// The shuffle of a block before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shuffle {
    /// Nothing.
    None,
    /// Bytes transposed.
    Byte,
    /// Bits transposed.
    Bit,
}

impl Compressor {
    /// The name that Zarr metadata use.
    pub fn name(self) -> &'static str {
        match self {
            Compressor::Blosclz => "blosclz",
            Compressor::Lz4 => "lz4",
            Compressor::Snappy => "snappy",
            Compressor::Zlib => "zlib",
            Compressor::Zstd => "zstd",
        }
    }
}

impl Shuffle {
    /// The name that Zarr v3 metadata use.
    pub fn name(self) -> &'static str {
        match self {
            Shuffle::None => "noshuffle",
            Shuffle::Byte => "shuffle",
            Shuffle::Bit => "bitshuffle",
        }
    }
}

/// A container's header, checked against the container's length. Its fields are private, so the checks stay valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BloscHeader {
    format_version: u8,
    codec_version: u8,
    flags: u8,
    typesize: usize,
    nbytes: usize,
    blocksize: usize,
    cbytes: usize,
    compressor: Compressor,
}

/// One compressed or stored piece of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split<'a> {
    /// Its encoded bytes.
    pub payload: &'a [u8],
    /// Where they start in the container.
    pub offset: usize,
    /// Its decoded length in bytes.
    pub len: usize,
    /// Whether `payload` is the decoded bytes themselves.
    pub stored: bool,
}

impl BloscHeader {
    /// Parses the header of the container `src`, which must be exactly one whole container.
    pub fn parse(src: &[u8]) -> Result<BloscHeader, CodecError> {
        let Some((head, _)) = src.split_first_chunk::<HEADER_LEN>() else {
            return Err(format!(
                "blosc: {} bytes, a header alone has {HEADER_LEN}",
                src.len()
            )
            .into());
        };
        let [format_version, codec_version, flags, typesize, sizes @ ..] = *head;
        let [n0, n1, n2, n3, b0, b1, b2, b3, c0, c1, c2, c3] = sizes;
        let nbytes = size("decoded size", [n0, n1, n2, n3])?;
        let cbytes = size("encoded size", [c0, c1, c2, c3])?;
        if format_version != FORMAT_VERSION {
            return Err(format!(
                "blosc: container version {format_version}, expected {FORMAT_VERSION} (Blosc 1)"
            )
            .into());
        }
        if cbytes != src.len() {
            return Err(format!(
                "blosc: the header says {cbytes} encoded bytes, the container has {}",
                src.len()
            )
            .into());
        }
        if nbytes == 0 {
            // An empty container; its other fields do not matter.
            return Ok(BloscHeader {
                format_version,
                codec_version,
                flags: flags | FLAG_MEMCPYED,
                typesize: usize::from(typesize).max(1),
                nbytes,
                blocksize: 0,
                cbytes,
                compressor: STORED,
            });
        }
        let blocksize = size("block size", [b0, b1, b2, b3])?;
        if flags & FLAG_RESERVED != 0 {
            return Err(format!("blosc: flags {flags:#04x} have the reserved bit 0x08 set").into());
        }
        if typesize == 0 {
            return Err("blosc: an element size of 0".into());
        }
        let compressor = match flags >> 5 {
            0 => Compressor::Blosclz,
            1 => Compressor::Lz4,
            2 => Compressor::Snappy,
            3 => Compressor::Zlib,
            4 => Compressor::Zstd,
            _ if flags & FLAG_MEMCPYED != 0 => STORED,
            code => {
                return Err(format!(
                    "blosc: unknown compressor {code}; known are 0 blosclz, 1 lz4, 2 snappy, 3 zlib, 4 zstd"
                ).into());
            }
        };
        let header = BloscHeader {
            format_version,
            codec_version,
            flags,
            typesize: typesize.into(),
            nbytes,
            blocksize,
            cbytes,
            compressor,
        };
        if blocksize == 0 || blocksize > nbytes || blocksize > MAX_BLOCKSIZE {
            return Err(format!(
                "blosc: blocks of {blocksize} bytes, expected 1 to {}",
                nbytes.min(MAX_BLOCKSIZE)
            )
            .into());
        }
        if header.memcpyed() {
            if nbytes.checked_add(HEADER_LEN) != Some(cbytes) {
                return Err(format!(
                    "blosc: {cbytes} bytes hold {nbytes} stored bytes, expected {HEADER_LEN} more than that"
                ).into());
            }
            return Ok(header);
        }
        if codec_version != 1 {
            return Err(format!(
                "blosc: version {codec_version} of the {} format, expected 1",
                compressor.name()
            )
            .into());
        }
        if header.n_blocks() > (cbytes - HEADER_LEN) / 4 {
            return Err(format!(
                "blosc: {cbytes} bytes cannot hold the offsets of {} blocks",
                header.n_blocks()
            )
            .into());
        }
        Ok(header)
    }

    /// Version of the container format.
    pub fn format_version(&self) -> u8 {
        self.format_version
    }

    /// Version of the compressor's format.
    pub fn codec_version(&self) -> u8 {
        self.codec_version
    }

    /// The flags byte.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Bytes of an element, as far as shuffling and splitting go; 1 to 255.
    pub fn typesize(&self) -> usize {
        self.typesize
    }

    /// Decoded bytes of the container; below 2^31.
    pub fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// Decoded bytes of every block but the last.
    pub fn blocksize(&self) -> usize {
        self.blocksize
    }

    /// Encoded bytes of the container, with its header.
    pub fn cbytes(&self) -> usize {
        self.cbytes
    }

    /// The compressor of the splits that are not stored.
    pub fn compressor(&self) -> Compressor {
        self.compressor
    }

    /// Whether all bytes follow the header as they are, neither compressed nor shuffled.
    pub fn memcpyed(&self) -> bool {
        self.flags & FLAG_MEMCPYED != 0
    }

    /// The shuffle in the flags. [`block_shuffle`](Self::block_shuffle) is the actual one of a block.
    pub fn shuffle(&self) -> Shuffle {
        if self.flags & FLAG_BYTE_SHUFFLE != 0 && self.typesize > 1 {
            Shuffle::Byte
        } else if self.flags & FLAG_BIT_SHUFFLE != 0 {
            Shuffle::Bit
        } else {
            Shuffle::None
        }
    }

    /// Number of blocks.
    pub fn n_blocks(&self) -> usize {
        if self.nbytes == 0 {
            0
        } else {
            self.nbytes.div_ceil(self.blocksize)
        }
    }

    /// Where block `i` lies in the decoded bytes; empty past the last.
    pub fn block_range(&self, i: usize) -> Range<usize> {
        let start = i.saturating_mul(self.blocksize).min(self.nbytes);
        start..start.saturating_add(self.blocksize).min(self.nbytes)
    }

    /// Decoded bytes of block `i`; 0 past the last.
    pub fn block_len(&self, i: usize) -> usize {
        self.block_range(i).len()
    }

    /// The actual shuffle of block `i`: none in a memcpyed container, and no bit shuffle where the number of elements is not a
    /// multiple of eight.
    pub fn block_shuffle(&self, i: usize) -> Shuffle {
        let shuffle = if self.memcpyed() {
            Shuffle::None
        } else {
            self.shuffle()
        };
        match shuffle {
            Shuffle::Bit if !unshuffle::is_bit_shuffled(self.typesize, self.block_len(i)) => {
                Shuffle::None
            }
            shuffle => shuffle,
        }
    }

    /// Number of splits of block `i`.
    pub fn n_splits(&self, i: usize) -> usize {
        let whole = self.block_len(i) == self.blocksize;
        if self.flags & (FLAG_DONT_SPLIT | FLAG_MEMCPYED) == 0
            && whole
            && self.typesize <= MAX_SPLITS
            && self.blocksize / self.typesize >= MIN_SPLIT
        {
            self.typesize
        } else {
            1
        }
    }

    /// The splits of block `i` of the container `src` that this is the header of.
    pub fn splits<'a>(&self, src: &'a [u8], i: usize) -> Result<Splits<'a>, CodecError> {
        let len = self.block_len(i);
        if len == 0 {
            return Err(format!("blosc: there is no block {i}, only {}", self.n_blocks()).into());
        }
        let n = self.n_splits(i);
        if !len.is_multiple_of(n) {
            return Err(format!("blosc: a block of {len} bytes in {n} splits").into());
        }
        let at = if self.memcpyed() {
            HEADER_LEN + i * self.blocksize
        } else {
            let at = read_u32(src, HEADER_LEN + 4 * i)
                .ok_or_else(|| format!("blosc: the offset of block {i} is cut short"))?
                as usize;
            if at > self.cbytes - 4 {
                return Err(format!(
                    "blosc: block {i} starts at byte {at}, expected {} at most",
                    self.cbytes - 4
                )
                .into());
            }
            at
        };
        Ok(Splits {
            src,
            at,
            len: len / n,
            left: n,
            memcpyed: self.memcpyed(),
            block: i,
        })
    }
}

/// The splits of one block, in order; ends after the last or the first error.
#[derive(Clone)]
pub struct Splits<'a> {
    src: &'a [u8],
    at: usize,
    len: usize,
    pub(super) left: usize,
    memcpyed: bool,
    block: usize,
}

impl<'a> Splits<'a> {
    fn read(&self) -> Result<Split<'a>, CodecError> {
        let error = |what: &str| format!("blosc: block {}: {what}", self.block);
        let (offset, encoded) = if self.memcpyed {
            (self.at, self.len)
        } else {
            let encoded = read_u32(self.src, self.at)
                .ok_or_else(|| error("the length of a split is cut short"))?;
            (self.at + 4, encoded as usize)
        };
        let payload = offset
            .checked_add(encoded)
            .and_then(|end| self.src.get(offset..end))
            .ok_or_else(|| {
                let left = self.src.len().saturating_sub(offset);
                error(&format!("a split of {encoded} bytes, only {left} are left"))
            })?;
        Ok(Split {
            payload,
            offset,
            len: self.len,
            stored: encoded == self.len,
        })
    }
}

impl<'a> Iterator for Splits<'a> {
    type Item = Result<Split<'a>, CodecError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let split = self.read();
        match &split {
            Ok(split) => self.at = split.offset + split.payload.len(),
            Err(_) => self.left = 0,
        }
        Some(split)
    }
}

impl fmt::Debug for Splits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Splits")
            .field("block", &self.block)
            .field("left", &self.left)
            .finish()
    }
}

/// A size of the header, which c-blosc keeps in a signed 32-bit integer.
fn size(what: &str, bytes: [u8; 4]) -> Result<usize, CodecError> {
    let value = i32::from_le_bytes(bytes);
    usize::try_from(value).map_err(|_| format!("blosc: a {what} of {value} bytes").into())
}

fn read_u32(src: &[u8], at: usize) -> Option<u32> {
    let bytes = src.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*bytes))
}
