//! Follows names to their definitions in the repository: in the file, through its imports, and in base classes.
//!
//! It compares names only, in a limited number of files; names that cannot be followed stay names. Types are not
//! inferred, so a method of an object stays a name.

use std::collections::HashMap;
use std::rc::Rc;

use skill_sdk::{Entry, Host};
use syntax::{Definition, DefinitionKind, Import, Module, names};

use crate::find;

/// Limit for other files that an answer parses, at a few milliseconds each.
const FILES_MAX: usize = 16;
/// Limit for imports and base classes on the way from a name to its definition.
const STEPS_MAX: usize = 6;
/// Limit for the lines that are listed for a function which is called often.
const LINES_MAX: usize = 4;

/// Definitions and imports of one file.
struct FileOutline {
    definitions: Vec<Definition>,
    imports: Vec<Import>,
}

/// Follows the names of one file.
pub(crate) struct NameResolver<'a> {
    host: &'a dyn Host,
    path: &'a str,
    module: Option<Module<'a>>,
    outlines: HashMap<String, Option<Rc<FileOutline>>>,
    files: Option<Vec<Entry>>,
}

impl<'a> NameResolver<'a> {
    /// Follows names of the file at `path`.
    pub(crate) fn new(host: &'a dyn Host, path: &'a str, source: &'a [u8]) -> Self {
        let module = Module::parse(source);
        let outline = module.as_ref().map(|module| Rc::new(outline_module(module)));
        Self {
            host,
            path,
            module,
            outlines: HashMap::from([(path.to_owned(), outline)]),
            files: None,
        }
    }

    /// One line for each called function, in the order of the first call.
    pub(crate) fn calls(&mut self, definition: &Definition) -> Vec<String> {
        let Some(module) = &self.module else {
            return Vec::new();
        };
        let mut called: Vec<(String, Vec<usize>)> = Vec::new();
        for call in module.calls(definition.range.clone()) {
            if call.dotted == "super" {
                continue;
            }
            match called.iter_mut().find(|(name, _)| *name == call.dotted) {
                Some((_, lines)) if lines.last() == Some(&call.line) => {}
                Some((_, lines)) => lines.push(call.line),
                None => called.push((call.dotted, vec![call.line])),
            }
        }
        called
            .into_iter()
            .map(|(name, lines)| {
                let place = self.place(&name, definition);
                let shown = name.replace("?.", "(…).");
                format!("{shown}{place}  [line {}]", line_list(&lines))
            })
            .collect()
    }

    /// One line for each base class.
    pub(crate) fn bases(&mut self, definition: &Definition) -> Vec<String> {
        definition
            .bases
            .iter()
            .filter(|base| !base.contains('='))
            .map(|base| {
                let dotted = base.split('[').next().unwrap_or(base).trim().to_owned();
                format!("{base}{}", self.place(&dotted, definition))
            })
            .collect()
    }

    /// ` -> path:line` for a name that `definition` uses, or another note about it.
    fn place(&mut self, dotted: &str, definition: &Definition) -> String {
        if let Some(place) = self.follow_from(dotted, definition) {
            return format!(" -> {place}");
        }
        let head = dotted.split('.').next().unwrap_or(dotted);
        if let Some(meaning) = self.imported(head) {
            let rest = &dotted[head.len()..];
            return format!(" (imported: {meaning}{rest})");
        }
        if dotted == head && is_builtin(dotted) {
            return " (builtin)".to_owned();
        }
        String::new()
    }

    fn follow_from(&mut self, dotted: &str, definition: &Definition) -> Option<String> {
        let outline = self.outline(self.path)?;
        let (head, rest) = dotted.split_once('.').unwrap_or((dotted, ""));
        let class = enclosing_class(&outline.definitions, definition);
        match head {
            "?" => None,
            "self" | "cls" if class.is_some() && !rest.contains('.') && !rest.is_empty() => {
                self.follow(self.path, &format!("{}.{rest}", class?.qualified), STEPS_MAX)
            }
            "super()" if !rest.contains('.') => {
                let class = class?.clone();
                self.follow_bases(self.path, &class, rest, STEPS_MAX)
            }
            _ => {
                // Functions around and in the definition take precedence over those of the module.
                let mut prefix = Some(definition.qualified.as_str());
                while let Some(around) = prefix {
                    let nested = format!("{around}.{dotted}");
                    let holder = outline.definitions.iter().find(|one| one.qualified == around);
                    if holder.is_some_and(|holder| holder.kind != DefinitionKind::Class)
                        && let Some(found) = outline.definitions.iter().find(|one| one.qualified == nested)
                    {
                        return Some(format!("{}:{}", self.path, found.line));
                    }
                    prefix = around.rsplit_once('.').map(|(before, _)| before);
                }
                self.follow(self.path, dotted, STEPS_MAX)
            }
        }
    }

