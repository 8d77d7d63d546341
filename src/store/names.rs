//! Names of arrays: which are valid, and which a store is likely to have.
//!
//! Used while a store is opened: names from listings and metadata are checked, and where a location cannot be listed (plain
//! HTTP), likely names are tried. Invariant: a name that passes [`check_name`] is a path inside the store.
use super::error::StoreError;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The arrays of the VCF Zarr specification, and those that bio2zarr writes for PLINK and tskit.
const WELL_KNOWN: [&str; 27] = [
    "call_LA",
    "call_LAD",
    "call_LPL",
    "call_dosage",
    "call_genotype",
    "call_genotype_mask",
    "call_genotype_phased",
    "call_genotype_probability",
    "contig_id",
    "contig_length",
    "filter_description",
    "filter_id",
    "region_index",
    "sample_id",
    "variant_AA",
    "variant_allele",
    "variant_contig",
    "variant_filter",
    "variant_id",
    "variant_id_mask",
    "variant_length",
    "variant_position",
    "variant_quality",
    "call_DP",
    "call_GQ",
    "variant_AF",
    "variant_DP",
];

/// Most names that are tried.
const MAX_LIKELY: usize = 2_000;
/// Longest name that is accepted, in bytes.
const MAX_NAME: usize = 255;

/// Checks that `name` can be an array's name: one component of a path.
pub(super) fn check_name(name: &str) -> Result<(), StoreError> {
    if name.is_empty() || name == "." || name == ".." {
        return Err("the name of an array cannot be empty, '.' or '..'".into());
    }
    if name.len() > MAX_NAME {
        return Err(format!(
            "the name of an array has {} bytes; expected at most {MAX_NAME}",
            name.len()
        )
        .into());
    }
    if let Some(wrong) = name
        .chars()
        .find(|c| matches!(c, '/' | '\\') || c.is_control())
    {
        return Err(format!("the name of an array cannot contain {wrong:?}").into());
    }
    Ok(())
}

/// Whether this is the key of a metadata document of the store or of an array.
pub(super) fn is_document(key: &str) -> bool {
    let name = match key.split_once('/') {
        Some((folder, name)) if may_be_array(folder) => name,
        Some(_) => return false,
        None => key,
    };
    matches!(
        name,
        "zarr.json" | ".zgroup" | ".zarray" | ".zattrs" | ".zmetadata"
    )
}

/// The arrays that are read whole when a store is opened.
const READ_ON_OPENING: [&str; 5] = [
    "contig_id",
    "contig_length",
    "filter_id",
    "region_index",
    "sample_id",
];

/// Whether opening a store asks for this key: a metadata document, or a chunk of an array that is then read whole.
pub(super) fn is_read_on_opening(key: &str) -> bool {
    let folder = key.split_once('/').map(|(folder, _)| folder);
    is_document(key) || folder.is_some_and(|folder| READ_ON_OPENING.contains(&folder))
}

/// Whether a folder of this name may be an array: hidden and reserved folders (`.git`, `__MACOSX`) are not.
pub(super) fn may_be_array(name: &str) -> bool {
    !name.starts_with('.') && !name.starts_with("__") && check_name(name).is_ok()
}

/// The VCF header's lines of meta-information, if the group has them.
const HEADERS: [&str; 2] = ["vcf_meta_information", "vcf_header"];

/// The arrays that [`likely_names`] may miss, as a clause for a message.
pub(super) fn unlikely_arrays(attributes: &Map<String, Value>) -> &'static str {
    match HEADERS.iter().any(|key| attributes.contains_key(*key)) {
        true => {
            "arrays that neither the VCF Zarr specification nor the VCF header in the store's attributes names"
        }
        false => {
            "arrays of INFO fields other than AA, AF and DP and of FORMAT fields other than GT, DP and GQ, since the store's attributes \
             have no VCF header that names them"
        }
    }
}

/// The names that a store with these group attributes is likely to have: the well-known ones, those that an attribute
/// `vcz.fields` lists, and those of the INFO and FORMAT lines in the VCF header.
pub(super) fn likely_names(attributes: &Map<String, Value>) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = WELL_KNOWN.map(str::to_owned).into();
    let hinted = ["vcz.fields", "vcz_fields"]
        .iter()
        .filter_map(|key| attributes.get(*key)?.as_array())
        .flatten();
    let hinted = hinted.filter_map(Value::as_str).map(str::to_owned);
    let lines = attributes
        .get("vcf_meta_information")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let from_pairs = lines.filter_map(|pair| match pair.as_array()?.as_slice() {
        [kind, line] => field_name(kind.as_str()?, line.as_str()?),
        _ => None,
    });
    let header = attributes
        .get("vcf_header")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let from_header = header.lines().filter_map(|line| {
        let (kind, rest) = line.strip_prefix("##")?.split_once('=')?;
        field_name(kind, rest)
    });
    let more = hinted
        .chain(from_pairs)
        .chain(from_header)
        .filter(|name| may_be_array(name));
    for name in more {
        if names.len() >= MAX_LIKELY {
            break;
        }
        names.insert(name);
    }
    names
}

/// The array of an INFO or FORMAT header line, e.g. `<ID=DP,Number=1,…>`.
fn field_name(kind: &str, line: &str) -> Option<String> {
    let id = line.strip_prefix("<ID=")?.split([',', '>']).next()?;
    match (kind, id) {
        ("INFO", id) => Some(format!("variant_{id}")),
        ("FORMAT", "GT") => Some("call_genotype".to_owned()),
        ("FORMAT", id) => Some(format!("call_{id}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_stay_inside() {
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "../a",
            "a\\b",
            "a\0",
            "a\n",
            &"x".repeat(256),
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["call_genotype", "variant_é", "a b", "..."] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
        assert!(!may_be_array(".git") && !may_be_array("__MACOSX") && may_be_array("variant_id"));
    }

    #[test]
    fn documents() {
        for key in [
            "zarr.json",
            ".zmetadata",
            "a/.zarray",
            "a/.zattrs",
            "a/zarr.json",
        ] {
            assert!(is_document(key), "{key}");
        }
        for key in [
            "a/0.0",
            "a/b/.zarray",
            ".git/.zarray",
            "__MACOSX/zarr.json",
            "a",
            "",
        ] {
            assert!(!is_document(key), "{key}");
        }
        for key in [".zgroup", "sample_id/0", "region_index/c/0/0"] {
            assert!(is_read_on_opening(key), "{key}");
        }
        assert!(!is_read_on_opening("variant_position/0") && !is_read_on_opening("sample_id"));
    }

    #[test]
    fn names_from_the_header() {
        let attributes = json!({
            "vcz.fields": ["variant_custom", "../evil", 3],
            "vcf_meta_information": [["INFO", "<ID=AC,Number=A>"], ["FORMAT", "<ID=PL,Number=G>"],
                ["contig", "<ID=1>"], ["INFO", "<ID=../x>"], ["INFO"], "junk"],
            "vcf_header": "##fileformat=VCFv4.3\n##INFO=<ID=MQ,Number=1>\n##FORMAT=<ID=GT>\n#CHROM",
        });
        let names = likely_names(attributes.as_object().unwrap());
        for name in [
            "variant_custom",
            "variant_AC",
            "call_PL",
            "variant_MQ",
            "call_genotype",
            "region_index",
        ] {
            assert!(names.contains(name), "{name}");
        }
        assert!(names.iter().all(|name| may_be_array(name)));
    }
}
