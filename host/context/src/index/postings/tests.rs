//! Segments over real files: written entries are found, merged and left out; damaged ones count as absent.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::codec::put_value;
use crate::index::pattern::{PatternKind, SearchPattern};
use crate::index::trigrams::TrigramCollector;

const BYTES_MAX: u64 = 1 << 30;

const KIND: PostingsKind = PostingsKind::Trigrams;

fn store(folder: &Path) -> IndexStore {
    let store = IndexStore::new(folder, "one", FileIdentity { device: 1, inode: 2 });
    drop(store.lock().expect("the folder is ours"));
    store
}

fn digest(number: u8) -> ContentDigest {
    [number; 16]
}

fn document(number: u8, text: &str) -> PostedDocument {
    let (mut trigrams, mut last) = (Vec::new(), 0);
    TrigramCollector::new().collect(text.as_bytes(), |trigram| {
        put_value(&mut trigrams, &(trigram - last));
        last = trigram;
    });
    PostedDocument {
        digest: digest(number),
        attribute: u64::from(text.contains('\0')),
        keys: trigrams.into(),
    }
}

fn query(text: &str) -> TrigramQuery {
    TrigramQuery::new(&[SearchPattern {
        kind: PatternKind::Regex,
        text: text.to_owned(),
        ignores_case: false,
    }])
}

/// Numbers of the documents that a pattern finds.
fn found(postings: &Postings, text: &str) -> Vec<u8> {
    let found = postings.find(&query(text));
    let mut numbers = Vec::new();
    for (segment, found) in postings.segments.iter().zip(found) {
        let found = found.expect("it is whole");
        let documents = segment.documents().iter().zip(found);
        numbers.extend(documents.filter(|(_, found)| *found).map(|((digest, _), _)| digest[0]));
    }
    numbers.sort_unstable();
    numbers
}

fn live(numbers: impl IntoIterator<Item = u8>) -> HashSet<ContentDigest> {
    numbers.into_iter().map(digest).collect()
}

fn write(
    store: &IndexStore,
    base: &Postings,
    added: &[PostedDocument],
    live: &HashSet<ContentDigest>,
    gone: bool,
) -> Postings {
    store
        .write_postings(base, added, live, gone, BYTES_MAX)
        .expect("there is room")
}

fn segments(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder.join("one")).expect("it is there").flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.to_string_lossy().contains(KIND.prefix()))
        .collect()
}

#[test]
fn documents_are_found_by_this_process_and_the_next() {
    let folder = tempfile::tempdir().expect("there is room");
    let store = store(folder.path());
    let added = [
        document(1, "fn needle()"),
        document(2, "a hay\nstack"),
        document(3, "N\0eedle"),
        document(4, ""),
    ];
    let written = write(&store, &Postings::default(), &added, &live(1..=4), false);
    for postings in [written, store.load_postings(KIND)] {
        assert_eq!(found(&postings, "needle"), [1]);
        assert_eq!(found(&postings, "needle|stack"), [1, 2]);
        assert_eq!(found(&postings, "hay.*stack"), [2]);
        assert_eq!(found(&postings, "haystack"), [0_u8; 0]);
        let place = postings.place_of(&digest(3)).expect("it is there");
        assert!(postings.attribute(place) == 1 && postings.place_of(&digest(9)).is_none());
    }
    let other = IndexStore::new(folder.path(), "one", FileIdentity { device: 1, inode: 3 });
    assert!(
        other.load_postings(KIND).segments.is_empty(),
        "the root is another directory"
    );
}

#[test]
fn a_content_is_written_once_and_only_while_a_file_has_it() {
    let folder = tempfile::tempdir().expect("there is room");
    let store = store(folder.path());
    let first = write(&store, &Postings::default(), &[document(1, "abc")], &live([1]), false);
    let again = [
        document(1, "abc"),
        document(2, "abcd"),
        document(2, "abcd"),
        document(3, "abc"),
    ];
    let second = write(&store, &first, &again, &live([1, 2]), false);
    assert_eq!(found(&second, "abc"), [1, 2]);
    assert_eq!(segments(folder.path()).len(), 2);
    let third = write(&store, &second, &again, &live([1, 2]), false);
    assert_eq!(
        (third.version, segments(folder.path()).len()),
        (second.version, 2),
        "nothing is new"
    );
}

#[test]
fn a_segment_in_the_place_of_another_counts_as_absent() {
    let folder = tempfile::tempdir().expect("there is room");
    let store = store(folder.path());
    let first = write(
        &store,
        &Postings::default(),
        &[document(1, "abc")],
        &live([1, 2]),
        false,
    );
    write(&store, &first, &[document(2, "xyz")], &live([1, 2]), false);
    let [one, other] = segments(folder.path()).try_into().expect("there are two");
    fs::copy(&one, &other).expect("the folder is ours");
    let left = store.load_postings(KIND);
    assert_eq!(left.segments.len(), 1);
    assert!(left.place_of(&digest(1)).is_some() != left.place_of(&digest(2)).is_some());
}

