//! `.sfs`: all cells on one line, as ANGSD's realSFS prints them, below the line `#SHAPE=<3/4>` of sfs and winsfs.

use super::options::FileOptions;
use super::spectrum::{Cells, Spectrum};

/// The file's text.
pub fn text(spectrum: &Spectrum, options: &FileOptions) -> String {
    let mut text = String::new();
    if options.header {
        let shape: Vec<String> = spectrum.shape().iter().map(usize::to_string).collect();
        text += &format!("#SHAPE=<{}>\n", shape.join("/"));
    }
    let cells: Vec<String> = match spectrum.cells() {
        Cells::Whole(cells) => cells.iter().map(|cell| format!("{cell}.000000")).collect(),
        Cells::Real(cells) => cells.iter().map(|cell| format!("{cell:.6}")).collect(),
    };
    text += &cells.join(" ");
    text.push('\n');
    text
}
