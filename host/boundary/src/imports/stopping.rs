//! Host functions that may work for long stop once their call is cancelled, after a bounded amount of work.
//!
//! The kernel counts the work: inotify reports each file and directory that is opened. The test opens a marker after the
//! cancellation, and each later opening is work in vain. The tests do not measure
//! time. `tests/limits/stops.toml` names these tests for the functions of the contract and of WASI.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;
use wasmtime::component::Resource;
use wasmtime::{Engine, Store};
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock::Host as _;
use wasmtime_wasi::p2::bindings::filesystem::preopens::Host as _;
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{
    Descriptor, DescriptorFlags, HostDescriptor, HostDirectoryEntryStream, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::bindings::sync::io::poll::{Host as _, HostPollable as _};

use super::wit::bulk::Host as _;
use super::wit::repository::Host as _;
use super::{testing, wit};
use crate::budget::CallBudget;
use crate::limits::SCAN_THREADS_MAX;
use crate::store::{self, CallGrants, StoreState};
use crate::{CallContext, Limits, NoServices, Services};
use tool_core::api::Effect;

/// Folders at the top of the tree, and folders in each of them.
const FOLDERS: usize = 60;

/// Openings after a cancellation: each thread of a walk ends its folder, in which it may open ignore files and some files
/// with suspicious names.
const OPENINGS_MAX: usize = 8 * SCAN_THREADS_MAX;

/// Attempts to cancel a call before it has ended by itself.
const TRIES: usize = 100;

/// Counts the files that are opened in some folders.
struct OpeningCounter {
    queue: OwnedFd,
    marker: PathBuf,
}

impl OpeningCounter {
    fn watch(folders: &[PathBuf]) -> Self {
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).expect("the system has inotify");
        for folder in folders {
            inotify::add_watch(&queue, folder, WatchFlags::OPEN).expect("a folder can be watched");
        }
        let marker = folders[0].join("marker");
        Self { queue, marker }
    }

    /// Waits until something is opened; false where the worker ended first.
    fn wait<T>(&self, worker: &ScopedJoinHandle<'_, T>) -> bool {
        while self.take().is_empty() {
            if worker.is_finished() {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    fn mark(&self) {
        fs::File::open(&self.marker).expect("the marker is there");
    }

    /// Number of openings after the marker.
    fn after_marker(&self) -> usize {
        let names = self.take();
        let at = names.iter().position(|name| name == "marker").expect("it was opened");
        names.len() - at - 1
    }

    /// The names of the files that were opened since the last call.
    fn take(&self) -> Vec<String> {
        let mut buffer = [MaybeUninit::uninit(); 64 * 1024];
        let mut reader = inotify::Reader::new(&self.queue, &mut buffer);
        let mut names = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => {
                    assert!(
                        !event.events().contains(ReadFlags::QUEUE_OVERFLOW),
                        "too much was opened"
                    );
                    let name = event.file_name().unwrap_or_default();
                    names.push(name.to_string_lossy().into_owned());
                }
                Err(Errno::AGAIN) => return names,
                Err(errno) => panic!("{errno}"),
            }
        }
    }
}

/// A repository that takes long to walk.
struct SlowRepository {
    folder: tempfile::TempDir,
    /// The folders to watch.
    folders: Vec<PathBuf>,
}

impl SlowRepository {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().canonicalize().expect("it is there");
        let mut folders = vec![root.clone()];
        for number in 0..FOLDERS {
            let above = root.join(format!("d{number}"));
            for number in 0..FOLDERS {
                let place = above.join(format!("e{number}"));
                fs::create_dir_all(&place).expect("folders can be made");
            }
            for number in 0..FOLDERS {
                fs::write(above.join(format!("f{number}.py")), "x = 1\n").expect("files can be written");
            }
            folders.push(above);
        }
        fs::write(root.join("marker"), "").expect("files can be written");
        fs::write(root.join("a.py"), "x = 1\n").expect("files can be written");
        // With a second name the host has to look for a hidden one.
        fs::hard_link(root.join("a.py"), root.join("b.py")).expect("links can be made");
        std::os::unix::fs::symlink("a.py", root.join("link")).expect("links can be made");
        Self { folder, folders }
    }

    /// A call that may read.
    fn call(&self) -> (Arc<CallBudget>, Store<StoreState>) {
        let call = CallBudget::new("demo", Limits::default(), &CancellationToken::new());
        let context = CallContext {
            cancel: call.token.clone(),
            ..testing::context(self.folder.path())
        };
        let services: Arc<dyn Services> = Arc::new(NoServices);
        let effects = [Effect::ReadRepository];
        let grants = CallGrants::new(&Arc::new(context), &services, &effects, &effects);
        let store = store::open_store(&Engine::default(), &call, Some(grants));
        (call, store)
    }

    /// Does the work, cancels the call in the middle of it, and checks how many files are opened after that. `prepare` runs
    /// before the work.
    #[track_caller]
    fn stops<P: Send>(
        &self,
        what: &str,
        prepare: impl Fn(&mut StoreState) -> P,
        work: impl Fn(&mut StoreState, P) -> bool + Sync,
    ) {
        for _ in 0..TRIES {
            let (call, mut store) = self.call();
            let prepared = prepare(store.data_mut());
            let openings = OpeningCounter::watch(&self.folders);
            let was_cut = std::thread::scope(|scope| {
                let state = store.data_mut();
                let work = &work;
                let worker = scope.spawn(move || work(state, prepared));
                let has_begun = openings.wait(&worker);
                call.token.cancel();
                openings.mark();
                let has_succeeded = worker.join().expect("it does not panic");
                has_begun && !has_succeeded
            });
            if was_cut {
                let after = openings.after_marker();
                assert!(
                    after <= OPENINGS_MAX,
                    "{what} opened {after} files after it was cancelled"
                );
                return;
            }
        }
        panic!("{what} always ended before it could be cancelled");
    }
}

