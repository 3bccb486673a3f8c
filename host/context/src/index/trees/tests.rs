//! Trees for an index: at once for little, later for much, never in the way, and not again where there are none.

use std::sync::Arc;

use super::super::tests::{IndexWorld, bounds, defined};
use super::super::update::UpdatePermit;
use super::super::{IndexBounds, IndexView, Indexes};
use super::*;
use crate::symbols::{ByteSpan, ImportSite, NamedSymbol, SymbolForm, Syntax, SyntaxDetails, SyntaxOutline};
use crate::{FileSource, ProfileLookup};
use crate::{NoParser, SyntaxParser};

/// Lines find two definitions here, and a syntax tree one.
const TEXT: &str = "def real():\n    \"\"\"Like this:\n\ndef quoted(): pass\n\"\"\"\n";

/// A parser for the texts of these tests: Python functions outside of docstrings, and one `use` list of Rust.
#[derive(Debug)]
struct ScriptedParser {
    /// False for a parser that always reaches its limit.
    succeeds: bool,
}

fn embedded() -> Arc<dyn SyntaxParser> {
    Arc::new(ScriptedParser { succeeds: true })
}

fn starved() -> Arc<dyn SyntaxParser> {
    Arc::new(ScriptedParser { succeeds: false })
}

impl SyntaxParser for ScriptedParser {
    fn reads(&self, path: &str) -> bool {
        path.ends_with(".py") || path.ends_with(".rs")
    }

    fn wall(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn outline_within(&self, path: &str, text: &str, _wall: Duration) -> Option<SyntaxOutline> {
        if !self.succeeds || !self.reads(path) {
            return None;
        }
        if path.ends_with(".py") {
            SyntaxOutline::check_answer(Syntax::Python, functions(text).into_iter(), std::iter::empty(), text)
        } else {
            SyntaxOutline::check_answer(Syntax::Rust, std::iter::empty(), imports(text).into_iter(), text)
        }
    }

    fn details(&self, _path: &str, _text: &str, _name: Option<&str>) -> Option<SyntaxDetails> {
        None
    }
}

fn span(text: &str, part: &str) -> ByteSpan {
    let start = (part.as_ptr() as usize - text.as_ptr() as usize) as u32;
    ByteSpan {
        start,
        end: start + part.len() as u32,
    }
}

fn functions(text: &str) -> Vec<NamedSymbol> {
    let (mut found, mut in_docstring) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        in_docstring ^= line.contains("\"\"\"");
        if let Some(rest) = line.strip_prefix("def ").filter(|_| !in_docstring) {
            let line = index as u32 + 1;
            found.push(NamedSymbol {
                name: span(text, rest.split('(').next().expect("it has a name")),
                form: SymbolForm::Function,
                line,
                end_line: line,
                depth: 0,
            });
        }
    }
    found
}

fn imports(text: &str) -> Vec<ImportSite> {
    let (module, items) = text
        .trim_start_matches("use ")
        .split_once("::{")
        .expect("a list of imports");
    let items = items.trim_end().trim_end_matches("};").split(", ");
    items
        .map(|item| ImportSite {
            declares_module: false,
            level: 0,
            parts: vec![span(text, module)],
            item: Some(span(text, item)),
        })
        .collect()
}

fn world(
    files: &[(&str, &str)],
    bounds: IndexBounds,
    in_background: bool,
    parser: Arc<dyn SyntaxParser>,
) -> IndexWorld {
    let mut world = IndexWorld::bounded(files, bounds);
    world.indexes = Arc::new(Indexes::with_bounds(world.home.path(), bounds, in_background).with_parser(parser));
    world.settle();
    world
}

/// Every file is too many for a selection.
fn later() -> IndexBounds {
    IndexBounds {
        trees_now: (0, 0),
        ..bounds()
    }
}

fn made(view: &IndexView, path: &str) -> SymbolSource {
    match view.profile(path) {
        ProfileLookup::Found(profile) => profile.symbol_source(),
        _ => panic!("`{path}` has no profile"),
    }
}

fn names(view: &IndexView, path: &str) -> Vec<String> {
    defined(view, path).0
}

