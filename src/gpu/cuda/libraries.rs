//! Finds NVIDIA's libraries at run time: the driver, NVRTC and nvCOMP. Nothing here is needed to build or to run without.

use std::path::{Path, PathBuf};

use libloading::Library;

/// The driver, which every machine with a card has.
///
/// # Errors
/// That there is none.
pub fn driver() -> Result<(), String> {
    // SAFETY: loading the driver runs its initialisers, which is what it is for.
    if unsafe { cudarc::driver::sys::is_culib_present() } {
        Ok(())
    } else {
        Err("no NVIDIA driver was found (libcuda.so)".to_string())
    }
}

/// NVRTC, which compiles the kernels for the device where they are not in the cache yet.
///
/// # Errors
/// What was looked for, and how to get it.
pub fn nvrtc() -> Result<(), String> {
    // A library that is loaded already is found under its name, so load the one of a Python environment first.
    for major in ["13", "12"] {
        for path in in_environments(
            &format!("nvidia/cu{major}/lib"),
            &format!("libnvrtc.so.{major}"),
        )
        .chain(in_environments(
            "nvidia/cuda_nvrtc/lib",
            &format!("libnvrtc.so.{major}"),
        )) {
            if let Ok(library) = open(&path) {
                // Stays loaded for good: the bindings look it up by name later.
                std::mem::forget(library);
            }
        }
    }
    // SAFETY: as for the driver.
    if unsafe { cudarc::nvrtc::sys::is_culib_present() } {
        Ok(())
    } else {
        Err(
            "NVRTC (libnvrtc.so), which compiles the kernels on first use, was not found: install CUDA or the package \
             nvidia-cuda-nvrtc (for CUDA 13) or nvidia-cuda-nvrtc-cu12, and put its lib folder on LD_LIBRARY_PATH"
                .to_string(),
        )
    }
}

/// nvCOMP: `VCZ_NVCOMP_LIB`, then the usual names, then Python environments.
///
/// # Errors
/// What was looked for, and how to get it.
pub fn nvcomp() -> Result<Library, String> {
    if let Some(path) = std::env::var_os("VCZ_NVCOMP_LIB") {
        return open(Path::new(&path)).map_err(|error| {
            format!(
                "nvCOMP could not be loaded from VCZ_NVCOMP_LIB = '{}': {error}",
                Path::new(&path).display()
            )
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
            .to_string()
    })
}

fn open(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: NVIDIA's libraries; their initialisers have no requirements.
    unsafe { Library::new(path) }
}

/// `folder/name` in the packages of the active Python and Conda environments.
fn in_environments(folder: &str, name: &str) -> impl Iterator<Item = PathBuf> {
    let mut found = Vec::new();
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let Some(root) = std::env::var_os(variable) else {
            continue;
        };
        let Ok(entries) = std::fs::read_dir(Path::new(&root).join("lib")) else {
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
