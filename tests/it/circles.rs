//! No circles: files of `src` that import each other, directly or through others, could be one file or need a third.
//!
//! Production code only. A module and its parent (`mod.rs`) are no circle: the parent declares and re-exports what is below it. But a
//! module imports no item that its parent defines. No file is too long.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::layers::{code_only, sources};

/// A module as the names that lead to it from the crate's root.
type Module = Vec<String>;

/// Each module's file, from `src/` on, and its code.
type Modules = BTreeMap<Module, (String, String)>;

fn module_of(file: &str) -> Module {
    let path = file.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').map(str::to_string).collect()
}

/// The code of a file without its inline tests, and the modules that it declares for tests only.
fn without_tests(code: &str) -> (String, Vec<String>) {
    const MARK: &str = "#[cfg(test)]";
    let (mut kept, mut declared, mut rest) = (String::new(), Vec::new(), code);
    while let Some(at) = rest.find(MARK) {
        kept.push_str(&rest[..at]);
        rest = &rest[at + MARK.len()..];
        let end = rest.find([';', '{']).unwrap_or(rest.len());
        let item = &rest[..end];
        if let Some(name) = item.split_once("mod ").map(|(_, name)| name.trim()) {
            declared.push(name.to_string());
        }
        let skipped = match rest[end..].starts_with('{') {
            true => end + closing_brace(&rest[end..]),
            false => end,
        };
        rest = &rest[skipped..];
    }
    kept.push_str(rest);
    (kept, declared)
}

/// Length of the part of `code` from its first character, an opening brace, to the brace that closes it.
fn closing_brace(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// The production modules of these files, given as paths from `src/` on and sources.
fn modules(files: impl IntoIterator<Item = (String, String)>) -> Modules {
    let mut modules = Modules::new();
    let mut tests = BTreeSet::new();
    for (file, source) in files {
        let (code, declared) = without_tests(&code_only(&source));
        let module = module_of(&file);
        for name in declared {
            tests.insert([module.clone(), vec![name]].concat());
        }
        modules.insert(module, (file, code));
    }
    let is_test = |module: &Module, file: &str| {
        file.ends_with("tests.rs") || (1..=module.len()).any(|n| tests.contains(&module[..n]))
    };
    modules.retain(|module, (file, _)| !is_test(module, file));
    modules
}

/// The paths that some code names through `crate::`, `super::` or `self::`, with braces taken apart.
fn named_paths(code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for root in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            take_apart(&[], &code[at..], &mut paths);
        }
    }
    paths
}

/// Adds the path that `text` starts with, below `prefix`, or in braces each of several.
fn take_apart(prefix: &[String], text: &str, paths: &mut Vec<Vec<String>>) {
    let mut path = prefix.to_vec();
    let mut rest = text.trim_start();
    loop {
        if rest.starts_with('{') {
            let group = &rest[1..closing_brace(rest) - 1];
            let (mut depth, mut start) = (0, 0);
            for (at, c) in group.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        take_apart(&path, &group[start..at], paths);
                        start = at + 1;
                    }
                    _ => {}
                }
            }
            return take_apart(&path, &group[start..], paths);
        }
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        if end > 0 {
            path.push(rest[..end].to_string());
        }
        match rest[end..].strip_prefix("::") {
            Some(more) if end > 0 => rest = more,
            _ => break,
        }
    }
    if path.len() > prefix.len() {
        paths.push(path);
    }
}

/// The deepest module that `path` leads to from `module`, and the names that are left.
fn resolve<'p>(modules: &Modules, module: &Module, path: &'p [String]) -> (Module, &'p [String]) {
    let (mut at, mut rest) = match path.first().map(String::as_str) {
        Some("crate") => (Module::new(), &path[1..]),
        _ => (module.clone(), path),
    };
    while let Some((first, more)) = rest.split_first() {
        match first.as_str() {
            "self" => {}
            "super" => {
                at.pop();
            }
            name => {
                let below = [at.clone(), vec![name.to_string()]].concat();
                if !modules.contains_key(&below) {
                    break;
                }
                at = below;
            }
        }
        rest = more;
    }
    (at, rest)
}

/// Where a module re-exports `name` from, if it does.
fn re_exported(modules: &Modules, module: &Module, name: &str) -> Option<Module> {
    let (_, code) = modules.get(module)?;
    for (at, _) in code.match_indices("pub") {
        let Some((visibility, item)) = code[at..].split_once("use ") else {
            continue;
        };
        if visibility.contains([';', '{', '}']) {
            continue;
        }
        let mut paths = Vec::new();
        take_apart(&[], item, &mut paths);
        for path in paths {
            if path.last().is_some_and(|last| last == name) {
                return Some(resolve(modules, module, &path).0);
            }
        }
    }
    None
}

