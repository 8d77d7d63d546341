//! What a file of a spectrum says beside its cells, from the options of COPY: `OPTIONS ('spectrum.populations' 'first,second')`.

use std::collections::HashMap;

use datafusion::common::{Result, config_err, exec_err};

use super::spectrum::Spectrum;

/// What the names of options begin with.
pub const PREFIX: &str = "spectrum";

/// The options, without their prefix, and what each is.
pub const KEYS: [(&str, &str); 5] = [
    (
        "populations",
        "names of the populations, separated by commas",
    ),
    ("folded", "whether the spectrum is folded"),
    (
        "copies",
        "the number of copies N of a folded spectrum of one population",
    ),
    (
        "monomorphic",
        "the number of sites without derived copies, in the place of the first cell",
    ),
    (
        "header",
        "whether a .sfs file begins with its shape; ANGSD's do not",
    ),
];

/// The options of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileOptions {
    /// Names of the populations; none, or one for each.
    pub populations: Vec<String>,
    /// Whether the spectrum is folded.
    pub folded: bool,
    /// The number of copies N of a folded spectrum of one population, whose ⌊N/2⌋ + 1 bins do not tell it.
    pub copies: Option<usize>,
    /// The number of sites without derived copies.
    pub monomorphic: Option<f64>,
    /// Whether a `.sfs` file begins with its shape.
    pub header: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            populations: vec![],
            folded: false,
            copies: None,
            monomorphic: None,
            header: true,
        }
    }
}

impl FileOptions {
    /// The options of a COPY; those of other prefixes are not looked at, except `format.`, which these formats do not have.
    ///
    /// # Errors
    /// If an option is not known, or its value is not valid.
    pub fn from_map(options: &HashMap<String, String>) -> Result<Self> {
        let mut found = Self::default();
        for (key, value) in options {
            match key.split_once('.') {
                Some((PREFIX, name)) => found.set(name, value)?,
                Some(("format", name)) => {
                    return config_err!(
                        "files of spectra have no option '{name}'; expected {}",
                        if KEYS.iter().any(|(known, _)| *known == name) {
                            format!("'{PREFIX}.{name}'")
                        } else {
                            names()
                        }
                    );
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Sets an option by its name without the prefix.
    ///
    /// # Errors
    /// As [`from_map`](Self::from_map).
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let truth = || match value.trim().to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => config_err!("'{PREFIX}.{name}': expected true or false, found '{value}'"),
        };
        match name {
            "populations" => {
                let names = value.split(',').map(|name| name.trim().to_string());
                self.populations = names.filter(|name| !name.is_empty()).collect();
            }
            "folded" => self.folded = truth()?,
            "header" => self.header = truth()?,
            "copies" => match value.trim().parse() {
                Ok(copies) if copies > 0 => self.copies = Some(copies),
                _ => {
                    return config_err!(
                        "'{PREFIX}.copies': expected a whole number of at least 1, found '{value}'"
                    );
                }
            },
            "monomorphic" => match value.trim().parse::<f64>() {
                Ok(sites) if sites >= 0.0 && sites.is_finite() => self.monomorphic = Some(sites),
                _ => {
                    return config_err!(
                        "'{PREFIX}.monomorphic': expected a number of sites, found '{value}'"
                    );
                }
            },
            _ => {
                return config_err!("there is no option '{PREFIX}.{name}'; expected {}", names());
            }
        }
        Ok(())
    }

    /// The spectrum as the options want it written, with N + 1 cells if `whole` and it is folded.
    ///
    /// # Errors
    /// If the options are not of this spectrum.
    pub(super) fn applied(&self, mut spectrum: Spectrum, whole: bool) -> Result<Spectrum> {
        let dimensions = spectrum.shape().len();
        if !self.populations.is_empty() && self.populations.len() != dimensions {
            return exec_err!(
                "the spectrum is of {dimensions} population(s), and {} names were given: {}",
                self.populations.len(),
                self.populations.join(", ")
            );
        }
        if self.folded && dimensions == 1 {
            if whole {
                spectrum = self.with_all_bins(spectrum)?;
            }
        } else if self.folded {
            check_folded(&spectrum)?;
        }
        match self.monomorphic {
            Some(sites) => spectrum.with_monomorphic(sites),
            None => Ok(spectrum),
        }
    }

    /// A folded spectrum of one population with its upper half, which is 0.
    fn with_all_bins(&self, spectrum: Spectrum) -> Result<Spectrum> {
        let bins = spectrum.cells().len();
        let Some(copies) = self.copies else {
            return exec_err!(
                "a folded spectrum of {bins} bins may be of {} or of {} copies: give their number, '{PREFIX}.copies' \
                 (in Python copies=)",
                bins.saturating_sub(1).saturating_mul(2),
                bins.saturating_mul(2).saturating_sub(1)
            );
        };
        if bins == copies + 1 {
            check_folded(&spectrum)?;
            return Ok(spectrum);
        }
        if bins != copies / 2 + 1 {
            return exec_err!(
                "a folded spectrum of {copies} copies has {} bins, or {} with its upper half, found {bins}",
                copies / 2 + 1,
                copies + 1
            );
        }
        spectrum.padded(copies + 1)
    }
}

/// Returns an error if a cell is not 0 that a folded spectrum leaves 0.
fn check_folded(spectrum: &Spectrum) -> Result<()> {
    let copies = spectrum.copies();
    for index in 0..spectrum.cells().len() {
        let value = spectrum.cells().value(index);
        let derived = spectrum.sum_of_indices(index);
        if value != 0.0 && derived.saturating_mul(2) > copies {
            return exec_err!(
                "the spectrum is not folded: it has {value} site(s) with {derived} of {copies} copies; use joint_sfs_folded or sfs_folded"
            );
        }
    }
    Ok(())
}

fn names() -> String {
    let names: Vec<String> = KEYS
        .iter()
        .map(|(name, _)| format!("'{PREFIX}.{name}'"))
        .collect();
    names.join(", ")
}
