//! Tables of text within a number of columns: cells that are too wide become several lines.

/// Columns of a table, by their names.
pub type Columns = Vec<(String, Vec<String>)>;

/// What a table adds to the width of each column.
const AROUND_CELL: usize = 3;
/// The least width of a column that is broken into lines.
const LEAST_WIDTH: usize = 10;

/// Breaks the cells of the widest columns into lines, so that the table has at most `width` columns of the terminal. Columns of fewer than
/// [`LEAST_WIDTH`] are left as they are, so a table of many columns may still be wider.
pub fn fit(columns: &mut Columns, width: usize) {
    let measure = |(name, cells): &(String, Vec<String>)| {
        let widths = cells.iter().map(|cell| console::measure_text_width(cell));
        widths.fold(console::measure_text_width(name), usize::max)
    };
    let mut widths: Vec<usize> = columns.iter().map(measure).collect();
    let frame = columns.len() * AROUND_CELL + 1;
    while widths.iter().sum::<usize>() + frame > width {
        // Heads are not broken.
        let shrinkable = widths.iter().zip(columns.iter()).enumerate();
        let widest = shrinkable
            .filter(|(_, (now, (name, _)))| {
                **now > LEAST_WIDTH.max(console::measure_text_width(name))
            })
            .max_by_key(|(_, (now, _))| **now)
            .map(|(at, _)| at);
        match widest {
            Some(at) => widths[at] -= 1,
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
            "variants ×\nsamples × ploidy"
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
        ];
        let before = columns.clone();
        fit(&mut columns, 80);
        assert_eq!(columns, before);
        fit(&mut columns, 40);
        assert_eq!(columns[0], before[0]);
        assert!(
            columns[1].1[0]
                .lines()
                .all(|line| console::measure_text_width(line) <= 20)
        );
        assert_eq!(columns[1].1[0].replace('\n', " "), long);
        // There is a least width.
        fit(&mut columns, 5);
        assert!(columns[0].1[0].lines().all(|line| line.len() <= 10));
    }
}
