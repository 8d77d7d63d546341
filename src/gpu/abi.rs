//! The structs that the kernels read (`kernels/vcz.cuh`), byte for byte. Device addresses are plain `u64`.

use bytemuck::{Pod, Zeroable};

/// A decoded block of elements on the device.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Block {
    /// Address of its bytes; 0 if all are zero.
    pub data: u64,
    /// Elements in it.
    pub elements: u32,
    /// [`PLAIN`], [`BYTE_SHUFFLED`] or [`BIT_SHUFFLED`].
    pub kind: u32,
    /// Stored bit-planes; for the other kinds 0 if the block is all zeros, else 1.
    pub planes: u32,
    /// [`REPEATS`], or 0: planes that are not stored are zero.
    pub flags: u32,
}

/// Flag of a bit-shuffled [`Block`] with at least one plane: planes that are not stored equal the last one that is.
pub const REPEATS: u32 = 1;

/// Elements one after the other.
pub const PLAIN: u32 = 0;
/// All first bytes, then all second bytes, and so on.
pub const BYTE_SHUFFLED: u32 = 1;
/// All lowest bits, then the next, and so on.
pub const BIT_SHUFFLED: u32 = 2;

/// A rectangle of rows and samples that was encoded as one, and the address of its results.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Tile {
    /// Address of the whole chunk's output.
    pub out: u64,
    /// Address of its first [`Block`].
    pub blocks: u64,
    /// Address of its [`CountSpec`] or [`GatherSpec`].
    pub spec: u64,
    /// Address of memory, of zeros, for rows of planes that stay on the device; 0 if none do.
    pub resident: u64,
    /// Elements of every block but the last.
    pub block_elements: u32,
    /// Rows that exist.
    pub rows: u32,
    /// Row of the output for its first row.
    pub row0: u32,
    /// Elements from one row to the next.
    pub row_elements: u32,
    /// Its first sample, counted from the chunk's first.
    pub sample0: u32,
    /// Samples of a row.
    pub samples: u32,
    /// Stored elements of a sample.
    pub copies: u32,
    /// Bytes of an element.
    pub width: u32,
    /// [`BIG_ENDIAN`] and [`SHARED`].
    pub flags: u32,
    /// Index of the chunk's status.
    pub status: u32,
    /// Rows of the whole output.
    pub out_rows: u32,
    /// Selected samples, or samples of its set of planes, before this tile's.
    pub sel_begin: u32,
    /// Selected samples, or samples of its set of planes, in this tile.
    pub sel_count: u32,
    /// Its set of planes.
    pub set: u32,
    /// Index, among the statuses, of the words of planes that the chunk has used.
    pub used: u32,
    /// 64-bit words of planes that the chunk may use.
    pub room: u32,
}

/// Flag of a [`Tile`]: elements are big-endian.
pub const BIG_ENDIAN: u32 = 1;
/// Flag of a [`Tile`]: other tiles add to the same rows of the output.
pub const SHARED: u32 = 2;

/// What to count in a sample chunk.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct CountSpec {
    /// Address of the masks: the wanted copies, the copies of each allele set, the samples of each genotype and zygosity set.
    pub masks: u64,
    /// Address of its [`PlaneSet`]s.
    pub planes: u64,
    /// Address of its [`SparseSets`](super::sparse_sets::SparseSets), or 0.
    pub sparse: u64,
    /// 32-bit words of a mask of copies.
    pub mask_words: u32,
    /// Sets whose alleles are counted.
    pub allele_sets: u32,
    /// Sets whose genotypes are counted.
    pub genotype_sets: u32,
    /// Sets whose zygosity is counted.
    pub zygosity_sets: u32,
    /// 32-bit words of a mask of samples.
    pub sample_words: u32,
    /// Number of alleles, K.
    pub n_alleles: u32,
    /// Copies of a call.
    pub ploidy: u32,
    /// Sets whose genotypes are kept as bit-planes.
    pub plane_sets: u32,
    /// Bytes of a count: 1, 2 or 4.
    pub count_bytes: u32,
    /// Unused.
    pub pad: u32,
}

