//! The callers and callees of a symbol.
//!
//! Calls are matched by syntax, without types. A call is *resolved* if the syntax decides: the definition is in the
//! same file, in the enclosing type, in the type or module that qualifies the name, or is imported. Any other call is
//! matched by its name only, and the graph marks it so. A call that cannot mean the symbol is left out.

mod draw;
mod resolve;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::lookup::{LookupError, SymbolReader};
use crate::symbols::{SymbolForm, SymbolUse, SyntaxDetails, UseForm};
use crate::{ContextError, Indexes, ProfileLookup, SelectionTree, read_tree};
use draw::{CallEnd, CallTally};
use resolve::{CallSite, KnownDefinition, Qualifier, match_call_site};
use tool_core::api::CallGraph;
use tool_repository::Repository;
use tool_repository::file_role::{self, Role, file_name, file_stem, parent_directory};

/// Definitions of the name that are drawn.
const DRAWN_MAX: usize = 6;
/// Definitions of one name that are parsed; a more common name tells little.
const PARSED_PER_NAME_MAX: usize = 12;
/// Files that are parsed to find the called definitions.
const PARSED_MAX: usize = 200;
/// Files near the symbol that are parsed even if the index does not list the name in them.
const NEAR_FILES_MAX: usize = 40;
/// Files that are parsed for callers, at some milliseconds each.
const CALLING_FILES_MAX: usize = 1000;
/// Time limit of the search for callers.
const SEARCH_TIME: Duration = Duration::from_secs(20);

/// Draws the definitions of a name beneath a path with their callers and callees. Without a definition the graph is empty.
/// Blocks.
///
/// # Errors
///
/// If the repository is empty or cannot be listed, or `cancel` fires.
pub fn draw_calls(
    repository: &Arc<Repository>,
    indexes: &Arc<Indexes>,
    symbol: &str,
    under: &str,
    cancel: &CancellationToken,
) -> Result<CallGraph, ContextError> {
    let reader = SymbolReader {
        repository,
        parser: indexes.parser(),
        indexes: Some(indexes),
        cancel,
    };
    read_tree(repository, indexes, cancel, |tree, list| {
        if list.files.is_empty() {
            return Err(ContextError::Empty);
        }
        let mut calls = CallReader {
            tree,
            reader,
            parsed: HashMap::new(),
            notices: Vec::new(),
        };
        let mut graph = calls.draw(symbol, under)?;
        graph.notices.extend(list.skipped_ignores.notice());
        Ok(graph)
    })
}

/// A parsed file with all uses of names.
struct ParsedFile {
    text: String,
    details: SyntaxDetails,
}

struct CallReader<'a> {
    tree: &'a SelectionTree<'a>,
    reader: SymbolReader<'a>,
    parsed: HashMap<String, Option<Rc<ParsedFile>>>,
    notices: Vec<String>,
}

