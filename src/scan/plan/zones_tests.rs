//! Zones: from rows, against rows, in order, and pruned.

use arrow::datatypes::{Field, Schema};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, col, in_list, lit};

use super::*;

fn zone(rows: Range<u64>, contig: usize, min: i64, max: i64) -> Zone {
    Zone {
        rows,
        contig,
        min,
        max,
        sorted: true,
    }
}

/// Two chunks of ten variants; the second begins a contig in its middle.
fn zones() -> Zones {
    Zones {
        zones: vec![
            zone(0..10, 0, 100, 190),
            zone(10..15, 0, 200, 240),
            zone(15..20, 1, 50, 90),
        ],
        from_index: true,
    }
}

#[test]
fn zones_of_rows_are_runs_of_a_contig() {
    let found = Zones::of_rows(7, &[0, 0, 2, 2, 2, 0], &[5, 9, 8, 3, 4, 1]);
    let unsorted = Zone {
        sorted: false,
        ..zone(9..12, 2, 3, 8)
    };
    assert_eq!(
        found,
        [zone(7..9, 0, 5, 9), unsorted, zone(12..13, 0, 1, 1)]
    );
    assert!(Zones::of_rows(0, &[], &[]).is_empty());
}

#[test]
fn positions_must_be_what_zones_say() {
    let zones = zones();
    let ten: Vec<i32> = (0..10).map(|n| 100 + 10 * n).collect();
    assert_eq!(zones.check_positions(0, &ten), Ok(()));
    // A part of a zone need not reach its bounds.
    assert_eq!(zones.check_positions(3, &ten[3..5]), Ok(()));
    let both: Vec<i64> = vec![200, 210, 220, 230, 240, 50, 60, 70, 80, 90];
    assert_eq!(zones.check_positions(10, &both), Ok(()));
    let mut falling = ten.clone();
    falling.swap(4, 5);
    let reason = zones.check_positions(0, &falling).unwrap_err();
    assert!(
        reason.contains("variant 5 is at position 140, before the one ahead of it at 150"),
        "{reason}"
    );
    for (at, wrong) in [(0, 99), (0, 101), (9, 189), (9, 191)] {
        let mut other = ten.clone();
        other[at] = wrong;
        let reason = zones.check_positions(0, &other).unwrap_err();
        assert!(reason.contains("variants 0 to 9"), "{reason}");
    }
}

#[test]
fn contigs_must_be_what_zones_say() {
    let zones = zones();
    assert_eq!(zones.check_contigs(10, &[(0, 5), (1, 5)]), Ok(()));
    assert_eq!(zones.check_contigs(0, &[(0, 12)]), Ok(()));
    let reason = zones.check_contigs(10, &[(0, 6), (1, 4)]).unwrap_err();
    assert_eq!(reason, "variant 15 is on contig 0, but region_index says 1");
    for none in [-1, 7] {
        let reason = zones.check_contigs(0, &[(0, 3), (none, 7)]).unwrap_err();
        assert!(reason.starts_with(&format!("variant 3 is on contig {none}")));
    }
}

#[test]
fn an_order_is_declared_only_where_it_is_true() {
    let names = |names: [&str; 2]| names.map(str::to_string).to_vec();
    let zones = zones().zones;
    let order = |zones: &[Zone], contigs: [&str; 2]| order_of(zones.iter(), &names(contigs));
    assert_eq!(order(&[], ["1", "2"]), ZoneOrder::None);
    assert_eq!(order(&zones[..2], ["1", "2"]), ZoneOrder::OneContig);
    assert_eq!(order(&zones, ["1", "2"]), ZoneOrder::ContigThenPosition);
    assert_eq!(order(&zones, ["2", "10"]), ZoneOrder::None);
    let mut overlapping = zones.clone();
    overlapping[1].min = 189;
    assert_eq!(order(&overlapping, ["1", "2"]), ZoneOrder::None);
    let mut unsorted = zones;
    unsorted[0].sorted = false;
    assert_eq!(order(&unsorted, ["1", "2"]), ZoneOrder::None);
}

#[test]
fn predicates_keep_the_zones_that_may_match() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("variant_contig", DataType::Utf8View, false),
        Field::new("variant_position", DataType::Int32, false),
        Field::new("variant_quality", DataType::Float32, true),
    ]));
    let contigs = ["1", "2"].map(str::to_string);
    let keep =
        |predicate: Arc<dyn PhysicalExpr>| zones().prune(&predicate, &schema, &contigs).unwrap();
    let binary =
        |left, op, right| -> Arc<dyn PhysicalExpr> { Arc::new(BinaryExpr::new(left, op, right)) };
    let position =
        |op, value: i32| binary(col("variant_position", &schema).unwrap(), op, lit(value));
    let contig = |name: &str| {
        let name = lit(ScalarValue::Utf8View(Some(name.to_string())));
        binary(col("variant_contig", &schema).unwrap(), Operator::Eq, name)
    };
    assert_eq!(keep(position(Operator::Lt, 100)), [false, false, true]);
    assert_eq!(keep(position(Operator::GtEq, 190)), [true, true, false]);
    assert_eq!(keep(contig("1")), [true, true, false]);
    assert_eq!(keep(contig("3")), [false; 3]);
    let region = binary(contig("1"), Operator::And, position(Operator::Gt, 195));
    assert_eq!(keep(region), [false, true, false]);
    let names = ["2", "3"].map(|name| lit(ScalarValue::Utf8View(Some(name.to_string()))));
    let column = col("variant_contig", &schema).unwrap();
    let either = in_list(column, names.to_vec(), &false, &schema).unwrap();
    assert_eq!(keep(either), [false, false, true]);
    // There are no statistics of other columns.
    let quality = col("variant_quality", &schema).unwrap();
    assert_eq!(keep(binary(quality, Operator::Gt, lit(30.0f32))), [true; 3]);
}
