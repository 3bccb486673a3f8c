//! Words of contents over real folders: a large tree is ranked by few profiles as it is by all.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::codec::RecordReader;
use crate::index::postings::PostingsKind;
use crate::index::tests::{IndexWorld, bounds};
use crate::index::{IndexBounds, Indexes};
use crate::rank::Feature;
use crate::words::{hash, stem_word};
use crate::{MeasuredCandidate, measure_candidates};
use tool_repository::{Options, Repository};

/// Sixty files, of which a few are about retries in a queue.
fn files() -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = (0..60)
        .map(|at| {
            let name = format!("part{:02}/module_{at}.py", at % 7);
            let text = format!("def step_{at}(value):\n    return value + {at}\n\n").repeat(at % 5 + 1);
            (name, text)
        })
        .collect();
    let queue = "class RetryQueue:\n    def retry(self, job):\n        self.queue.retry(job)\n";
    files.push(("work/queue.py".to_owned(), queue.repeat(4)));
    files.push((
        "work/retry.py".to_owned(),
        "def retry(queue):\n    return queue\n".to_owned(),
    ));
    files.push(("work/other.py".to_owned(), "queue = None\n".to_owned()));
    files.push(("copy/other.py".to_owned(), "queue = None\n".to_owned()));
    files.sort();
    files
}

/// A world that is indexed, and reads so many profiles for a task where there are more files than `read_all`.
fn world(read_all: usize, read: usize) -> IndexWorld {
    let bounds = IndexBounds {
        read_all,
        read,
        ..bounds()
    };
    let files = files();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let world = IndexWorld::bounded(&files, bounds);
    world.settle();
    world.fill();
    world
}

fn measured(world: &IndexWorld, indexes: &Arc<Indexes>) -> BTreeMap<String, MeasuredCandidate> {
    let repository = Repository::open(world.root.path(), &Options::default()).expect("the folder can be opened");
    let task = "retry the jobs of a queue";
    let found = measure_candidates(&repository, indexes, task, &CancellationToken::new()).expect("it can be listed");
    found.into_iter().map(|one| (one.path.clone(), one)).collect()
}

/// The features of a file that do not depend on other files' profiles.
fn own(one: &MeasuredCandidate) -> Vec<f64> {
    use Feature::{Coverage, Directory, Name, Named, Whole, Window};
    let own = [Window, Whole, Name, Directory, Named, Coverage];
    own.into_iter().map(|feature| one.features[feature as usize]).collect()
}

const ABOUT_THE_TASK: [&str; 4] = ["copy/other.py", "work/other.py", "work/queue.py", "work/retry.py"];

#[test]
fn a_few_profiles_give_the_numbers_that_all_give() {
    let (all, few) = (world(1000, 0), world(10, 4));
    let (all, some) = (measured(&all, &all.indexes), measured(&few, &few.indexes));
    assert_eq!(all.len(), 64);
    assert_eq!(some.keys().collect::<Vec<_>>(), ABOUT_THE_TASK);
    for (path, one) in &some {
        assert_eq!((path, own(one)), (path, own(&all[path])));
    }
    let again = measured(&few, &few.other());
    assert_eq!(again, some, "another process reads the same");
}

#[test]
fn a_file_that_changed_is_read_whatever_it_is() {
    let world = world(10, 4);
    world.put("part00/module_0.py", "nothing = 0\n");
    let found = measured(&world, &world.indexes);
    let mut expected = vec!["part00/module_0.py"];
    expected.extend(ABOUT_THE_TASK);
    expected.sort_unstable();
    assert_eq!(found.keys().collect::<Vec<_>>(), expected);
}

#[test]
fn damaged_words_cost_time_and_nothing_else() {
    let world = world(10, 4);
    let before = measured(&world, &world.indexes);
    let folder = fs::read_dir(world.home.path().join("index"))
        .expect("it is there")
        .flatten()
        .next();
    let folder = folder.expect("there is one index").path();
    let segments = || -> Vec<PathBuf> {
        let files = fs::read_dir(&folder).expect("it can be read").flatten();
        let paths = files.map(|entry| entry.path());
        paths
            .filter(|path| path.to_string_lossy().contains(PostingsKind::Words.prefix()))
            .collect()
    };
    assert!(!segments().is_empty());
    for damage in [
        |bytes: &mut Vec<u8>| bytes[20] ^= 1,
        |bytes: &mut Vec<u8>| bytes.truncate(50),
    ] {
        for path in segments() {
            let mut bytes = fs::read(&path).expect("it is there");
            damage(&mut bytes);
            fs::write(path, bytes).expect("it is ours");
        }
        let indexes = world.other();
        let found = measured(&world, &indexes);
        assert_eq!(found.len(), 64, "every profile is read");
        assert!(before.iter().all(|(path, one)| own(one) == own(&found[path])));
    }
    let mended = world.other();
    measured(&world, &mended);
    assert_eq!(measured(&world, &mended), before, "the words were measured again");
}

proptest! {
    #[test]
    fn keys_ascend_and_hold_every_word(text in "[a-c]{1,2}( [a-c_]{1,3}){0,60}") {
        let profile = Profile::from_text("a.py", &text);
        let keys = encode_words(&profile);
        let (mut reader, mut found, mut last) = (RecordReader(&keys), Vec::new(), 0);
        while let Some(gap) = reader.read::<u32>() {
            last += gap;
            found.push(last);
        }
        prop_assert!(reader.is_empty() && found.is_sorted_by(|a, b| a < b));
        prop_assert!(found.windows(2).all(|pair| pair[0] | 1 != pair[1] | 1), "a word has one key");
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        profile.each_word(|hash, count| *counts.entry(hash).or_default() += count);
        let words: Vec<&str> = text.split(' ').filter(|word| !word.contains('_')).collect();
        for word in words {
            let hash = hash(stem_word(word.as_bytes()));
            let [once, often] = keys_of(hash);
            let is_often = counts[&hash] >= OFTEN_MIN;
            prop_assert!(found.contains(&often) || !is_often && found.contains(&once));
        }
    }
}
