//! The kernels of `kernels/`: compiled by NVRTC for the device on first use, cached on disk, and looked up by name.

use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::hash::{DefaultHasher, Hash, Hasher};

use cudarc::driver::{result, sys};
use cudarc::nvrtc::{result as nvrtc, sys as nvrtc_sys};

use super::{kernel_cache, libraries};
use crate::gpu::abi;
use crate::gpu::error::GpuError;

/// Headers of the kernels, by file name.
const HEADERS: [(&str, &str); 10] = [
    ("vcz.cuh", include_str!("../../../kernels/vcz.cuh")),
    ("codes.cuh", include_str!("../../../kernels/codes.cuh")),
    ("count.cuh", include_str!("../../../kernels/count.cuh")),
    ("pairs.cuh", include_str!("../../../kernels/pairs.cuh")),
    ("hopper.cuh", include_str!("../../../kernels/hopper.cuh")),
    (
        "zstd_state.cuh",
        include_str!("../../../kernels/zstd_state.cuh"),
    ),
    (
        "zstd_tables.cuh",
        include_str!("../../../kernels/zstd_tables.cuh"),
    ),
    (
        "zstd_literals.cuh",
        include_str!("../../../kernels/zstd_literals.cuh"),
    ),
    (
        "zstd_execute.cuh",
        include_str!("../../../kernels/zstd_execute.cuh"),
    ),
    (
        "zstd_sequences.cuh",
        include_str!("../../../kernels/zstd_sequences.cuh"),
    ),
];

/// The kernels' sources, by file name.
pub const KERNEL_SOURCES: [(&str, &str); 9] = [
    ("count.cu", include_str!("../../../kernels/count.cu")),
    ("sparse.cu", include_str!("../../../kernels/sparse.cu")),
    (
        "genotypes.cu",
        include_str!("../../../kernels/genotypes.cu"),
    ),
    ("zygosity.cu", include_str!("../../../kernels/zygosity.cu")),
    ("planes.cu", include_str!("../../../kernels/planes.cu")),
    ("gather.cu", include_str!("../../../kernels/gather.cu")),
    ("filter.cu", include_str!("../../../kernels/filter.cu")),
    ("frames.cu", include_str!("../../../kernels/frames.cu")),
    ("zstd.cu", include_str!("../../../kernels/zstd.cu")),
];

/// The sources of [`PairKernels`], by file name.
const PAIR_SOURCES: [(&str, &str); 5] = [
    ("units.cu", include_str!("../../../kernels/units.cu")),
    ("gram.cu", include_str!("../../../kernels/gram.cu")),
    (
        "gram_hopper.cu",
        include_str!("../../../kernels/gram_hopper.cu"),
    ),
    ("samples.cu", include_str!("../../../kernels/samples.cu")),
    ("rare.cu", include_str!("../../../kernels/rare.cu")),
];

/// The source of [`SiteKernels`], and its file name.
const SITES_SOURCE: (&str, &str) = ("sites.cu", include_str!("../../../kernels/sites.cu"));

/// The kernels that count pairs, loaded into a context when they are first used.
#[derive(Debug)]
pub struct PairKernels {
    /// Makes units from rows of bit-planes.
    pub units: sys::CUfunction,
    /// Copies rows of bit-planes that are on the device.
    pub copy_rows: sys::CUfunction,
    /// Counts genotypes of individuals.
    pub sample_counts: sys::CUfunction,
    /// Adds up the bits of units.
    pub unit_sums: sys::CUfunction,
    /// Makes sums of the counts of units.
    pub pair_sums: sys::CUfunction,
    /// Counts pairs of units.
    pub gram: sys::CUfunction,
    /// Adds up weighted products of dosages.
    pub weighted: sys::CUfunction,
    /// Adds up the same where few copies have the allele.
    pub rare_pairs: sys::CUfunction,
    /// Counts pairs of sites.
    pub site_counts: sys::CUfunction,
    /// `gram`, `weighted` and `site_counts`, faster, on compute capability 9.0.
    pub hopper: Option<[sys::CUfunction; 3]>,
}

// SAFETY: these are handles; the driver's functions may be called from any thread.
unsafe impl Send for PairKernels {}
// SAFETY: as above.
unsafe impl Sync for PairKernels {}