fn nothing(_: &mut StoreState) {}

fn selection() -> wit::bulk::Selection {
    wit::bulk::Selection {
        under: String::new(),
        globs: Vec::new(),
        start: None,
        end: None,
        file_bytes_max: 1024,
        text_only: true,
    }
}

fn query(under: &str, recursive: bool) -> wit::repository::Query {
    wit::repository::Query {
        under: under.to_owned(),
        recursive,
        globs: Vec::new(),
        after: None,
    }
}

#[test]
fn a_list_of_everything_stops_with_its_call() {
    SlowRepository::new().stops("list", nothing, |state, ()| state.list(query("", true)).is_ok());
    SlowRepository::new().stops("count-not-listed", nothing, |state, ()| {
        state.count_not_listed(String::new()).is_ok()
    });
    SlowRepository::new().stops("is-generated", nothing, |state, ()| {
        state.is_generated("a.py".to_owned()).is_ok()
    });
}

#[test]
fn a_list_of_one_folder_stops_with_its_call_between_the_levels_above_it() {
    let mut scene = SlowRepository::new();
    let mut place = scene.folders[0].clone();
    let mut under = Vec::new();
    for _ in 0..500 {
        place.push("n");
        under.push("n");
        fs::create_dir(&place).expect("folders can be made");
        fs::write(place.join(".gitignore"), "*.c\n").expect("files can be written");
        scene.folders.push(place.clone());
    }
    let under = under.join("/");
    scene.stops("list", nothing, |state, ()| state.list(query(&under, false)).is_ok());
}

#[test]
fn a_note_of_a_shown_file_stops_with_its_call() {
    SlowRepository::new().stops("shown", nothing, |state, ()| {
        let before = state.call.claims().len();
        state.shown("a.py".to_owned(), "0".repeat(64)).is_ok() && state.call.claims().len() > before
    });
}

