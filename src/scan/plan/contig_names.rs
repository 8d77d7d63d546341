//! Notices about contigs that a filter names and a store does not have. Such a filter matches no row, nearly always because of another
//! spelling (`1` and `chr1`).

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// The maximum number of contig names in a message.
const SHOWN: usize = 8;

/// A sentence for each contig that `filters` compare `variant_contig` with and that is not among `contigs` of the store.
///
/// # Errors
/// If visiting an expression fails.
pub fn unknown_contigs(filters: &[Expr], contigs: &[String], store: &str) -> Result<Vec<String>> {
    let mut sentences = vec![];
    for filter in filters {
        filter.apply(|expr| {
            for name in compared(expr) {
                if !contigs.iter().any(|contig| contig == name) {
                    sentences.push(sentence(name, contigs, store));
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(sentences)
}

/// The constants that `expr` itself compares `variant_contig` with for equality.
fn compared(expr: &Expr) -> Vec<&str> {
    let is_contig =
        |expr: &Expr| matches!(expr, Expr::Column(column) if column.name == "variant_contig");
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

/// The text of a string literal.
fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

fn sentence(name: &str, contigs: &[String], store: &str) -> String {
    let plain = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.strip_prefix("chr").unwrap_or(&name).to_string()
    };
    let near = contigs.iter().find(|contig| plain(contig) == plain(name));
    let hint = match near {
        Some(near) => format!("did you mean '{near}'?"),
        None => {
            let shown: Vec<_> = contigs
                .iter()
                .take(SHOWN)
                .map(|contig| format!("'{contig}'"))
                .collect();
            let more = if contigs.len() > SHOWN { ", …" } else { "" };
            format!("its contigs are {}{more}", shown.join(", "))
        }
    };
    format!("store '{store}' has no contig '{name}', so no row matches it; {hint}")
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    fn sentences(filter: Expr) -> Vec<String> {
        let contigs = ["1", "2", "X"].map(str::to_string);
        unknown_contigs(&[filter], &contigs, "a.vcz").unwrap()
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
            found[1].contains("its contigs are '1', '2', 'X'"),
            "{found:?}"
        );
        for fine in [
            contig().eq(lit("1")),
            contig().in_list(vec![lit("chr1")], true),
            contig().not_eq(lit("chr1")),
            col("variant_id").eq(lit("chr1")),
        ] {
            assert!(sentences(fine.clone()).is_empty(), "{fine}");
        }
    }
}