#[test]
fn what_is_no_longer_listed_goes_at_once_and_what_has_changed_later() {
    let folder = tempfile::tempdir().expect("there is room");
    let store = store(folder.path());
    let first = write(
        &store,
        &Postings::default(),
        &[document(1, "abc"), document(2, "abcd")],
        &live([1, 2]),
        false,
    );
    let changed = write(&store, &first, &[document(3, "abcde")], &live([1, 3]), false);
    assert_eq!(
        found(&changed, "abc"),
        [1, 2, 3],
        "the old content of a file does no harm"
    );
    let gone = write(&store, &changed, &[], &live([1, 3]), true);
    assert_eq!(found(&gone, "abc"), [1, 3]);
    assert_eq!(found(&store.load_postings(KIND), "abc"), [1, 3]);
    let all = write(&store, &gone, &[], &live([]), true);
    assert_eq!((found(&all, "abc"), segments(folder.path()).len()), (vec![], 0));
}

#[test]
fn many_segments_are_merged_and_none_is_left_behind() {
    let folder = tempfile::tempdir().expect("there is room");
    let store = store(folder.path());
    let mut postings = Postings::default();
    for number in 0..60 {
        let text = format!("common word {number:03}x");
        postings = write(&store, &postings, &[document(number, &text)], &live(0..=number), false);
        assert!(postings.segments.len() <= SEGMENTS_MAX);
        assert_eq!(segments(folder.path()).len(), postings.segments.len());
    }
    assert_eq!(found(&postings, "common"), (0..60).collect::<Vec<u8>>());
    assert_eq!(found(&postings, "041x"), [41]);
}

#[test]
fn a_damaged_segment_counts_as_absent_and_is_left_out() {
    let folder = tempfile::tempdir().expect("there is room");
    let store = store(folder.path());
    let first = write(
        &store,
        &Postings::default(),
        &[document(1, "needle and abc")],
        &live([1, 2]),
        false,
    );
    write(&store, &first, &[document(2, "needle")], &live([1, 2]), false);
    let first = store.folder().join(KIND.segment(first.segments[0].generation));
    let whole = fs::read(&first).expect("it is there");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&first, damaged).expect("it is ours");
        let postings = store.load_postings(KIND);
        let found = postings.find(&query("needle"));
        let left = postings.without_damaged(&found);
        assert_eq!(self::found(&left, "needle"), [2], "byte {at}");
        assert!(left.place_of(&digest(1)).is_none() && left.place_of(&digest(2)).is_some());
    }
    for length in 0..whole.len() {
        fs::write(&first, &whole[..length]).expect("it is ours");
        assert_eq!(store.load_postings(KIND).segments.len(), 1, "{length} bytes");
    }
    let again = write(
        &store,
        &store.load_postings(KIND),
        &[document(1, "needle and abc")],
        &live([1, 2]),
        false,
    );
    assert_eq!(found(&again, "needle"), [1, 2]);
    fs::write(store.folder().join(KIND.list()), b"no list").expect("it is ours");
    assert!(store.load_postings(KIND).segments.is_empty());
}

#[test]
fn postings_are_bounded() {
    let folder = tempfile::tempdir().expect("there is room");
    let store = store(folder.path());
    let first = store.write_postings(&Postings::default(), &[document(1, "abc")], &live([1, 2]), false, 10);
    let first = first.expect("there is room");
    assert!(!first.is_full);
    let second = store.write_postings(&first, &[document(2, "abc")], &live([1, 2]), false, 10);
    let second = second.expect("there is room");
    assert!(second.is_full && found(&second, "abc") == [1]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn segments_answer_as_their_texts_do(
        texts in proptest::collection::vec("[abc \\n]{0,40}", 1..40),
        cuts in proptest::collection::vec(any::<bool>(), 40),
        dead in proptest::collection::vec(any::<bool>(), 40),
        pattern in "[abc]{3}|[abc]{4,6}|\\([abc]{3}\\|[abc]{4}\\)[ab]",
    ) {
        let folder = tempfile::tempdir().expect("there is room");
        let store = store(folder.path());
        let mut postings = Postings::default();
        let mut waiting = Vec::new();
        let all = live(0..texts.len() as u8);
        for ((number, text), cut) in (0_u8..).zip(&texts).zip(&cuts) {
            waiting.push(document(number, text));
            if *cut {
                postings = write(&store, &postings, &std::mem::take(&mut waiting), &all, false);
            }
        }
        postings = write(&store, &postings, &waiting, &all, false);
        let asked = query(&pattern);
        let expected: BTreeMap<u8, bool> = (0..).zip(&texts).map(|(number, text)| {
            let mut trigrams = std::collections::BTreeSet::new();
            crate::index::trigrams::each_trigram(text.as_bytes(), |trigram| { trigrams.insert(trigram); });
            (number, asked.holds(&trigrams))
        }).collect();
        let numbers = |keeps: &dyn Fn(u8) -> bool| -> Vec<u8> {
            expected.iter().filter(|(number, holds)| **holds && keeps(**number)).map(|(number, _)| *number).collect()
        };
        prop_assert_eq!(found(&postings, &pattern), numbers(&|_| true));
        let left = live((0..texts.len() as u8).filter(|number| !dead[usize::from(*number)]));
        let postings = write(&store, &postings, &[], &left, true);
        prop_assert_eq!(found(&postings, &pattern), numbers(&|number| !dead[usize::from(number)]));
    }
}
