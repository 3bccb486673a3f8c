//! The list of files for a selection: a new one or, for a very large tree, one that is at most a minute old.
//!
//! Up to 100,000 files, listing takes some hundredths of a second, and each request does it. A larger tree is listed in
//! the background for the next request, and the answer says how old its list is. An old list reveals no hidden content:
//! the repository checks a file again when it is read.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{Index, Indexes, yield_to_others};
use tool_repository::{FileList, Repository, ScanError};

/// A list, and the time right before it was made.
#[derive(Debug, Clone)]
pub(super) struct CheckedList {
    list: Arc<FileList>,
    at: Instant,
}

impl Indexes {
    /// The files of a repository, with the age of the list if it was not made for this request.
    pub(crate) fn list(
        &self,
        repository: &Arc<Repository>,
        cancel: &CancellationToken,
    ) -> Result<(Arc<FileList>, Option<Duration>), ScanError> {
        let index = self.index(repository);
        let known = index.lock().checked.clone();
        if let Some(known) = known.filter(|known| self.in_background && known.at.elapsed() <= self.bounds.list_age) {
            check_in_background(&index, repository, self.bounds.exact_files);
            return Ok((known.list, Some(known.at.elapsed())));
        }
        let at = Instant::now();
        let list = repository.list(cancel)?;
        index.lock().checked = CheckedList::new(&list, at, self.bounds.exact_files);
        Ok((list, None))
    }
}

impl CheckedList {
    /// `None` for a tree that is small enough to be listed for each request, and for an incomplete list.
    fn new(list: &Arc<FileList>, at: Instant, exact_files: usize) -> Option<Self> {
        let is_large = list.complete && list.files.len() > exact_files;
        is_large.then(|| Self {
            list: Arc::clone(list),
            at,
        })
    }
}

/// Lists the whole tree on a new thread, unless another thread does so already.
fn check_in_background(index: &Arc<Index>, repository: &Arc<Repository>, exact_files: usize) {
    if index.is_checking.swap(true, Ordering::AcqRel) {
        return;
    }
    let permit = CheckPermit(Arc::clone(index));
    let repository = Arc::clone(repository);
    let work = move || {
        yield_to_others();
        let at = Instant::now();
        if let Ok(list) = repository.list(&CancellationToken::new()) {
            permit.0.lock().checked = CheckedList::new(&list, at, exact_files);
        }
    };
    // If no thread can be started, the list becomes too old, and a later request makes a new one.
    let _ = std::thread::Builder::new().name("check".to_owned()).spawn(work);
}

/// Permit to list a tree in the background. Dropping it releases the permit, also if the thread panics.
struct CheckPermit(Arc<Index>);

impl Drop for CheckPermit {
    fn drop(&mut self) {
        self.0.is_checking.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::super::IndexBounds;
    use super::super::tests::{IndexWorld, bounds};
    use super::*;
    use tool_repository::Options;

    fn paths(list: &FileList) -> Vec<&str> {
        list.files.iter().map(|file| file.path.as_str()).collect()
    }

    fn indexes(world: &IndexWorld, exact_files: usize, list_age: Duration) -> Indexes {
        let bounds = IndexBounds {
            exact_files,
            list_age,
            ..bounds()
        };
        Indexes::with_bounds(world.home.path(), bounds, true)
    }

    #[test]
    fn a_large_tree_is_checked_beside_the_answer_and_the_answer_knows_its_age() {
        let world = IndexWorld::new(&[("a.py", "a"), ("b.py", "b")]);
        let indexes = indexes(&world, 1, Duration::from_secs(60));
        let repository = Repository::open(world.root.path(), &Options::default()).expect("it is a folder");
        let cancel = CancellationToken::new();
        let (first, age) = indexes.list(&repository, &cancel).expect("it can be listed");
        assert_eq!((paths(&first), age), (vec!["a.py", "b.py"], None));
        world.put("c.py", "c");
        let (second, age) = indexes.list(&repository, &cancel).expect("it can be listed");
        assert_eq!(paths(&second), ["a.py", "b.py"]);
        assert!(age.is_some());
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let (list, age) = indexes.list(&repository, &cancel).expect("it can be listed");
            assert!(age.is_some());
            if paths(&list) == ["a.py", "b.py", "c.py"] {
                break;
            }
            assert!(Instant::now() < until, "the check beside the answers never ended");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_small_tree_and_a_list_that_is_too_old_are_checked_before_the_answer() {
        let world = IndexWorld::new(&[("a.py", "a"), ("b.py", "b")]);
        let repository = Repository::open(world.root.path(), &Options::default()).expect("it is a folder");
        let cancel = CancellationToken::new();
        for (exact_files, list_age) in [(9, Duration::from_secs(60)), (1, Duration::ZERO)] {
            let indexes = indexes(&world, exact_files, list_age);
            for name in ["c.py", "d.py"] {
                drop(std::fs::remove_file(world.root.path().join(name)));
                let (before, _) = indexes.list(&repository, &cancel).expect("it can be listed");
                world.put(name, "new");
                let (after, age) = indexes.list(&repository, &cancel).expect("it can be listed");
                assert_eq!(
                    (after.files.len(), age),
                    (before.files.len() + 1, None),
                    "{exact_files}"
                );
            }
            drop(std::fs::remove_file(world.root.path().join("c.py")));
            drop(std::fs::remove_file(world.root.path().join("d.py")));
        }
    }

    #[test]
    fn a_tree_that_has_become_small_is_checked_before_the_answer_again() {
        let world = IndexWorld::new(&[("a.py", "a"), ("b.py", "b"), ("c.py", "c")]);
        let indexes = indexes(&world, 2, Duration::from_secs(60));
        let repository = Repository::open(world.root.path(), &Options::default()).expect("it is a folder");
        let cancel = CancellationToken::new();
        let ask = || indexes.list(&repository, &cancel).expect("it can be listed");
        assert_eq!(ask().1, None);
        std::fs::remove_file(world.root.path().join("c.py")).expect("the folder is ours");
        let until = Instant::now() + Duration::from_secs(20);
        while ask().1.is_some() {
            assert!(Instant::now() < until, "each answer has the list of a moment ago");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(paths(&ask().0), ["a.py", "b.py"]);
    }
}