impl CallReader<'_> {
    fn draw(&mut self, symbol: &str, under: &str) -> Result<CallGraph, ContextError> {
        let (owner, name) = split_name(symbol);
        let (all, calls) = self.scan(name)?;
        let is_meant = |one: &KnownDefinition| {
            let is_owned = owner.is_none_or(|owner| one.owner() == Some(owner) || file_stem(&one.path) == owner);
            is_owned && is_under(&one.path, under)
        };
        let mut drawn: Vec<usize> = (0..all.len()).filter(|at| is_meant(&all[*at])).collect();
        // Draw a definition in tests only if all definitions are in tests.
        let order = |at: &usize| self.role_order(&all[*at].path);
        let best = drawn.iter().map(order).min();
        drawn.retain(|at| Some(order(at)) == best);
        let definitions = drawn.len();
        drawn.truncate(DRAWN_MAX);
        if drawn.is_empty() {
            return Ok(CallGraph {
                symbol: symbol.to_owned(),
                ..CallGraph::default()
            });
        }
        if definitions > 1 {
            let which = if definitions > DRAWN_MAX {
                format!("the first {DRAWN_MAX} are drawn")
            } else {
                "each is drawn".to_owned()
            };
            self.notices.push(format!(
                "`{symbol}` has {definitions} definitions: {which}; name a path to narrow them"
            ));
        }
        let mut tally = CallTally::new(drawn.iter().map(|at| all[*at].clone()).collect());
        self.add_callers(&calls, &all, &drawn, &mut tally);
        let drawn: Vec<&KnownDefinition> = drawn.iter().map(|at| &all[*at]).collect();
        self.add_callees(&drawn, &mut tally);
        let mut graph = tally.graph(symbol, definitions as u64);
        graph.notices.splice(0..0, self.notices.drain(..));
        Ok(graph)
    }

    /// Order by the roles of files: sources come first.
    fn role_order(&self, path: &str) -> u8 {
        let role = self
            .tree
            .find(path)
            .map_or(Role::Other, |at| self.tree.layout.roles[at]);
        match role {
            Role::Source => 0,
            Role::Example | Role::Test => 2,
            Role::Generated | Role::Vendored => 3,
            _ => 1,
        }
    }

    /// For each name: the files that define it, according to the index.
    fn occurrences<'n>(&self, names: &BTreeSet<&'n str>) -> BTreeMap<&'n str, Vec<usize>> {
        let files: Vec<usize> = (0..self.tree.paths.len())
            .filter(|at| file_role::is_code(self.tree.paths[*at]))
            .collect();
        let found = self.tree.each(&files, |at| {
            let ProfileLookup::Found(profile) = self.tree.source.profile(self.tree.paths[at]) else {
                return None;
            };
            let mut defined = Vec::new();
            profile.each_definition(|name, _| {
                if let Some(name) = names.get(name) {
                    defined.push(*name);
                }
            });
            Some(defined)
        });
        let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, defined) in files.iter().zip(found) {
            for name in defined.into_iter().flatten() {
                places.entry(name).or_default().push(*at);
            }
        }
        places
    }

    /// Adds the definitions in neighbouring and imported files, which the index may not have parsed yet.
    fn add_near_occurrences<'n, 'p>(
        &mut self,
        paths: impl Iterator<Item = &'p str>,
        names: &BTreeSet<&'n str>,
        places: &mut BTreeMap<&'n str, Vec<usize>>,
    ) {
        let mut near: Vec<usize> = Vec::new();
        for path in paths {
            let beside = self
                .tree
                .below(parent_directory(path))
                .filter(|at| parent_directory(self.tree.paths[*at]) == parent_directory(path));
            near.extend(self.tree.find(path));
            near.extend(self.imports(path).iter().map(|at| *at as usize));
            near.extend(beside);
        }
        let mut seen = BTreeSet::new();
        near.retain(|at| file_role::is_code(self.tree.paths[*at]) && seen.insert(*at));
        for at in near.into_iter().take(NEAR_FILES_MAX) {
            let Some(file) = self.parse(self.tree.paths[at]) else {
                continue;
            };
            for symbol in &file.details.symbols {
                if let Some(name) = names.get(symbol.name(&file.text)) {
                    places.entry(name).or_default().push(at);
                }
            }
        }
    }

    /// The definitions of a name in some files, in the order of paths.
    fn definitions(&mut self, name: &str, mut files: Vec<usize>) -> Vec<KnownDefinition> {
        let mut known = Vec::new();
        files.sort_unstable();
        for at in files {
            let path = self.tree.paths[at];
            let Some(file) = self.parse(path) else { continue };
            known.append(&mut file.definitions(path, name));
        }
        known
    }

    fn parse(&mut self, path: &str) -> Option<Rc<ParsedFile>> {
        if let Some(known) = self.parsed.get(path) {
            return known.clone();
        }
        if self.tree.is_over() {
            return None;
        }
        let read = self.reader.read(path, None).ok();
        let parsed = read.map(|(text, details)| Rc::new(ParsedFile { text, details }));
        self.parsed.insert(path.to_owned(), parsed.clone());
        parsed
    }

    /// Paths of the files that a file imports, as indices.
    fn imports(&self, path: &str) -> Arc<[u32]> {
        match self.tree.source.profile(path) {
            ProfileLookup::Found(profile) => self.tree.imports(path, &profile),
            _ => Arc::default(),
        }
    }

    /// The definitions and the uses of a name in all files that hold it.
    fn scan(&mut self, name: &str) -> Result<(Vec<KnownDefinition>, Vec<FoundUse>), ContextError> {
        let (mut known, mut uses) = (Vec::new(), Vec::new());
        let (mut after, since, mut files): (Option<String>, _, usize) = (None, Instant::now(), 0);
        loop {
            let page = self
                .reader
                .each_file(name, "", after.as_deref(), |path, content, _: &mut Vec<()>| {
                    let Some((text, details)) = self.reader.parse_content(path, content, Some(name)) else {
                        return false;
                    };
                    let file = ParsedFile { text, details };
                    known.append(&mut file.definitions(path, name));
                    uses.extend(file.found_uses(path));
                    files += 1;
                    true
                });
            match page {
                Ok(page) => after = page.next,
                Err(LookupError::Scan(error)) => return Err(error.into()),
                Err(_) => after = None,
            }
            if after.is_none() {
                return Ok((known, uses));
            }
            if files >= CALLING_FILES_MAX || since.elapsed() > SEARCH_TIME {
                self.notices
                    .push(format!("Callers are cut: the name stands in more than {files} files"));
                return Ok((known, uses));
            }
        }
    }

    /// Adds the calls of the drawn definitions.
    fn add_callers(&self, uses: &[FoundUse], all: &[KnownDefinition], drawn: &[usize], tally: &mut CallTally) {
        let takes_uses = drawn.iter().any(|at| all[*at].is_type());
        let mut imports: HashMap<&str, Arc<[u32]>> = HashMap::new();
        for one in uses.iter().filter(|one| takes_uses || one.form == UseForm::Call) {
            let path = one.caller.path.as_str();
            let imports = imports.entry(path).or_insert_with(|| self.imports(path));
            let site = CallSite {
                path,
                owner: one.owner.as_deref(),
                qualifier: &one.qualifier,
                is_imported: one.is_imported,
                imports,
                tree: self.tree,
            };
            let Some((targets, by_name_only)) = match_call_site(&site, all) else {
                continue;
            };
            let is_aside = self.role_order(path) > 1 || one.caller.is_in_tests();
            for (place, at) in drawn.iter().enumerate() {
                // A function that is named without a call is not called.
                let fits = one.form == UseForm::Call || all[*at].is_type();
                if !fits || !targets.contains(at) {
                    continue;
                }
                // Code inside the definition is not a caller of it, unless the function calls itself.
                let own = &all[*at];
                let end = match path == own.path && own.encloses(one.line) {
                    true if own.is_type() => continue,
                    true => CallEnd::Itself,
                    false if is_aside => CallEnd::Aside(one.caller.clone()),
                    false => CallEnd::Definition(one.caller.clone()),
                };
                tally.add_caller(place, end, by_name_only);
            }
        }
    }

    /// Adds what the drawn definitions call.
    fn add_callees(&mut self, drawn: &[&KnownDefinition], tally: &mut CallTally) {
        let files: Vec<Option<Rc<ParsedFile>>> = drawn.iter().map(|own| self.parse(&own.path)).collect();
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for (own, file) in drawn.iter().zip(&files) {
            let calls = file.iter().flat_map(|file| file.calls_in(own));
            names.extend(calls.map(|(name, _)| name));
        }
        let candidates = self.find_candidates(&names, drawn);
        let mut unknown: BTreeSet<&str> = BTreeSet::new();
        for (place, (own, file)) in drawn.iter().zip(&files).enumerate() {
            let Some(file) = file else { continue };
            let imports = self.imports(&own.path);
            for (name, call) in file.calls_in(own) {
                let resolved = candidates
                    .get(name)
                    .and_then(|candidates| self.resolve_call(own, file, &imports, call, candidates));
                let Some((callees, by_name_only)) = resolved else {
                    unknown.insert(name);
                    continue;
                };
                for callee in callees {
                    // Calls of the drawn definitions are counted as theirs.
                    let is_drawn = matches!(callee, CallEnd::OneOf(..)) && drawn.iter().any(|one| one.name == name);
                    if !is_drawn {
                        tally.add_callee(place, callee, by_name_only);
                    }
                }
            }
        }
        self.notices.extend(describe_unknown(&unknown));
    }

    /// The definitions of the names that the drawn definitions call, by name.
    fn find_candidates<'n>(
        &mut self,
        names: &BTreeSet<&'n str>,
        drawn: &[&KnownDefinition],
    ) -> BTreeMap<&'n str, CalleeCandidates> {
        let mut places = self.occurrences(names);
        self.add_near_occurrences(drawn.iter().map(|own| own.path.as_str()), names, &mut places);
        let mut candidates = BTreeMap::new();
        for (name, mut places) in places {
            places.sort_by_cached_key(|at| {
                let path = self.tree.paths[*at];
                let is_own = drawn.iter().any(|own| own.path == path);
                let is_near = drawn
                    .iter()
                    .any(|own| parent_directory(&own.path) == parent_directory(path));
                (!is_own, self.role_order(path), !is_near, *at)
            });
            places.dedup();
            let files_max = PARSED_PER_NAME_MAX.min(PARSED_MAX.saturating_sub(self.parsed.len()));
            let files = places.len();
            places.truncate(files_max);
            let mut definitions = self.definitions(name, places);
            // Helpers of tests are not what a source calls.
            let first = definitions.iter().map(|one| self.role_order(&one.path)).min();
            definitions.retain(|one| Some(self.role_order(&one.path)) == first);
            if !definitions.is_empty() {
                let total = if files > files_max { files } else { definitions.len() };
                candidates.insert(name, CalleeCandidates { definitions, total });
            }
        }
        candidates
    }

    /// The other ends of a call in a drawn definition. The flag is true if they are matched by name only. `None` if no
    /// definition fits.
    fn resolve_call(
        &self,
        own: &KnownDefinition,
        file: &ParsedFile,
        imports: &[u32],
        call: &SymbolUse,
        candidates: &CalleeCandidates,
    ) -> Option<(Vec<CallEnd>, bool)> {
        let (name, around) = (file.name(call), CallScope::find_scope(file, call.line));
        let is_import = |other: &SymbolUse| other.form == UseForm::Import && file.name(other) == name;
        let site = CallSite {
            path: &own.path,
            owner: around.owner.as_deref(),
            qualifier: &around.qualifier(file, call),
            is_imported: file.details.uses.iter().any(is_import),
            imports,
            tree: self.tree,
        };
        let CalleeCandidates { definitions, total } = candidates;
        let (targets, by_name_only) = match_call_site(&site, definitions)?;
        let is_cut = *total > definitions.len();
        if by_name_only && (targets.len() > 1 || is_cut) {
            let count = if is_cut { *total } else { targets.len() };
            return Some((vec![CallEnd::OneOf(name.to_owned(), count as u64)], true));
        }
        let targets = targets.iter().map(|at| &definitions[*at]);
        // Parts of a definition are not its callees.
        let outside = targets.filter(|target| target.path != own.path || !own.encloses(target.line));
        Some((outside.cloned().map(CallEnd::Definition).collect(), by_name_only))
    }
}

