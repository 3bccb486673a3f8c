//! A narrowed search over real folders: it leaves out what cannot match, and never what can.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::index::SEARCHED_FILE_BYTES_MAX;
use crate::index::pattern::PatternKind;
use crate::index::postings::PostingsKind;
use crate::index::tests::{IndexWorld, bounds};
use crate::index::{IndexBounds, digest_file};
use crate::symbols::{SyntaxDetails, SyntaxOutline};
use crate::{SymbolReader, SyntaxParser};
use tool_repository::Options;

fn regex(text: &str) -> SearchPattern {
    SearchPattern {
        kind: PatternKind::Regex,
        text: text.to_owned(),
        ignores_case: false,
    }
}

/// The repository of a world, with its list of now.
fn opened(world: &IndexWorld) -> (Arc<Repository>, Arc<FileList>) {
    let repository = Repository::open(world.root.path(), &Options::default()).expect("the folder can be opened");
    let list = repository.list(&CancellationToken::new()).expect("it can be listed");
    (repository, list)
}

/// Verdict of a search on each file; nothing where it is not narrowed.
fn verdicts(world: &IndexWorld, indexes: &Arc<Indexes>, pattern: &str) -> Option<String> {
    let (repository, list) = opened(world);
    let verdicts = indexes.narrow(&repository, &list, &[regex(pattern)])?;
    let files = list.files.iter().zip(verdicts);
    let words = files.map(|(file, verdict)| {
        let verdict = match verdict {
            FileVerdict::Candidate => "read",
            FileVerdict::Text => "text",
            FileVerdict::Binary => "binary",
        };
        format!("{} {verdict}", file.path)
    });
    Some(words.collect::<Vec<_>>().join(", "))
}

fn fill(world: &IndexWorld, indexes: &Arc<Indexes>) {
    let (repository, list) = opened(world);
    indexes.update_after_search(&repository, &list);
}

const FILES: [(&str, &str); 4] = [
    ("a.py", "def needle(): pass\n"),
    ("b.md", "# Hay\n"),
    ("c.bin", "nee\0dle"),
    ("d/Makefile", "all: needle\n"),
];

fn segments(world: &IndexWorld) -> Vec<PathBuf> {
    let folder = fs::read_dir(world.home.path().join("index"))
        .expect("it is there")
        .flatten();
    let files = folder.flat_map(|entry| fs::read_dir(entry.path()).expect("it is a folder").flatten());
    let paths = files.map(|entry| entry.path());
    let is_segment = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(PostingsKind::Trigrams.prefix()))
    };
    paths.filter(is_segment).collect()
}

#[test]
fn files_are_left_out_once_a_search_has_filled_the_index() {
    let world = IndexWorld::new(&FILES);
    world.settle();
    let first = "a.py read, b.md read, c.bin read, d/Makefile read";
    assert_eq!(verdicts(&world, &world.indexes, "needle").as_deref(), Some(first));
    fill(&world, &world.indexes);
    let narrowed = "a.py read, b.md text, c.bin binary, d/Makefile read";
    for indexes in [Arc::clone(&world.indexes), world.other()] {
        assert_eq!(verdicts(&world, &indexes, "needle").as_deref(), Some(narrowed));
        assert_eq!(verdicts(&world, &indexes, "ne"), None, "two bytes say nothing");
    }
    assert_eq!(segments(&world).len(), 1);
    fill(&world, &world.indexes);
    assert_eq!(segments(&world).len(), 1, "there is nothing to do");
}

#[test]
fn a_file_is_left_out_up_to_the_size_that_is_searched() {
    let largest = SEARCHED_FILE_BYTES_MAX as usize;
    let world = IndexWorld::new(&[
        ("a.h", &"hay\n".repeat(largest / 4)),
        ("b.h", &"hay\n".repeat(largest / 4 + 1)),
    ]);
    world.settle();
    fill(&world, &world.indexes);
    let narrowed = "a.h text, b.h read";
    assert_eq!(verdicts(&world, &world.indexes, "needle").as_deref(), Some(narrowed));
}

#[test]
fn a_selection_fills_the_postings_too() {
    let world = IndexWorld::new(&FILES);
    world.settle();
    world.fill();
    let narrowed = "a.py text, b.md read, c.bin binary, d/Makefile text";
    assert_eq!(verdicts(&world, &world.indexes, "(?i)HAY").as_deref(), Some(narrowed));
}

#[test]
fn what_changed_is_read_and_what_came_back_is_known() {
    let world = IndexWorld::new(&FILES);
    world.settle();
    fill(&world, &world.indexes);
    world.put("b.md", "# A needle\n");
    world.put("e.txt", "new\n");
    let read = "a.py read, b.md read, c.bin binary, d/Makefile read, e.txt read";
    assert_eq!(verdicts(&world, &world.indexes, "needle").as_deref(), Some(read));
    // Too young to be trusted.
    let bounds = IndexBounds {
        settling: Duration::from_secs(3600),
        ..bounds()
    };
    let cautious = Arc::new(Indexes::with_bounds(world.home.path(), bounds, false));
    fill(&world, &cautious);
    assert_eq!(verdicts(&world, &cautious, "needle").as_deref(), Some(read));
    world.settle();
    fill(&world, &world.indexes);
    let known = "a.py read, b.md read, c.bin binary, d/Makefile read, e.txt text";
    assert_eq!(verdicts(&world, &world.indexes, "needle").as_deref(), Some(known));
    world.put("b.md", "# Hay\n");
    world.settle();
    fill(&world, &world.indexes);
    let known = "a.py read, b.md text, c.bin binary, d/Makefile read, e.txt text";
    assert_eq!(verdicts(&world, &world.indexes, "needle").as_deref(), Some(known));
}

