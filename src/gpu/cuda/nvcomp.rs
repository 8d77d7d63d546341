//! nvCOMP's batched decompressors of LZ4 and DEFLATE, through the C interface of version 6 (`nvcomp/lz4.h`, `deflate.h`).

use std::ffi::c_void;

use cudarc::driver::sys::CUstream;
use libloading::Library;

use super::libraries;
use crate::gpu::error::GpuError;
use crate::gpu::plan::FrameCodec;

/// `nvcompBatched*DecompressOpts_t`: 64 bytes, all zero for the defaults.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Options([u64; 8]);

type DecompressAsync = unsafe extern "C" fn(
    compressed: *const u64,
    compressed_bytes: *const u64,
    room: *const u64,
    actual: *mut u64,
    n: usize,
    temp: *mut c_void,
    temp_bytes: usize,
    uncompressed: *const u64,
    options: Options,
    statuses: *mut i32,
    stream: CUstream,
) -> i32;

type TempSize = unsafe extern "C" fn(
    n: usize,
    largest: usize,
    options: Options,
    temp_bytes: *mut usize,
    total: usize,
    stream: CUstream,
) -> i32;

#[derive(Debug, Clone, Copy)]
struct Functions {
    decompress: DecompressAsync,
    temp_size: TempSize,
}

/// nvCOMP, loaded.
#[derive(Debug)]
pub struct Nvcomp {
    lz4: Functions,
    deflate: Functions,
    /// Keeps the functions above loaded.
    _library: Library,
}

/// Device addresses of tables with one entry for each frame.
#[derive(Debug, Clone, Copy)]
pub struct NvcompFrames {
    /// Number of frames.
    pub n: usize,
    /// Addresses of the encoded bytes.
    pub compressed: u64,
    /// Their lengths.
    pub compressed_bytes: u64,
    /// Addresses to decode to.
    pub uncompressed: u64,
    /// Room there: the expected decoded lengths.
    pub room: u64,
    /// Decoded lengths, written.
    pub actual: u64,
    /// Statuses (`i32`), written.
    pub statuses: u64,
    /// Decoded bytes of the largest.
    pub largest: usize,
    /// Decoded bytes of all.
    pub total: usize,
}

impl Nvcomp {
    /// Finds and loads nvCOMP.
    ///
    /// # Errors
    /// What is missing.
    pub fn load() -> Result<Self, GpuError> {
        let library = libraries::nvcomp()?;
        let decoder = |name: &str| {
            // SAFETY: these are the signatures of nvCOMP 6, the only version with functions of these names.
            unsafe {
                Ok::<_, GpuError>(Functions {
                    decompress: symbol(&library, &format!("nvcompBatched{name}DecompressAsync"))?,
                    temp_size: symbol(
                        &library,
                        &format!("nvcompBatched{name}DecompressGetTempSize"),
                    )?,
                })
            }
        };
        Ok(Self {
            lz4: decoder("LZ4")?,
            deflate: decoder("Deflate")?,
            _library: library,
        })
    }

    fn functions(&self, codec: FrameCodec) -> Result<&Functions, GpuError> {
        match codec {
            FrameCodec::Lz4 => Ok(&self.lz4),
            FrameCodec::Deflate => Ok(&self.deflate),
            FrameCodec::Zstd => Err("nvCOMP is not used for zstd".into()),
        }
    }

    /// Bytes of scratch memory that decoding these frames needs.
    pub fn temp_bytes(
        &self,
        codec: FrameCodec,
        frames: &NvcompFrames,
        stream: CUstream,
    ) -> Result<usize, GpuError> {
        let functions = self.functions(codec)?;
        let mut bytes = 0;
        // SAFETY: writes one number; enqueues nothing.
        let status = unsafe {
            (functions.temp_size)(
                frames.n,
                frames.largest,
                Options::default(),
                &mut bytes,
                frames.total,
                stream,
            )
        };
        check(codec, "the size of scratch memory", status)?;
        Ok(bytes)
    }

    /// Enqueues the decoding of these frames.
    ///
    /// # Safety
    /// The tables, and the memory that they point to, are device memory that lives until the stream has run this. `temp` has the
    /// bytes that [`temp_bytes`](Self::temp_bytes) returned.
    pub unsafe fn decompress(
        &self,
        codec: FrameCodec,
        frames: &NvcompFrames,
        temp: u64,
        temp_bytes: usize,
        stream: CUstream,
    ) -> Result<(), GpuError> {
        let functions = self.functions(codec)?;
        // SAFETY: the caller guarantees the memory.
        let status = unsafe {
            (functions.decompress)(
                frames.compressed as *const u64,
                frames.compressed_bytes as *const u64,
                frames.room as *const u64,
                frames.actual as *mut u64,
                frames.n,
                temp as *mut c_void,
                temp_bytes,
                frames.uncompressed as *const u64,
                Options::default(),
                frames.statuses as *mut i32,
                stream,
            )
        };
        check(codec, "decompression", status)
    }
}

/// # Safety
/// `T` is the function's type.
unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Result<T, GpuError> {
    // SAFETY: the caller guarantees the type.
    unsafe { library.get::<T>(name.as_bytes()) }
        .map(|symbol| *symbol)
        .map_err(|error| {
            format!("the nvCOMP that was found has no {name}; version 6 is needed ({error})").into()
        })
}

fn check(codec: FrameCodec, what: &str, status: i32) -> Result<(), GpuError> {
    if status == 0 {
        Ok(())
    } else {
        Err(format!("nvCOMP: {what} ({codec:?}) failed with status {status}").into())
    }
}
