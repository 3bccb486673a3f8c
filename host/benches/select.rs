//! What a selection costs: `cargo bench --workspace --bench select`, on a tree that is made for it.
//!
//! `list` is the list of files where nothing changed, `select` the whole packet for a task with the index in place,
//! `select without an index` the same where every file is read and measured, and `select for an overview` what an
//! explanation of the repository asks for.

use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use host::api::Operation;
use host::context::{self, BuildRequest, Indexes, Packet, Steer};
use host::limits::PACKET_TOKENS;
use host::operation::Target;
use host::redaction::Redactor;
use host::repository::{Options, Repository, Scans};
use tokio_util::sync::CancellationToken;

const FILES: usize = 1000;

/// Modules that import each other, with some functions each.
fn tree(root: &Path) {
    for at in 0..FILES {
        let mut text = format!("from app.part{} import module{}\n\n", at * 7 % 40, at * 31 % FILES);
        for function in 0..12 {
            let _ = writeln!(
                text,
                "def handle_{}_{function}(request, session):\n    value = request.field_{}\n    return value\n\n",
                at % 97,
                at * function % 211
            );
        }
        let folder = root.join(format!("app/part{}", at % 40));
        std::fs::create_dir_all(&folder).expect("the folder is ours");
        std::fs::write(folder.join(format!("module{at}.py")), text).expect("the folder is ours");
    }
}

fn build(options: &Options, root: &Path, indexes: &Arc<Indexes>, operation: Operation, target: &Target) -> Packet {
    let repository = Repository::open(root, options).expect("the folder is acceptable");
    context::build(&BuildRequest {
        repository: &repository,
        indexes,
        operation,
        target,
        focus: None,
        steer: &Steer::default(),
        vault: None,
        redactor: &Redactor::default(),
        budget_tokens: PACKET_TOKENS,
        cancel: &CancellationToken::new(),
    })
    .expect("there is something to choose from")
}

fn selections(criterion: &mut Criterion) {
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a temporary folder can be made"));
    let [root, home, nowhere] = folders.each_ref().map(tempfile::TempDir::path);
    tree(root);
    // What changed just now is looked at again.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let options = Options {
        scans: Some(Arc::new(Scans::default())),
        ..Options::default()
    };
    let task = Target::Task("Return a default where field_42 of the request of handle_7 is missing".to_owned());
    let indexes = Indexes::waiting(home);
    build(&options, root, &indexes, Operation::Refactor, &task);
    criterion.bench_function("list", |bencher| {
        bencher.iter(|| {
            let repository = Repository::open(root, &options).expect("the folder is acceptable");
            repository.list(&CancellationToken::new()).expect("it can be listed")
        });
    });
    criterion.bench_function("select", |bencher| {
        bencher.iter(|| black_box(build(&options, root, &indexes, Operation::Refactor, &task)));
    });
    criterion.bench_function("select without an index", |bencher| {
        // A home that is not there keeps nothing.
        let indexes = || Indexes::waiting(&nowhere.join("gone"));
        bencher.iter(|| black_box(build(&options, root, &indexes(), Operation::Refactor, &task)));
    });
    criterion.bench_function("select for an overview", |bencher| {
        bencher.iter(|| black_box(build(&options, root, &indexes, Operation::Explain, &Target::Root)));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = selections
}
criterion_main!(benches);
