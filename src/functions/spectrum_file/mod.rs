//! Files of spectra that other programs read: `.fs` (dadi, moments), `.obs` (fastsimcoal2), `.sfs` (ANGSD, sfs, winsfs) and `.npy` (numpy).
//!
//! * `spectrum`: the cells of a spectrum and their shape. `options`: what a file says beside them.
//! * `fs`, `obs`, `realsfs`, `npy`: the formats. `numbers`: numbers as text.

mod fs;
mod npy;
mod numbers;
mod obs;
mod options;
mod realsfs;
mod spectrum;
#[cfg(test)]
mod tests;

use datafusion::common::{Result, config_err};

pub use options::{FileOptions, KEYS, PREFIX};
pub use spectrum::{Cells, Spectrum};

/// A format of spectra.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpectrumFormat {
    /// `.fs`, of dadi and moments.
    Fs,
    /// `.obs`, of fastsimcoal2.
    Obs,
    /// `.sfs`, of ANGSD's realSFS, sfs and winsfs.
    Sfs,
    /// `.npy`, of numpy.
    Npy,
}

impl SpectrumFormat {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Fs, Self::Obs, Self::Sfs, Self::Npy];

    /// The ending of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Fs => "fs",
            Self::Obs => "obs",
            Self::Sfs => "sfs",
            Self::Npy => "npy",
        }
    }

    /// The format's name in `STORED AS`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fs => "FS",
            Self::Obs => "OBS",
            Self::Sfs => "SFS",
            Self::Npy => "NPY",
        }
    }

    /// The format of that name or ending, in any case.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL
            .into_iter()
            .find(|format| format.extension().eq_ignore_ascii_case(name));
        match found {
            Some(format) => Ok(format),
            None => config_err!(
                "there is no format of spectra '{name}'; expected fs (dadi, moments), obs (fastsimcoal2), sfs (ANGSD, winsfs) or npy (numpy)"
            ),
        }
    }

    /// The bytes of a file named `file`.
    ///
    /// # Errors
    /// If the spectrum and the options do not agree, or the format cannot hold the spectrum.
    pub fn bytes(self, spectrum: Spectrum, options: &FileOptions, file: &str) -> Result<Vec<u8>> {
        let spectrum = options.applied(spectrum, self != Self::Npy)?;
        match self {
            Self::Fs => fs::text(&spectrum, options).map(String::into_bytes),
            Self::Obs => obs::text(&spectrum, options, file).map(String::into_bytes),
            Self::Sfs => Ok(realsfs::text(&spectrum, options).into_bytes()),
            Self::Npy => npy::bytes(&spectrum),
        }
    }
}
