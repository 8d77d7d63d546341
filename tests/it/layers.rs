//! Layers import downwards only: `error < boxed < allocations < store < codec < counts < gpu < scan < functions < session < flight < cluster < cli < python`.

use std::fs;
use std::path::{Path, PathBuf};

/// The layers, lowest first. What a file in one of them names of this crate must be in it or before it.
const LAYERS: [&str; 14] = [
    "error",
    "boxed",
    "allocations",
    "store",
    "codec",
    "counts",
    "gpu",
    "scan",
    "functions",
    "session",
    "flight",
    "cluster",
    "cli",
    "python",
];

/// Rust source with comments, documentation and the contents of string and character literals replaced by spaces, so
/// that what is left is code; lines keep their numbers.
pub(crate) fn code_only(source: &str) -> String {
    let text: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    let blank = |code: &mut String, part: &[char]| {
        code.extend(part.iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
    };
    while at < text.len() {
        let rest = &text[at..];
        let after_name = code
            .chars()
            .last()
            .is_some_and(|c| c.is_alphanumeric() || c == '_');
        let length = if rest.starts_with(&['/', '/']) {
            rest.iter().position(|&c| c == '\n').unwrap_or(rest.len())
        } else if rest.starts_with(&['/', '*']) {
            block_comment(rest)
        } else if rest[0] == '"' {
            string(rest)
        } else if !after_name && (rest[0] == 'r' || rest.starts_with(&['b', 'r'])) {
            raw_string(rest)
        } else if rest[0] == '\'' {
            character(rest)
        } else {
            0
        };
        if length == 0 {
            code.push(rest[0]);
            at += 1;
        } else {
            blank(&mut code, &rest[..length]);
            at += length;
        }
    }
    code
}

fn block_comment(text: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with(&['/', '*']) {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with(&['*', '/']) {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

fn string(text: &[char]) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// Length of a raw string at the start of `text`, 0 if there is none.
fn raw_string(text: &[char]) -> usize {
    let start = if text[0] == 'b' { 2 } else { 1 };
    let hashes = text[start..].iter().take_while(|&&c| c == '#').count();
    if text.get(start + hashes) != Some(&'"') {
        return 0;
    }
    let mut at = start + hashes + 1;
    while at < text.len() {
        let closes =
            text[at] == '"' && text[at + 1..].iter().take_while(|&&c| c == '#').count() >= hashes;
        at += 1;
        if closes {
            return at + hashes;
        }
    }
    text.len()
}

/// Length of a character literal at the start of `text`, 0 if it is a lifetime.
fn character(text: &[char]) -> usize {
    match text.get(1) {
        Some('\\') => text[2..]
            .iter()
            .skip(1)
            .position(|&c| c == '\'')
            .map_or(0, |at| at + 4),
        Some(_) if text.get(2) == Some(&'\'') => 3,
        _ => 0,
    }
}

/// What the file `path` (from `src/` on, e.g. `store/zip.rs`) must not name of this crate: `line: layer`, for each place.
fn violations(path: &str, source: &str) -> Vec<String> {
    let layer = path.split('/').next().unwrap().trim_end_matches(".rs");
    let Some(own) = LAYERS.iter().position(|known| *known == layer) else {
        return vec![format!(
            "{path}: '{layer}' is not a layer; add it to LAYERS where it belongs"
        )];
    };
    let code = code_only(source);
    let mut found = Vec::new();
    for (at, name) in named_modules(path, &code) {
        let line = code[..at].matches('\n').count() + 1;
        match LAYERS.iter().position(|known| *known == name) {
            Some(other) if other <= own => {}
            Some(_) => found.push(format!(
                "src/{path}:{line}: {layer} names {name}, a layer above it"
            )),
            None => found.push(format!("src/{path}:{line}: crate::{name} is not a layer")),
        }
    }
    found
}

/// The top-level modules of the crate that some code names through `crate::` (or `$crate::`), `super::` chains that reach
/// the crate's root, or the crate's own name; each with where.
fn named_modules(path: &str, code: &str) -> Vec<(usize, String)> {
    let depth = path.trim_end_matches("/mod.rs").matches('/').count() + 1;
    // An inline module adds one level, so one `super` more may still stay inside; more than that are counted as root.
    let root_by_super = "super::".repeat(depth);
    let mut found = Vec::new();
    for root in ["crate::", "datafusion_vcz::", root_by_super.as_str()] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let rest = &code[at + root.len()..];
            for name in first_names(rest) {
                // Through `super`, only a layer's name says that this is the crate's root.
                if root != root_by_super || LAYERS.contains(&name.as_str()) {
                    found.push((at, name));
                }
            }
        }
    }
    found
}

/// The first segments of a path or, in braces, of each of several.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let Some(group) = path.trim_start().strip_prefix('{') else {
        return vec![name(path)];
    };
    let (mut depth, mut start, mut names) = (1, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (c == ',' && depth == 1) {
            names.push(name(&group[start..at]));
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

pub(crate) fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn layers_import_downwards_only() {
    let root = crate::common::top().join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut found, mut seen, mut imports) = (Vec::new(), Vec::new(), 0);
    for file in files {
        let path = file
            .strip_prefix(&root)
            .unwrap()
            .to_str()
            .unwrap()
            .replace('\\', "/");
        // The crate's two roots are above all layers.
        if matches!(path.as_str(), "lib.rs" | "main.rs") {
            continue;
        }
        let source = fs::read_to_string(&file).unwrap();
        imports += named_modules(&path, &code_only(&source)).len();
        found.extend(violations(&path, &source));
        seen.push(
            path.split('/')
                .next()
                .unwrap()
                .trim_end_matches(".rs")
                .to_string(),
        );
    }
    assert!(
        found.is_empty(),
        "layers import downwards only:\n{}",
        found.join("\n")
    );
    for layer in LAYERS {
        assert!(
            seen.iter().any(|known| known == layer),
            "no source of the layer '{layer}' was found"
        );
    }
    assert!(
        imports > 100,
        "the checker has found only {imports} imports, so it does not look where they are"
    );
}

/// Folders of `src` whose code needs a feature of `Cargo.toml` or is another crate, and single files that do.
const BEHIND_FEATURES: [&str; 8] = [
    "cli/",
    "cluster/",
    "flight/",
    "gpu/",
    "python/",
    "lib.rs",
    "main.rs",
    "scan/remote/sdk.rs",
];

/// With optimisation of level 1 the compiler takes generic code that a dependency has compiled, so the loops of this crate would call functions
/// such as `Range::next` without optimisation, too: tests took 1.2 to 1.4 times as long.
#[test]
fn no_dependency_is_built_without_optimisation() {
    let manifest = fs::read_to_string(crate::common::top().join("Cargo.toml")).unwrap();
    let profiles = manifest.split("\n[profile.").skip(1);
    let of_dev: Vec<&str> = profiles.filter(|text| text.starts_with("dev")).collect();
    let optimised = |text: &&str| {
        let level = text
            .lines()
            .find_map(|line| line.strip_prefix("opt-level = "));
        level.is_some_and(|level| ["1", "2", "3"].contains(&level))
    };
    assert!(of_dev.len() > 10, "{of_dev:?}");
    assert!(of_dev.iter().all(optimised), "{of_dev:?}");
    assert!(
        of_dev
            .iter()
            .any(|text| text.starts_with("dev.package.\"*\"]"))
    );
}

/// The lint without default features has all optional crates, as the other lints have, so it does not see who names them.
#[test]
fn optional_crates_are_named_behind_features_alone() {
    let manifest = fs::read_to_string(crate::common::top().join("Cargo.toml")).unwrap();
    let optional: Vec<String> = manifest
        .lines()
        .filter(|line| line.contains("optional = true"))
        .map(|line| line.split(' ').next().unwrap().replace('-', "_"))
        .collect();
    assert!(optional.len() > 15, "{optional:?}");
    let root = crate::common::top().join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut found, mut uses) = (Vec::new(), 0);
    for file in files {
        let path = file.strip_prefix(&root).unwrap().to_str().unwrap();
        let path = path.replace('\\', "/");
        let code = code_only(&fs::read_to_string(&file).unwrap());
        let names = optional.iter().filter(|name| names_crate(&code, name));
        let names: Vec<_> = names.collect();
        uses += names.len();
        if !BEHIND_FEATURES.iter().any(|free| path.starts_with(free)) {
            found.extend(names.iter().map(|name| format!("src/{path}: {name}")));
        }
    }
    assert!(
        found.is_empty(),
        "crates that are optional are named only in code behind their features:\n{}",
        found.join("\n")
    );
    assert!(uses > 50, "only {uses} uses of optional crates were found");
}

/// Whether some code names a crate: `name::`, or `use name`.
fn names_crate(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].trim_end_matches("::");
        let is_first = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
            && (before.len() == at || !before.trim_end().ends_with(char::is_alphanumeric));
        let after = &code[at + name.len()..];
        is_first
            && (after.starts_with("::")
                || before.ends_with("use ") && after.starts_with([';', ' ']))
    })
}