#[test]
fn reading_in_bulk_stops_with_its_call() {
    let scene = SlowRepository::new();
    scene.stops("open", nothing, |state, ()| {
        wit::bulk::Host::open(state, selection()).is_ok()
    });
    scene.stops("divide", nothing, |state, ()| state.divide(selection(), 8).is_ok());
    let open = |state: &mut StoreState| wit::bulk::Host::open(state, selection()).expect("it opens").rep();
    scene.stops("next", open, |state, reader| {
        loop {
            match wit::bulk::HostReader::next(state, Resource::new_borrow(reader)) {
                Ok(batch) if batch.files.is_empty() => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    });
}

#[test]
fn reading_for_a_search_stops_with_its_call() {
    let scene = SlowRepository::new();
    let selection = || wit::search::NarrowedSelection {
        files: selection(),
        patterns: Vec::new(),
        apart: Vec::new(),
    };
    scene.stops("open", nothing, |state, ()| {
        wit::search::Host::open(state, selection()).is_ok()
    });
    let open = |state: &mut StoreState| wit::search::Host::open(state, selection()).expect("it opens").rep();
    scene.stops("next", open, |state, reader| {
        loop {
            match wit::search::HostReader::next(state, Resource::new_borrow(reader)) {
                Ok(batch) if batch.files.files.is_empty() => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    });
}

/// The handle of `/repo`.
fn root(state: &mut StoreState) -> u32 {
    let directories = state.get_directories().expect("it may read");
    directories[0].0.rep()
}

#[test]
fn opening_a_path_stops_with_its_call() {
    let scene = SlowRepository::new();
    let handle = |root: u32| Resource::<Descriptor>::new_borrow(root);
    let path = || "a.py".to_owned();
    scene.stops("open-at", root, |state, root| {
        let flags = (PathFlags::empty(), OpenFlags::empty(), DescriptorFlags::READ);
        HostDescriptor::open_at(state, handle(root), flags.0, path(), flags.1, flags.2).is_ok()
    });
    scene.stops("stat-at", root, |state, root| {
        HostDescriptor::stat_at(state, handle(root), PathFlags::SYMLINK_FOLLOW, path()).is_ok()
    });
    scene.stops("metadata-hash-at", root, |state, root| {
        HostDescriptor::metadata_hash_at(state, handle(root), PathFlags::SYMLINK_FOLLOW, path()).is_ok()
    });
    scene.stops("readlink-at", root, |state, root| {
        HostDescriptor::readlink_at(state, handle(root), "link".to_owned()).is_ok()
    });
}

#[test]
fn a_listing_of_hidden_entries_stops_with_its_call() {
    let scene = SlowRepository::new();
    for number in 0..2_000 {
        fs::write(scene.folders[1].join(format!(".env.{number}")), "").expect("files can be written");
    }
    let (call, mut store) = scene.call();
    let state = store.data_mut();
    let handle = root(state);
    let opened = HostDescriptor::open_at(
        state,
        Resource::new_borrow(handle),
        PathFlags::empty(),
        "d0".to_owned(),
        OpenFlags::DIRECTORY,
        DescriptorFlags::READ,
    );
    let entries = HostDescriptor::read_directory(state, opened.expect("it is there")).expect("it can be listed");
    let entries = entries.rep();
    let next = |state: &mut StoreState| state.read_directory_entry(Resource::new_borrow(entries));
    next(state).expect("there is an entry");
    call.token.cancel();
    let before = call.walked.get();
    assert!(next(state).is_err(), "the call has ended");
    assert_eq!(call.walked.get(), before, "nothing is read for a call that has ended");
}

#[test]
fn waiting_stops_with_its_call() {
    let scene = SlowRepository::new();
    let (call, mut store) = scene.call();
    let state = store.data_mut();
    let never = state.subscribe_duration(u64::MAX).expect("it can be waited for").rep();
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let polled = state.poll(vec![Resource::new_borrow(never)]).is_err();
            polled && state.block(Resource::new_borrow(never)).is_err()
        });
        call.token.cancel();
        assert!(worker.join().expect("it does not panic"), "both have ended");
    });
}

#[test]
fn nothing_is_begun_for_a_call_that_has_ended() {
    let scene = SlowRepository::new();
    let (call, mut store) = scene.call();
    let openings = OpeningCounter::watch(&scene.folders);
    call.token.cancel();
    let state = store.data_mut();
    assert!(state.list(query("", true)).is_err());
    assert!(state.divide(selection(), 8).is_err());
    assert!(wit::bulk::Host::open(state, selection()).is_err());
    assert_eq!(openings.take(), Vec::<String>::new());
    let _: &Path = scene.folder.path();
}

#[test]
fn a_selection_for_one_part_is_not_divided() {
    let scene = SlowRepository::new();
    let (_call, mut store) = scene.call();
    let starts = store.data_mut().divide(selection(), 1);
    assert_eq!(starts.expect("it can be listed"), Vec::<String>::new());
}
