//! `.fs`, of dadi and moments: the number of cells in each population, `folded` or `unfolded`, the populations' names; the cells; the mask.
//!
//! ```text
//! 3 4 unfolded "first" "second"
//! 0 1 2 3 4 5 6 7 8 9 10 11
//! 1 0 0 0 0 0 0 0 0 0 0 1
//! ```

use datafusion::common::{Result, exec_err};

use super::numbers;
use super::options::FileOptions;
use super::spectrum::Spectrum;

/// The file's text.
///
/// # Errors
/// If a population's name has a quotation mark or a line break.
pub fn text(spectrum: &Spectrum, options: &FileOptions) -> Result<String> {
    let mut text = String::new();
    for cells in spectrum.shape() {
        text += &format!("{cells} ");
    }
    text += if options.folded { "folded" } else { "unfolded" };
    for name in &options.populations {
        if name.contains(['"', '\n', '\r']) {
            return exec_err!(
                "a .fs file cannot hold the population name {name:?}; give other names by 'spectrum.populations'"
            );
        }
        text += &format!(" \"{name}\"");
    }
    text.push('\n');
    text += &numbers::joined(spectrum.cells(), " ");
    text.push('\n');
    let copies = spectrum.copies();
    let last = spectrum.cells().len().saturating_sub(1);
    let masked = |index: usize| {
        index == 0
            || index == last
            || (options.folded && spectrum.sum_of_indices(index).saturating_mul(2) > copies)
    };
    let mask: Vec<&str> = (0..=last)
        .map(|index| if masked(index) { "1" } else { "0" })
        .collect();
    text += &mask.join(" ");
    text.push('\n');
    Ok(text)
}