#[test]
fn crates_are_found_in_code() {
    for code in [
        "use clap::Parser;",
        "use clap;",
        "fn f(x: ::clap::Error)",
        "{clap::of()}",
    ] {
        assert!(names_crate(code, "clap"), "{code}");
    }
    for code in [
        "use eclap::Parser;",
        "use clap_x::Y;",
        "let clap = 1;",
        "use a::clap::Y;",
    ] {
        assert!(!names_crate(code, "clap"), "{code}");
    }
}

#[test]
fn the_checker_catches_violations() {
    let refused = |path: &str, source: &str, line: usize, layer: &str| {
        let found = violations(path, source);
        assert_eq!(found.len(), 1, "{source}\n{found:?}");
        assert!(
            found[0].starts_with(&format!("src/{path}:{line}: ")),
            "{found:?}"
        );
        assert!(found[0].contains(layer), "{found:?}");
    };
    refused(
        "store/zip.rs",
        "use std::fs;\nuse crate::codec::Scratch;\n",
        2,
        "codec",
    );
    refused(
        "codec/decode.rs",
        "fn f() {\n\n    crate::scan::open();\n}",
        3,
        "scan",
    );
    refused(
        "scan/table.rs",
        "use crate::{error::Result, store::{self, Store}, functions::Mask};",
        1,
        "functions",
    );
    refused(
        "counts/lanes/mod.rs",
        "pub(in crate::session) fn f() {}",
        1,
        "session",
    );
    refused(
        "functions/sfs.rs",
        "use datafusion_vcz::cli::main;",
        1,
        "cli",
    );
    refused(
        "store/zip.rs",
        "use super::super::counts::Counter;",
        1,
        "counts",
    );
    refused("error.rs", "use crate::store::Store;", 1, "store");
    refused(
        "scan/table.rs",
        "macro_rules! m { () => { $crate::session::context() } }",
        1,
        "session",
    );
    refused(
        "scan/table.rs",
        "let c = '\"'; use crate::session::context; let d = '\"';",
        1,
        "session",
    );
    refused(
        "scan/table.rs",
        "let c = '\\''; let x: &'static str; use crate::cli::main; let d = '\\u{7f}';",
        1,
        "cli",
    );
    refused(
        "scan/table.rs",
        "use crate::nowhere::Thing;",
        1,
        "not a layer",
    );
    refused("flight/mod.rs", "use crate::cli::main;", 1, "cli");
    refused("cli/sql.rs", "use crate::python::wait;", 1, "python");
    assert_eq!(
        violations("elsewhere/mod.rs", "use crate::scan::Table;").len(),
        1,
        "an unknown layer is refused"
    );
}

#[test]
fn the_checker_lets_pass_what_is_allowed() {
    let allowed = |path: &str, source: &str| {
        assert_eq!(violations(path, source), Vec::<String>::new(), "{source}")
    };
    allowed(
        "store/zip.rs",
        "use crate::error::Result;\nuse crate::store::Store;\nuse super::blob::Blob;",
    );
    allowed(
        "session/mod.rs",
        "use crate::{functions, scan::{TableOptions, VczSettings}};",
    );
    allowed(
        "store/zip.rs",
        "//! See [`crate::scan`].\n/// crate::cli::main\n// use crate::scan::open;\n/* use crate::cli; /* crate::cli */ */",
    );
    allowed(
        "error.rs",
        "const S: &str = \"crate::scan\"; const R: &str = r#\"use crate::cli \" x\"#; const B: &[u8] = br\"crate::cli\";",
    );
    allowed(
        "codec/blosc/decode.rs",
        "use super::super::Scratch; use other_krate::cli::main; use a::crate_name::scan;",
    );
    allowed(
        "counts/lanes/mod.rs",
        "use super::counts::Rows; mod tests { use super::super::masks::Mask; }",
    );
}
