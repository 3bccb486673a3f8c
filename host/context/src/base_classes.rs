//! Finds inherited members: searches the base classes that the head of a class names, and then their base classes.
//!
//! Heads are read as text. A base class is defined or imported by the file, or is the only class with its name.

use std::collections::{BTreeSet, VecDeque};

use regex::Regex;

use crate::{ProfileLookup, SelectionTree};
use tool_repository::file_role;

/// Classes whose heads are read.
const CLASSES_MAX: usize = 16;
const HEAD_LINES_MAX: usize = 16;

/// Words in heads that are not class names.
const HEAD_WORDS: [&str; 16] = [
    "abstract",
    "class",
    "extends",
    "final",
    "implements",
    "internal",
    "noexcept",
    "override",
    "permits",
    "private",
    "protected",
    "public",
    "sealed",
    "virtual",
    "where",
    "with",
];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassPlace {
    pub(crate) name: String,
    pub(crate) at: usize,
}

/// Calls `visit` with the base classes of some classes, the nearest first, until it returns something.
pub(crate) fn search_bases<T>(
    tree: &SelectionTree<'_>,
    classes: Vec<ClassPlace>,
    mut visit: impl FnMut(&ClassPlace) -> Option<T>,
) -> Option<T> {
    let mut waiting = VecDeque::from(classes);
    let mut seen = BTreeSet::new();
    while let Some(class) = waiting.pop_front() {
        if seen.len() >= CLASSES_MAX || tree.is_over() {
            return None;
        }
        if !seen.insert(class.clone()) {
            continue;
        }
        for base in bases_of(tree, &class) {
            if let Some(found) = visit(&base) {
                return Some(found);
            }
            waiting.push_back(base);
        }
    }
    None
}

pub(crate) fn files_defining(tree: &SelectionTree<'_>, name: &str) -> Vec<usize> {
    let code = |at: &usize| file_role::is_code(tree.paths[*at]);
    let files: Vec<usize> = (0..tree.paths.len()).filter(code).collect();
    let defines = tree.each(&files, |at| {
        let mut is_defined = false;
        if let ProfileLookup::Found(profile) = tree.source.profile(tree.paths[at]) {
            profile.each_definition(|defined, _| is_defined |= defined == name);
        }
        is_defined.then_some(at)
    });
    defines.into_iter().flatten().collect()
}

fn bases_of(tree: &SelectionTree<'_>, class: &ClassPlace) -> Vec<ClassPlace> {
    let path = tree.paths[class.at];
    let Some(text) = tree.text(path) else {
        return Vec::new();
    };
    let Some(head) = head_of(&text, &class.name, path.ends_with(".rb")) else {
        return Vec::new();
    };
    let places = bases_in(&head, path.ends_with(".py")).into_iter().flat_map(|base| {
        let original = original_name(&text, &base);
        let is_renamed = original.is_some();
        let name = original.unwrap_or(base);
        let files = files_of_base(tree, class.at, &name, is_renamed);
        files.into_iter().map(move |at| ClassPlace { name: name.clone(), at })
    });
    places.filter(|base| base != class).collect()
}

/// The files that define the class that a file names.
fn files_of_base(tree: &SelectionTree<'_>, at: usize, name: &str, is_renamed: bool) -> Vec<usize> {
    let files = files_defining(tree, name);
    if files.contains(&at) && !is_renamed {
        return vec![at];
    }
    let imported = imports_of_file(tree, at);
    // A package re-exports what its modules define.
    let handed_on: BTreeSet<usize> = imported.iter().flat_map(|at| imports_of_file(tree, *at)).collect();
    let of = |near: &dyn Fn(usize) -> bool| -> Vec<usize> { files.iter().copied().filter(|at| near(*at)).collect() };
    let nearest = of(&|at| imported.contains(&at));
    if !nearest.is_empty() {
        return nearest;
    }
    match of(&|at| handed_on.contains(&at)) {
        nearest if !nearest.is_empty() => nearest,
        _ if files.len() == 1 => files,
        _ => Vec::new(),
    }
}