/// A set whose genotypes are kept as bit-planes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct PlaneSet {
    /// Address of its samples, `u32`, ascending, counted from the chunk's first.
    pub samples: u64,
    /// 64-bit words that a row of the sets before has at most.
    pub before: u64,
    /// Samples of the set in the chunk.
    pub n_samples: u32,
    /// 64-bit words of a plane.
    pub width: u32,
}

/// Which elements of a sample chunk to return.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct GatherSpec {
    /// Address of the selected samples, `u32`, ascending, counted from the chunk's first.
    pub samples: u64,
    /// How many are selected.
    pub n_samples: u32,
    /// Elements of a sample that are wanted.
    pub inner: u32,
}

/// A filter of calls by values of a field, in a tile.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct CallFilter {
    /// Address of the field's first [`Block`] in the tile.
    pub blocks: u64,
    /// The smallest value that passes, in the order `order`.
    pub low: i64,
    /// The largest value that passes.
    pub high: i64,
    /// Bits of the missing value, which never passes.
    pub missing: u64,
    /// Bits of fill, which never passes.
    pub fill: u64,
    /// Elements of every block but the last.
    pub block_elements: u32,
    /// Stored elements of a call.
    pub per_call: u32,
    /// Which of them is tested.
    pub at: u32,
    /// Bytes of an element.
    pub width: u32,
    /// [`SIGNED`], [`UNSIGNED`] or [`FLOAT`].
    pub order: u32,
    /// [`FIELD_BIG_ENDIAN`] and [`HAS_NULLS`].
    pub flags: u32,
}

/// Values are signed integers.
pub const SIGNED: u32 = 0;
/// Values are unsigned integers, compared less 2^63.
pub const UNSIGNED: u32 = 1;
/// Values are floating-point numbers, compared by their bits.
pub const FLOAT: u32 = 2;
/// Flag of a [`CallFilter`]: the field's elements are big-endian.
pub const FIELD_BIG_ENDIAN: u32 = 1;
/// Flag of a [`CallFilter`]: `missing` and `fill` are set.
pub const HAS_NULLS: u32 = 2;

/// The calls of a tile to test.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct CallTile {
    /// Address of a bit for each call, in 32-bit words: 1 if it passes every filter. One word more may be read.
    pub passes: u64,
    /// Address of its [`CallFilter`]s.
    pub filters: u64,
    /// Number of them, at least one.
    pub n_filters: u32,
    /// Calls of the tile, with padding.
    pub calls: u32,
}

/// A block of genotypes to copy, with -1 for each copy but -2 of a call that does not pass.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct MaskedBlock {
    /// The block.
    pub from: Block,
    /// Address of the copy, which has the same kind and elements.
    pub to: u64,
    /// Address of the tile's bits of calls that pass.
    pub passes: u64,
    /// The first element's index in the tile.
    pub first: u32,
    /// Stored elements of a call.
    pub copies: u32,
    /// Under [`BIT_SHUFFLED`], the bit-planes to write, from the first on.
    pub planes: u32,
    /// Bytes of an element.
    pub width: u32,
    /// [`BIG_ENDIAN`].
    pub flags: u32,
    /// Unused.
    pub pad: u32,
}

/// A zstd frame with a content size.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Frame {
    /// Address of the encoded bytes.
    pub src: u64,
    /// Address to decode to.
    pub dst: u64,
    /// Number of encoded bytes, below 2^28.
    pub src_len: u32,
    /// Number of decoded bytes, below 2^31.
    pub dst_len: u32,
    /// Index of the chunk's status.
    pub status: u32,
    /// Unused.
    pub pad: u32,
}

/// Warps of a thread block that decode zstd frames, besides the one that reads for them.
pub const ZSTD_WARPS: u32 = 7;
/// Thread blocks that decode zstd frames on a multiprocessor at a time.
pub const ZSTD_CTAS: u32 = 4;
/// Bytes of the largest block of a zstd frame.
pub const ZSTD_BLOCK: usize = 128 << 10;
/// Most decoded bytes of a zstd frame for our kernel. One warp decodes a frame: genotypes take about 4 ns a byte, but a
/// handmade frame can take many times as long and block everyone who shares the device.
pub const ZSTD_LARGEST: usize = 64 << 20;
/// Bytes of scratch memory of a warp besides a block's literals.
pub const ZSTD_HISTORY: usize = 1024;
/// Each warp's scratch memory is a multiple of this many bytes.
pub const ZSTD_ALIGN: usize = 16;