#[test]
fn a_few_files_have_their_trees_in_the_first_selection() {
    let world = world(
        &[("a.py", TEXT), ("b.kt", "fun other() {}\n")],
        bounds(),
        false,
        embedded(),
    );
    let view = world.view();
    assert_eq!(
        (names(&view, "a.py"), made(&view, "a.py")),
        (vec!["real".to_owned()], SymbolSource::SyntaxTree)
    );
    assert_eq!(
        (names(&view, "b.kt"), made(&view, "b.kt")),
        (vec!["other".to_owned()], SymbolSource::Lines)
    );
    assert_eq!(view.unparsed_count(), 0, "what has no grammar waits for none");
    view.finish();
    let view = world.view();
    assert_eq!(
        (made(&view, "a.py"), defined(&view, "a.py").1),
        (SymbolSource::SyntaxTree, 0)
    );
}

#[test]
fn tests_keep_what_their_lines_say() {
    for bounds in [bounds(), later()] {
        // Another content: one content has one profile.
        let of_test = TEXT.replace("real", "test_real");
        let world = world(
            &[("a.py", TEXT), ("tests/test_a.py", &of_test)],
            bounds,
            false,
            embedded(),
        );
        let view = world.view();
        view.profile("tests/test_a.py");
        assert_eq!(view.unparsed_count(), 0, "nothing more will come");
        view.finish();
        let view = world.view();
        assert_eq!(
            (names(&view, "a.py"), made(&view, "a.py")),
            (vec!["real".to_owned()], SymbolSource::SyntaxTree)
        );
        let of_test = (names(&view, "tests/test_a.py"), made(&view, "tests/test_a.py"));
        assert_eq!(
            of_test,
            (vec!["test_real".to_owned(), "quoted".to_owned()], SymbolSource::Lines)
        );
        assert_eq!(view.unparsed_count(), 0);
    }
}

#[test]
fn many_files_or_large_ones_have_them_after_the_answer() {
    for trees_now in [(1, u64::MAX), (usize::MAX, TEXT.len() as u64)] {
        let bounds = IndexBounds { trees_now, ..bounds() };
        let world = world(&[("a.py", TEXT), ("b.py", TEXT)], bounds, false, embedded());
        let view = world.view();
        assert_eq!(names(&view, "a.py"), ["real", "quoted"]);
        assert_eq!(view.unparsed_count(), 1, "what was not asked for is not missed");
        view.finish();
        let view = world.view();
        for path in ["a.py", "b.py"] {
            assert_eq!(
                (names(&view, path), made(&view, path)),
                (vec!["real".to_owned()], SymbolSource::SyntaxTree)
            );
        }
        assert_eq!((view.unparsed_count(), defined(&view, "a.py").1), (0, 0));
    }
}