#[test]
fn what_is_hidden_by_now_leaves_the_postings() {
    let world = IndexWorld::new(&[("a.py", "x = 1\n"), ("secret.py", "swordfish = 1\n")]);
    world.settle();
    fill(&world, &world.indexes);
    let secret = digest_file("secret.py", b"swordfish = 1\n");
    let holds = |indexes: &Arc<Indexes>| {
        let index = indexes.index(&opened(&world).0);
        let state = index.lock();
        [&state.trigrams, &state.words].map(|postings| postings.place_of(&secret).is_some())
    };
    assert_eq!((holds(&world.indexes), holds(&world.other())), ([true; 2], [true; 2]));
    world.put(".ignore", "secret.py\n");
    fill(&world, &world.indexes);
    assert_eq!((holds(&world.indexes), holds(&world.other())), ([false; 2], [false; 2]));
    assert_eq!(segments(&world).len(), 2);
}

#[test]
fn damage_costs_time_and_nothing_else() {
    let world = IndexWorld::new(&FILES);
    world.settle();
    fill(&world, &world.indexes);
    let narrowed = verdicts(&world, &world.indexes, "needle");
    let all = "a.py read, b.md read, c.bin read, d/Makefile read";
    let change = |path: &Path, change: fn(&mut Vec<u8>)| {
        let mut bytes = fs::read(path).expect("it is there");
        change(&mut bytes);
        fs::write(path, bytes).expect("it is ours");
    };
    let changes: [fn(&mut Vec<u8>); 4] = [
        |bytes| bytes.clear(),
        |bytes| bytes.truncate(bytes.len() / 2),
        |bytes| bytes[20] ^= 1,
        |bytes| bytes.extend_from_slice(b"more"),
    ];
    for damage in changes {
        segments(&world).iter().for_each(|path| change(path, damage));
        let indexes = world.other();
        assert_eq!(verdicts(&world, &indexes, "needle").as_deref(), Some(all));
        fill(&world, &indexes);
        assert_eq!(verdicts(&world, &indexes, "needle"), narrowed);
        assert_eq!(verdicts(&world, &world.other(), "needle"), narrowed);
    }
    segments(&world)
        .iter()
        .for_each(|path| fs::remove_file(path).expect("it is ours"));
    assert_eq!(verdicts(&world, &world.other(), "needle").as_deref(), Some(all));
}

#[test]
fn two_backends_answer_right_and_keep_what_the_other_wrote() {
    let world = IndexWorld::new(&FILES);
    world.settle();
    let other = world.other();
    fill(&world, &world.indexes);
    world.put("e.txt", "a needle more\n");
    world.settle();
    fill(&world, &other);
    world.put("f.txt", "nothing\n");
    world.settle();
    fill(&world, &world.indexes);
    let narrowed = "a.py read, b.md text, c.bin binary, d/Makefile read, e.txt read, f.txt text";
    assert_eq!(verdicts(&world, &world.indexes, "needle").as_deref(), Some(narrowed));
    assert_eq!(verdicts(&world, &world.other(), "needle").as_deref(), Some(narrowed));
    let older = verdicts(&world, &other, "needle").expect("it is narrowed");
    assert!(older.ends_with("e.txt read, f.txt read"), "{older}");
}

/// Answers for each file that it is asked about, and counts them.
#[derive(Debug, Default)]
struct CountingParser(std::sync::atomic::AtomicUsize);

impl SyntaxParser for CountingParser {
    fn reads(&self, path: &str) -> bool {
        path.ends_with(".py")
    }

    fn wall(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn outline_within(&self, _path: &str, _text: &str, _wall: Duration) -> Option<SyntaxOutline> {
        None
    }

    fn details(&self, _path: &str, _text: &str, _name: Option<&str>) -> Option<SyntaxDetails> {
        self.0.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[test]
fn references_are_looked_for_where_they_can_be_and_in_what_has_changed() {
    let world = IndexWorld::new(&[
        ("a.py", "needle()\n"),
        ("b.py", "needles = 1\n"),
        ("c.py", "hay()\n"),
        ("d.md", "A needle.\n"),
    ]);
    // So many that the index is asked.
    (0..500).for_each(|number| world.put(&format!("hay/{number}.md"), "Hay.\n"));
    world.settle();
    let indexes = world.other();
    let parser = CountingParser::default();
    let found = |indexes: Option<&Indexes>| {
        let (repository, _) = opened(&world);
        let reader = SymbolReader {
            repository: &repository,
            parser: &parser,
            indexes,
            cancel: &CancellationToken::new(),
        };
        let page = reader.find_references("needle", "", None).expect("it can be read");
        let paths: Vec<String> = page.items.into_iter().map(|one| one.path).collect();
        (paths.join(" "), parser.0.swap(0, Ordering::Relaxed))
    };
    let expected = ("a.py d.md".to_owned(), 1);
    assert_eq!(found(None), expected, "`needles` is another name");
    fill(&world, &indexes);
    assert_eq!(found(Some(&indexes)), expected);
    world.put("c.py", "needle() + 1\n");
    assert_eq!(found(Some(&indexes)), ("a.py c.py d.md".to_owned(), 2));
}
