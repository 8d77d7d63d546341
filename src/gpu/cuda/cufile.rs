//! cuFile (GPUDirect Storage), through its C interface (`cufile.h`): reads files into device memory.
//!
//! Directly where the kernel module nvidia-fs is loaded, through host memory (cuFile's compatibility mode) elsewhere. Loaded on
//! first use, and never closed: other libraries of the process may use it too.

use std::ffi::c_void;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use libloading::Library;

use super::device::CudaDevice;
use super::libraries;
use crate::gpu::direct::Storage;
use crate::gpu::error::GpuError;

/// This file exists while the kernel module is loaded.
const MODULE: &str = "/proc/driver/nvidia-fs/version";
/// `CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE`.
const ALLOW_COMPATIBILITY: i32 = 1;
/// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`.
#[cfg(unix)]
const OPAQUE_FD: i32 = 1;

/// `CUfileError_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct CuFileStatus {
    code: i32,
    cuda: i32,
}

/// `CUfileDescr_t`.
#[repr(C)]
struct Descriptor {
    kind: i32,
    handle: FileHandle,
    operations: *const c_void,
}

#[repr(C)]
union FileHandle {
    #[cfg_attr(not(unix), expect(dead_code, reason = "file descriptors are of Unix"))]
    descriptor: i32,
    pointer: *mut c_void,
}

/// `CUfileDrvProps_t`, with padding for newer versions.
#[repr(C)]
#[derive(Default)]
struct Properties {
    major_version: u32,
    minor_version: u32,
    poll_threshold: usize,
    most_direct: usize,
    /// A bit for each kind of file system or device that the module supports.
    kinds: u32,
    control: u32,
    rest: [u64; 16],
}

type Handle = *mut c_void;
type Open = unsafe extern "C" fn() -> CuFileStatus;
type SetBool = unsafe extern "C" fn(parameter: i32, value: bool) -> CuFileStatus;
type GetProperties = unsafe extern "C" fn(properties: *mut Properties) -> CuFileStatus;
type Register =
    unsafe extern "C" fn(handle: *mut Handle, descriptor: *mut Descriptor) -> CuFileStatus;
type Deregister = unsafe extern "C" fn(handle: Handle);
type Read = unsafe extern "C" fn(
    handle: Handle,
    base: *mut c_void,
    size: usize,
    file_offset: i64,
    buffer_offset: i64,
) -> isize;

/// cuFile, loaded and opened.
#[derive(Debug)]
struct CuFile {
    register: Register,
    deregister: Deregister,
    read: Read,
    direct: bool,
    /// Keeps the functions above loaded.
    _library: Library,
}

impl CuFile {
    /// Loads and opens cuFile. The context of a device must be current.
    fn open() -> Result<Self, GpuError> {
        let library = libraries::cufile()?;
        // SAFETY: these are the signatures of `cufile.h`, unchanged since its first version; the structures are as large as the
        // ones that it writes.
        unsafe {
            if let Ok(set) = library.get::<SetBool>(b"cuFileSetParameterBool") {
                // Errors are ignored: older versions allow it by default, and opening fails if it is needed and not allowed.
                let _ = set(ALLOW_COMPATIBILITY, true);
            }
            check(
                "cuFileDriverOpen",
                symbol::<Open>(&library, "cuFileDriverOpen")?(),
            )?;
            let mut properties = Properties::default();
            let get: GetProperties = symbol(&library, "cuFileDriverGetProperties")?;
            check("cuFileDriverGetProperties", get(&mut properties))?;
            let direct =
                is_module_loaded() && properties.major_version > 0 && properties.kinds != 0;
            log::debug!(
                "cuFile: nvidia-fs {}.{}, kinds of storage {:#x}: {}",
                properties.major_version,
                properties.minor_version,
                properties.kinds,
                if direct {
                    "direct"
                } else {
                    "compatibility mode"
                }
            );
            Ok(Self {
                register: symbol(&library, "cuFileHandleRegister")?,
                deregister: symbol(&library, "cuFileHandleDeregister")?,
                read: symbol(&library, "cuFileRead")?,
                direct,
                _library: library,
            })
        }
    }
}

fn is_module_loaded() -> bool {
    Path::new(MODULE).exists()
}

