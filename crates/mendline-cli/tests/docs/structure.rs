//! Rules of the structure that no lint knows, checked in the sources: short functions in the core, and no upstream that
//! is named by a fixed number.

use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// The longest function of the core, in lines from its signature to its last brace.
const LONGEST: usize = 60;

/// Returns the functions of a formatted source that are too long: their first lines and their lengths.
fn long_functions(source: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let words = code.split(' ').take_while(|word| !word.contains('('));
        let is_function = !code.starts_with("//") && words.into_iter().any(|word| word == "fn");
        let end = format!("{}}}", &line[..line.len() - code.len()]);
        if is_function && !line.ends_with([';', '}']) {
            let length = lines[at..].iter().position(|line| *line == end).map_or(0, |last| last + 1);
            found.extend((length > LONGEST).then_some((at + 1, length)));
        }
    }
    found
}

/// Returns the lines of product code that name the first upstream by its number. Tests may: they made it themselves.
fn named_upstreams(source: &str) -> Vec<usize> {
    let product = source.split("#[cfg(test)]").next().unwrap();
    let code = product.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.filter(|(_, line)| line.contains("UpstreamId(0)")).map(|(at, _)| at + 1).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|it| it == "rs")).collect()
}

/// Returns what a check finds in these files, as `path:line` with the rest.
fn findings<T>(files: &[PathBuf], check: fn(&str) -> Vec<T>, words: fn(&T) -> String) -> Vec<String> {
    let root = root().canonicalize().unwrap();
    let found = files.iter().flat_map(|file| {
        let path = file.canonicalize().unwrap().strip_prefix(&root).unwrap().display().to_string();
        let found = check(&fs::read_to_string(file).unwrap());
        found.iter().map(|it| format!("{path}:{}", words(it))).collect::<Vec<_>>()
    });
    found.collect()
}

#[test]
fn functions_of_the_core_have_at_most_sixty_lines() {
    let files = sources(&root().join("crates/mendline-core/src"));
    assert!(files.len() > 90, "only {} files were found", files.len());
    let found = findings(&files, long_functions, |(line, length)| format!("{line}: {length} lines"));
    assert!(found.is_empty(), "split these functions:\n{}", found.join("\n"));
}

#[test]
fn product_code_never_names_an_upstream_by_number() {
    let root = root();
    let mut folders: Vec<PathBuf> = fs::read_dir(root.join("crates")).unwrap().map(|it| it.unwrap().path()).collect();
    // The simulation and the scenarios make their upstreams themselves.
    folders.retain(|folder| !folder.ends_with("mendline-sim"));
    folders.extend([root.join("bench"), root.join("bench/instructions")]);
    let mut files: Vec<PathBuf> = folders.iter().flat_map(|folder| sources(&folder.join("src"))).collect();
    files.retain(|file| !file.ends_with("tests.rs") && !file.components().any(|it| it.as_os_str() == "tests"));
    assert!(files.len() > 300, "only {} files were found", files.len());
    let found = findings(&files, named_upstreams, ToString::to_string);
    assert!(found.is_empty(), "take the number from the builder or the event:\n{}", found.join("\n"));
}

#[test]
fn long_function_and_fixed_number_are_found() {
    let body = "        a();\n".repeat(59);
    let source = format!("impl A {{\n    pub fn b() {{\n{body}    }}\n}}\n// fn c() {{\nfn d();\n");
    assert_eq!(long_functions(&source), [(2, 61)]);
    assert_eq!(long_functions(&source.replacen("        a();\n", "", 1)), []);
    let source = "// UpstreamId(0)\nlet a = UpstreamId(0);\n#[cfg(test)]\nmod tests {\n    UpstreamId(0)\n}\n";
    assert_eq!(named_upstreams(source), [2]);
}
