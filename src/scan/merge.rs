//! Several stores as one table: the same samples in the same order, the contigs of all, and rows in the order of contigs and positions.
//! Stores that do not fit together are an error that names both.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::dataset::Dataset;
use super::plan::zones::{Zone, Zones};
use super::stores::{Member, Piece, Stores};
use super::unify::{Unified, unify};
use crate::error::{Result, VczError};

/// The stores of a table. With several stores, the positions of those without a region index are read here, because their ranges have
/// to be compared.
///
/// `location` is what the user gave for all of them.
///
/// # Errors
/// If there is none, or they do not fit together.
pub async fn merge(location: String, mut stores: Vec<Arc<Dataset>>) -> Result<Stores> {
    if stores.len() < 2 {
        return match stores.pop() {
            Some(store) => Ok(Stores::one(store)),
            None => Err(VczError::Invalid(format!(
                "'{location}' has no stores to make a table of"
            ))),
        };
    }
    check_samples(&stores)?;
    let Unified { columns, places } = unify(&stores)?;
    let contigs = Contigs::of(&stores);
    let mut runs = Vec::new();
    for at in 0..stores.len() {
        runs.extend(contigs.runs(&stores, at).await?);
    }
    let pieces = pieces(runs, &stores, &contigs.names)?;
    let zones = contigs.zones(&pieces, &stores);
    let lengths = contigs.lengths(&stores)?;
    let filters = filters(&stores);
    let members = stores.into_iter().zip(places);
    let members = members
        .map(|(dataset, columns)| Member {
            reorders_filters: !in_order(&dataset.names().filters, &filters),
            dataset,
            columns,
        })
        .collect();
    Ok(Stores {
        location,
        members,
        pieces: pieces.into_iter().map(|(piece, _)| piece).collect(),
        columns,
        contigs: contigs.names,
        filters,
        lengths,
        zones: (!zones.zones.is_empty()).then(|| Arc::new(zones)),
        content_key: OnceLock::new(),
    })
}

fn name(store: &Dataset) -> &str {
    store.store().location()
}

/// The filters in the order in which the stores first name them.
fn filters(stores: &[Arc<Dataset>]) -> Vec<String> {
    let mut filters: Vec<String> = Vec::new();
    for name in stores.iter().flat_map(|store| &store.names().filters) {
        if !filters.contains(name) {
            filters.push(name.clone());
        }
    }
    filters
}

/// Whether `names` are in the order that they have in `all`.
fn in_order(names: &[String], all: &[String]) -> bool {
    let places = names
        .iter()
        .map(|name| all.iter().position(|known| known == name));
    places.is_sorted()
}

/// Every store has the samples of the first, in their order.
fn check_samples(stores: &[Arc<Dataset>]) -> Result<()> {
    let Some((first, others)) = stores.split_first() else {
        return Ok(());
    };
    let expected = first.sample_ids();
    for store in others {
        let found = store.sample_ids();
        let refuse = |reason: String| {
            Err(VczError::Metadata {
                store: name(store).to_string(),
                what: "array 'sample_id'".to_string(),
                reason: format!(
                    "{reason}; stores of one table have the same samples in the same order"
                ),
            })
        };
        let differ = |(_, (found, expected)): &(usize, (&String, &String))| found != expected;
        let mut pairs = found.iter().zip(expected).enumerate();
        if let Some((at, (found, expected))) = pairs.find(differ) {
            return refuse(format!(
                "sample {} is '{found}', but '{expected}' in store '{}'",
                at + 1,
                name(first)
            ));
        }
        if found.len() != expected.len() {
            let (has, more) = match found.len() > expected.len() {
                true => ("only this store has", &found[expected.len()]),
                false => ("this store lacks", &expected[found.len()]),
            };
            return refuse(format!(
                "it has {} samples, but store '{}' has {}: {has} '{more}'",
                found.len(),
                name(first),
                expected.len()
            ));
        }
    }
    Ok(())
}

/// Variants of one contig that follow each other in a store.
struct Run {
    store: usize,
    contig: usize,
    rows: Range<u64>,
    /// Indices of its zones in the store's list.
    zones: Range<usize>,
}

/// The contigs of a table, and those of each store.
struct Contigs {
    names: Vec<String>,
    /// For each store and each of its contigs, the index of the name.
    of_store: Vec<Vec<usize>>,
}

impl Contigs {
    /// Contigs in the order in which the stores first name them.
    fn of(stores: &[Arc<Dataset>]) -> Self {
        let mut names = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut of_store = Vec::with_capacity(stores.len());
        for store in stores {
            let of_name = |name: &String| match known.get(name) {
                Some(&at) => at,
                None => {
                    names.push(name.clone());
                    known.insert(name.clone(), names.len() - 1);
                    names.len() - 1
                }
            };
            of_store.push(store.names().contigs.iter().map(of_name).collect());
        }
        Self { names, of_store }
    }

    /// The runs of a store in the order of its rows.
    async fn runs(&self, stores: &[Arc<Dataset>], at: usize) -> Result<Vec<Run>> {
        let store = &stores[at];
        if store.n_variants() == 0 {
            return Ok(vec![]);
        }
        let Some(zones) = store.zones().await? else {
            return Err(VczError::Metadata {
                store: name(store).to_string(),
                what: "array 'variant_contig'".to_string(),
                reason: "its contigs alternate all the time, so that it cannot be put in order with other stores; sort it by \
                         contig, or query it as a table of its own"
                    .to_string(),
            });
        };
        let mut runs: Vec<Run> = Vec::new();
        for (place, zone) in zones.zones.iter().enumerate() {
            let contig = self.contig(at, zone);
            match runs.last_mut() {
                Some(run) if run.contig == contig => {
                    run.rows.end = zone.rows.end;
                    run.zones.end = place + 1;
                }
                _ => runs.push(Run {
                    store: at,
                    contig,
                    rows: zone.rows.clone(),
                    zones: place..place + 1,
                }),
            }
        }
        Ok(runs)
    }