/// The definitions that a called name can mean.
struct CalleeCandidates {
    definitions: Vec<KnownDefinition>,
    /// Number of `definitions`, or, if some files were not parsed, of the files that define the name.
    total: usize,
}

/// Notice about calls of names for which no definition fits.
fn describe_unknown(names: &BTreeSet<&str>) -> Option<String> {
    let count = names.len();
    if count == 0 {
        return None;
    }
    let shown: Vec<String> = names.iter().take(5).map(|name| format!("`{name}`")).collect();
    let more = if count > shown.len() { ", …" } else { "" };
    Some(format!(
        "Not drawn: calls of {count} {} for which no definition in the repository fits ({}{more})",
        if count == 1 { "name" } else { "names" },
        shown.join(", ")
    ))
}

impl ParsedFile {
    /// The definitions of a name. Overloads, clauses, and a property with its setter are one.
    fn definitions(&self, path: &str, name: &str) -> Vec<KnownDefinition> {
        let mut known: Vec<KnownDefinition> = Vec::new();
        for symbol in &self.details.symbols {
            if symbol.name(&self.text) != name {
                continue;
            }
            let found = KnownDefinition::new(path, symbol, &self.text);
            // Fields and variants are not called by their bare name.
            if found.form == SymbolForm::Value && !found.container.is_empty() {
                continue;
            }
            match known.iter_mut().find(|one| one.container == found.container) {
                Some(one) => one.spans.extend(found.spans),
                None => known.push(found),
            }
        }
        known
    }

