//! Expands locations to stores: a list of locations, patterns such as `data/chr*.vcz.zip`, and folders of stores.
//!
//! Stores are found by listing, so patterns and folders need an object store that lists; a list does not.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use datafusion::catalog::Session;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use futures::{StreamExt, stream};
use object_store::ListResult;

use super::blocking::blocking;
use super::locate::{Location, locate_by};
use super::remote::location::shown;
use super::remote::options::RemoteOptions;
use crate::error::VczError;

/// The extensions of stores in a folder of stores.
const ENDINGS: [&str; 2] = [".vcz", ".vcz.zip"];

/// Groups that are listed at the same time.
const CONCURRENT_LISTINGS: usize = 32;

/// A store, not opened yet.
#[derive(Debug, Clone)]
pub struct Named {
    /// Its location, as a user would give it.
    pub name: String,
    /// Its place in an object store.
    pub place: Location,
    /// The contig of its variants, where its name is the contig's: a group of a chromosome.
    pub contig: Option<String>,
}

/// All stores of `locations`, in the order of the list, and those of a pattern in the order of their names. A folder of stores is not
/// expanded.
///
/// # Errors
/// If a pattern matches nothing, or its folders cannot be listed; if a store is named twice.
pub async fn all_stores(
    state: &dyn Session,
    locations: &[String],
    options: &RemoteOptions,
) -> Result<Vec<Named>> {
    let mut all: Vec<Named> = Vec::new();
    for location in locations {
        let pattern = match pattern_of(location) {
            Some(_) if is_local(location) && exists(location.into()).await? => None,
            pattern => pattern,
        };
        let found = match pattern {
            Some(pattern) => matching(state, &shown(location), pattern, options).await?,
            None => vec![Named {
                name: shown(location),
                place: locate_by(state, location, options).await?,
                contig: None,
            }],
        };
        for store in found {
            let is_same = |known: &&Named| match (&known.place.local, &store.place.local) {
                (Some(known), Some(local)) => known == local,
                _ => known.name.trim_end_matches('/') == store.name.trim_end_matches('/'),
            };
            if let Some(known) = all.iter().find(is_same) {
                return plan_err!(
                    "the store '{}' is given twice{}; leave one of them out",
                    known.name,
                    match known.name == store.name {
                        true => String::new(),
                        false => format!(", the second time as '{}'", store.name),
                    }
                );
            }
            all.push(store);
        }
    }
    Ok(all)
}

/// The stores in the folder `folder`, in the order of their names; none if it cannot be listed.
pub async fn stores_below(folder: &Named) -> Vec<Named> {
    let Ok(listed) = list(folder).await else {
        return vec![];
    };
    let is_store = |name: &str| ENDINGS.iter().any(|ending| name.ends_with(ending));
    children(folder, &listed, is_store, true)
}

/// The groups in the Zarr group at `folder` that have variants as scikit-allel stores them, one for each chromosome, in the order of their
/// names; none where it is no Zarr group, or cannot be listed.
pub async fn groups_below(folder: &Named) -> Vec<Named> {
    let Ok(listed) = list(folder).await else {
        return vec![];
    };
    let is_group = |name: &str| matches!(name, ".zgroup" | "zarr.json");
    let mut objects = listed.objects.iter();
    if !objects.any(|object| object.location.filename().is_some_and(is_group)) {
        return vec![];
    }
    let groups = children(folder, &listed, |name| !name.starts_with('.'), false);
    let with_variants = groups.into_iter().map(|group| async move {
        let listed = list(&group).await.ok()?;
        let mut folders = listed.common_prefixes.iter();
        let has_variants = folders.any(|path| path.filename() == Some("variants"));
        let contig = group.place.path.filename().map(str::to_string);
        has_variants.then_some(Named { contig, ..group })
    });
    let found: Vec<Option<Named>> = stream::iter(with_variants)
        .buffered(CONCURRENT_LISTINGS)
        .collect()
        .await;
    found.into_iter().flatten().collect()
}

/// A location with a pattern, split into parts.
struct Pattern<'a> {
    /// What is before the first part with a pattern, with its last slash.
    base: &'a str,
    /// The parts from there on.
    parts: Vec<&'a str>,
}

async fn exists(path: PathBuf) -> Result<bool> {
    blocking(move || path.exists()).await
}

fn is_local(location: &str) -> bool {
    !location.contains("://")
}