impl PairKernels {
    /// Loads the kernels for a device of compute capability `major.minor` into the current context.
    ///
    /// # Errors
    /// As [`Kernels::load`].
    pub fn load(major: i32, minor: i32) -> Result<Self, GpuError> {
        let arch = format!("sm_{major}{minor}");
        let [units, gram, hopper, samples, rare] = PAIR_SOURCES;
        let on_hopper = || {
            // What they use is of this device alone, which the "a" says.
            let names = [
                "vcz_gram_hopper",
                "vcz_gram_weighted_hopper",
                "vcz_site_counts_hopper",
            ];
            let [gram, weighted, site_counts] = functions(hopper, "sm_90a", names)?;
            with_shared(gram, abi::HOPPER_SHARED)?;
            with_shared(weighted, abi::WEIGHTED_SHARED)?;
            with_shared(site_counts, abi::HOPPER_SHARED)?;
            Ok::<_, GpuError>([gram, weighted, site_counts])
        };
        let hopper = match (major, minor) {
            (9, 0) => match on_hopper() {
                Ok(kernels) => Some(kernels),
                Err(error) => {
                    log::warn!("pairs are counted with the kernel of older devices: {error}");
                    None
                }
            },
            _ => None,
        };
        let names = [
            "vcz_pair_units",
            "vcz_copy_rows",
            "vcz_unit_sums",
            "vcz_pair_sums",
        ];
        let [units, copy_rows, unit_sums, pair_sums] = functions(units, &arch, names)?;
        let [sample_counts] = functions(samples, &arch, ["vcz_sample_counts"])?;
        let [rare_pairs] = functions(rare, &arch, ["vcz_rare_pairs"])?;
        let names = ["vcz_gram", "vcz_gram_weighted", "vcz_site_counts"];
        let [gram, weighted, site_counts] = functions(gram, &arch, names)?;
        Ok(Self {
            units,
            copy_rows,
            sample_counts,
            unit_sums,
            pair_sums,
            gram,
            weighted,
            rare_pairs,
            site_counts,
            hopper,
        })
    }
}

/// The kernels that sum over pairs of sites, loaded into a context when they are first used.
#[derive(Debug)]
pub struct SiteKernels {
    /// Finds the bounds of bins.
    pub bounds: sys::CUfunction,
    /// For each of [`SiteTerms`](crate::counts::sites::SiteTerms), the sums if no call is missing, and if some are.
    pub sums: [[sys::CUfunction; 2]; 3],
}

// SAFETY: as `PairKernels`.
unsafe impl Send for SiteKernels {}
// SAFETY: as above.
unsafe impl Sync for SiteKernels {}

impl SiteKernels {
    /// Loads the kernels for a device of compute capability `major.minor` into the current context.
    ///
    /// # Errors
    /// As [`Kernels::load`].
    pub fn load(major: i32, minor: i32) -> Result<Self, GpuError> {
        let names = [
            "vcz_site_bounds",
            "vcz_site_r2",
            "vcz_site_r2_missing",
            "vcz_site_decay",
            "vcz_site_decay_missing",
            "vcz_site_moments",
            "vcz_site_moments_missing",
        ];
        let arch = format!("sm_{major}{minor}");
        let [
            bounds,
            r2,
            r2_missing,
            decay,
            decay_missing,
            moments,
            moments_missing,
        ] = functions(SITES_SOURCE, &arch, names)?;
        Ok(Self {
            bounds,
            sums: [
                [r2, r2_missing],
                [decay, decay_missing],
                [moments, moments_missing],
            ],
        })
    }
}

