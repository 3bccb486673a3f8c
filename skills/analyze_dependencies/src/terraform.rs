//! Parses `*.tf`: `required_providers` and the sources of modules. Nothing is evaluated.

use crate::calls::leading_string;
use crate::model::{Dependency, Ecosystem, Manifest};

/// Limit for the depth of blocks. Real files have six levels.
const DEPTH_MAX: usize = 32;

/// An open block or object.
struct OpenBlock<'t> {
    /// Text before its brace, without quotation marks, for example `module vpc`.
    header: Vec<&'t str>,
    line: usize,
    source: Option<&'t str>,
    version: Option<&'t str>,
}

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Terraform", Ecosystem::Terraform);
    let mut blocks: Vec<OpenBlock<'_>> = Vec::new();
    // The word that ends an open heredoc.
    let mut heredoc: Option<&str> = None;
    for (at, line) in text.lines().enumerate() {
        if let Some(end) = heredoc {
            heredoc = (line.trim() != end).then_some(end);
            continue;
        }
        let mut start = 0;
        let mut quote = false;
        for (index, byte) in line.bytes().enumerate() {
            quote ^= byte == b'"';
            let is_comment = byte == b'#' || byte == b'/' && line.as_bytes()[..index].ends_with(b"/");
            if quote || !(is_comment || matches!(byte, b'{' | b'}' | b',')) {
                continue;
            }
            let statement = line[start..index].trim_end_matches('/').trim();
            start = index + 1;
            if byte == b'{' {
                if blocks.len() >= DEPTH_MAX {
                    manifest.problem(at + 1, "blocks are nested too deeply; what follows is not read");
                    return manifest;
                }
                let words = statement.split([' ', '\t', '"', '=']).filter(|word| !word.is_empty());
                blocks.push(OpenBlock {
                    header: words.take(3).collect(),
                    line: at + 1,
                    source: None,
                    version: None,
                });
                continue;
            }
            read_statement(&mut manifest, &mut blocks, statement, at + 1);
            if byte == b'}'
                && let Some(block) = blocks.pop()
            {
                manifest.dependencies.extend(close_block(&block, &blocks, at + 1));
            }
            if is_comment {
                start = line.len();
                break;
            }
        }
        read_statement(&mut manifest, &mut blocks, line[start..].trim(), at + 1);
        let word = line
            .rsplit_once("<<")
            .map(|(_, word)| word.trim_start_matches('-').trim());
        heredoc = word.filter(|word| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_'));
    }
    manifest
}

fn read_statement<'t>(manifest: &mut Manifest, blocks: &mut [OpenBlock<'t>], statement: &'t str, line: usize) {
    let Some((key, value)) = statement.split_once('=') else {
        return;
    };
    let (key, Some(value)) = (key.trim(), leading_string(value)) else {
        return;
    };
    let Some(block) = blocks.last_mut() else { return };
    match (block.header.first().copied(), key) {
        // The short form of old versions: `aws = "~> 2.0"`.
        (Some("required_providers"), name) => {
            let dependency = Dependency::new(name, value, "provider", line);
            manifest.dependencies.push(dependency);
        }
        (Some("terraform"), "required_version") => manifest.fact("requires Terraform", Some(value.to_owned())),
        (_, "source") => block.source = Some(value),
        (_, "version") => block.version = Some(value),
        _ => {}
    }
}

/// The dependency that a block declares, if it is one of `required_providers` or a module.
fn close_block(block: &OpenBlock<'_>, above: &[OpenBlock<'_>], last_line: usize) -> Option<Dependency> {
    let parent = above.last().and_then(|parent| parent.header.first().copied());
    let (name, group) = match (parent, block.header.as_slice()) {
        (Some("required_providers"), [name]) => (block.source.unwrap_or(name), "provider"),
        (None, ["module", _]) => (block.source?, "module"),
        _ => return None,
    };
    let dependency = Dependency::new(name, block.version.unwrap_or_default(), group, block.line);
    Some(dependency.until(last_line))
}
