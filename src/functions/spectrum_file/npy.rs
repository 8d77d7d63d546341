//! `.npy`, version 1.0: a spectrum as numpy saves an array, `<i8`, or `<f8` if its cells are not whole numbers.

use datafusion::common::{Result, exec_datafusion_err};

use super::spectrum::{Cells, Spectrum};

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
/// The data begin at a multiple of this.
const ALIGNMENT: usize = 64;

/// The file's bytes.
///
/// # Errors
/// If there are so many dimensions that the header is too long.
pub fn bytes(spectrum: &Spectrum) -> Result<Vec<u8>> {
    let shape: Vec<String> = spectrum
        .shape()
        .iter()
        .map(|cells| format!("{cells},"))
        .collect();
    let (kind, cells): (&str, Vec<u8>) = match spectrum.cells() {
        Cells::Whole(cells) => ("<i8", cells.iter().flat_map(|c| c.to_le_bytes()).collect()),
        Cells::Real(cells) => ("<f8", cells.iter().flat_map(|c| c.to_le_bytes()).collect()),
    };
    let mut header = format!(
        "{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}), }}",
        shape.join(" ")
    );
    let before = MAGIC.len() + size_of::<u16>();
    // A line break ends the header.
    let padding = (before + header.len() + 1).next_multiple_of(ALIGNMENT) - before - 1;
    while header.len() < padding {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len())
        .map_err(|_| exec_datafusion_err!("a .npy file of so many dimensions is not possible"))?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend(header.into_bytes());
    bytes.extend(cells);
    Ok(bytes)
}
