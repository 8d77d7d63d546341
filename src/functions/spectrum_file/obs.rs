//! `.obs`, of fastsimcoal2, which tells the kind of spectrum by the file's name.
//!
//! ```text
//! x_DAFpop0.obs, x_MAFpop0.obs      x_jointDAFpop1_0.obs, x_jointMAFpop1_0.obs      x_DSFS.obs, x_MSFS.obs
//!
//! 1 observation                     1 observation                                   1 observations. No. of demes and sample sizes are on next line
//! d0_0  d0_1  d0_2                        d0_0  d0_1  d0_2                          2  2  3
//! 90    4     1                     d1_0  90    4     1                             90 3 1 …
//! ```
//!
//! In a joint file the first population has the columns; a `_DSFS` file has all cells on one line, the last population fastest.

use datafusion::common::{Result, exec_err};

use super::numbers;
use super::options::FileOptions;
use super::spectrum::Spectrum;

/// The file's text; `file` is its name.
///
/// # Errors
/// If there are more than two populations in a file that is not for several, or the name is that of another kind of spectrum.
pub fn text(spectrum: &Spectrum, options: &FileOptions, file: &str) -> Result<String> {
    let stem = file.strip_suffix(".obs").unwrap_or(file);
    let of_derived = stem.ends_with("_DSFS") || stem.contains("DAFpop");
    let of_minor = stem.ends_with("_MSFS") || stem.contains("MAFpop");
    if options.folded && of_derived {
        return exec_err!(
            "'{file}' is fastsimcoal2's name for a spectrum of derived alleles, and this one is folded: \
             name it with MAF instead of DAF, or _MSFS instead of _DSFS"
        );
    }
    if !options.folded && of_minor {
        return exec_err!(
            "'{file}' is fastsimcoal2's name for a spectrum of minor alleles, and this one is not folded: \
             fold it, or name it with DAF instead of MAF, or _DSFS instead of _MSFS"
        );
    }
    let cells = spectrum.cells();
    if stem.ends_with("_DSFS") || stem.ends_with("_MSFS") {
        let sizes = spectrum.shape().iter().map(|cells| cells.saturating_sub(1));
        let sizes: Vec<String> = sizes.map(|size| size.to_string()).collect();
        return Ok(format!(
            "1 observations. No. of demes and sample sizes are on next line\n{}\t{}\n{}\n",
            sizes.len(),
            sizes.join(" "),
            numbers::joined(cells, "\t")
        ));
    }
    let heads = |population: usize, cells: usize| -> Vec<String> {
        (0..cells)
            .map(|cell| format!("d{population}_{cell}"))
            .collect()
    };
    match *spectrum.shape() {
        [bins] => Ok(format!(
            "1 observation\n{}\n{}\n",
            heads(0, bins).join("\t"),
            numbers::joined(cells, "\t")
        )),
        [rows, columns] => {
            let mut text = format!("1 observation\n\t{}\n", heads(0, rows).join("\t"));
            for (column, head) in heads(1, columns).into_iter().enumerate() {
                let line = (0..rows).map(|row| numbers::text(cells, row * columns + column));
                text += &format!("{head}\t{}\n", line.collect::<Vec<_>>().join("\t"));
            }
            Ok(text)
        }
        _ => exec_err!(
            "'{file}': a spectrum of {} populations is a file whose name ends with _DSFS.obs, or _MSFS.obs if it is folded",
            spectrum.shape().len()
        ),
    }
}