/// The kernels, loaded into a context.
#[derive(Debug)]
pub struct Kernels {
    /// Counts alleles on bit-planes of one-byte elements.
    pub count_planes: sys::CUfunction,
    /// The same of many sample sets.
    pub count_sparse: sys::CUfunction,
    /// Counts alleles of any elements.
    pub count_codes: sys::CUfunction,
    /// Counts genotypes of any elements.
    pub count_genotypes: sys::CUfunction,
    /// Counts the zygosity of complete diploids, of any elements.
    pub count_zygosity: sys::CUfunction,
    /// Gathers genotypes of sample sets as bit-planes.
    pub gather_planes: sys::CUfunction,
    /// Gathers elements of selected samples into rows.
    pub gather: sys::CUfunction,
    /// Tests the values of fields of calls.
    pub test_calls: sys::CUfunction,
    /// Copies genotypes with calls that fail missing.
    pub mask_calls: sys::CUfunction,
    /// Copies and zero-fills.
    pub segments: sys::CUfunction,
    /// Decodes zstd frames.
    pub zstd: sys::CUfunction,
    /// Compares the statuses and lengths that nvCOMP reports with the expected ones.
    pub check_frames: sys::CUfunction,
    /// Verifies checksums.
    pub check_sums: sys::CUfunction,
}

// SAFETY: these are handles; the driver's functions may be called from any thread.
unsafe impl Send for Kernels {}
// SAFETY: as above.
unsafe impl Sync for Kernels {}

impl Kernels {
    /// Loads the kernels for a device of compute capability `major.minor` into the current context.
    ///
    /// # Errors
    /// What failed: NVRTC is missing, or does not support the device.
    pub fn load(major: i32, minor: i32) -> Result<Self, GpuError> {
        let mut modules = HashMap::new();
        let arch = format!("sm_{major}{minor}");
        for (name, source) in KERNEL_SOURCES {
            modules.insert(name, module(name, source, &arch)?);
        }
        let function = |file: &str, name: &str| {
            let module = modules.get(file).ok_or_else(|| missing(file, name))?;
            function(*module, file, name)
        };
        Ok(Self {
            count_planes: function("count.cu", "vcz_count_planes")?,
            count_sparse: function("sparse.cu", "vcz_count_sparse")?,
            count_codes: function("count.cu", "vcz_count_codes")?,
            count_genotypes: function("genotypes.cu", "vcz_count_genotypes")?,
            count_zygosity: function("zygosity.cu", "vcz_count_zygosity")?,
            gather_planes: function("planes.cu", "vcz_gather_planes")?,
            gather: function("gather.cu", "vcz_gather")?,
            test_calls: function("filter.cu", "vcz_test_calls")?,
            mask_calls: function("filter.cu", "vcz_mask_calls")?,
            segments: function("frames.cu", "vcz_segments")?,
            zstd: function("zstd.cu", "vcz_zstd")?,
            check_frames: function("frames.cu", "vcz_check_frames")?,
            check_sums: function("frames.cu", "vcz_check_sums")?,
        })
    }
}

/// Lets a kernel use as much shared memory as that of compute capability 9.0 does.
fn with_shared(kernel: sys::CUfunction, bytes: u32) -> Result<(), GpuError> {
    let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    // SAFETY: kernels are never unloaded.
    unsafe { result::function::set_function_attribute(kernel, attribute, bytes) }
        .map_err(|error| format!("{bytes} bytes of shared memory: {error}").into())
}

fn missing(file: &str, name: &str) -> String {
    format!("{file} has no kernel {name}")
}

/// The kernels of these names of a source.
fn functions<const N: usize>(
    (file, source): (&str, &str),
    arch: &str,
    names: [&str; N],
) -> Result<[sys::CUfunction; N], GpuError> {
    let module = module(file, source, arch)?;
    let mut found = [std::ptr::null_mut(); N];
    for (found, name) in found.iter_mut().zip(names) {
        *found = function(module, file, name)?;
    }
    Ok(found)
}

/// A kernel of a module.
fn function(module: sys::CUmodule, file: &str, name: &str) -> Result<sys::CUfunction, GpuError> {
    let c_name = CString::new(name).map_err(|e| e.to_string())?;
    // SAFETY: modules are never unloaded.
    unsafe { result::module::get_function(module, c_name) }
        .map_err(|error| format!("{}: {error}", missing(file, name)).into())
}