fn imports_of_file(tree: &SelectionTree<'_>, at: usize) -> BTreeSet<usize> {
    match tree.source.profile(tree.paths[at]) {
        ProfileLookup::Found(profile) => {
            let imports = tree.imports(tree.paths[at], &profile);
            imports.iter().map(|at| *at as usize).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// The rest of the head after the name of a class.
fn head_of(text: &str, class: &str, is_one_line: bool) -> Option<String> {
    let pattern = format!(
        r"^\s*([\w@]+\s+)*(class|interface|trait|struct|object|enum|protocol|record|module)\s+([\w.:]+(\.|::))?{}\b",
        regex::escape(class)
    );
    let pattern = Regex::new(&pattern).ok()?;
    let mut lines = text.lines().skip_while(|line| !pattern.is_match(line));
    let first = lines.next()?;
    let mut head = first[pattern.find(first)?.end()..].to_owned();
    for line in lines.take(HEAD_LINES_MAX) {
        let opened = head.matches('(').count() > head.matches(')').count();
        let goes_on = opened
            || head.trim_end().ends_with([',', ':']) && !head.trim_end().ends_with("):")
            || ["extends", "implements", "with", "where", ":", ","]
                .iter()
                .any(|word| line.trim_start().starts_with(word));
        if is_one_line || head.contains('{') || !goes_on {
            break;
        }
        head.push(' ');
        head.push_str(line.trim());
    }
    let end = head.find(['{', ';']).unwrap_or(head.len());
    head.truncate(end);
    Some(head)
}

/// Names of classes in the rest of a head, without qualifiers. In Python they are in parentheses; elsewhere parentheses
/// hold constructor arguments.
fn bases_in(head: &str, is_python: bool) -> Vec<String> {
    let outside = usize::from(is_python);
    let (mut depth, mut names, mut name, mut is_value) = (0_usize, Vec::new(), String::new(), false);
    for c in head.chars().chain([' ']) {
        if c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '\\') || c == ':' && name.ends_with(|c| c != ' ') {
            name.push(c);
            continue;
        }
        let found = std::mem::take(&mut name);
        let last = found
            .trim_end_matches(':')
            .rsplit(['.', ':', '\\'])
            .next()
            .unwrap_or_default();
        let is_class = last.starts_with(|c: char| c.is_alphabetic() || c == '_') && !HEAD_WORDS.contains(&last);
        // `metaclass=Meta` is an option.
        if is_class && depth == outside && c != '=' && !is_value {
            names.push(last.to_owned());
        }
        if !found.is_empty() || c == '=' {
            is_value = c == '=';
        }
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            // In Ruby a single `<` precedes the base class.
            '<' if !head.trim_start().starts_with("< ") => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    names
}

/// The original name of an import with an alias: `Cart` of `import Cart as Basket`.
fn original_name(text: &str, name: &str) -> Option<String> {
    let pattern = Regex::new(&format!(r"\b(\w+)\s+as\s+{}\b", regex::escape(name))).ok()?;
    Some(pattern.captures(text)?[1].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_name_their_base_classes() {
        for (path, text, expected) in [
            (
                "a.py",
                "@x\nclass Cart(Base, shop.List[Item], metaclass=Meta):\n    pass\n",
                "Base List",
            ),
            (
                "a.py",
                "class Cart(\n    Base,\n    Other,\n):\n    def f(self): ...\n",
                "Base Other",
            ),
            ("a.py", "class Cart:\n    base = Base\n", ""),
            (
                "A.java",
                "public class Cart<T extends Item>\n    extends Base<T>\n    implements shop.List, Other {\n",
                "Base List Other",
            ),
            ("a.ts", "export default class Cart extends Base<Item> {\n", "Base"),
            (
                "a.kt",
                "open class Cart(val a: Item) : Base(a), List<Item> {\n",
                "Base List",
            ),
            ("a.kt", "class Cart\nclass Other : Base()\n", ""),
            ("a.rb", "class Shop::Cart < Shop::Base\n  other\n", "Base"),
            (
                "a.cc",
                "class Cart final : public shop::Base, private Other<Item>\n{\n",
                "Base Other",
            ),
            (
                "a.php",
                "final class Cart extends \\Shop\\Base implements Countable\n{\n",
                "Base Countable",
            ),
        ] {
            let head = head_of(text, "Cart", path.ends_with(".rb")).expect("it has a head");
            assert_eq!(bases_in(&head, path.ends_with(".py")).join(" "), expected, "{text}");
        }
        let import = "from .cart import Cart as BaseCart\n";
        assert_eq!(original_name(import, "BaseCart"), Some("Cart".to_owned()));
        assert_eq!(original_name(import, "Cart"), None);
    }
}