    /// Finds the definition of a dotted name in a file.
    fn follow(&mut self, path: &str, dotted: &str, steps: usize) -> Option<String> {
        let steps = steps.checked_sub(1)?;
        let outline = self.outline(path)?;
        if let Some(found) = outline.definitions.iter().find(|one| one.qualified == dotted) {
            return Some(format!("{path}:{}", found.line));
        }
        let (head, rest) = dotted.split_once('.').unwrap_or((dotted, ""));
        if let Some((class, method)) = dotted.rsplit_once('.') {
            let holder = outline
                .definitions
                .iter()
                .find(|one| one.qualified == class && one.kind == DefinitionKind::Class);
            if let Some(class) = holder {
                return self.follow_bases(path, &class.clone(), method, steps);
            }
        }
        for import in outline.imports.iter().filter(|import| import.local() == Some(head)) {
            let meaning = import.meaning(path);
            let target = if rest.is_empty() {
                meaning
            } else {
                format!("{meaning}.{rest}")
            };
            if let Some(found) = self.follow_module(path, &target, steps) {
                return Some(found);
            }
        }
        for import in outline
            .imports
            .iter()
            .filter(|import| import.name.as_deref() == Some("*"))
        {
            let target = format!("{}.{dotted}", names::resolve_module(path, &import.module));
            if let Some(found) = self.follow_module(path, &target, steps) {
                return Some(found);
            }
        }
        None
    }

    fn follow_bases(&mut self, path: &str, class: &Definition, method: &str, steps: usize) -> Option<String> {
        let steps = steps.checked_sub(1)?;
        class.bases.iter().filter(|base| !base.contains('=')).find_map(|base| {
            let base = base.split('[').next().unwrap_or(base).trim();
            self.follow(path, &format!("{base}.{method}"), steps)
        })
    }

    /// Finds the definition of an absolute dotted name: its longest prefix that is a file.
    fn follow_module(&mut self, from: &str, dotted: &str, steps: usize) -> Option<String> {
        let parts: Vec<&str> = dotted.split('.').collect();
        for split in (1..=parts.len()).rev() {
            let Some(path) = self.file_of(from, &parts[..split]) else {
                continue;
            };
            if split == parts.len() {
                return Some(path);
            }
            if path != from
                && let Some(found) = self.follow(&path, &parts[split..].join("."), steps)
            {
                return Some(found);
            }
        }
        None
    }

    /// Finds the file of an absolute module name, as an import in `from` would: in the root, in a source folder, or
    /// in a folder above the importing file.
    fn file_of(&mut self, from: &str, module: &[&str]) -> Option<String> {
        let host = self.host;
        let files = self
            .files
            .get_or_insert_with(|| find::python_files(host, "").unwrap_or_default());
        let place = module.join("/");
        let fits = |path: &str| {
            let prefix = [format!("{place}.py"), format!("{place}/__init__.py")]
                .iter()
                .find_map(|ending| path.strip_suffix(ending.as_str()).map(str::to_owned))?;
            let reachable = prefix.is_empty()
                || (prefix.ends_with('/')
                    && (from.starts_with(&prefix) || prefix.ends_with("src/") || prefix.ends_with("lib/")));
            reachable.then_some(prefix.len())
        };
        // The longest prefix is the nearest to the importing file.
        files
            .iter()
            .filter_map(|file| fits(&file.path).map(|nearness| (nearness, &file.path)))
            .max_by_key(|(nearness, _)| *nearness)
            .map(|(_, path)| path.clone())
    }

    fn outline(&mut self, path: &str) -> Option<Rc<FileOutline>> {
        if let Some(known) = self.outlines.get(path) {
            return known.clone();
        }
        if self.outlines.len() > FILES_MAX {
            return None;
        }
        let source = find::read_content(self.host, path).ok();
        let read = source
            .as_deref()
            .and_then(Module::parse)
            .map(|module| Rc::new(outline_module(&module)));
        self.outlines.insert(path.to_owned(), read.clone());
        read
    }

    fn imported(&mut self, name: &str) -> Option<String> {
        let outline = self.outline(self.path)?;
        let import = outline.imports.iter().find(|import| import.local() == Some(name))?;
        Some(import.meaning(self.path))
    }
}

fn outline_module(module: &Module<'_>) -> FileOutline {
    FileOutline {
        definitions: module.definitions(),
        imports: module.imports(),
    }
}

/// The innermost class around a definition.
fn enclosing_class<'a>(all: &'a [Definition], definition: &Definition) -> Option<&'a Definition> {
    let mut at = definition.parent;
    while let Some(outer) = at.and_then(|at| all.get(at)) {
        if outer.kind == DefinitionKind::Class {
            return Some(outer);
        }
        at = outer.parent;
    }
    None
}

fn line_list(lines: &[usize]) -> String {
    let mut shown: Vec<String> = lines.iter().take(LINES_MAX).map(usize::to_string).collect();
    if lines.len() > LINES_MAX {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

/// True for functions and classes that Python has without an import.
fn is_builtin(name: &str) -> bool {
    const FUNCTIONS: &str = " __import__ abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable \
        chr classmethod compile complex delattr dict dir divmod enumerate eval exec filter float format frozenset getattr \
        globals hasattr hash help hex id input int isinstance issubclass iter len list locals map max memoryview min \
        next object oct open ord pow print property range repr reversed round set setattr slice sorted staticmethod \
        str sum super tuple type vars zip ";
    FUNCTIONS.contains(&format!(" {name} "))
        || (name.starts_with(|first: char| first.is_ascii_uppercase())
            && ["Error", "Exception", "Warning", "Interrupt", "Exit", "Iteration"]
                .iter()
                .any(|ending| name.ends_with(ending)))
}
