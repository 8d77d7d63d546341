//! Notices about contigs on which a table has no variants: those that a filter names, and those of two tables that are joined. They match
//! no row, nearly always because of another spelling (`1` and `chr1`).

use std::collections::HashSet;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// The maximum number of contig names in a message.
const SHOWN: usize = 8;

/// The contigs of a table.
#[derive(Debug, Clone, Copy)]
pub struct TableContigs<'a> {
    /// The table's location.
    pub store: &'a str,
    /// All contigs.
    pub all: &'a [String],
    /// Those that have variants, if that is known.
    pub with_variants: Option<&'a [String]>,
}

/// A sentence for each contig that `filters` compare `variant_contig` with, and that the table does not have, or has no variants of.
///
/// # Errors
/// If visiting an expression fails.
pub fn contigs_without_rows(filters: &[Expr], table: TableContigs<'_>) -> Result<Vec<String>> {
    let mut sentences = vec![];
    for filter in filters {
        filter.apply(|expr| {
            for name in compared(expr) {
                let has = |contigs: &[String]| contigs.iter().any(|contig| contig == name);
                if !has(table.all) {
                    sentences.push(unknown(name, table));
                } else if let Some(with_variants) = table.with_variants
                    && !has(with_variants)
                {
                    let hint = hint(name, with_variants, "its variants are on");
                    sentences.push(format!(
                        "store '{}' names the contig '{name}', but has no variants on it, so no row matches it; {hint}",
                        table.store
                    ));
                }
            }
            if let Some(start) = start_of(expr)
                && !table.all.iter().any(|contig| contig.starts_with(start))
            {
                sentences.push(format!(
                    "store '{}' has no contig that begins with '{start}', so no row matches it; its contigs are {}",
                    table.store,
                    shown(table.all)
                ));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(sentences)
}

/// A sentence about a join of two tables by contig, if no contig is in both; each has a name for messages. `None` if one has no contigs.
pub fn contigs_in_common(one: (&str, &[String]), other: (&str, &[String])) -> Option<String> {
    let ((one, contigs), (other, others)) = (one, other);
    let known: HashSet<&String> = contigs.iter().collect();
    if contigs.is_empty() || others.is_empty() || others.iter().any(|name| known.contains(name)) {
        return None;
    }
    let plain_others: HashSet<String> = others.iter().map(|name| plain(name)).collect();
    let advice = match contigs
        .iter()
        .any(|name| plain_others.contains(&plain(name)))
    {
        true => {
            "; the same contigs have other names there: compare them without their prefix, as in \
             replace(a.variant_contig, 'chr', '') = replace(b.variant_contig, 'chr', '')"
        }
        false => "",
    };
    Some(format!(
        "'{one}' and '{other}' have no contig in common, so the join on contigs matches no row: {} and {}{advice}",
        shown(contigs),
        shown(others)
    ))
}

/// The constants that `expr` itself compares `variant_contig` with for equality.
fn compared(expr: &Expr) -> Vec<&str> {
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) if is_contig(left) => text(right).into_iter().collect(),
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) if is_contig(right) => text(left).into_iter().collect(),
        Expr::InList(list) if !list.negated && is_contig(&list.expr) => {
            list.list.iter().filter_map(text).collect()
        }
        _ => vec![],
    }
}

/// What `expr` itself says that `variant_contig` begins with: `chr` of `variant_contig LIKE 'chr%'`.
fn start_of(expr: &Expr) -> Option<&str> {
    let Expr::Like(like) = expr else {
        return None;
    };
    let is_plain = !like.negated && !like.case_insensitive && like.escape_char.is_none();
    if !is_plain || !is_contig(&like.expr) {
        return None;
    }
    let start = text(&like.pattern)?.strip_suffix('%')?;
    (!start.is_empty() && !start.contains(['%', '_', '\\'])).then_some(start)
}

fn is_contig(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(column) if column.name == "variant_contig")
}

/// The text of a string literal.
fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// A contig's name without what spellings differ in.
fn plain(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    name.strip_prefix("chr").unwrap_or(&name).to_string()
}

/// The first of these names.
fn shown(contigs: &[String]) -> String {
    let quoted = contigs.iter().take(SHOWN).map(|name| format!("'{name}'"));
    let more = if contigs.len() > SHOWN { ", …" } else { "" };
    quoted.collect::<Vec<_>>().join(", ") + more
}

/// The contig that `name` may mean, or all of them.
fn hint(name: &str, contigs: &[String], listed: &str) -> String {
    match contigs.iter().find(|contig| plain(contig) == plain(name)) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("{listed} {}", shown(contigs)),
    }
}

fn unknown(name: &str, table: TableContigs<'_>) -> String {
    format!(
        "store '{}' has no contig '{name}', so no row matches it; {}",
        table.store,
        hint(name, table.all, "its contigs are")
    )
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    fn sentences(filter: Expr) -> Vec<String> {
        let contigs = ["1", "2", "X", "chr2"].map(str::to_string);
        let table = TableContigs {
            store: "a.vcz",
            all: &contigs,
            with_variants: Some(&contigs[..2]),
        };
        contigs_without_rows(&[filter], table).unwrap()
    }

    #[test]
    fn names_that_no_row_has() {
        let contig = || col("variant_contig");
        assert_eq!(
            sentences(contig().eq(lit("chr1"))),
            ["store 'a.vcz' has no contig 'chr1', so no row matches it; did you mean '1'?"]
        );
        let list = contig().in_list(vec![lit("x"), lit("2"), lit("MT")], false);
        let found = sentences(list.and(col("variant_position").gt(lit(5))));
        assert!(found[0].contains("did you mean 'X'?"), "{found:?}");
        assert!(
            found[1].contains("its contigs are '1', '2', 'X', 'chr2'"),
            "{found:?}"
        );
        assert_eq!(
            sentences(contig().like(lit("NC%"))),
            [
                "store 'a.vcz' has no contig that begins with 'NC', so no row matches it; its contigs are '1', '2', 'X', 'chr2'"
            ]
        );
        for fine in [
            contig().like(lit("chr%")),
            contig().like(lit("%_NC%")),
            contig().not_like(lit("NC%")),
            contig().eq(lit("1")),
            contig().in_list(vec![lit("chr1")], true),
            contig().not_eq(lit("chr1")),
            col("variant_id").eq(lit("chr1")),
        ] {
            assert!(sentences(fine.clone()).is_empty(), "{fine}");
        }
    }

    #[test]
    fn contigs_without_variants() {
        let contig = || col("variant_contig");
        assert_eq!(
            sentences(contig().eq(lit("X"))),
            [
                "store 'a.vcz' names the contig 'X', but has no variants on it, so no row matches it; its variants are on '1', '2'"
            ]
        );
        let found = sentences(contig().eq(lit("chr2")));
        assert!(found[0].ends_with("did you mean '2'?"), "{found:?}");
    }

    #[test]
    fn joined_tables() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| name.to_string())
                .collect::<Vec<_>>()
        };
        let of = |one: &[&str], other: &[&str]| {
            contigs_in_common(("a", &names(one)), ("b", &names(other)))
        };
        assert_eq!(of(&["1", "2"], &["chr1", "2"]), None);
        assert_eq!(of(&["1"], &[]), None);
        let found = of(&["1", "2"], &["chr1", "chr3"]).unwrap();
        assert!(
            found.starts_with("'a' and 'b' have no contig in common")
                && found.contains("'1', '2' and 'chr1', 'chr3'; the same"),
            "{found}"
        );
        assert!(of(&["2L"], &["X"]).unwrap().ends_with("'2L' and 'X'"));
    }
}
