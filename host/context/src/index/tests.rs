//! The index over real folders: never stale, never in the way, rebuilt when damaged, bounded, safe with others.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use tokio_util::sync::CancellationToken;

use super::catalogue::RecordExtent;
use super::update::{IndexUpdate, UpdatePermit};
use super::*;
use crate::profile::Profile;
use crate::{FileSource, ProfileLookup};
use tool_repository::Options;

/// A repository and a home, both of which go at the end.
pub(super) struct IndexWorld {
    pub(super) root: tempfile::TempDir,
    pub(super) home: tempfile::TempDir,
    pub(super) indexes: Arc<Indexes>,
}

const ALPHA: &str = "def alpha(): pass\n";
const OMEGA: &str = "def omega(): pass\n";

impl IndexWorld {
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        Self::bounded(files, bounds())
    }

    pub(super) fn bounded(files: &[(&str, &str)], bounds: IndexBounds) -> Self {
        let (root, home) = (folder(), folder());
        let indexes = Arc::new(Indexes::with_bounds(home.path(), bounds, false));
        let world = Self { root, home, indexes };
        files.iter().for_each(|(path, text)| world.put(path, text));
        world
    }

    pub(super) fn put(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().expect("it lies in the root")).expect("the folder is ours");
        fs::write(path, text).expect("the folder is ours");
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    /// Makes everything older than what could hide a later change.
    pub(super) fn settle(&self) {
        std::thread::sleep(2 * SETTLING);
    }

    fn repository(&self, options: &Options) -> Arc<Repository> {
        Repository::open(self.root.path(), options).expect("the folder can be opened")
    }

    pub(super) fn view(&self) -> IndexView {
        self.view_with(&self.indexes, &Options::default())
    }

    fn view_with(&self, indexes: &Arc<Indexes>, options: &Options) -> IndexView {
        let repository = self.repository(options);
        let list = repository.list(&CancellationToken::new()).expect("it can be listed");
        indexes.open_view(&repository, &list, Instant::now(), &CancellationToken::new())
    }

    /// Brings the index up to date.
    pub(super) fn fill(&self) {
        self.view().finish();
    }

    /// A daemon that starts later, or another process.
    pub(super) fn other(&self) -> Arc<Indexes> {
        Arc::new(Indexes::with_bounds(self.home.path(), self.indexes.bounds, false))
    }

    /// The one folder of the index.
    fn folder(&self) -> PathBuf {
        let mut folders = fs::read_dir(self.home.path().join("index")).expect("there is an index");
        folders.next().expect("there is one").expect("it can be read").path()
    }

    fn records(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.folder()).expect("it can be read").flatten();
        let files = files.map(|file| file.path());
        files
            .filter(|path| path.to_string_lossy().contains(store::RECORDS))
            .collect()
    }

    /// The paths of which the index on the disk has a profile.
    fn indexed(&self) -> Vec<String> {
        let view = self.view_with(&self.other(), &Options::default());
        let entries = view.indexer.files.catalogue.entries.iter();
        entries
            .filter(|entry| entry.place != RecordExtent::NONE)
            .map(|entry| entry.path.to_string())
            .collect()
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// Longer than a tick of the file system's clock, and short enough for a test.
const SETTLING: Duration = Duration::from_millis(100);

pub(super) fn bounds() -> IndexBounds {
    IndexBounds {
        settling: SETTLING,
        ..IndexBounds::default()
    }
}

/// The definitions of a file, and how many files the request had to read for them.
pub(super) fn defined(view: &IndexView, path: &str) -> (Vec<String>, usize) {
    let before = view.files_read.load(Ordering::Relaxed);
    let mut names = Vec::new();
    if let ProfileLookup::Found(profile) = view.profile(path) {
        profile.each_definition(|name, _| names.push(name.to_owned()));
    }
    (names, view.files_read.load(Ordering::Relaxed) - before)
}

fn alpha(read: usize) -> (Vec<String>, usize) {
    (vec!["alpha".to_owned()], read)
}

fn omega(read: usize) -> (Vec<String>, usize) {
    (vec!["omega".to_owned()], read)
}

#[test]
fn what_was_measured_once_is_not_read_again_by_this_process_or_another() {
    let world = IndexWorld::new(&[("a.py", ALPHA), ("b/c.py", OMEGA), ("readme.md", "# No code\n")]);
    world.settle();
    assert_eq!(defined(&world.view(), "a.py"), alpha(1));
    world.fill();
    for indexes in [Arc::clone(&world.indexes), world.other()] {
        let view = world.view_with(&indexes, &Options::default());
        assert_eq!((defined(&view, "a.py"), defined(&view, "b/c.py")), (alpha(0), omega(0)));
    }
    assert_eq!(world.indexed(), ["a.py", "b/c.py"]);
}

#[test]
fn a_file_that_changed_just_before_it_was_read_is_read_again() {
    let world = IndexWorld::new(&[("a.py", ALPHA)]);
    world.fill();
    let view = world.view();
    assert_eq!(defined(&view, "a.py"), alpha(1));
    drop(view);
    world.settle();
    world.fill();
    assert_eq!(defined(&world.view(), "a.py"), alpha(0));
}

#[test]
fn a_change_with_the_same_size_and_time_is_seen() {
    let world = IndexWorld::new(&[("a.py", ALPHA)]);
    world.settle();
    world.fill();
    let modified = fs::metadata(world.path("a.py"))
        .and_then(|file| file.modified())
        .expect("it is there");
    world.put("a.py", OMEGA);
    let file = fs::File::options()
        .write(true)
        .open(world.path("a.py"))
        .expect("it can be opened");
    file.set_modified(modified).expect("its time can be set");
    assert_eq!(defined(&world.view(), "a.py"), omega(1));
}

#[test]
fn where_times_tell_nothing_each_request_reads_and_nothing_is_kept() {
    let world = IndexWorld::new(&[("a.py", ALPHA), ("b.py", OMEGA)]);
    let distrustful = Options {
        distrust_times: true,
        ..Options::default()
    };
    for _ in 0..2 {
        world.settle();
        let view = world.view_with(&world.indexes, &distrustful);
        assert_eq!(defined(&view, "a.py"), alpha(1));
        view.finish();
    }
    assert!(!world.home.path().join("index").exists());
    world.fill();
    assert_eq!(defined(&world.view(), "a.py"), alpha(0));
}

#[test]
fn a_write_that_fails_leaves_no_records_behind() {
    let world = IndexWorld::new(&[("a.py", ALPHA)]);
    world.fill();
    let records = world.records();
    let bytes = |path: &PathBuf| fs::metadata(path).expect("it is there").len();
    let before = bytes(&records[0]);
    let catalogue = world.folder().join("catalogue");
    // A folder in its place cannot be replaced by a file.
    fs::remove_file(&catalogue).expect("it is there");
    fs::create_dir(&catalogue).expect("the folder is ours");
    for round in 0..3 {
        world.put("b.py", &format!("{OMEGA}\nround{round}\n"));
        world.fill();
    }
    assert_eq!(world.records(), records);
    assert_eq!(bytes(&records[0]), before);
}

#[test]
fn a_replaced_renamed_or_deleted_file_is_seen() {
    let world = IndexWorld::new(&[("a.py", ALPHA), ("b.py", OMEGA), ("c.py", "x = 1\n")]);
    world.settle();
    world.fill();
    fs::rename(world.path("b.py"), world.path("a.py")).expect("it can be renamed");
    fs::remove_file(world.path("c.py")).expect("it can be removed");
    let view = world.view();
    // Its content is known from its old name, and nothing has to be measured: only read.
    assert_eq!(defined(&view, "a.py"), omega(1));
    assert!(
        matches!(view.profile("b.py"), ProfileLookup::Absent) && matches!(view.profile("c.py"), ProfileLookup::Absent)
    );
    view.finish();
    assert_eq!(world.indexed(), ["a.py"]);
}

#[test]
fn a_link_in_the_place_of_a_file_is_not_followed() {
    let world = IndexWorld::new(&[("a.py", ALPHA), ("b.py", OMEGA)]);
    world.settle();
    world.fill();
    fs::remove_file(world.path("a.py")).expect("it can be removed");
    symlink("b.py", world.path("a.py")).expect("a link can be made");
    assert!(matches!(world.view().profile("a.py"), ProfileLookup::Absent));
    world.fill();
    assert_eq!(world.indexed(), ["b.py"]);
}

#[test]
fn a_change_between_the_list_and_the_reading_is_noted_as_what_was_read() {
    let world = IndexWorld::new(&[("a.py", ALPHA)]);
    world.settle();
    let view = world.view();
    world.put("a.py", OMEGA);
    assert_eq!(defined(&view, "a.py"), omega(1));
    view.finish();
    assert_eq!(defined(&world.view(), "a.py"), omega(1));
}

#[test]
fn what_becomes_hidden_or_ignored_leaves_the_index_with_its_records() {
    let world = IndexWorld::new(&[("a.py", ALPHA), ("secret.py", "def swordfish(): pass\n")]);
    world.settle();
    world.fill();
    let holds = |world: &IndexWorld| {
        let records = world.records();
        records.iter().any(|path| {
            let bytes = fs::read(path).expect("it can be read");
            bytes.windows(9).any(|window| window == b"swordfish")
        })
    };
    assert!(holds(&world));
    world.put(".ignore", "secret.py\n");
    world.fill();
    assert_eq!(world.indexed(), ["a.py"]);
    assert!(!holds(&world) && world.records().len() == 1, "{:?}", world.records());

    // With rules of the user's own it is another index, which never had the file.
    fs::remove_file(world.path(".ignore")).expect("it can be removed");
    let options = Options {
        hide: vec!["secret.py".to_owned()],
        ..Options::default()
    };
    let view = world.view_with(&world.indexes, &options);
    assert!(matches!(view.profile("secret.py"), ProfileLookup::Absent));
    view.finish();
    assert!(
        !world
            .view_with(&world.indexes, &options)
            .indexer
            .files
            .catalogue
            .entries
            .iter()
            .any(|entry| &*entry.path == "secret.py")
    );
}

#[test]
fn a_file_that_is_no_text_is_remembered_as_that() {
    let world = IndexWorld::new(&[("a.ts", "G\0\0\0video")]);
    world.settle();
    world.fill();
    assert_eq!(defined(&world.view(), "a.ts"), (Vec::new(), 0));
    assert_eq!(world.indexed(), ["a.ts"]);
}

#[test]
fn the_index_is_private() {
    let world = IndexWorld::new(&[("a.py", ALPHA)]);
    world.fill();
    let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
    assert_eq!(
        (mode(&world.home.path().join("index")), mode(&world.folder())),
        (0o700, 0o700)
    );
    for file in fs::read_dir(world.folder()).expect("it can be read").flatten() {
        assert_eq!(mode(&file.path()), 0o600, "{:?}", file.path());
    }
    let catalogue = world.folder().join("catalogue");
    fs::set_permissions(&catalogue, fs::Permissions::from_mode(0o622)).expect("it is ours");
    assert!(world.indexed().is_empty(), "others could have written it");
}

#[test]
fn a_damaged_index_is_made_anew() {
    let world = IndexWorld::new(&[("a.py", ALPHA), ("b.py", OMEGA)]);
    world.settle();
    let cut = |path: &Path| {
        let bytes = fs::read(path).expect("it can be read");
        fs::write(path, &bytes[..bytes.len() / 2]).expect("it can be written");
    };
    let overwrite = |path: &Path| {
        let length = fs::metadata(path).expect("it is there").len();
        fs::write(path, vec![0xff; length as usize]).expect("it can be written");
    };
    let replace = |path: &Path| {
        fs::remove_file(path).expect("it is there");
        symlink("/etc/passwd", path).expect("a link can be made");
    };
    let damages: [&dyn Fn(&Path); 3] = [&cut, &overwrite, &replace];
    for damage in damages {
        for records in [false, true] {
            world.fill();
            let path = if records {
                world.records().remove(0)
            } else {
                world.folder().join("catalogue")
            };
            damage(&path);
            let indexes = world.other();
            let view = world.view_with(&indexes, &Options::default());
            assert_eq!(
                (defined(&view, "a.py"), defined(&view, "b.py")),
                (alpha(1), omega(1)),
                "{path:?}"
            );
            view.finish();
            let view = world.view_with(&world.other(), &Options::default());
            assert_eq!(
                (defined(&view, "a.py"), defined(&view, "b.py")),
                (alpha(0), omega(0)),
                "{path:?}"
            );
        }
    }
}

#[test]
fn deleting_the_index_costs_nothing_but_the_disks_copy() {
    let world = IndexWorld::new(&[("a.py", ALPHA)]);
    world.settle();
    world.fill();
    fs::remove_dir_all(world.home.path().join("index")).expect("it is ours");
    assert_eq!(defined(&world.view(), "a.py"), alpha(0));
    world.put("b.py", OMEGA);
    world.fill();
    assert_eq!(world.indexed(), ["a.py", "b.py"]);
    fs::remove_dir_all(world.home.path()).expect("it is ours");
    assert_eq!(defined(&world.view(), "a.py"), alpha(0));
    world.put("c.py", "x = 1\n");
    world.fill();
    assert!(!world.home.path().exists(), "a home that is gone does not come back");
}

#[test]
fn another_directory_in_the_same_place_has_another_index() {
    let world = IndexWorld::new(&[("tree/a.py", ALPHA)]);
    let indexes = &world.indexes;
    let open = || Repository::open(&world.path("tree"), &Options::default()).expect("it can be opened");
    let view = |repository: Arc<Repository>| {
        let list = repository.list(&CancellationToken::new()).expect("it can be listed");
        indexes.open_view(&repository, &list, Instant::now(), &CancellationToken::new())
    };
    view(open()).finish();
    fs::rename(world.path("tree"), world.path("old")).expect("it can be renamed");
    world.put("tree/a.py", OMEGA);
    let other = view(open());
    assert!(other.indexer.files.catalogue.entries.is_empty());
    assert_eq!(defined(&other, "a.py"), omega(1));
}

#[test]
fn a_layout_is_kept_until_a_path_or_a_manifest_changes() {
    let world = IndexWorld::new(&[("a.py", ALPHA), ("web/package.json", r#"{"name": "old"}"#)]);
    let first = Arc::clone(world.view().layout());
    world.put("a.py", "def changed(): pass\n");
    assert!(Arc::ptr_eq(&first, world.view().layout()));
    world.put("web/package.json", r#"{"name": "newer"}"#);
    let second = Arc::clone(world.view().layout());
    assert!(!Arc::ptr_eq(&first, &second));
    world.put("b.py", OMEGA);
    assert!(!Arc::ptr_eq(&second, world.view().layout()));
}

#[test]
fn changes_are_appended_until_too_much_leads_nowhere() {
    let world = IndexWorld::new(&[("a.py", ALPHA), ("b.py", OMEGA)]);
    let large: String = (0..20_000)
        .map(|at| format!("word{at} "))
        .collect::<Vec<_>>()
        .join("\n");
    world.put("large.py", &large);
    // They share one record.
    for copy in 0..20 {
        world.put(&format!("copy{copy}.py"), &large);
    }
    world.fill();
    let first = world.records();
    world.put("a.py", "def beta(): pass\n");
    world.fill();
    assert_eq!(world.records(), first, "a small change is appended");
    for round in 0..24 {
        world.put("large.py", &format!("{large}\nround{round}\n"));
        world.fill();
    }
    let (records, live) = (
        world.records(),
        fs::metadata(&world.records()[0]).expect("it is there").len(),
    );
    assert!(records.len() == 1 && records != first, "{records:?}");
    let one = Profile::from_text("large.py", &large).bytes().len() as u64;
    assert!(
        live < 4 * one + 2 * store::WASTE_BYTES_MIN,
        "{live} bytes are kept for two contents of {one}"
    );
    let indexed = world.indexed();
    assert_eq!(
        (indexed.len(), &indexed[..2]),
        (23, &["a.py".into(), "b.py".into()][..])
    );
}

#[test]
fn a_writer_that_died_leaves_nothing_that_counts() {
    let world = IndexWorld::new(&[("a.py", ALPHA)]);
    world.settle();
    world.fill();
    let records = world.records().remove(0);
    let mut bytes = fs::read(&records).expect("it can be read");
    bytes.extend_from_slice(b"what was never finished");
    fs::write(&records, bytes).expect("it is ours");
    fs::write(world.folder().join(".tmp123"), b"half a catalogue").expect("it is ours");
    world.put("b.py", OMEGA);
    world.settle();
    let indexes = world.other();
    world.view_with(&indexes, &Options::default()).finish();
    let view = world.view_with(&world.other(), &Options::default());
    assert_eq!((defined(&view, "a.py"), defined(&view, "b.py")), (alpha(0), omega(0)));
    assert!(!world.folder().join(".tmp123").exists());
}

#[test]
fn several_processes_share_an_index() {
    let names: Vec<String> = (0..60).map(|at| format!("f{at}.py")).collect();
    let world = IndexWorld::new(&[]);
    names.iter().for_each(|name| world.put(name, ALPHA));
    world.settle();
    let others: Vec<Arc<Indexes>> = (0..6).map(|_| world.other()).collect();
    std::thread::scope(|scope| {
        for (at, indexes) in others.iter().enumerate() {
            let (world, names) = (&world, &names);
            scope.spawn(move || {
                for round in 0..5 {
                    world.put(&format!("own{at}.py"), &format!("x{round} = 1\n"));
                    let view = world.view_with(indexes, &Options::default());
                    assert_eq!(defined(&view, &names[(at * 7 + round) % names.len()]).0, ["alpha"]);
                    view.finish();
                }
            });
        }
    });
    world.settle();
    world.fill();
    world.fill();
    assert_eq!(world.indexed().len(), 66);
    let view = world.view_with(&world.other(), &Options::default());
    assert!(names.iter().all(|name| defined(&view, name) == alpha(0)));
    assert_eq!(defined(&view, "own3.py"), (vec!["x4".to_owned()], 0));
}

#[test]
fn while_somebody_else_writes_nobody_waits() {
    let world = IndexWorld::new(&[("a.py", ALPHA)]);
    world.fill();
    world.put("b.py", OMEGA);
    let view = world.view();
    let lock = view
        .indexer
        .index
        .store
        .lock()
        .expect("it can be locked")
        .expect("nobody else holds it");
    assert_eq!(defined(&view, "b.py"), omega(1));
    view.finish();
    assert_eq!(world.indexed(), ["a.py"]);
    drop(lock);
    world.fill();
    assert_eq!(world.indexed(), ["a.py", "b.py"]);
}

#[test]
fn an_index_keeps_no_more_than_its_bytes() {
    let files: Vec<(String, String)> = (0..20)
        .map(|at| (format!("f{at:02}.py"), format!("def name{at}(): pass\n")))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let one = Profile::from_text("f00.py", files[0].1).bytes().len() as u64;
    let bounds = IndexBounds {
        bytes: 5 * one + one / 2,
        ..bounds()
    };
    let world = IndexWorld::bounded(&files, bounds);
    world.settle();
    world.fill();
    assert_eq!(world.indexed().len(), 5);
    // The others are still there for a selection, and are not measured in vain at each.
    let view = world.view();
    assert_eq!(defined(&view, "f19.py"), (vec!["name19".to_owned()], 1));
    assert!(!IndexUpdate::after_selection(view.indexer).lacks_files());
}

#[test]
fn indexes_that_were_not_used_longest_make_way() {
    let home = folder();
    let bounds = IndexBounds { indexes: 2, ..bounds() };
    let worlds: Vec<IndexWorld> = (0..3)
        .map(|at| {
            let mut world = IndexWorld::new(&[("a.py", ALPHA)]);
            world.indexes = Arc::new(Indexes::with_bounds(home.path(), bounds, false));
            world.fill();
            let view = world.view();
            let lock = view
                .indexer
                .index
                .store
                .lock()
                .expect("it can be locked")
                .expect("nobody else holds it");
            let used = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 * (at + 1));
            lock.set_modified(used).expect("its time can be set");
            drop(view);
            world
        })
        .collect();
    let count = || fs::read_dir(home.path().join("index")).expect("it is there").count();
    assert_eq!(count(), 2);
    let has = |world: &IndexWorld| {
        home.path()
            .join("index")
            .join(world.view().indexer.index.key.name())
            .exists()
    };
    assert_eq!(worlds.iter().map(has).collect::<Vec<_>>(), [false, true, true]);
    // And beyond the bytes of all.
    store::prune_indexes(
        &home.path().join("index"),
        &worlds[2].view().indexer.index.key.name(),
        9,
        1,
    );
    assert_eq!(worlds.iter().map(has).collect::<Vec<_>>(), [false, false, true]);
}

#[test]
fn only_some_indexes_are_open() {
    let bounds = IndexBounds {
        open: 2,
        open_files: 5,
        ..bounds()
    };
    let home = folder();
    let indexes = Arc::new(Indexes::with_bounds(home.path(), bounds, false));
    let worlds: Vec<IndexWorld> = (0..3)
        .map(|_| IndexWorld::new(&[("a.py", ALPHA), ("b.py", OMEGA)]))
        .collect();
    let open = || indexes.open.lock().expect("nothing panicked").len();
    for world in &worlds {
        world.view_with(&indexes, &Options::default()).finish();
    }
    assert_eq!(open(), 2);
    worlds[0].put("c.py", "x = 1\n");
    worlds[0].put("d.py", "x = 2\n");
    worlds[0].view_with(&indexes, &Options::default()).finish();
    worlds[1].view_with(&indexes, &Options::default()).finish();
    assert_eq!(open(), 1, "six files are more than five");
}

#[test]
fn an_index_is_written_in_pieces_that_memory_can_hold() {
    let bounds = IndexBounds {
        pending_bytes: 600,
        ..bounds()
    };
    let world = IndexWorld::bounded(&[], bounds);
    (0..50).for_each(|at| world.put(&format!("f{at:02}.py"), &format!("def name{at}(): pass\n")));
    world.settle();
    let view = world.view();
    // Files that a selection measured beyond the bound are measured again.
    (0..50).for_each(|at| drop(defined(&view, &format!("f{at:02}.py"))));
    assert!(view.indexer.pending().bytes <= 1200);
    view.finish();
    assert_eq!(world.indexed().len(), 50);
    let view = world.view();
    assert_eq!(defined(&view, "f49.py"), (vec!["name49".to_owned()], 0));
}

#[test]
fn a_selection_does_not_wait_for_a_large_tree_and_the_next_one_knows_all() {
    let bounds = IndexBounds {
        wait: Duration::ZERO,
        wait_files: 2,
        ..bounds()
    };
    let mut world = IndexWorld::bounded(&[("a.py", ALPHA), ("b.py", ALPHA), ("c.py", OMEGA)], bounds);
    world.indexes = Arc::new(Indexes::with_bounds(world.home.path(), bounds, true));
    world.settle();
    let view = world.view();
    assert_eq!((defined(&view, "a.py"), defined(&view, "b.py")), (alpha(1), alpha(1)));
    assert!(matches!(view.profile("c.py"), ProfileLookup::Later));
    let index = Arc::clone(&view.indexer.index);
    view.finish();
    let since = Instant::now();
    while index.lock().catalogue.entries.len() < 3 && since.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(defined(&world.view(), "c.py"), omega(0));
}

#[test]
fn the_time_that_a_list_took_is_part_of_the_wait() {
    let bounds = IndexBounds {
        wait: Duration::from_secs(30),
        wait_files: 1,
        ..bounds()
    };
    let mut world = IndexWorld::bounded(&[("a.py", ALPHA), ("b.py", OMEGA)], bounds);
    world.indexes = Arc::new(Indexes::with_bounds(world.home.path(), bounds, true));
    let view = world.view();
    let mut late = world.view();
    let started = Instant::now().checked_sub(Duration::from_secs(31));
    late.started = started.expect("the machine has run for that long");
    assert_eq!((defined(&view, "a.py"), defined(&view, "b.py")), (alpha(1), omega(1)));
    assert_eq!(defined(&late, "a.py"), alpha(1));
    assert!(matches!(late.profile("b.py"), ProfileLookup::Later));
}

#[test]
fn one_index_is_filled_at_a_time_and_by_one() {
    let world = IndexWorld::new(&[("a.py", ALPHA)]);
    let index = Arc::clone(&world.view().indexer.index);
    let permit = UpdatePermit::try_take(&world.indexes, &index).expect("nobody has it");
    assert!(UpdatePermit::try_take(&world.indexes, &index).is_none());
    let other = IndexWorld::new(&[("a.py", ALPHA)]).view().indexer.index.key.clone();
    let other = Arc::new(Index::open(world.home.path(), &other));
    assert!(UpdatePermit::try_take(&world.indexes, &other).is_none());
    drop(permit);
    assert!(UpdatePermit::try_take(&world.indexes, &other).is_some());
}