/// Loads a source as a module for an architecture: from the cache if the driver accepts its image, else compiled now.
fn module(name: &str, source: &str, arch: &str) -> Result<sys::CUmodule, GpuError> {
    // SAFETY: a complete image that NVRTC wrote; the driver checks its contents.
    let load = |image: &[u8]| unsafe { result::module::load_data(image.as_ptr().cast()) };
    let source = with_headers(source);
    let mut hasher = DefaultHasher::new();
    (env!("CARGO_PKG_VERSION"), &source).hash(&mut hasher);
    let file = format!("{name}.{arch}.{:016x}.cubin", hasher.finish());
    let cached = kernel_cache::folder().map(|folder| folder.join(file));
    if let Some(image) = cached.as_deref().and_then(kernel_cache::load)
        && let Ok(module) = load(&image)
    {
        return Ok(module);
    }
    let image = compile(name, &source, arch)?;
    if let Some(path) = cached
        && let Err(error) = kernel_cache::store(&path, &image)
    {
        log::debug!(
            "the compiled kernels could not be cached in '{}': {error}",
            path.display()
        );
    }
    load(&image)
        .map_err(|error| format!("the kernels of {name} could not be loaded: {error}").into())
}

/// A source with its includes replaced by the headers, so that NVRTC needs no other file.
fn with_headers(source: &str) -> String {
    let mut whole = String::with_capacity(1 << 16);
    let mut left = HEADERS.to_vec();
    include(source, &mut left, &mut whole);
    whole
}

/// Appends a source, with each included header of `left` once.
fn include<'a>(source: &str, left: &mut Vec<(&'a str, &'a str)>, whole: &mut String) {
    for line in source.lines() {
        let name = line
            .strip_prefix("#include \"")
            .and_then(|rest| rest.strip_suffix('"'));
        let Some(name) = name else {
            whole.push_str(line);
            whole.push('\n');
            continue;
        };
        if let Some(at) = left.iter().position(|(known, _)| *known == name) {
            let (_, header) = left.swap_remove(at);
            include(header, left, whole);
        }
    }
}

fn compile(name: &str, source: &str, arch: &str) -> Result<Vec<u8>, GpuError> {
    libraries::nvrtc()?;
    let failed = |error: nvrtc::NvrtcError| format!("NVRTC could not compile {name}: {error:?}");
    let c_source = CString::new(source).map_err(|e| e.to_string())?;
    let c_name = CString::new(name).map_err(|e| e.to_string())?;
    let program = nvrtc::create_program(&c_source, Some(&c_name)).map_err(failed)?;
    let options = [
        format!("--gpu-architecture={arch}"),
        "--std=c++17".to_string(),
        "-default-device".to_string(),
    ];
    // SAFETY: the program is destroyed after its last use; buffers have the sizes that NVRTC reports.
    unsafe {
        let compiled = nvrtc::compile_program(program, &options);
        let image = match compiled {
            Ok(()) => cubin(program).map_err(|error| failed(error).into()),
            Err(error) => {
                let log = nvrtc::get_program_log(program).unwrap_or_default();
                let log: Vec<u8> = log.iter().map(|c: &c_char| c.cast_unsigned()).collect();
                Err(format!("{}: {}", failed(error), String::from_utf8_lossy(&log)).into())
            }
        };
        // An error here would only leak memory: the image was copied.
        let _ = nvrtc::destroy_program(program);
        image
    }
}

