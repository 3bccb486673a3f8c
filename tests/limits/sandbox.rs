//! The bounds of a test run, seen from inside of its sandbox.

use tool_core::limits;

use crate::contain::repository;
use crate::support::{Home, holds};

/// Says what the kernel allows, and what the places that may be written hold.
const SUITE: &str = r#"
import os, resource

def place(path):
    found = os.statvfs(path)
    return [found.f_blocks * found.f_frsize, found.f_files]

def test_bounds():
    limit = lambda name: resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1]
    assert [limit(name) for name in ("AS", "NOFILE", "MEMLOCK")] == LIMITS
    assert place("/") == ROOT
    assert place("/tmp") == SCRATCH
    assert place(".") == TREE
"#;

#[test]
fn a_run_meets_the_bounds_of_its_sandbox() {
    // The machine's own limit may be lower.
    let least = |resource, bound: u64| {
        rustix::process::getrlimit(resource)
            .maximum
            .map_or(bound, |own| own.min(bound))
    };
    use rustix::process::Resource;
    let kernel = [
        least(Resource::As, limits::CONTAIN_ADDRESSES_MAX),
        least(Resource::Nofile, limits::CONTAIN_FILES_OPEN_MAX),
        least(Resource::Memlock, limits::CONTAIN_LOCKED_BYTES_MAX),
    ];
    let root = [limits::CONTAIN_ROOT_BYTES_MAX, limits::CONTAIN_ROOT_INODES_MAX];
    let scratch = [limits::CONTAIN_SCRATCH_BYTES_MAX, limits::CONTAIN_SCRATCH_INODES_MAX];
    let tree = [limits::CONTAIN_TREE_BYTES_MAX, limits::CONTAIN_TREE_INODES_MAX];
    let suite = SUITE
        .replace("LIMITS", &format!("{kernel:?}"))
        .replace("ROOT", &format!("{root:?}"))
        .replace("SCRATCH", &format!("{scratch:?}"))
        .replace("TREE", &format!("{tree:?}"));
    let (home, repository) = (Home::offline(), repository(&[("test_bounds.py", &suite)]));
    let call = ["skill", "call", "run_tests", "{}", "--allow", "run-process", "--quiet"];
    let text = home.run(repository.path(), &call).expect(0).stdout;
    holds(&text, &["PASSED: 1 passed", "sandbox: namespaces"]);
}