/// A range of bytes to copy, or to set to zero.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Segment {
    /// Address to copy from; 0 for zeros.
    pub src: u64,
    /// Address to write to.
    pub dst: u64,
    /// Number of bytes.
    pub len: u64,
}

/// A checksum or a byte to verify.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Check {
    /// Address of the decoded bytes.
    pub data: u64,
    /// Number of bytes.
    pub len: u64,
    /// The stored checksum, or the expected byte.
    pub expected: u32,
    /// [`ADLER32`], [`CRC32`] or [`BYTE`].
    pub kind: u32,
    /// Index of the chunk's status.
    pub status: u32,
    /// Unused.
    pub pad: u32,
}

/// Rows of bit-planes of which the units of pairs are made.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct PairRows {
    /// Address of the rows, one after the other: the words of the allele's plane, and for kinds with calls that are missing those of the
    /// plane of copies that are not called.
    pub rows: u64,
    /// Address of the row of each site of the units, `u32`, or [`NO_ROW`]; 0 if they are those of the rows.
    pub order: u64,
    /// Address of the first step's units.
    pub units: u64,
    /// Number of rows, or of sites if there is an order.
    pub n_rows: u32,
    /// 32-bit words of a plane.
    pub width: u32,
    /// Number of copies.
    pub copies: u32,
    /// What the units are: [`Units`](crate::counts::pairs::Units), or [`DIPLOID_BLOCKS`].
    pub kind: u32,
    /// Units of a step, with those past the last, which are zero.
    pub stride: u32,
    /// Thread blocks of a step, each for [`BLOCK_COPIES`] copies.
    pub tiles: u32,
}

/// Rows of one plane to copy, so that they lie one after the other.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct CopiedRows {
    /// Address of the addresses of rows, `u64`; bit 0 is set where the bits of all copies are inverted.
    pub from: u64,
    /// Address to copy to.
    pub to: u64,
    /// Number of rows.
    pub n_rows: u32,
    /// 64-bit words of a row.
    pub width: u32,
    /// Copies that a row has bits of.
    pub copies: u32,
    /// Unused.
    pub pad: u32,
}

/// Pairs of units to count.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Gram {
    /// Address of the units.
    pub units: u64,
    /// Address of the counts, `u32`: that of units i <= j at i * stride + j, added to.
    pub counts: u64,
    /// Address of the [`PairTile`]s.
    pub tiles: u64,
    /// Number of tiles.
    pub n_tiles: u32,
    /// Number of units.
    pub n_units: u32,
    /// Units of a step, with those past the last.
    pub stride: u32,
    /// Number of steps.
    pub steps: u32,
    /// Parts of the steps that are counted by themselves, at most as many as steps.
    pub splits: u32,
    /// Unused.
    pub pad: u32,
}

/// Sums of the counts of pairs of copies, or of individuals, with some first ones.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct PairSums {
    /// Address of the counts, those of [`Gram`].
    pub counts: u64,
    /// Address of the sums, `u32`: those that [`Units`](crate::counts::pairs::Units) has, in the order of
    /// [`PairSums`](crate::counts::pairs::PairSums).
    pub sums: u64,
    /// What the units are: [`Units`](crate::counts::pairs::Units).
    pub kind: u32,
    /// As of [`Gram`].
    pub stride: u32,
    /// Number of copies, or of individuals.
    pub n: u32,
    /// The first of the first ones.
    pub first: u32,
    /// The end of the first ones.
    pub end: u32,
    /// Thread blocks for some first ones, each for some second ones: [`SUMS_TILE`].
    pub across: u32,
}

/// A tile of pairs.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct PairTile {
    /// Its first unit.
    pub row: u32,
    /// Its first second unit.
    pub column: u32,
}

/// Products of the dosages of pairs of individuals to add up.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct WeightedGram {
    /// The units, [`DIPLOID_BLOCKS`]; its counts are not used.
    pub gram: Gram,
    /// Address of the weight of each slice, `u64`.
    pub weights: u64,
    /// Address of the sums, two `u64` for each pair of individuals i <= j, by i and then j: the sum is the first and 2^32 times the second.
    pub sums: u64,
    /// Address of the sums of the products without weights, likewise; 0 if they are not wanted.
    pub products: u64,
    /// Number of individuals.
    pub n_samples: u32,
    /// Unused.
    pub pad: u32,
}

