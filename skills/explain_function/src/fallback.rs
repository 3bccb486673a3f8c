//! Answers about a name without a function, method or type: an alias, a value, or a word in a file that is too large
//! to parse.

use std::fs;

use skill_sdk::{Failure, Host, Outcome, SymbolQuery, SymbolReference};
use syntax::aliases::{self, Alias};

use crate::find::{self, DefinitionSearch};
use crate::symbols::{self, SymbolGroup};

/// Limit for the aliases that are followed.
const ALIASES_MAX: usize = 4;
/// Limit for the pages of references that are read to find the line of an alias.
const PAGES_MAX: usize = 4;
/// Limit for a file with a syntax tree in bytes; the host parses no larger ones.
const TREE_BYTES_MAX: u64 = 1024 * 1024;
/// Limit for lines of files without a syntax tree in an answer.
const WORDS_MAX: usize = 20;
/// Limit for such a line in bytes.
const LINE_BYTES_MAX: usize = 300;

/// Definitions that an alias leads to.
pub(crate) struct FollowedName {
    /// Sentence about the alias; empty for a value with the name itself.
    pub(crate) note: String,
    pub(crate) search: DefinitionSearch,
    pub(crate) groups: Vec<SymbolGroup>,
}

/// Follows a name without a definition.
pub(crate) fn follow_name(host: &dyn Host, name: &str, under: &str) -> Result<Option<FollowedName>, Failure> {
    let mut steps: Vec<Alias> = Vec::new();
    let mut current = find::last_segment(name).to_owned();
    while steps.len() < ALIASES_MAX {
        // Only the first line has to be beneath the requested path.
        let place = if steps.is_empty() { under } else { "" };
        let Some(alias) = find_alias(host, &current, place)? else {
            break;
        };
        if steps.iter().any(|step| step.original == alias.original) {
            break;
        }
        current.clone_from(&alias.original);
        steps.push(alias);
        let mut search = DefinitionSearch::find_name(host, &current, "")?;
        let mut groups = symbols::find_groups(host, &current, "", false)?;
        if search.found.len() + groups.len() > 1 {
            keep_nearest(&mut search, &mut groups, steps.last().expect("one was pushed"));
        }
        let python = search
            .found
            .iter()
            .map(|found| (&found.path, found.definitions[0].line as u32));
        let others = groups.iter().map(|group| (&group.first().path, group.first().line));
        let Some((path, line)) = python.chain(others).next() else {
            continue;
        };
        let note = aliases::describe_alias(name, (path.as_str(), line), &steps) + "\n";
        return Ok(Some(FollowedName { note, search, groups }));
    }
    let groups = symbols::find_groups(host, name, under, true)?;
    Ok((!groups.is_empty()).then(|| FollowedName {
        note: String::new(),
        search: DefinitionSearch::default(),
        groups,
    }))
}

/// The sentence about a definition that only names another one, for example `type B = A;`.
pub(crate) fn note_alias(host: &dyn Host, name: &str, group: &SymbolGroup) -> Option<String> {
    let first = group.first();
    let reference = SymbolReference {
        path: first.path.clone(),
        name: first.name.clone(),
        kind: "definition".to_owned(),
        line: first.line,
        container: first.container.clone(),
    };
    let source = find::read_content(host, &first.path).ok()?;
    let alias = aliases::alias_at(find::last_segment(name), &reference, &source)?;
    aliases::describe_defined(host, name, &alias).map(|note| note + "\n")
}

/// Finds the line that makes an alias.
fn find_alias(host: &dyn Host, name: &str, under: &str) -> Result<Option<Alias>, Failure> {
    let mut query = SymbolQuery {
        name: name.to_owned(),
        under: under.to_owned(),
        after: None,
    };
    let mut file: (String, Vec<u8>) = Default::default();
    for _ in 0..PAGES_MAX {
        let Ok(page) = host.references(&query) else {
            return Ok(None);
        };
        for one in page
            .items
            .iter()
            .filter(|one| !matches!(one.kind.as_str(), "call" | "type" | "text"))
        {
            if file.0 != one.path {
                file = (
                    one.path.clone(),
                    find::read_content(host, &one.path).unwrap_or_default(),
                );
            }
            if let Some(alias) = aliases::alias_at(name, one, &file.1) {
                return Ok(Some(alias));
            }
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    Ok(None)
}

/// Keeps the definitions in the file that the alias's line names, or in its own file.
fn keep_nearest(search: &mut DefinitionSearch, groups: &mut Vec<SymbolGroup>, alias: &Alias) {
    let is_near = |path: &str| aliases::is_near(alias, path);
    let near = search.found.iter().filter(|found| is_near(&found.path)).count()
        + groups.iter().filter(|group| is_near(&group.first().path)).count();
    if near > 0 {
        search.found.retain(|found| is_near(&found.path));
        groups.retain(|group| is_near(&group.first().path));
    }
}

/// Finds lines with the name in files that are too large to parse.
pub(crate) fn find_words(host: &dyn Host, name: &str, under: &str) -> Option<Outcome> {
    let last = find::last_segment(name);
    let query = SymbolQuery {
        name: last.to_owned(),
        under: under.to_owned(),
        after: None,
    };
    let page = host.references(&query).ok()?;
    let is_large = |path: &str| {
        let place = host.path(path).ok();
        place
            .and_then(|place| fs::metadata(place).ok())
            .is_some_and(|file| file.len() > TREE_BYTES_MAX)
    };
    let mut files: Vec<String> = Vec::new();
    let mut lines = String::new();
    let mut source = Vec::new();
    for one in page.items.iter().filter(|one| one.kind == "text").take(WORDS_MAX) {
        if files.last() != Some(&one.path) {
            if !is_large(&one.path) {
                continue;
            }
            files.push(one.path.clone());
            source = find::read_content(host, &one.path).unwrap_or_default();
        }
        let line = source
            .split(|&byte| byte == b'\n')
            .nth((one.line as usize).saturating_sub(1))?;
        let line = String::from_utf8_lossy(line);
        let (shown, _) = skill_sdk::text::clip(line.trim_end(), LINE_BYTES_MAX);
        lines.push_str(&format!("{}:{}: {shown}\n", one.path, one.line));
    }
    (!files.is_empty()).then(|| {
        let (files, is) = (files.join(", "), if files.len() == 1 { "is" } else { "are" });
        Outcome::text(format!(
            "`{name}` is not known as a definition: {files} {is} too large to parse. It stands there as a word; read on \
             with read_file:\n{lines}"
        ))
    })
}
