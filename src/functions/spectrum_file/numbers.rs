//! Numbers as text that every reader turns into the same number.

use super::spectrum::Cells;

/// The cell at `index`: whole numbers as they are, others with as many digits as tell them from their neighbours.
pub fn text(cells: &Cells, index: usize) -> String {
    match cells {
        Cells::Whole(cells) => cells.get(index).map(i64::to_string).unwrap_or_default(),
        Cells::Real(cells) => cells.get(index).map(|cell| real(*cell)).unwrap_or_default(),
    }
}

fn real(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-5..1e16).contains(&size) {
        format!("{number}")
    } else {
        format!("{number:e}")
    }
}

/// All cells, with `between` between them.
pub fn joined(cells: &Cells, between: &str) -> String {
    let texts: Vec<String> = (0..cells.len()).map(|index| text(cells, index)).collect();
    texts.join(between)
}
