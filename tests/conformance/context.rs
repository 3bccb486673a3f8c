//! The context engine: what a scan sees, what a vault gives, which files each operation gets.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use tool_context::operation::{self, TargetLookup};
use tool_context::{BuildRequest, Indexes, Packet, SelectionFilter, SymbolSearch, Target};
use tool_core::api::Operation;
use tool_core::limits;
use tool_repository::{Options, Repository};

use super::http;
use super::world::{SHOP, World, holds, says};
use crate::support::folder;

/// Sixteen files: key files, an entry point, two packages, tests for one module of each.
pub(super) const LARGE: &[(&str, &str)] = &[
    ("README.md", "# Depot\n\nStores crates.\n"),
    ("pyproject.toml", "[project]\nname = \"depot\"\n"),
    ("main.py", "from depot.store import put\n\n\ndef main():\n    put(1)\n"),
    ("depot/__init__.py", ""),
    (
        "depot/store.py",
        "from .index import find\n\n\ndef put(crate):\n    return find(crate)\n",
    ),
    ("depot/index.py", "def find(crate):\n    return crate\n"),
    ("depot/weights.py", "def weigh(crate):\n    return 1\n"),
    ("depot/labels.py", "def label(crate):\n    return str(crate)\n"),
    ("billing/__init__.py", ""),
    ("billing/invoice.py", "def invoice(order):\n    return order\n"),
    ("billing/orders.py", "def order(crate):\n    return crate\n"),
    ("billing/taxes.py", "def tax(price):\n    return price * 0.2\n"),
    ("billing/refunds.py", "def refund(order):\n    return -order\n"),
    (
        "tests/test_store.py",
        "from depot.store import put\n\n\ndef test_put():\n    assert put(1) == 1\n",
    ),
    (
        "tests/test_orders.py",
        "from billing.orders import order\n\n\ndef test_order():\n    assert order(1) == 1\n",
    ),
    ("notes.txt", "nothing\n"),
];

/// Returns the engine's packet for a request.
pub(super) fn packet(root: &Path, operation: Operation, target: &str, vault: Option<&Path>) -> Packet {
    let repository = Repository::open(root, &Options::default()).expect("it can be opened");
    let lookup = TargetLookup {
        repository: &repository,
        working_directory: root,
        find_symbol: &|_| Ok(SymbolSearch::default()),
        cancel: &CancellationToken::new(),
    };
    let target = operation::resolve_target(operation, Some(target), None, &lookup).expect("it is there");
    packet_for(&repository, operation, &target, vault)
}

fn packet_for(repository: &Arc<Repository>, operation: Operation, target: &Target, vault: Option<&Path>) -> Packet {
    let cancel = CancellationToken::new();
    tool_context::build_packet(&BuildRequest {
        repository,
        indexes: &Indexes::open_waiting(Path::new("/nowhere")),
        operation,
        target,
        focus: None,
        filter: &SelectionFilter::default(),
        vault,
        redactor: &tool_core::redaction::Redactor::default(),
        budget_tokens: limits::PACKET_TOKENS,
        cancel: &cancel,
    })
    .expect("there is something to choose from")
}

fn paths(packet: &Packet) -> Vec<&str> {
    packet.selected.iter().map(|file| file.path.as_str()).collect()
}

#[track_caller]
fn reason(packet: &Packet, path: &str, reason: &str) {
    let file = packet.selected.iter().find(|file| file.path == path);
    let file = file.unwrap_or_else(|| panic!("{path} is not one of {:?}", paths(packet)));
    let named = file.reasons.iter().any(|given| given.contains(reason));
    assert!(named, "{path} was chosen for {:?}", file.reasons);
}

#[test]
fn scanner_skips() {
    let skipped = [
        ".git",
        "node_modules",
        "__pycache__",
        "venv",
        ".venv",
        "env",
        "dist",
        "build",
    ];
    let inside: Vec<String> = skipped.iter().map(|name| format!("{name}/main.py")).collect();
    let deeper: Vec<String> = skipped.iter().map(|name| format!("pkg/{name}/app.py")).collect();
    let mut files: Vec<(&str, &str)> = inside
        .iter()
        .chain(&deeper)
        .map(|path| (path.as_str(), "x = 1\n"))
        .collect();
    files.push(("pkg/kept.py", "x = 1\n"));
    let world = World::new(&files, [says(&["unused"])]);
    let scan = http::post(&world.home.serve(), "/scan", &json!({"repo_path": world.repo_path()}));
    assert_eq!(
        scan.expect(200).json(),
        json!({"files": 1, "directories": 1, "languages": ["Python"]})
    );
    assert_eq!(
        paths(&packet(world.root(), Operation::Explain, ".", None)),
        ["pkg/kept.py"]
    );
}