    /// The table's index of a zone's contig; contig codes were checked when the zones were made.
    fn contig(&self, store: usize, zone: &Zone) -> usize {
        let of_store = self.of_store.get(store);
        let contig = of_store.and_then(|contigs| contigs.get(zone.contig));
        contig.copied().unwrap_or(usize::MAX)
    }

    /// The zones of the table's rows.
    fn zones(&self, pieces: &[(Piece, Range<usize>)], stores: &[Arc<Dataset>]) -> Zones {
        let mut zones = Vec::new();
        let mut from_index = true;
        for (piece, places) in pieces {
            let Some(known) = stores[piece.store].known_zones() else {
                continue;
            };
            from_index &= known.from_index;
            zones.extend(known.zones[places.clone()].iter().map(|zone| Zone {
                rows: piece.to_table(zone.rows.start)..piece.to_table(zone.rows.end),
                contig: self.contig(piece.store, zone),
                ..zone.clone()
            }));
        }
        Zones { zones, from_index }
    }

    /// The length of each contig: from the stores that have variants on it, else from the first store that has a length; 0 if none has.
    fn lengths(&self, stores: &[Arc<Dataset>]) -> Result<Option<Vec<i64>>> {
        let mut lengths: Vec<Option<(i64, usize, bool)>> = vec![None; self.names.len()];
        let mut is_known = false;
        for (at, store) in stores.iter().enumerate() {
            let Some(known) = store.contig_lengths() else {
                continue;
            };
            is_known = true;
            let mut has_variants = vec![false; known.len()];
            for zone in store.known_zones().iter().flat_map(|zones| &zones.zones) {
                if let Some(has) = has_variants.get_mut(zone.contig) {
                    *has = true;
                }
            }
            let contigs = self.of_store[at].iter().zip(known).zip(has_variants);
            for ((&contig, &length), has) in contigs.filter(|((_, length), _)| **length > 0) {
                match lengths[contig] {
                    Some((other, first, true)) if has && other != length => {
                        return Err(VczError::Metadata {
                            store: name(store).to_string(),
                            what: "array 'contig_length'".to_string(),
                            reason: format!(
                                "contig '{}' is {length} bases long, but {other} in store '{}'; stores of one table are of the \
                                 same reference",
                                self.names[contig],
                                name(&stores[first])
                            ),
                        });
                    }
                    Some((_, _, known)) if known || !has => {}
                    _ => lengths[contig] = Some((length, at, has)),
                }
            }
        }
        let lengths = lengths.into_iter();
        let lengths = lengths.map(|length| length.map_or(0, |(length, ..)| length));
        Ok(is_known.then(|| lengths.collect()))
    }
}

/// The runs in the order of contigs and positions, joined if they are consecutive in their store, each with the indices of its zones in
/// the store's list.
///
/// # Errors
/// If two stores have variants of a contig and their ranges of positions overlap; it names both.
fn pieces(
    mut runs: Vec<Run>,
    stores: &[Arc<Dataset>],
    contigs: &[String],
) -> Result<Vec<(Piece, Range<usize>)>> {
    let mut spans: BTreeMap<(usize, usize), (i64, i64)> = BTreeMap::new();
    for run in &runs {
        let zones = stores[run.store].known_zones();
        for zone in zones
            .iter()
            .flat_map(|zones| &zones.zones[run.zones.clone()])
        {
            let span = spans
                .entry((run.contig, run.store))
                .or_insert((zone.min, zone.max));
            *span = (span.0.min(zone.min), span.1.max(zone.max));
        }
    }
    let mut by_position: Vec<_> = spans.iter().collect();
    by_position.sort_by_key(|((contig, store), span)| (*contig, **span, *store));
    for pair in by_position.windows(2) {
        let [((contig, a), low), ((other, b), high)] = pair else {
            continue;
        };
        if contig == other && high.0 <= low.1 {
            let shown = contigs.get(*contig).map_or("", String::as_str);
            return Err(VczError::Metadata {
                store: name(&stores[*b]).to_string(),
                what: "array 'variant_position'".to_string(),
                reason: format!(
                    "its variants of contig '{shown}' are at positions {} to {}, but those of store '{}' are at {} to {}; the positions of the \
                     stores of a table must not overlap: is a store given twice?",
                    high.0,
                    high.1,
                    name(&stores[*a]),
                    low.0,
                    low.1
                ),
            });
        }
    }
    let first = |run: &Run| {
        spans
            .get(&(run.contig, run.store))
            .map_or(i64::MAX, |span| span.0)
    };
    runs.sort_by_key(|run| (run.contig, first(run), run.store, run.rows.start));
    let mut pieces: Vec<(Piece, Range<usize>)> = Vec::new();
    let mut next = 0u64;
    for run in runs {
        let n = run.rows.end - run.rows.start;
        let Some(end) = next.checked_add(n) else {
            return Err(VczError::Invalid(
                "the stores of a table have more than 2^64 variants".to_string(),
            ));
        };
        match pieces.last_mut() {
            Some((piece, zones))
                if piece.store == run.store && piece.to_store(piece.rows.end) == run.rows.start =>
            {
                piece.rows.end = end;
                zones.end = run.zones.end;
            }
            _ => pieces.push((
                Piece {
                    rows: next..end,
                    store: run.store,
                    first: run.rows.start,
                },
                run.zones,
            )),
        }
        next = end;
    }
    Ok(pieces)
}
