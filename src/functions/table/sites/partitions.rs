//! The rows of the partitions of a function over sites.

use std::ops::Range;

use datafusion::common::{Result, plan_err};

use super::site_scan::Reach;
use crate::scan::Zone;

/// The rows of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    /// Its own.
    pub(super) own: Range<u64>,
    /// Those that it reads: its own, and rows after them.
    pub(super) read: Range<u64>,
}

/// Returns an error if contigs come again, or positions fall.
fn check_order(function: &str, zones: &[Zone], contigs: &[String]) -> Result<()> {
    let mut seen = vec![false; contigs.len()];
    let mut last: Option<&Zone> = None;
    for zone in zones {
        let name = contigs.get(zone.contig).map_or("?", String::as_str);
        let follows = last.filter(|last| last.contig == zone.contig);
        if follows.is_none() && seen.get(zone.contig).is_some_and(|seen| *seen) {
            return plan_err!(
                "{function}: the variants of contig '{name}' do not follow one another: row {} is on it again; sort the variants by \
                 contig and position before they are converted (bcftools sort)",
                zone.rows.start
            );
        }
        if !zone.sorted || follows.is_some_and(|last| zone.min < last.max) {
            return plan_err!(
                "{function}: the variants of contig '{name}' are not in the order of their positions, in rows {} to {}; sort them \
                 before they are converted (bcftools sort)",
                zone.rows.start,
                zone.rows.end.saturating_sub(1)
            );
        }
        if let Some(seen) = seen.get_mut(zone.contig) {
            *seen = true;
        }
        last = Some(zone);
    }
    Ok(())
}

/// Divides the table's `rows` into at most `parts` partitions, which together have each row once. Without zones there is one.
///
/// # Errors
/// If the variants are not in the order of contigs and positions.
pub(super) fn divide(
    function: &str,
    zones: Option<&[Zone]>,
    contigs: &[String],
    rows: u64,
    reach: Reach,
    parts: usize,
) -> Result<Vec<Rows>> {
    let whole = Rows {
        own: 0..rows,
        read: 0..rows,
    };
    let Some(zones) = zones.filter(|zones| !zones.is_empty()) else {
        return Ok(vec![whole]);
    };
    check_order(function, zones, contigs)?;
    let parts = parts.max(1) as u64;
    let mut all: Vec<Rows> = vec![];
    let mut first = 0;
    for at in 0..zones.len() {
        let next = zones.get(at + 1);
        let may_cut = match (reach, next) {
            (_, None) => true,
            (Reach::Contigs, Some(next)) => next.contig != zones[at].contig,
            (Reach::Bases(_), Some(_)) => true,
        };
        let end = zones[at].rows.end;
        // So many rows that the partitions up to this one have their share.
        let share = u128::from(rows) * (all.len() as u128 + 1) / u128::from(parts);
        if may_cut && (next.is_none() || u128::from(end) >= share) {
            let own = zones[first].rows.start..end;
            let read = own.start..end.max(read_end(zones, at, reach));
            all.push(Rows { own, read });
            first = at + 1;
        }
    }
    Ok(all)
}

/// The end of the rows that may be near enough to those of zone `at`.
fn read_end(zones: &[Zone], at: usize, reach: Reach) -> u64 {
    let Reach::Bases(bases) = reach else {
        return zones[at].rows.end;
    };
    let near = zones[at + 1..].iter().take_while(|zone| {
        zone.contig == zones[at].contig && zone.min.saturating_sub(zones[at].max) <= bases
    });
    near.last().unwrap_or(&zones[at]).rows.end
}

#[cfg(test)]
mod tests {
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

    fn zones() -> Vec<Zone> {
        vec![
            zone(0..100, 0, 1, 500),
            zone(100..200, 0, 500, 900),
            zone(200..230, 0, 950, 990),
            zone(230..300, 1, 5, 70),
            zone(300..400, 2, 1, 100),
        ]
    }

    #[test]
    fn partitions_have_each_row_once() {
        let contigs = ["a", "b", "c"].map(str::to_string);
        for reach in [Reach::Contigs, Reach::Bases(0), Reach::Bases(60)] {
            for parts in 1..9 {
                let all = divide("f", Some(&zones()), &contigs, 400, reach, parts).unwrap();
                assert!(all.len() <= parts, "{all:?}");
                let mut next = 0;
                for Rows { own, read } in &all {
                    assert_eq!((own.start, read.start), (next, next));
                    assert!(read.end >= own.end);
                    next = own.end;
                }
                assert_eq!(next, 400);
            }
        }
    }

    #[test]
    fn rows_after_a_partition_are_read_while_they_are_near() {
        let contigs = ["a", "b", "c"].map(str::to_string);
        let read = |bases| {
            let all = divide("f", Some(&zones()), &contigs, 400, Reach::Bases(bases), 9).unwrap();
            all.into_iter()
                .map(|rows| rows.read.end)
                .collect::<Vec<_>>()
        };
        assert_eq!(read(0)[0], 200);
        assert_eq!(read(500)[0], 230);
        assert_eq!(read(10)[1], 200);
        let all = divide("f", Some(&zones()), &contigs, 400, Reach::Contigs, 9).unwrap();
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|rows| rows.own == rows.read));
    }

    #[test]
    fn unsorted_variants_are_refused() {
        let contigs = ["a", "b"].map(str::to_string);
        let error = |zones: &[Zone]| {
            let found = divide("f", Some(zones), &contigs, 30, Reach::Contigs, 2);
            found.unwrap_err().to_string()
        };
        let again = [
            zone(0..10, 0, 1, 5),
            zone(10..20, 1, 1, 5),
            zone(20..30, 0, 7, 9),
        ];
        assert!(error(&again).contains("contig 'a' do not follow one another: row 20"));
        let falls = [zone(0..10, 0, 1, 5), zone(10..30, 0, 4, 5)];
        assert!(error(&falls).contains("not in the order of their positions, in rows 10 to 29"));
        let mut inside = zone(0..30, 1, 1, 5);
        inside.sorted = false;
        assert!(error(&[inside]).contains("contig 'b' are not in the order"));
        let none = divide("f", None, &contigs, 30, Reach::Contigs, 4).unwrap();
        assert_eq!(none.len(), 1);
    }
}
