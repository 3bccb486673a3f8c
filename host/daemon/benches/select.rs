//! Cost of a selection: `cargo bench --workspace --bench select`, on a tree that is made for it.
//!
//! `list` is the list of files where nothing changed, `list, first` of a daemon that has seen nothing, `walk natively`
//! the same rules without the daemon's checks, one thread; `read every file` is what a search without an index has to
//! do at least. `select` the whole packet for a task with the index in place,
//! `select without an index` the same where every file is read and measured, and `select for an overview` what an
//! explanation of the repository asks for. `packet of a file` chooses little and writes much.

#[path = "common/trees.rs"]
mod trees;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use tokio_util::sync::CancellationToken;
use tool_context::Target;
use tool_context::{BuildRequest, Indexes, Packet, SelectionFilter};
use tool_core::api::Operation;
use tool_core::limits::PACKET_TOKENS;
use tool_core::redaction::Redactor;
use tool_repository::{Options, Repository, ScanCache};

const FILES: usize = 1000;

fn build(options: &Options, root: &Path, indexes: &Arc<Indexes>, operation: Operation, target: &Target) -> Packet {
    let repository = Repository::open(root, options).expect("the folder is acceptable");
    tool_context::build_packet(&BuildRequest {
        repository: &repository,
        indexes,
        operation,
        target,
        focus: None,
        filter: &SelectionFilter::default(),
        vault: None,
        redactor: &Redactor::default(),
        budget_tokens: PACKET_TOKENS,
        cancel: &CancellationToken::new(),
    })
    .expect("there is something to choose from")
}

fn write(root: &Path, files: &[(String, String)]) {
    for (path, text) in files {
        let place = root.join(path);
        std::fs::create_dir_all(place.parent().expect("a file has a parent")).expect("the folder is ours");
        std::fs::write(place, text).expect("the folder is ours");
    }
}

fn selections(criterion: &mut Criterion) {
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a temporary folder can be made"));
    let [root, home, nowhere] = folders.each_ref().map(tempfile::TempDir::path);
    write(root, &trees::modules(FILES));
    // Files that changed just now are examined again.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let options = Options {
        scans: Some(Arc::new(ScanCache::default())),
        ..Options::default()
    };
    let task = Target::Task("Return a default where field_42 of the request of handle_7 is missing".to_owned());
    let indexes = Indexes::open_waiting(home);
    build(&options, root, &indexes, Operation::Refactor, &task);
    criterion.bench_function("list", |bencher| {
        bencher.iter(|| {
            let repository = Repository::open(root, &options).expect("the folder is acceptable");
            repository.list(&CancellationToken::new()).expect("it can be listed")
        });
    });
    criterion.bench_function("list, first", |bencher| {
        bencher.iter(|| {
            let repository = Repository::open(root, &Options::default()).expect("the folder is acceptable");
            repository.list(&CancellationToken::new()).expect("it can be listed")
        });
    });
    criterion.bench_function("walk natively", |bencher| {
        bencher.iter(|| ignore::WalkBuilder::new(root).build().flatten().count());
    });
    criterion.bench_function("read every file", |bencher| {
        let files = || ignore::WalkBuilder::new(root).build().flatten();
        bencher.iter(|| {
            files()
                .filter_map(|file| std::fs::read(file.path()).ok())
                .map(|text| text.len())
                .sum::<usize>()
        });
    });
    criterion.bench_function("select", |bencher| {
        bencher.iter(|| black_box(build(&options, root, &indexes, Operation::Refactor, &task)));
    });
    criterion.bench_function("select without an index", |bencher| {
        // A home that is not there keeps nothing.
        let indexes = || Indexes::open_waiting(&nowhere.join("gone"));
        bencher.iter(|| black_box(build(&options, root, &indexes(), Operation::Refactor, &task)));
    });
    criterion.bench_function("select for an overview", |bencher| {
        bencher.iter(|| black_box(build(&options, root, &indexes, Operation::Explain, &Target::Root)));
    });
    criterion.bench_function("packet of a file", |bencher| {
        let target = Target::File("app/part7/module7.py".to_owned());
        bencher.iter(|| black_box(build(&options, root, &indexes, Operation::Explain, &target)));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = selections
}
criterion_main!(benches);
