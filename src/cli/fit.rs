//! Tables of text within a number of columns: cells that are too wide become several lines.

/// Columns of a table, by their names.
pub type Columns = Vec<(String, Vec<String>)>;

/// What a table adds to the width of each column.
const AROUND_CELL: usize = 3;
/// The least width of a column that is broken into lines.
const LEAST_WIDTH: usize = 10;

/// Leaves out columns of `optional`, one after the other, as long as the others cannot be within `width` columns of the terminal, and
/// breaks the cells of the widest columns into lines until they are. Returns the names of those left out.
///
/// Heads are not broken, and columns of fewer than [`LEAST_WIDTH`] are left as they are, so that a table may still be wider.
pub fn fit<'a>(columns: &mut Columns, width: usize, optional: &[&'a str]) -> Vec<&'a str> {
    let least = |columns: &Columns| {
        let widths = columns
            .iter()
            .map(|column| natural(column).min(least_of(column)));
        widths.sum::<usize>() + frame(columns)
    };
    let mut left_out = vec![];
    for name in optional {
        if least(columns) <= width {
            break;
        }
        columns.retain(|(known, _)| known != name);
        left_out.push(*name);
    }
    let mut widths: Vec<usize> = columns.iter().map(natural).collect();
    while widths.iter().sum::<usize>() + frame(columns) > width {
        let all = widths.iter_mut().zip(columns.iter());
        let wide = all.filter(|(now, column)| **now > least_of(column));
        match wide.map(|(now, _)| now).max_by_key(|now| **now) {
            Some(widest) => *widest -= 1,
            None => break,
        }
    }
    for ((_, cells), width) in columns.iter_mut().zip(widths) {
        for cell in cells {
            if console::measure_text_width(cell) > width {
                *cell = broken(cell, width);
            }
        }
    }
    left_out
}

/// The width of a table without its cells.
fn frame(columns: &Columns) -> usize {
    columns.len() * AROUND_CELL + 1
}

/// The width of a column whose cells are not broken.
fn natural((name, cells): &(String, Vec<String>)) -> usize {
    let widths = cells.iter().map(|cell| console::measure_text_width(cell));
    widths.fold(console::measure_text_width(name), usize::max)
}

/// The width to which a column may be broken.
fn least_of((name, _): &(String, Vec<String>)) -> usize {
    LEAST_WIDTH.max(console::measure_text_width(name))
}

/// `text` in lines of at most `width`, broken at spaces where there are some.
fn broken(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = vec![];
    let mut line = String::new();
    for word in text.split_inclusive(' ') {
        let fits =
            |line: &str| console::measure_text_width(format!("{line}{word}").trim_end()) <= width;
        if !line.is_empty() && !fits(&line) {
            lines.push(std::mem::take(&mut line).trim_end().to_string());
        }
        for c in word.chars() {
            if console::measure_text_width(line.trim_end()) >= width && c != ' ' {
                lines.push(std::mem::take(&mut line).trim_end().to_string());
            }
            line.push(c);
        }
    }
    lines.push(line.trim_end().to_string());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_within_the_width() {
        assert_eq!(
            broken("variants × samples × ploidy", 18),
            "variants × samples\n× ploidy"
        );
        assert_eq!(broken("abcdefghij", 4), "abcd\nefgh\nij");
        assert_eq!(broken("ab cdefghij", 4), "ab\ncdef\nghij");
    }

    #[test]
    fn the_widest_are_broken_first() {
        let long = "vlen-utf8 → blosc and some more".to_string();
        let mut columns = vec![
            (
                "array".to_string(),
                vec!["call_genotype".to_string(), "x".to_string()],
            ),
            (
                "codecs".to_string(),
                vec![long.clone(), "bytes".to_string()],
            ),
            ("backend".to_string(), vec!["host".to_string(); 2]),
        ];
        let before = columns.clone();
        assert!(fit(&mut columns, 80, &["backend"]).is_empty());
        assert_eq!(columns, before);
        assert!(fit(&mut columns, 50, &["backend"]).is_empty());
        assert_eq!((&columns[0], &columns[2]), (&before[0], &before[2]));
        let lines = &columns[1].1[0];
        assert!(
            lines
                .lines()
                .all(|line| console::measure_text_width(line) <= 20)
        );
        assert_eq!(lines.replace('\n', " "), long);
        let mut columns = before.clone();
        assert_eq!(fit(&mut columns, 30, &["backend"]), ["backend"]);
        assert_eq!(columns.len(), 2);
        // There is a least width.
        fit(&mut columns, 5, &[]);
        assert!(columns[0].1[0].lines().all(|line| line.len() <= 10));
    }
}
