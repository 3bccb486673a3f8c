//! How the routes of frameworks stand in their sources: patterns, which another crate applies.

use std::ops::Deref;
use std::sync::{LazyLock, OnceLock};

use regex::Regex;
use serde::Deserialize;

use crate::globs::matches_glob;

/// How the routes of a framework stand in its sources.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteRules {
    /// Globs of the files that may declare routes.
    #[serde(default)]
    pub files: Vec<String>,
    /// Words of which such a file holds one. Without any, every file counts.
    #[serde(default)]
    pub markers: Vec<String>,
    /// Variables that collect routes: `name`, the `path` before them, and the `router` that they extend.
    #[serde(default)]
    pub router: Vec<RoutePattern>,
    /// Blocks with a `path` before the routes in them, or with the `name` of the variable that holds them.
    #[serde(default)]
    pub scope: Vec<RoutePattern>,
    /// Places where a `router` takes the routes of a `target` below a `path`.
    #[serde(default)]
    pub mount: Vec<RoutePattern>,
    /// Routes: `path`, `method` or `methods`, `handler`, and the `router` if they need one.
    #[serde(default)]
    pub route: Vec<RoutePattern>,
    /// Files that are routes by their path.
    #[serde(default)]
    pub page: Vec<PageRule>,
}

impl RouteRules {
    /// True if a file may declare routes of the framework.
    pub fn reads(&self, path: &str) -> bool {
        self.files.iter().any(|glob| matches_glob(glob, path))
    }
}

/// An expression, compiled at its first use: a process needs those of a few frameworks, and all take 50 ms.
#[derive(Debug, Deserialize)]
#[serde(from = "String")]
pub struct RouteExpression {
    text: String,
    compiled: OnceLock<Regex>,
}

impl From<String> for RouteExpression {
    fn from(text: String) -> Self {
        let compiled = OnceLock::new();
        Self { text, compiled }
    }
}

impl Deref for RouteExpression {
    type Target = Regex;

    fn deref(&self) -> &Regex {
        self.compiled.get_or_init(|| compile(&self.text))
    }
}

/// An expression for a text, with named groups.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoutePattern {
    /// The expression.
    pub text: RouteExpression,
    /// The method if the expression finds none.
    #[serde(default)]
    pub method: String,
    /// What the group `path` becomes: `{path}`, `{one}` for its singular, and other groups by name.
    #[serde(default = "default_path")]
    pub path: String,
    /// Segments of the surrounding blocks' path that do not count.
    #[serde(default)]
    pub above: usize,
    /// Where the handler stands if no group has it.
    #[serde(default)]
    pub handler: HandlerPlace,
    /// True if it counts only inside of a block.
    #[serde(default)]
    pub is_inside: bool,
    /// Where a block ends.
    #[serde(default)]
    pub span: BlockSpan,
    /// Globs of the only files with the pattern.
    #[serde(default)]
    pub only: Vec<String>,
}

impl RoutePattern {
    /// True if the pattern is for this file.
    pub fn reads(&self, path: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|glob| matches_glob(glob, path))
    }
}

/// Where the handler of a route stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HandlerPlace {
    /// In the pattern, or nowhere.
    #[default]
    Named,
    /// It is the definition below.
    Decorated,
    /// It is the second argument of the call.
    Second,
    /// It is the last argument of the call, which has at least two.
    Last,
}

/// Where a block ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockSpan {
    /// Before the next line that is indented no deeper than its first.
    #[default]
    Block,
    /// It is the whole file.
    File,
    /// It is all files of the framework.
    Project,
}

/// Files that are routes by their path.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageRule {
    /// Names of dependencies, one of which the package declares.
    pub dependencies: Vec<String>,
    /// Folders of the package that hold the files.
    pub folders: Vec<String>,
    /// Expression for the path below the folder, with the group `path`.
    pub text: RouteExpression,
    /// Replacements in that path, in this order: an expression and the words for it.
    #[serde(default)]
    pub replace: Vec<(RouteExpression, String)>,
    /// Expression for the methods in the file, with the group `method`.
    pub methods: Option<RouteExpression>,
}

impl PageRule {
    /// The route of a file by its path below one of the folders.
    pub fn route(&self, below: &str) -> Option<String> {
        let found = self.text.captures(below)?.name("path")?.as_str();
        let replaced = self.replace.iter().fold(found.to_owned(), |path, (pattern, words)| {
            pattern.replace_all(&path, words).into_owned()
        });
        Some(format!("/{}", replaced.trim_matches('/')))
    }
}

fn default_path() -> String {
    "{path}".to_owned()
}

/// Expressions abbreviate a literal (`{str}`), a name or a literal (`{value}`), and some arguments of a call (`{args}`).
fn compile(text: &str) -> Regex {
    const STRING: &str = r#"[rR]?(?:"[^"\n]*"|'[^'\n]*'|`[^`\n]*`)"#;
    static PARTS: LazyLock<[(&str, String); 3]> = LazyLock::new(|| {
        [
            ("{str}", STRING.to_owned()),
            ("{value}", format!(r"(?:{STRING}|[A-Za-z_][\w.]*)")),
            ("{args}", r"(?:[^()]|\([^()]*\))*?".to_owned()),
        ]
    });
    let whole = PARTS
        .iter()
        .fold(text.to_owned(), |text, (part, meaning)| text.replace(part, meaning));
    Regex::new(&format!("(?m){whole}")).unwrap_or_else(|error| panic!("a test compiles the expressions: {error}"))
}

#[cfg(test)]
mod tests {
    use crate::rules::route_rules;

    #[test]
    fn every_expression_of_a_route_is_valid() {
        let mut count = 0;
        for rules in route_rules() {
            let lists = [&rules.router, &rules.scope, &rules.mount, &rules.route];
            let patterns = lists.into_iter().flatten().map(|pattern| &pattern.text);
            let pages = rules.page.iter().flat_map(|page| {
                let replaced = page.replace.iter().map(|(expression, _)| expression);
                replaced.chain([&page.text]).chain(&page.methods)
            });
            count += patterns
                .chain(pages)
                .filter(|expression| !expression.as_str().is_empty())
                .count();
        }
        assert!(count > 60, "{count}");
    }
}