#[test]
fn scanner_key_files() {
    for (name, content) in [
        ("README.md", "# A\n"),
        ("package.json", "{\"name\": \"a\"}\n"),
        ("pyproject.toml", "[project]\nname = \"a\"\n"),
        ("main.py", "x = 1\n"),
        ("app.py", "x = 1\n"),
        ("index.js", "x = 1\n"),
        ("index.ts", "x = 1\n"),
    ] {
        let others: Vec<String> = (0..9).map(|n| format!("lib/part{n}.py")).collect();
        let mut files: Vec<(&str, &str)> = others.iter().map(|path| (path.as_str(), "y = 1\n")).collect();
        files.push((name, content));
        let repository = folder(&files);
        reason(
            &packet(repository.path(), Operation::Explain, ".", None),
            name,
            "key file",
        );
    }
}

fn vault() -> tempfile::TempDir {
    folder(&[
        ("taxes.md", "# Rates\n\nWe round to cents. #taxes\n"),
        ("garden.md", "# Garden\n\nPlant tulips. #flowers\n"),
        ("not-a-note.txt", "taxes #taxes\n"),
    ])
}

#[test]
fn vault_notes_and_hashtags() {
    let (repository, vault) = (folder(LARGE), vault());
    let packet = packet(
        repository.path(),
        Operation::Refactor,
        "change the taxes",
        Some(vault.path()),
    );
    assert_eq!(
        packet.notes,
        ["taxes.md"],
        "by its hashtag; no other note, and nothing that is no markdown"
    );
}

#[test]
fn vault_gives_context() {
    let vault = vault();
    let world = World::new(LARGE, [says(&["Nothing to change."])]);
    let world = world.configure(&format!("[context]\nvault = \"{}\"\n", vault.path().display()));
    world.run(&["architect", "change the taxes"]);
    let asked = world.server.requests()[0].body.to_string();
    holds(&asked, &["We round to cents."]);
    assert!(!asked.contains("tulips"), "{asked}");
}

#[test]
fn context_packet() {
    super::limits::four_to_six_files();
}

#[test]
fn context_explain() {
    let repository = folder(LARGE);
    let packet = packet(repository.path(), Operation::Explain, ".", None);
    reason(&packet, "README.md", "key file");
    reason(&packet, "pyproject.toml", "key file");
    reason(&packet, "main.py", "entry point");
}

/// Key files and entry points come first here, too; the task decides among them and what else fits.
#[test]
fn context_architect() {
    let repository = folder(LARGE);
    let packet = packet(
        repository.path(),
        Operation::Architect,
        "make the depot replaceable",
        None,
    );
    reason(&packet, "README.md", "key file");
    reason(&packet, "main.py", "entry point");
    assert_eq!(paths(&packet)[..2], ["README.md", "main.py"]);
    let about = paths(&packet)[2..]
        .iter()
        .filter(|path| path.starts_with("depot/"))
        .count();
    assert!(about >= 2, "{:?}", paths(&packet));
}

#[test]
fn context_refactor() {
    let repository = folder(LARGE);
    let packet = packet(repository.path(), Operation::Refactor, "billing", None);
    let chosen = paths(&packet);
    let inside = chosen.iter().filter(|path| path.starts_with("billing/")).count();
    assert_eq!(inside, chosen.len(), "{chosen:?}");
    assert!((4..=6).contains(&inside), "{chosen:?}");
}

/// The target, then sources without tests; the existing test that shows the style is there for the model, too.
#[test]
fn context_test_gen() {
    let repository = folder(LARGE);
    let packet = packet(repository.path(), Operation::TestGen, "billing/taxes.py", None);
    let chosen = paths(&packet);
    assert_eq!(chosen[0], "billing/taxes.py");
    for tested in ["billing/orders.py", "depot/store.py"] {
        assert!(!chosen.contains(&tested), "{tested} has tests: {chosen:?}");
    }
    let untested = [
        "billing/invoice.py",
        "billing/refunds.py",
        "depot/index.py",
        "depot/weights.py",
        "depot/labels.py",
    ];
    assert!(chosen.iter().any(|path| untested.contains(path)), "{chosen:?}");
}

#[test]
fn context_result_shape() {
    let repository = folder(LARGE);
    let Packet {
        selected,
        context,
        files_loaded,
        ..
    } = packet(repository.path(), Operation::Explain, ".", None);
    let (loaded, text): (usize, String) = (files_loaded, context);
    assert_eq!(loaded, selected.len());
    for file in &selected {
        holds(&text, &[&file.path]);
    }
    holds(
        &super::recorded::explain().requests[0].body.to_string(),
        &["def count(crates)"],
    );
    let shown = super::recorded::explain().of_type("selection")[0]["files"].clone();
    assert!(
        shown.as_array().is_some_and(|files| (4..=6).contains(&files.len())),
        "{shown}"
    );
    assert!(SHOP.len() > 6, "there was something to leave out");
}
