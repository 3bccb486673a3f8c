//! Files that `.gitattributes` marks as generated (`linguist-generated`).

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::file_role::{file_name, parent_directory};

/// Name of the files that this module reads.
pub const GIT_ATTRIBUTES: &str = ".gitattributes";

/// Files that are read, rules of one file, and bytes of a rule's pattern.
const FILES_MAX: usize = 100;
const RULES_MAX: usize = 500;
const PATTERN_BYTES_MAX: usize = 256;

/// The rules of a repository; deeper directories come later, and the last rule that matches a file decides.
#[derive(Debug, Default)]
pub struct GeneratedFiles(Vec<(String, Gitignore)>);

impl GeneratedFiles {
    /// Reads the `.gitattributes` among sorted paths.
    pub fn read<'a>(paths: impl Iterator<Item = &'a str>, text: impl Fn(&str) -> Option<String>) -> Self {
        let files = paths.filter(|path| file_name(path) == GIT_ATTRIBUTES).take(FILES_MAX);
        let rules = files.filter_map(|path| {
            let rules = parse(&text(path)?);
            (!rules.is_empty()).then(|| (parent_directory(path).to_owned(), rules))
        });
        let mut rules: Vec<_> = rules.collect();
        rules.sort_by_key(|(directory, _)| (!directory.is_empty(), directory.matches('/').count()));
        Self(rules)
    }

    /// True for a file that the rules mark as generated.
    pub fn holds(&self, path: &str) -> bool {
        let answer = self.0.iter().rev().find_map(|(directory, rules)| {
            let below = match directory.as_str() {
                "" => path,
                directory => path.strip_prefix(directory)?.strip_prefix('/')?,
            };
            match rules.matched(below, false) {
                Match::None => None,
                Match::Ignore(_) => Some(true),
                Match::Whitelist(_) => Some(false),
            }
        });
        answer == Some(true)
    }
}

fn parse(text: &str) -> Gitignore {
    let mut rules = GitignoreBuilder::new("");
    let said = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let pattern = words.next().filter(|pattern| !pattern.starts_with(['#', '!', '[']))?;
        let mut is_so = words.filter_map(|attribute| match attribute {
            "linguist-generated" | "linguist-generated=true" => Some(true),
            "-linguist-generated" | "!linguist-generated" | "linguist-generated=false" => Some(false),
            _ => None,
        });
        let pattern = pattern.trim_matches('"');
        let fits = pattern.len() <= PATTERN_BYTES_MAX && !pattern.ends_with('/');
        is_so.next_back().filter(|_| fits).map(|is_so| (pattern, is_so))
    });
    for (pattern, is_so) in said.take(RULES_MAX) {
        // A pattern that git does not understand matches nothing.
        let _ = rules.add_line(None, &format!("{}{pattern}", if is_so { "" } else { "!" }));
    }
    rules.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rule_of_the_deepest_file_decides() {
        let text = |path: &str| {
            let text = match path {
                ".gitattributes" => {
                    "* text=auto\ndist/** -diff linguist-generated=true\n*.pb.go linguist-generated\nlib/ linguist-generated\n"
                }
                "dist/own/.gitattributes" => "*.js -linguist-generated\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let files = GeneratedFiles::read([".gitattributes", "a.js", "dist/own/.gitattributes"].into_iter(), text);
        let held = [
            "a.js",
            "a.pb.go",
            "dist/a.js",
            "dist/b/c.js",
            "dist/own/a.js",
            "dist/own/a.css",
            "lib/a.js",
        ];
        let held: Vec<_> = held.into_iter().filter(|path| files.holds(path)).collect();
        assert_eq!(held, ["a.pb.go", "dist/a.js", "dist/b/c.js", "dist/own/a.css"]);
    }
}
