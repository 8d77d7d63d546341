//! Finds NVIDIA's libraries at run time: the driver, NVRTC, nvCOMP and cuFile. None is needed to build, or to run on the host.

use crate::gpu::error::GpuError;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

/// Loads the driver, which every machine with an NVIDIA GPU has.
///
/// # Errors
/// If there is none.
pub fn driver() -> Result<(), GpuError> {
    // SAFETY: loading the driver runs its initialisers, which have no requirements.
    if unsafe { cudarc::driver::sys::is_culib_present() } {
        Ok(())
    } else {
        Err("no NVIDIA driver was found (libcuda.so)".into())
    }
}

/// Loads NVRTC, which compiles the kernels that are not cached.
///
/// # Errors
/// What was looked for, and how to install it.
pub fn nvrtc() -> Result<(), GpuError> {
    // `cudarc` finds a library that is already loaded by its name, so one of a Python environment is loaded first.
    for major in ["13", "12"] {
        let name = format!("libnvrtc.so.{major}");
        for path in in_environments(&format!("nvidia/cu{major}/lib"), &name)
            .chain(in_environments("nvidia/cuda_nvrtc/lib", &name))
        {
            // NVRTC finds its built-in headers by name too, and not in its own folder.
            for builtins in beside(&path, "libnvrtc-builtins.so") {
                keep(&builtins);
            }
            keep(&path);
        }
    }
    // SAFETY: NVRTC's initialisers have no requirements.
    if unsafe { cudarc::nvrtc::sys::is_culib_present() } {
        Ok(())
    } else {
        Err(
            "NVRTC (libnvrtc.so), which compiles the kernels on first use, was not found: install CUDA or the package \
             nvidia-cuda-nvrtc (for CUDA 13) or nvidia-cuda-nvrtc-cu12, and put its lib folder on LD_LIBRARY_PATH"
                .into(),
        )
    }
}

/// Loads a library for the rest of the process, so that it is found by its name. Errors are only logged: the later look-up by
/// name fails too.
fn keep(path: &Path) {
    // SAFETY: NVIDIA's libraries have initialisers without requirements.
    #[cfg(unix)]
    let library = unsafe {
        use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
        Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL)
    };
    #[cfg(not(unix))]
    let library = open(path);
    match library {
        Ok(library) => std::mem::forget(library),
        Err(error) => log::debug!("{}: {error}", path.display()),
    }
}

/// Files in the folder of `path` whose names start with `prefix`.
fn beside(path: &Path, prefix: &str) -> Vec<PathBuf> {
    let Some(entries) = path
        .parent()
        .and_then(|folder| std::fs::read_dir(folder).ok())
    else {
        return Vec::new();
    };
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(prefix))
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_wanted)
        .collect()
}

/// Whether the user set the path of nvCOMP.
pub fn nvcomp_is_named() -> bool {
    std::env::var_os("VCZ_NVCOMP_LIB").is_some()
}

/// Loads nvCOMP: from `VCZ_NVCOMP_LIB`, then by the usual names, then from Python environments.
///
/// # Errors
/// What was looked for, and how to install it.
pub fn nvcomp() -> Result<Library, GpuError> {
    if let Some(path) = std::env::var_os("VCZ_NVCOMP_LIB") {
        return open(Path::new(&path)).map_err(|error| {
            format!(
                "nvCOMP could not be loaded from VCZ_NVCOMP_LIB = '{}': {error}",
                Path::new(&path).display()
            )
            .into()
        });
    }
    let names = ["libnvcomp.so.6", "libnvcomp.so"].map(PathBuf::from);
    let found = names
        .into_iter()
        .chain(in_environments("nvidia/libnvcomp/lib64", "libnvcomp.so.6"))
        .find_map(|path| open(&path).ok());
    found.ok_or_else(|| {
        "nvCOMP 6 (libnvcomp.so.6) was not found: install the Python package nvidia-libnvcomp-cu13 or \
         nvidia-libnvcomp-cu12, or set VCZ_NVCOMP_LIB to the library's path"
            .into()
    })
}

/// Loads cuFile: from `VCZ_CUFILE_LIB`, then by the usual name, then from Python environments.
///
/// # Errors
/// What was looked for, and how to install it.
pub fn cufile() -> Result<Library, GpuError> {
    const NAME: &str = "libcufile.so.0";
    if let Some(path) = std::env::var_os("VCZ_CUFILE_LIB") {
        return open(Path::new(&path)).map_err(|error| {
            format!(
                "cuFile could not be loaded from VCZ_CUFILE_LIB = '{}': {error}",
                Path::new(&path).display()
            )
            .into()
        });
    }
    let found = std::iter::once(PathBuf::from(NAME))
        .chain(in_environments("nvidia/cu13/lib", NAME))
        .chain(in_environments("nvidia/cufile/lib", NAME))
        .find_map(|path| open(&path).ok());
    found.ok_or_else(|| {
        "cuFile (libcufile.so.0) was not found: install GPUDirect Storage or the Python package nvidia-cufile (for CUDA 13) or \
         nvidia-cufile-cu12, or set VCZ_CUFILE_LIB to the library's path"
            .into()
    })
}

fn open(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: NVIDIA's libraries have initialisers without requirements.
    unsafe { Library::new(path) }
}

/// The environment of the Python that runs this process, if one does: a notebook's kernel may not have activated it.
static PYTHON_PREFIX: OnceLock<PathBuf> = OnceLock::new();

/// Looks for libraries in this Python environment, too. Only the first call has an effect.
pub fn search_python_prefix(prefix: PathBuf) {
    PYTHON_PREFIX.get_or_init(|| prefix);
}

/// `folder/name` in the packages of this process's Python environment, and of the active Python and Conda environments.
fn in_environments(folder: &str, name: &str) -> impl Iterator<Item = PathBuf> {
    let mut found = Vec::new();
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].map(std::env::var_os);
    let active = active.into_iter().flatten().map(PathBuf::from);
    for root in PYTHON_PREFIX.get().cloned().into_iter().chain(active) {
        let Ok(entries) = std::fs::read_dir(root.join("lib")) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path().join("site-packages").join(folder).join(name);
            if path.is_file() {
                found.push(path);
            }
        }
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file names are those of the packages of NVRTC 12 and 13.
    #[test]
    fn built_in_headers_are_found_beside_nvrtc() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "libnvrtc.so.13",
            "libnvrtc.alt.so.13",
            "libnvrtc-builtins.so.13.0",
            "libnvrtc-builtins.alt.so.13.0",
        ] {
            std::fs::write(folder.path().join(name), []).unwrap();
        }
        let found = beside(
            &folder.path().join("libnvrtc.so.13"),
            "libnvrtc-builtins.so",
        );
        assert_eq!(found, [folder.path().join("libnvrtc-builtins.so.13.0")]);
        assert!(beside(Path::new("libnvrtc.so.13"), "libnvrtc-builtins.so").is_empty());
    }
}