/// Bits of units to add up.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct UnitSums {
    /// Address of the units.
    pub units: u64,
    /// Address of the weights, two `u64` for each slice.
    pub weights: u64,
    /// Address of the sums, two for each unit and each as in [`WeightedGram`].
    pub sums: u64,
    /// Number of units.
    pub n_units: u32,
    /// Units of a step, with those past the last.
    pub stride: u32,
    /// Number of steps.
    pub steps: u32,
    /// Unused.
    pub pad: u32,
}

/// Units for weighted sums: of eight individuals each those that are heterozygous, and then those that are homozygous for the allele.
pub const DIPLOID_BLOCKS: u32 = 4;
/// Units of so many individuals are next to each other.
pub const BLOCK_SAMPLES: usize = 8;
/// No row.
pub const NO_ROW: u32 = u32::MAX;
/// Bytes of a sum.
pub const SUM_BYTES: usize = 16;
/// Rows of a slice, of which a step has [`STEP_SLICES`].
pub const SLICE_ROWS: usize = 256;
/// Slices of a step.
pub const STEP_SLICES: usize = 4;
/// Steps of which a thread block adds up the bits of units.
pub const SUM_STEPS: usize = 16;
/// Units and second units of a tile of weighted sums on compute capability 9.0.
pub const WEIGHTED_TILE: [usize; 2] = [128, 256];
/// Threads of a thread block there.
pub const WEIGHTED_THREADS: u32 = 384;
/// Bytes of shared memory of a thread block there.
pub const WEIGHTED_SHARED: u32 =
    (4 * (WEIGHTED_TILE[0] + WEIGHTED_TILE[1]) * UNIT_BYTES + 1024) as u32;
/// Rows of a step of units.
pub const STEP_ROWS: usize = 1024;
/// Bytes of a unit in a step.
pub const UNIT_BYTES: usize = STEP_ROWS / 8;
/// Copies of a thread block that makes units.
pub const BLOCK_COPIES: usize = 256;
/// First and second ones of pairs whose counts a thread block sums.
pub const SUMS_TILE: [usize; 2] = [8, 32];
/// Units and second units of a tile.
pub const GRAM_TILE: [usize; 2] = [128, 128];
/// The same on compute capability 9.0.
pub const HOPPER_TILE: [usize; 2] = [192, 256];
/// Threads of a thread block there.
pub const HOPPER_THREADS: u32 = 512;
/// Bytes of shared memory of a thread block there: four stages, and the alignment of the first.
pub const HOPPER_SHARED: u32 = (4 * (HOPPER_TILE[0] + HOPPER_TILE[1]) * UNIT_BYTES + 1024) as u32;

/// Adler-32, of zlib streams.
pub const ADLER32: u32 = 0;
/// CRC-32, of gzip members.
pub const CRC32: u32 = 1;
/// One byte; a difference is [`BAD_FRAME`].
pub const BYTE: u32 = 2;

/// Status bit: a wanted code without an allele in `variant_allele`.
pub const BAD_CODE: u32 = 1;
/// Status bit: a frame did not decode as expected.
pub const BAD_FRAME: u32 = 2;
/// Status bit: a checksum does not match.
pub const BAD_CHECKSUM: u32 = 4;
/// Status bit: the planes of rows have more words than there is room for.
pub const FULL: u32 = 8;

/// The structs are integers without padding between or behind them, which the sizes prove.
macro_rules! plain {
    ($($name:ident: $size:literal),*) => {$(
        const _: () = assert!(size_of::<$name>() == $size);
        // SAFETY: integers only, no padding: any bytes are a value.
        unsafe impl Zeroable for $name {}
        // SAFETY: as above.
        unsafe impl Pod for $name {}
    )*};
}

pub(super) use plain;

plain!(
    Block: 24, Tile: 96, CountSpec: 64, PlaneSet: 24, GatherSpec: 16, CallFilter: 64, CallTile: 24, MaskedBlock: 64, Frame: 32,
    Segment: 24, Check: 32, PairRows: 48, CopiedRows: 32, Gram: 48, PairSums: 40, PairTile: 8,
    WeightedGram: 80, UnitSums: 40
);