    /// The uses of the searched name, without imports.
    fn found_uses<'f>(&'f self, path: &'f str) -> impl Iterator<Item = FoundUse> + 'f {
        let is_import = |one: &&SymbolUse| one.form == UseForm::Import;
        let is_imported = self.details.uses.iter().any(|one| is_import(&one));
        let uses = self.details.uses.iter().filter(move |one| !is_import(one));
        let uses = uses.filter(move |one| !(path.ends_with(".ex") && self.is_declaration(one)));
        uses.map(move |one| {
            let around = CallScope::find_scope(self, one.line);
            FoundUse {
                form: one.form,
                line: one.line,
                qualifier: around.qualifier(self, one),
                caller: around.caller(path, one.line),
                owner: around.owner,
                is_imported,
            }
        })
    }

    /// True for a type attribute (Elixir): its syntax tree looks like a call.
    fn is_declaration(&self, one: &SymbolUse) -> bool {
        let before = self.text.get(..one.name.start as usize).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default().trim_start();
        ["@spec", "@callback", "@macrocallback", "@type"]
            .iter()
            .any(|attribute| line.starts_with(attribute))
    }

    fn name(&self, one: &SymbolUse) -> &str {
        let span = one.name.start as usize..one.name.end as usize;
        self.text.get(span).unwrap_or_default()
    }

