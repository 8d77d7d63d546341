//! Zarr groups of variants that do not say that they are VCF Zarr: which of their arrays are which of VCF Zarr's.
//!
//! Called by `Store::open` for groups without the attribute `vcf_zarr_version`. sgkit and pg_gpu use the names of VCF Zarr; those of
//! scikit-allel are in [`NAMES`], [`FOLDERS`] and [`PARTS`]. Invariant: an array has one name, and a name stands for one array.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::array::ArrayMeta;
use super::discover::{Contents, FoundArray, arrays_at};
use super::names::may_be_array;
use super::source::StoreSource;
use crate::error::{Result, VczError};

/// scikit-allel's arrays that VCF Zarr has under another name than [`FOLDERS`] gives.
const NAMES: [(&str, &str); 6] = [
    ("samples", "sample_id"),
    ("calldata/GT", "call_genotype"),
    ("calldata/genotype", "call_genotype"),
    ("variants/POS", "variant_position"),
    ("variants/ID", "variant_id"),
    ("variants/QUAL", "variant_quality"),
];

/// scikit-allel's folders, and how the names of their arrays begin in VCF Zarr: `variants/DP` is `variant_DP`.
const FOLDERS: [(&str, &str); 2] = [("calldata", "call_"), ("variants", "variant_")];

/// scikit-allel's arrays that are parts of VCF Zarr's: names of contigs, of which `variant_contig` and `contig_id` are made, and the two
/// parts of `variant_allele`.
pub(super) const PARTS: [&str; 3] = ["variants/ALT", "variants/CHROM", "variants/REF"];

/// Names that VCF Zarr gives another meaning than an INFO or FORMAT field of that name has.
const RESERVED: [&str; 5] = [
    "call_genotype",
    "variant_allele",
    "variant_contig",
    "variant_filter",
    "variant_position",
];

/// scikit-allel's arrays that are looked for where a location cannot be listed.
const LIKELY: [&str; 14] = [
    "calldata/AD",
    "calldata/DP",
    "calldata/GQ",
    "calldata/GT",
    "calldata/genotype",
    "variants/ALT",
    "variants/CHROM",
    "variants/DP",
    "variants/FILTER_PASS",
    "variants/ID",
    "variants/POS",
    "variants/QUAL",
    "variants/REF",
    "variants/numalt",
];

/// What a group of another writer has, beside arrays of VCF Zarr's names.
#[derive(Debug, Default)]
pub(super) struct OtherWriter {
    /// Where arrays are, below the store's root, by their names in VCF Zarr; those that are not here are at their names.
    pub(super) folders: BTreeMap<String, String>,
    /// The arrays of [`PARTS`], by their paths.
    pub(super) parts: BTreeMap<String, Arc<ArrayMeta>>,
    /// What to tell the user.
    pub(super) warning: String,
}

/// Finds the arrays of scikit-allel's names, unless there are positions by VCF Zarr's name, and adds them to `contents`.
///
/// # Errors
/// [`VczError::NotAStore`] if there are no positions under any name; [`VczError::Io`] if reading fails.
pub(super) async fn adapt(
    source: &StoreSource,
    location: &str,
    contents: &mut Contents,
) -> Result<OtherWriter> {
    let has = |contents: &Contents, name: &str| {
        contents.arrays.contains_key(name) || contents.unreadable.contains_key(name)
    };
    let mut other = OtherWriter {
        warning: "it has no attribute 'vcf_zarr_version', so it is read by the names of its arrays, which are those of sgkit and \
                  pg_gpu; every NaN is taken for a missing value"
            .to_owned(),
        ..OtherWriter::default()
    };
    if has(contents, "variant_position") {
        return Ok(other);
    }
    other.warning = "it has no attribute 'vcf_zarr_version', so it is read by the names of its arrays, which are those of scikit-allel \
                     (variants/POS is variant_position, calldata/GT is call_genotype, …); every NaN is taken for a missing value"
        .to_owned();
    let mut paths = BTreeSet::new();
    for (folder, _) in FOLDERS {
        match source.folders(folder).await {
            Ok(Some(names)) => paths.extend(names.iter().map(|name| format!("{folder}/{name}"))),
            // What cannot be listed is looked for.
            Ok(None) | Err(_) => paths.extend(LIKELY.map(str::to_owned)),
        }
    }
    paths.insert("samples".to_owned());
    let mut found = arrays_at(source, location, contents.format, paths).await?;
    contents.arrays.remove("samples");
    contents.unreadable.remove("samples");
    // Names of the table come before those that folders give.
    found.sort_by_key(|array| NAMES.iter().all(|(path, _)| *path != array.path));
    for FoundArray { path, read, id } in found {
        if PARTS.contains(&path.as_str()) {
            match read {
                Ok(array) => drop(other.parts.insert(path, Arc::new(array))),
                Err(reason) => drop(contents.unreadable.insert(path, reason)),
            }
            continue;
        }
        let Some(name) = name_of(&path).filter(|name| !has(contents, name)) else {
            continue;
        };
        match read {
            Ok(array) => {
                // Arrays of these folders are over variants, whatever their dimensions are called.
                let array = ArrayMeta {
                    name: name.clone(),
                    dimensions: vec![],
                    ..array
                };
                contents.arrays.insert(name.clone(), Arc::new(array));
            }
            Err(reason) => drop(contents.unreadable.insert(name.clone(), reason)),
        }
        contents.documents.extend(id.map(|id| (name.clone(), id)));
        other.folders.insert(name, path);
    }
    if !has(contents, "variant_position") {
        let unpack = match source.is_archive() {
            true => "; if it has a group for each chromosome, unpack the archive",
            false => "",
        };
        return Err(VczError::NotAStore {
            store: location.to_owned(),
            reason: format!(
                "it is a Zarr group whose attribute 'vcf_zarr_version' is missing, and no positions were found in it, neither as \
                 'variant_position' (VCF Zarr, sgkit, pg_gpu) nor as 'variants/POS' (scikit-allel){unpack}"
            ),
        });
    }
    Ok(other)
}

/// The name that VCF Zarr has for scikit-allel's array at `path`; `None` where it would be taken for another.
fn name_of(path: &str) -> Option<String> {
    if let Some((_, name)) = NAMES.iter().find(|(known, _)| *known == path) {
        return Some((*name).to_owned());
    }
    let (folder, field) = path.split_once('/')?;
    let (_, prefix) = FOLDERS.iter().find(|(known, _)| *known == folder)?;
    let name = format!("{prefix}{field}");
    (may_be_array(&name) && !RESERVED.contains(&name.as_str())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (path, name) in [
            ("samples", Some("sample_id")),
            ("calldata/GT", Some("call_genotype")),
            ("calldata/DP", Some("call_DP")),
            ("variants/POS", Some("variant_position")),
            ("variants/FILTER_PASS", Some("variant_FILTER_PASS")),
            ("variants/contig", None),
            ("variants/../x", None),
            ("variants", None),
            ("other/X", None),
        ] {
            assert_eq!(name_of(path).as_deref(), name, "{path}");
        }
        for (path, _) in NAMES {
            assert!(path == "samples" || path.split('/').count() == 2);
        }
    }
}