fn check(what: &str, status: CuFileStatus) -> Result<(), GpuError> {
    let CuFileStatus { code, cuda } = status;
    if code == 0 {
        return Ok(());
    }
    Err(format!("cuFile: {what} failed with error {code} (CUDA: {cuda})").into())
}

/// # Safety
/// `T` is the function's type.
unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Result<T, GpuError> {
    // SAFETY: the caller guarantees the type.
    unsafe { library.get::<T>(name.as_bytes()) }
        .map(|symbol| *symbol)
        .map_err(|error| format!("the cuFile that was found has no {name}: {error}").into())
}

/// cuFile, opened on first use.
#[derive(Debug)]
pub struct CuFileStorage {
    /// The device in whose context it is opened.
    device: Arc<CudaDevice>,
    opened: OnceLock<Result<CuFile, GpuError>>,
}

impl CuFileStorage {
    /// Storage for which nothing is loaded yet.
    pub fn new(device: &Arc<CudaDevice>) -> Self {
        Self {
            device: Arc::clone(device),
            opened: OnceLock::new(),
        }
    }

    fn get(&self) -> Result<&CuFile, GpuError> {
        let open = || self.device.bind().and_then(|()| CuFile::open());
        self.opened.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    /// Whether files must be opened for direct I/O, without the page cache.
    pub fn reads_past_cache(&self) -> bool {
        self.get().is_ok_and(|cufile| cufile.direct)
    }

    /// Reads the first `len` bytes of `file` to `offset` bytes after device address `base`.
    ///
    /// # Safety
    /// `base` is an allocation of the current context with room for the bytes, and nothing else uses that range meanwhile.
    ///
    /// # Errors
    /// What failed, or how many bytes the file had.
    #[cfg(unix)]
    pub unsafe fn read(
        &self,
        file: &File,
        len: usize,
        base: u64,
        offset: usize,
    ) -> Result<(), GpuError> {
        use std::os::fd::AsRawFd;
        /// Deregisters on every way out, before the file is closed.
        struct Registered<'a>(&'a CuFile, Handle);
        impl Drop for Registered<'_> {
            fn drop(&mut self) {
                // SAFETY: the handle is registered, and no read uses it any more.
                unsafe { (self.0.deregister)(self.1) };
            }
        }
        let cufile = self.get()?;
        let mut descriptor = Descriptor {
            kind: OPAQUE_FD,
            handle: FileHandle {
                pointer: std::ptr::null_mut(),
            },
            operations: std::ptr::null(),
        };
        descriptor.handle.descriptor = file.as_raw_fd();
        let mut handle = std::ptr::null_mut();
        // SAFETY: the file stays open while the handle is registered; both pointers are to live variables.
        let status = unsafe { (cufile.register)(&mut handle, &mut descriptor) };
        check("cuFileHandleRegister", status)?;
        let registered = Registered(cufile, handle);
        let mut done = 0;
        while done < len {
            // Lengths and offsets are below those of allocations, which fit.
            // SAFETY: the caller guarantees that `base` has `offset + len` bytes.
            let read = unsafe {
                (cufile.read)(
                    registered.1,
                    base as *mut c_void,
                    len - done,
                    done as i64,
                    (offset + done) as i64,
                )
            };
            match usize::try_from(read) {
                Ok(0) => {
                    return Err(format!("cuFile: the file ends after {done} of {len} bytes").into());
                }
                Ok(read) => done += read,
                Err(_) if read == -1 => {
                    return Err(format!("cuFile: {}", std::io::Error::last_os_error()).into());
                }
                Err(_) => {
                    return Err(format!("cuFile: cuFileRead failed with error {}", -read).into());
                }
            }
        }
        Ok(())
    }

    /// Fails: cuFile exists on Linux only.
    ///
    /// # Safety
    /// Nothing is read.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(unix))]
    pub unsafe fn read(&self, _: &File, _: usize, _: u64, _: usize) -> Result<(), GpuError> {
        Err("cuFile exists on Linux only".into())
    }
}

impl Storage for CuFileStorage {
    fn is_direct(&self) -> bool {
        // Without the module the library need not be loaded.
        is_module_loaded() && self.get().is_ok_and(|cufile| cufile.direct)
    }

    fn prepare(&self) -> Result<(), GpuError> {
        self.get().map(|_| ())
    }
}