/// The pattern of `location`; `None` if it is not a pattern. A local one may also be the name of a file, which comes first.
fn pattern_of(location: &str) -> Option<Pattern<'_>> {
    let (root, path, wild): (usize, &str, &[char]) = match location.split_once("://") {
        Some((scheme, rest)) => {
            let root = scheme.len() + 3;
            let host = rest.find('/')? + 1;
            // The query and fragment of a URL are not part of its path.
            let end = rest.find(['?', '#']).unwrap_or(rest.len());
            (root + host, rest.get(host..end)?, &['*', '['])
        }
        None => (0, location, &['*', '?', '[']),
    };
    let at = path.find(wild)?;
    let base = path[..at].rfind('/').map_or(0, |slash| slash + 1);
    Some(Pattern {
        base: &location[..root + base],
        parts: path[base..]
            .split('/')
            .filter(|part| !part.is_empty())
            .collect(),
    })
}

/// Whether a location is a pattern, and not the name of a file.
pub fn is_pattern(location: &str) -> bool {
    pattern_of(location).is_some() && !(is_local(location) && Path::new(location).exists())
}

/// The stores that a pattern matches, in the order of their names.
async fn matching(
    state: &dyn Session,
    location: &str,
    pattern: Pattern<'_>,
    options: &RemoteOptions,
) -> Result<Vec<Named>> {
    let Pattern { base, parts } = pattern;
    let start = if base.is_empty() { "." } else { base };
    let mut found = vec![Named {
        name: shown(base.trim_end_matches('/')),
        place: locate_by(state, start, options).await?,
        contig: None,
    }];
    if base.starts_with('/') && found[0].name.is_empty() {
        found[0].name = "/".to_string();
    }
    let last = parts.len().saturating_sub(1);
    for (at, part) in parts.into_iter().enumerate() {
        let mut next = Vec::new();
        for folder in &found {
            let listed = list(folder).await.map_err(|error| {
                // Without the page that an HTTP server sends.
                let error = error.to_string();
                let reason = error.split('<').next().unwrap_or_default();
                plan_datafusion_err!(
                    "'{location}' is a pattern, but '{}' cannot be listed; a list of stores needs no listing: LOCATION ('…', '…'), or on \
                     the command line NAME=STORE for each. {}",
                    shown(start),
                    reason.trim_end_matches([':', ' '])
                )
            })?;
            let names = |name: &str| matches(part, name);
            next.extend(children(folder, &listed, names, at == last));
        }
        found = next;
    }
    if found.is_empty() {
        return plan_err!(
            "'{location}' matches nothing; give the path of stores that are there, such as 'data/chr*.vcz.zip'"
        );
    }
    Ok(found)
}

async fn list(folder: &Named) -> Result<ListResult, VczError> {
    let Location { objects, path, .. } = &folder.place;
    let listed = objects.list_with_delimiter(Some(path)).await;
    listed.map_err(|error| VczError::Io {
        store: folder.name.clone(),
        key: path.to_string(),
        source: Box::new(error),
    })
}

/// The entries of a folder whose names are `is_wanted`: folders, and also files if `files`; in the order of their names.
fn children(
    folder: &Named,
    listed: &ListResult,
    is_wanted: impl Fn(&str) -> bool,
    files: bool,
) -> Vec<Named> {
    let objects = listed.objects.iter().map(|object| &object.location);
    let paths = listed
        .common_prefixes
        .iter()
        .chain(objects.filter(|_| files));
    let mut found: Vec<Named> = paths
        .filter_map(|path| {
            let name = path.filename().filter(|name| is_wanted(name))?;
            let shown = match folder.name.as_str() {
                "" => name.to_string(),
                parent => format!("{}/{name}", parent.trim_end_matches('/')),
            };
            Some(Named {
                name: shown,
                place: Location {
                    objects: folder.place.objects.clone(),
                    path: path.clone(),
                    local: folder.place.local.as_ref().map(|local| local.join(name)),
                },
                contig: None,
            })
        })
        .collect();
    found.sort_by(|a, b| by_number(&a.name, &b.name));
    found
}

