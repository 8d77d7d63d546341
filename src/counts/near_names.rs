//! "Did you mean": the known names nearest to an unknown one, for error messages.

/// Names are compared by at most this many characters: messages need no more, and input may be hostile.
const COMPARED: usize = 48;

/// `; near: 'a', 'b'` with the [`nearest_names`]; `""` when there are none.
pub fn near_names<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let nearest = nearest_names(name, known);
    if nearest.is_empty() {
        return String::new();
    }
    let names: Vec<String> = nearest.iter().map(|near| format!("'{near}'")).collect();
    format!("; near: {}", names.join(", "))
}

/// Up to three of `known` that differ from `name` by a few edits (case counts as no edit), the nearest first.
pub fn nearest_names<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let letters = |s: &str| -> Vec<char> {
        s.chars()
            .flat_map(char::to_lowercase)
            .take(COMPARED)
            .collect()
    };
    let wanted = letters(name);
    let limit = (wanted.len() / 3).max(1);
    let mut best: Vec<(usize, &str)> = Vec::new();
    for candidate in known {
        let distance = edit_distance(&wanted, &letters(candidate));
        if distance <= limit && !best.iter().any(|(_, seen)| *seen == candidate) {
            best.push((distance, candidate));
            best.sort_by_key(|(d, _)| *d); // stable: store order among equals
            best.truncate(3);
        }
    }
    best.into_iter().map(|(_, near)| near).collect()
}

/// The optimal string alignment distance, computed by rows: Levenshtein's distance, with a transposition of neighbours as one
/// edit.
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    let mut above = row.clone();
    let mut two_above = row.clone();
    for (i, x) in a.iter().enumerate() {
        std::mem::swap(&mut two_above, &mut above);
        std::mem::swap(&mut above, &mut row);
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = above[j] + usize::from(x != y);
            row[j + 1] = substituted.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                row[j + 1] = row[j + 1].min(two_above[j - 1] + 1);
            }
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_listed_nearest_first() {
        let known = ["YRI", "CEU", "CHB", "yri2"];
        assert_eq!(near_names("YRY", known.into_iter()), "; near: 'YRI'");
        assert_eq!(
            near_names("yri", known.into_iter()),
            "; near: 'YRI', 'yri2'"
        );
        assert_eq!(near_names("something", known.into_iter()), "");
        assert_eq!(near_names("CUE", known.into_iter()), "; near: 'CEU'");
        let d = |a: &str, b: &str| {
            edit_distance(
                &a.chars().collect::<Vec<_>>(),
                &b.chars().collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            (
                d("kitten", "sitting"),
                d("", "abc"),
                d("abc", ""),
                d("x", "x"),
            ),
            (3, 3, 3, 0)
        );
        // A transposition of neighbours is one edit, of others two.
        assert_eq!(
            (d("first", "frist"), d("ab", "ba"), d("abc", "cba")),
            (1, 1, 2)
        );
    }
}
