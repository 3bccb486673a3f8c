//! Parses `go.mod`.

use crate::model::{Dependency, Ecosystem, Manifest};

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Go", Ecosystem::Go);
    let mut block: Option<String> = None;
    for (at, whole) in text.lines().enumerate() {
        let line = at + 1;
        let (code, comment) = whole.split_once("//").unwrap_or((whole, ""));
        let words: Vec<&str> = code.split_whitespace().collect();
        match (&block, words.as_slice()) {
            (_, []) => {}
            (Some(_), [")"]) => block = None,
            (Some(verb), words) => read_directive(&mut manifest, &verb.clone(), words, comment.trim(), line),
            (None, [verb, "("]) => block = Some((*verb).to_owned()),
            (None, [verb, words @ ..]) => read_directive(&mut manifest, verb, words, comment.trim(), line),
        }
    }
    if block.is_some() {
        manifest.problem(text.lines().count().max(1), "a block without its closing parenthesis");
    }
    manifest
}

fn read_directive(manifest: &mut Manifest, verb: &str, words: &[&str], comment: &str, line: usize) {
    let place = format!("{}:{line}", manifest.path);
    match (verb, words) {
        ("module", [name]) => manifest.name = Some(unquote_name(name)),
        ("go", [version]) => manifest.facts.push(format!("Go version: {version}")),
        ("toolchain", [version]) => manifest.facts.push(format!("toolchain: {version}")),
        ("require", [name, version]) => {
            let group = if comment.starts_with("indirect") {
                "indirect"
            } else {
                "runtime"
            };
            manifest
                .dependencies
                .push(Dependency::new(&unquote_name(name), version, group, line));
        }
        ("tool", [name]) => manifest.facts.push(format!("tool: {name} ({place})")),
        ("replace" | "exclude" | "retract" | "godebug" | "ignore", words) if !words.is_empty() => {
            manifest.facts.push(format!("{verb}: {} ({place})", words.join(" ")));
        }
        (verb, words) => {
            let text = [&[verb], words].concat().join(" ");
            manifest.problem(line, &format!("not understood: `{text}`"));
        }
    }
}

fn unquote_name(name: &str) -> String {
    name.trim_matches(['"', '`']).to_owned()
}