/// The order of names in which numbers are compared by value: `chr2` before `chr10`.
fn by_number(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    while let (Some(x), Some(y)) = (left.chars().next(), right.chars().next()) {
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let number = |text: &str| {
                let end = text
                    .find(|c: char| !c.is_ascii_digit())
                    .unwrap_or(text.len());
                let digits = text[..end].trim_start_matches('0').to_string();
                (end, digits)
            };
            let ((end_x, m), (end_y, n)) = (number(left), number(right));
            let order = m.len().cmp(&n.len()).then_with(|| m.cmp(&n));
            if order != Ordering::Equal {
                return order;
            }
            (left, right) = (&left[end_x..], &right[end_y..]);
        } else if x != y {
            return x.cmp(&y);
        } else {
            (left, right) = (&left[x.len_utf8()..], &right[y.len_utf8()..]);
        }
    }
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// Whether a name matches a pattern: `*` is any text, `?` any character, `[a-c]` and `[!a-c]` one of some or none of them. Names that
/// begin with a dot match only patterns that do.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    // Where to continue if the text after the last star does not match.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == '*' {
            star = Some((p + 1, n));
            p += 1;
            continue;
        }
        if n == name.len() && p == pattern.len() {
            return true;
        }
        let next = match name.get(n) {
            Some(c) => one_of(&pattern[p..], *c),
            None => return false,
        };
        match (next, star) {
            (Some(len), _) => (p, n) = (p + len, n + 1),
            (None, Some((after, from))) => {
                star = Some((after, from + 1));
                (p, n) = (after, from + 1);
            }
            (None, None) => return false,
        }
    }
}

/// The length of the first element of `pattern`, which is not a star, if `c` matches it.
fn one_of(pattern: &[char], c: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '[' => {
            let is_negated = pattern.get(1) == Some(&'!');
            let first = if is_negated { 2 } else { 1 };
            // A closing bracket in first place is one of the characters.
            let close = pattern
                .iter()
                .skip(first + 1)
                .position(|c| *c == ']')
                .map(|at| at + first + 1);
            let Some(close) = close else {
                return (c == '[').then_some(1);
            };
            let set = &pattern[first..close];
            let mut is_in = false;
            let mut at = 0;
            while at < set.len() {
                match set.get(at..at + 3) {
                    Some([low, '-', high]) => {
                        is_in |= (*low..=*high).contains(&c);
                        at += 3;
                    }
                    _ => {
                        is_in |= set[at] == c;
                        at += 1;
                    }
                }
            }
            (is_in != is_negated).then_some(close + 1)
        }
        literal => (*literal == c).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        for (pattern, name, expected) in [
            ("chr*.vcz", "chr1.vcz", true),
            ("chr*.vcz", "chr.vcz", true),
            ("chr*.vcz", "chr1.vcz.zip", false),
            ("*", "anything", true),
            ("*", ".hidden", false),
            (".*", ".hidden", true),
            ("*a*b", "xaybzb", true),
            ("*a*b", "xayb?", false),
            ("chr?", "chr1", true),
            ("chr?", "chr10", false),
            ("chr[1-3x]", "chr2", true),
            ("chr[1-3x]", "chrx", true),
            ("chr[!1-3]", "chr2", false),
            ("chr[!1-3]", "chr4", true),
            ("a[", "a[", true),
            ("a[]]", "a]", true),
            ("", "", true),
            ("é*", "éa", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn numbers_in_names_are_compared_by_value() {
        let mut names = ["chr10.a", "chr2", "chrX", "chr2.b", "chr02", "a", "chr1"];
        names.sort_by(|a, b| by_number(a, b));
        assert_eq!(
            names,
            ["a", "chr1", "chr02", "chr2", "chr2.b", "chr10.a", "chrX"]
        );
    }

    #[test]
    fn patterns_are_told_from_paths_and_queries_of_urls() {
        let parts =
            |location| pattern_of(location).map(|p| (p.base.to_string(), p.parts.join("|")));
        let some = |base: &str, parts: &str| Some((base.to_string(), parts.to_string()));
        assert_eq!(parts("data/chr*.vcz"), some("data/", "chr*.vcz"));
        assert_eq!(parts("chr?.vcz"), some("", "chr?.vcz"));
        assert_eq!(parts("/*/x.vcz"), some("/", "*|x.vcz"));
        assert_eq!(
            parts("s3://bucket/a/*.vcz"),
            some("s3://bucket/a/", "*.vcz")
        );
        assert_eq!(parts("s3://bucket/*.vcz"), some("s3://bucket/", "*.vcz"));
        for location in [
            "a.vcz",
            "https://host/x.vcz.zip?a=*",
            "https://host",
            "s3://*",
        ] {
            assert_eq!(parts(location), None, "{location}");
        }
    }
}