/// # Safety
/// `program` has been compiled for a real architecture.
unsafe fn cubin(program: nvrtc_sys::nvrtcProgram) -> Result<Vec<u8>, nvrtc::NvrtcError> {
    let mut len = 0;
    // SAFETY: the caller guarantees a compiled program; `image` has the length that NVRTC reports.
    unsafe {
        nvrtc_sys::nvrtcGetCUBINSize(program, &mut len).result()?;
        let mut image = vec![0u8; len];
        nvrtc_sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()).result()?;
        Ok(image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::pairs::Units;
    use crate::gpu::{rare_abi, sample_abi, site_abi};

    /// Constants that launches share with the header.
    #[test]
    fn the_header_has_the_constants_of_the_host() {
        let block = abi::ZSTD_BLOCK >> 10;
        for line in [
            format!("#define VCZ_ZSTD_WARPS {}", abi::ZSTD_WARPS),
            format!("#define VCZ_ZSTD_CTAS {}", abi::ZSTD_CTAS),
            format!("#define VCZ_ZSTD_BLOCK ({block} * 1024)"),
            format!("#define VCZ_ZSTD_HISTORY {}", abi::ZSTD_HISTORY),
        ] {
            assert!(HEADERS[0].1.lines().any(|found| found == line), "{line}");
        }
        let [hopper_rows, hopper_columns] = abi::HOPPER_TILE;
        let [gram_rows, gram_columns] = abi::GRAM_TILE;
        assert_eq!(gram_rows, gram_columns);
        for line in [
            format!("#define VCZ_STEP_ROWS {}", abi::STEP_ROWS),
            format!("#define VCZ_CTA_COPIES {}", abi::BLOCK_COPIES),
            format!("#define VCZ_WARPS {}", abi::SUMS_TILE[0]),
            format!("#define VCZ_GRAM_TILE {gram_rows}"),
            format!("#define VCZ_HOPPER_ROWS {hopper_rows}"),
            format!("#define VCZ_HOPPER_COLUMNS {hopper_columns}"),
            format!("#define VCZ_HOPPER_THREADS {}", abi::HOPPER_THREADS),
            "#define VCZ_HOPPER_STAGES 4".to_string(),
            format!("#define VCZ_WEIGHTED_ROWS {}", abi::WEIGHTED_TILE[0]),
            format!("#define VCZ_WEIGHTED_THREADS {}", abi::WEIGHTED_THREADS),
            format!("#define VCZ_SLICE_ROWS {}", abi::SLICE_ROWS),
            format!("#define VCZ_STEP_SLICES {}", abi::STEP_SLICES),
            format!("#define VCZ_SUM_STEPS {}", abi::SUM_STEPS),
            format!("#define VCZ_NO_ROW {:#x}u", abi::NO_ROW),
            format!("#define VCZ_UNITS_DIPLOID_BLOCKS {}", abi::DIPLOID_BLOCKS),
            format!("#define VCZ_MOST_COPIES {}", site_abi::MOST_COPIES),
            format!("#define VCZ_SITE_SUMS {}", site_abi::SITE_SUMS),
            format!("#define VCZ_COUNTER_ROWS {}", sample_abi::COUNTER_ROWS),
            format!("#define VCZ_RARE_COPIES {}", rare_abi::RARE_COPIES),
            format!("#define VCZ_UNITS_COPIES {}", Units::Copies as u32),
            format!(
                "#define VCZ_UNITS_COPIES_CALLED {}",
                Units::CopiesCalled as u32
            ),
            format!("#define VCZ_UNITS_DIPLOIDS {}", Units::Diploids as u32),
            format!(
                "#define VCZ_UNITS_DIPLOIDS_CALLED {}",
                Units::DiploidsCalled as u32
            ),
        ] {
            let sources = HEADERS.iter().chain(&PAIR_SOURCES).chain([&SITES_SOURCE]);
            let mut lines = sources.flat_map(|(_, source)| source.lines());
            assert!(lines.any(|found| found == line), "{line}");
        }
    }

    #[test]
    fn sources_include_their_headers() {
        for (name, source) in KERNEL_SOURCES
            .into_iter()
            .chain(PAIR_SOURCES)
            .chain([SITES_SOURCE])
        {
            let whole = with_headers(source);
            assert!(!whole.contains("#include"), "{name}");
            let asked = |header: &str| source.contains(&format!("#include \"{header}\""));
            assert!(HEADERS.iter().any(|(header, _)| asked(header)), "{name}");
            for (header, text) in HEADERS {
                let guard = text.lines().find(|line| line.starts_with("#define"));
                let guard = guard.unwrap();
                let times = whole.lines().filter(|line| *line == guard).count();
                assert!(
                    times <= 1 && (times == 1 || !asked(header)),
                    "{name}: {header}"
                );
            }
        }
        let zstd = KERNEL_SOURCES.iter().find(|(name, _)| *name == "zstd.cu");
        let zstd = with_headers(zstd.unwrap().1);
        let order = [
            "struct VczFrame",
            "struct VczZstd {",
            "void vcz_zstd_execute(",
            "    vcz_zstd(",
        ];
        let at = order.map(|text| zstd.find(text));
        assert!(at.is_sorted() && at.iter().all(Option::is_some), "{at:?}");
    }
}