    /// The calls within a definition, with the called names.
    fn calls_in<'f>(&'f self, own: &KnownDefinition) -> impl Iterator<Item = (&'f str, &'f SymbolUse)> + use<'f> {
        let spans = own.spans.clone();
        let is_inside = move |line: u32| spans.iter().any(|span| span.contains(&line));
        let uses = self.details.uses.iter();
        uses.filter(move |one| one.form == UseForm::Call && is_inside(one.line))
            .map(|one| (self.name(one), one))
    }
}

/// A use of the symbol's name.
struct FoundUse {
    form: UseForm,
    line: u32,
    qualifier: Qualifier,
    caller: KnownDefinition,
    /// The type whose code it is.
    owner: Option<String>,
    /// True where the file imports the name.
    is_imported: bool,
}

struct CallScope {
    /// The innermost function, else the innermost type.
    definition: Option<KnownDefinition>,
    /// The type whose code it is.
    owner: Option<String>,
    /// The receiver variable (Go).
    receiver: Option<String>,
}

impl CallScope {
    fn find_scope(file: &ParsedFile, line: u32) -> Self {
        let symbols = file.details.symbols.iter();
        let mut around: Vec<_> = symbols
            .filter(|symbol| (symbol.first_line..=symbol.named.end_line).contains(&line))
            .collect();
        around.sort_by_key(|symbol| symbol.named.end_line - symbol.first_line);
        let is_function = |form| matches!(form, SymbolForm::Function | SymbolForm::Method);
        let is_type = |form| matches!(form, SymbolForm::Type | SymbolForm::Module);
        let function = around.iter().find(|symbol| is_function(symbol.form()));
        let definition = function.or_else(|| around.iter().find(|symbol| is_type(symbol.form())));
        let owner = around.iter().find_map(|symbol| match symbol.form() {
            SymbolForm::Method => last_part(&symbol.container(&file.text)).map(str::to_owned),
            SymbolForm::Type | SymbolForm::Module => last_part(symbol.name(&file.text)).map(str::to_owned),
            _ => None,
        });
        let receiver = around.iter().find_map(|symbol| {
            let signature = symbol.signature(&file.text);
            let (name, _) = signature.strip_prefix("func (")?.split_once(' ')?;
            Some(name.to_owned())
        });
        Self {
            definition: definition.map(|symbol| KnownDefinition::new("", symbol, &file.text)),
            owner,
            receiver,
        }
    }

    fn qualifier(&self, file: &ParsedFile, one: &SymbolUse) -> Qualifier {
        Qualifier::parse_before(&file.text, one.name.start as usize, self.receiver.as_deref())
    }

    /// The calling definition, or the top level of the file.
    fn caller(&self, path: &str, line: u32) -> KnownDefinition {
        let top = || KnownDefinition {
            path: String::new(),
            name: format!("(top level of {})", file_name(path)),
            container: String::new(),
            form: SymbolForm::Module,
            line,
            spans: vec![line..=line],
        };
        KnownDefinition {
            path: path.to_owned(),
            ..self.definition.clone().unwrap_or_else(top)
        }
    }
}

/// The owner and the last part of a name: `Cart.total`, `Cart::total`, `Cart#total`.
fn split_name(symbol: &str) -> (Option<&str>, &str) {
    let symbol = symbol.trim();
    let bare = symbol.strip_suffix("()").unwrap_or(symbol);
    let mut parts = bare.rsplit(['.', ':', '#', '\\']).filter(|part| !part.is_empty());
    let name = parts.next().unwrap_or(bare);
    (parts.next(), name)
}

/// The last part of a dotted name.
fn last_part(name: &str) -> Option<&str> {
    name.rsplit(['.', ':', '\\']).next().filter(|part| !part.is_empty())
}

fn is_under(path: &str, under: &str) -> bool {
    under.is_empty() || path == under || path.strip_prefix(under).is_some_and(|rest| rest.starts_with('/'))
}