/// For each file, the files whose items it names. Parents and children are left out.
fn imports(modules: &Modules) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut imports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (module, (file, code)) in modules {
        for path in named_paths(code) {
            let (mut target, rest) = resolve(modules, module, &path);
            if let Some(name) = rest.first()
                && let Some(from) = re_exported(modules, &target, name)
            {
                target = from;
            }
            if target.starts_with(module) || module.starts_with(&target) {
                continue;
            }
            if let Some((other, _)) = modules.get(&target) {
                imports.entry(file).or_default().insert(other);
            }
        }
    }
    imports
}

/// Groups of files that reach each other.
fn circles(modules: &Modules) -> Vec<Vec<String>> {
    let imports = imports(modules);
    let reached = |from: &str| {
        let mut found = BTreeSet::new();
        let mut left = vec![from];
        while let Some(file) = left.pop() {
            for &next in imports.get(file).into_iter().flatten() {
                if found.insert(next) {
                    left.push(next);
                }
            }
        }
        found
    };
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|&file| (file, reached(file))).collect();
    let mut circles = BTreeSet::new();
    for (file, found) in &reach {
        let both = |other: &&&str| reach.get(**other).is_some_and(|back| back.contains(file));
        let circle: Vec<String> = found
            .iter()
            .filter(both)
            .map(|other| (*other).to_string())
            .collect();
        if !circle.is_empty() {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

/// Whether some code defines an item of this name.
fn defines(code: &str, name: &str) -> bool {
    const KINDS: [&str; 8] = [
        "struct", "enum", "union", "trait", "type", "fn", "const", "static",
    ];
    let words = |text: &str| -> Vec<String> {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        text.split(|c| !is_name(c))
            .filter(|word| !word.is_empty())
            .map(str::to_string)
            .collect()
    };
    code.match_indices(name).any(|(at, _)| {
        let line = code[..at]
            .rfind(['\n', ';', '{', '}'])
            .map_or(0, |at| at + 1);
        let after = code[at + name.len()..].chars().next();
        let is_whole = after.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        let before = &code[line..at];
        is_whole
            && before.ends_with(' ')
            && words(before)
                .last()
                .is_some_and(|word| KINDS.contains(&word.as_str()))
    })
}

/// Files that import an item that a parent of theirs defines, each with the item.
fn imports_of_parents(modules: &Modules) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for (module, (file, code)) in modules {
        for path in named_paths(code) {
            let (target, rest) = resolve(modules, module, &path);
            let is_parent = target.len() < module.len() && module.starts_with(&target);
            let (true, Some(name), Some((_, of_parent))) =
                (is_parent, rest.first(), modules.get(&target))
            else {
                continue;
            };
            if defines(of_parent, name) {
                found.insert((file.clone(), name.clone()));
            }
        }
    }
    found
}

/// The production modules of this crate.
fn of_this_crate() -> Modules {
    let root = crate::common::top().join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let read = |file: &std::path::PathBuf| {
        let path = file.strip_prefix(&root).unwrap().to_str().unwrap();
        (path.replace('\\', "/"), fs::read_to_string(file).unwrap())
    };
    modules(files.iter().map(read))
}

#[test]
fn no_circles_between_files() {
    let modules = of_this_crate();
    let n_imports: usize = imports(&modules).values().map(BTreeSet::len).sum();
    assert!(
        n_imports > 300,
        "the checker has found only {n_imports} imports, so it does not look where they are"
    );
    let found: Vec<String> = circles(&modules)
        .into_iter()
        .map(|circle| circle.join(", "))
        .collect();
    assert!(
        found.is_empty(),
        "files that import each other; move what both use to a third:\n{}",
        found.join("\n")
    );
}

/// Files that need a list as a whole that stands in a `mod.rs`, because it is added to with every module: of the aggregates, and of the
/// planning rules.
const OF_LISTS: [(&str, &str); 5] = [
    ("functions/aggregate/stages.rs", "all"),
    ("functions/aggregate/stages.rs", "is_bound"),
    ("functions/aggregate/stages.rs", "aggregate_arguments"),
    ("functions/aggregate/value_size.rs", "aggregate_arguments"),
    ("session/closed.rs", "with_vcz"),
];

#[test]
fn no_module_imports_what_its_parent_defines() {
    let found = imports_of_parents(&of_this_crate());
    let known = OF_LISTS.map(|(file, name)| (file.to_string(), name.to_string()));
    let known = BTreeSet::from(known);
    let listed = |items: &mut dyn Iterator<Item = &(String, String)>| -> String {
        items
            .map(|(file, name)| format!("{file}: {name}\n"))
            .collect()
    };
    let new = listed(&mut found.difference(&known));
    assert!(
        new.is_empty(),
        "items that a mod.rs defines and a module below it imports; move them to a file of their own:\n{new}"
    );
    let gone = listed(&mut known.difference(&found));
    assert!(gone.is_empty(), "no longer needed in OF_LISTS:\n{gone}");
}

#[test]
fn the_checker_finds_items_of_parents() {
    let found = |parent: &str, child: &str| {
        let files = [
            ("a/mod.rs", parent),
            ("a/b.rs", child),
            ("a/c.rs", "pub struct C;"),
        ];
        let files = files.map(|(file, source)| (file.to_string(), source.to_string()));
        let items = imports_of_parents(&modules(files));
        items.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    assert_eq!(found("mod b; pub struct A<T>(T);", "use super::A;"), ["A"]);
    assert_eq!(
        found(
            "mod b;\nconst N: usize = 1; pub(crate) fn f() {}",
            "use crate::a::{N, f};"
        ),
        ["N", "f"]
    );
    let none: [&str; 0] = [];
    assert_eq!(found("mod b; mod c; pub use c::C;", "use super::C;"), none);
    assert_eq!(
        found("mod b; mod c; pub struct A;", "use super::c::A;"),
        none
    );
    assert_eq!(found("mod b; fn g() { A }", "use super::A;"), none);
    assert_eq!(
        found(
            "mod b; struct A;",
            "#[cfg(test)] mod tests { use crate::a::A; }"
        ),
        none
    );
}

/// The most lines of a source file, without its tests.
const MOST_LINES: usize = 500;

#[test]
fn no_file_is_too_long() {
    let modules = of_this_crate();
    let lines = |code: &str| code.trim_end().lines().count();
    let longest = modules.values().map(|(_, code)| lines(code)).max();
    assert!(
        longest > Some(MOST_LINES / 2),
        "the files were not read: {longest:?}"
    );
    let too_long: Vec<String> = modules
        .values()
        .filter(|(_, code)| lines(code) > MOST_LINES)
        .map(|(file, code)| format!("{file}: {} lines", lines(code)))
        .collect();
    assert!(
        too_long.is_empty(),
        "more than {MOST_LINES} lines, not counting tests; divide them:\n{}",
        too_long.join("\n")
    );
}

/// The most places of `src/scan` that ask whether the GPU is compiled in: a scan is the same with and without it.
const MOST_GPU_SWITCHES: usize = 12;

#[test]
fn the_scan_asks_rarely_for_the_gpu() {
    let root = crate::common::top().join("src");
    let modules = of_this_crate();
    let files = modules.values().map(|(file, _)| file);
    let found: Vec<String> = files
        .filter(|file| file.starts_with("scan/"))
        .flat_map(|file| {
            let text = fs::read_to_string(root.join(file)).unwrap();
            let lines = text.lines().enumerate();
            let with = lines.filter(|(_, line)| line.contains("feature = \"gpu\""));
            with.map(|(at, line)| format!("{file}, line {}: {}", at + 1, line.trim()))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(!found.is_empty(), "the files were not read");
    assert!(
        found.len() <= MOST_GPU_SWITCHES,
        "more than {MOST_GPU_SWITCHES} switches; put what differs into src/scan/chunks/gpu and no_gpu.rs:\n{}",
        found.join("\n")
    );
}

#[test]
fn the_checker_finds_circles() {
    let found = |files: &[(&str, &str)]| {
        let files = files
            .iter()
            .map(|(file, source)| (file.to_string(), source.to_string()));
        circles(&modules(files))
    };
    // Direct, and through a third file and a re-export.
    let both = found(&[
        ("a/mod.rs", "mod b; mod c;"),
        ("a/b.rs", "use super::c::C;"),
        ("a/c.rs", "fn f() { crate::a::b::g() }"),
    ]);
    assert_eq!(both, [["a/b.rs", "a/c.rs"]]);
    let three = found(&[
        ("a/mod.rs", "mod b; pub(crate) use b::{B, x as y};"),
        ("a/b.rs", "use crate::d::{E, e::F};"),
        ("d/mod.rs", "pub mod e;"),
        ("d/e.rs", "use crate::f::G;"),
        ("f.rs", "use crate::a::B;"),
    ]);
    assert_eq!(three, [["a/b.rs", "d/e.rs", "f.rs"]]);
    // Parents and children, tests, comments and strings are none.
    let none = found(&[
        (
            "a/mod.rs",
            "mod b; mod c; #[cfg(test)] mod testing; use b::B;",
        ),
        ("a/b.rs", "use super::A; use super::c::C; // crate::a::c"),
        (
            "a/c.rs",
            "const S: &str = \"crate::a::b\"; #[cfg(test)] mod tests { use crate::a::b::B; }",
        ),
        ("a/testing.rs", "use super::b::B;"),
        ("a/b_tests.rs", "use super::c::C;"),
    ]);
    assert_eq!(none, [] as [Vec<String>; 0]);
}