#[test]
fn a_selection_does_not_wait_for_trees() {
    let world = world(&[("a.py", TEXT), ("b.py", TEXT)], later(), true, embedded());
    let view = world.view();
    assert_eq!((made(&view, "a.py"), view.unparsed_count()), (SymbolSource::Lines, 1));
    view.finish();
    let since = Instant::now();
    while made(&world.view(), "b.py") != SymbolSource::SyntaxTree {
        assert!(since.elapsed() < Duration::from_secs(60), "trees come by themselves");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(names(&world.view(), "a.py"), ["real"]);
}

#[test]
fn what_no_tree_is_to_be_had_of_stays_with_its_text_and_is_not_tried_again() {
    let world = world(&[("a.py", TEXT)], bounds(), false, starved());
    let view = world.view();
    assert_eq!(
        (made(&view, "a.py"), view.unparsed_count()),
        (SymbolSource::Lines, 1),
        "later there may be more time"
    );
    view.finish();
    let view = world.view();
    assert_eq!(
        (made(&view, "a.py"), view.unparsed_count()),
        (SymbolSource::LinesOnly, 0)
    );
    assert_eq!(names(&view, "a.py"), ["real", "quoted"]);
    world.put("a.py", &TEXT.replace("real", "another"));
    assert_eq!(
        made(&world.view(), "a.py"),
        SymbolSource::Lines,
        "another content is another chance"
    );
}

#[test]
fn a_tree_that_is_too_large_to_keep_is_made_once() {
    let long = format!("use {}::{{b0", "a".repeat(500));
    let text = (1..200).fold(long, |text, number| format!("{text}, b{number}")) + "};\n";
    let by_text = Profile::from_text("a.rs", &text);
    let tree = embedded().outline("a.rs", &text).expect("it can be read");
    let pending_bytes = by_text.bytes().len();
    assert!(by_text.with_tree(&text, &tree).bytes().len() > 2 * pending_bytes);
    let bounds = IndexBounds {
        pending_bytes,
        ..later()
    };
    let world = world(&[("a.rs", &text)], bounds, false, embedded());
    let view = world.view();
    view.profile("a.rs");
    view.finish();
    let view = world.view();
    assert_eq!(
        (made(&view, "a.rs"), view.unparsed_count()),
        (SymbolSource::LinesOnly, 0)
    );
}

#[test]
fn a_full_index_keeps_profiles_without_trees_and_stops_to_read_them() {
    let names: Vec<String> = (0..6).map(|number| format!("f{number}.rs")).collect();
    let text = |number| format!("use {}{number}::{{one, two, three}};\n", "a".repeat(100));
    let texts: Vec<String> = (0..6).map(text).collect();
    let files: Vec<(&str, &str)> = names
        .iter()
        .map(String::as_str)
        .zip(texts.iter().map(String::as_str))
        .collect();
    let bytes = |profile: Profile| profile.bytes().len() as u64;
    let by_text: u64 = files
        .iter()
        .map(|(path, text)| bytes(Profile::from_text(path, text)))
        .sum();
    let by_tree = |(path, text): &(&str, &str)| {
        let tree = embedded().outline(path, text).expect("it can be read");
        bytes(Profile::from_text(path, text).with_tree(text, &tree))
    };
    let by_tree: u64 = files.iter().map(by_tree).sum();
    // There is room for the profiles, and for trees of two.
    let bounds = IndexBounds {
        bytes: by_text + (by_tree - by_text) / 6 * 5 / 2,
        ..later()
    };
    let world = world(&files, bounds, false, embedded());
    for _ in 0..3 {
        world.view().finish();
    }
    let view = world.view();
    let made: Vec<SymbolSource> = names.iter().map(|path| made(&view, path)).collect();
    assert_eq!(
        made.iter().filter(|made| **made == SymbolSource::SyntaxTree).count(),
        2,
        "{made:?}"
    );
    assert_eq!(view.unparsed_count(), 0);
    for path in &names {
        assert_eq!(defined(&view, path).1, 0, "`{path}` has lost its profile");
    }
    assert!(!IndexUpdate::after_selection(view.indexer).lacks_files());
}

#[test]
fn trees_take_a_bounded_time_and_the_next_selection_goes_on() {
    let bounds = IndexBounds {
        trees: Duration::ZERO,
        ..later()
    };
    let mut world = world(&[("a.py", TEXT)], bounds, false, embedded());
    let view = world.view();
    assert_eq!(made(&view, "a.py"), SymbolSource::Lines);
    view.finish();
    assert_eq!(made(&world.view(), "a.py"), SymbolSource::Lines);
    world.indexes = Arc::new(Indexes::with_bounds(world.home.path(), later(), false).with_parser(embedded()));
    let view = world.view();
    assert_eq!(
        (made(&view, "a.py"), defined(&view, "a.py").1),
        (SymbolSource::Lines, 0)
    );
    view.finish();
    assert_eq!(made(&world.view(), "a.py"), SymbolSource::SyntaxTree);
}

#[test]
fn trees_make_way_for_files_that_nobody_has_read() {
    let world = world(&[("a.py", TEXT)], later(), false, embedded());
    let view = world.view();
    view.profile("a.py");
    let permit = UpdatePermit::try_take(&world.indexes, &view.indexer.index).expect("nobody has it");
    world.view().finish();
    assert!(
        world.indexes.is_update_waiting.load(Ordering::Acquire),
        "somebody else has the permit"
    );
    IndexUpdate::after_selection(view.indexer).run(&permit);
    drop(permit);
    assert_eq!(made(&world.view(), "a.py"), SymbolSource::Lines);
    let view = world.view();
    view.profile("a.py");
    view.finish();
    assert_eq!(
        made(&world.view(), "a.py"),
        SymbolSource::SyntaxTree,
        "the next one goes on"
    );
}

#[test]
fn a_file_that_changed_in_between_is_left_to_the_next_selection() {
    let world = world(&[("a.py", TEXT)], later(), false, Arc::new(NoParser));
    world.fill();
    let mut update = IndexUpdate::after_selection(world.view().indexer);
    update.indexer.indexes = Arc::new(Indexes::with_bounds(world.home.path(), later(), false).with_parser(embedded()));
    world.put("a.py", &TEXT.replace("real", "next"));
    update.add_trees();
    world.settle();
    assert_eq!(names(&world.view(), "a.py"), ["next", "quoted"]);
}
